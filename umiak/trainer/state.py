"""A trainer's own part of a checkpoint: where it is in the data, its random state, its buffers."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np
import torch
from safetensors.torch import load, save
from torch import nn

from umiak.errors import InputError
from umiak.trainer.stopping import Best


@dataclass
class Position:
    """The next batch to train is number `batch` of this trainer in pass `pass_id`; `rounds` have run in that pass."""

    pass_id: int = 0
    batch: int = 0
    rounds: int = 0
    samples: int = 0
    """Of all trainers, since the job began."""
    best: Best | None = None
    """Of the passes before this one, where they are compared."""


def pack(position: Position, totals: np.ndarray, model: nn.Module) -> bytes:
    tensors = {f"buffer:{name}": value.cpu().clone() for name, value in model.named_buffers()}
    tensors["random"] = torch.get_rng_state()
    tensors["totals"] = torch.from_numpy(totals.copy())
    known = {name: value for name, value in asdict(position).items() if value is not None}
    return save(tensors, {"position": json.dumps(known)})


def unpack(blob: bytes, model: nn.Module) -> tuple[Position, np.ndarray]:
    """Put random state and buffers back; the position and the totals of the pass so far."""
    size = int.from_bytes(blob[:8], "little")
    metadata = json.loads(blob[8 : 8 + size])["__metadata__"]
    tensors = unpack_buffers(blob, model)
    torch.set_rng_state(tensors["random"])
    position = Position(**json.loads(metadata["position"]))
    position.best = Best(*position.best) if position.best else None
    return position, tensors["totals"].numpy()


def agree_on_buffers(model: nn.Module, trainers: int, total: Callable[[np.ndarray], np.ndarray]) -> None:
    """Give every trainer the mean of all trainers' buffers, so that what is tested is what is saved.

    Each has gathered its own, such as the running statistics of a BatchNorm; those of whole numbers stay as they are.
    """
    buffers = [buffer for buffer in model.buffers() if buffer.is_floating_point()]
    if trainers == 1 or not buffers:
        return
    own = torch.cat([buffer.detach().reshape(-1).double().cpu() for buffer in buffers])
    mean = torch.from_numpy(total(own.numpy()) / trainers)
    for buffer, part in zip(buffers, mean.split([buffer.numel() for buffer in buffers]), strict=True):
        buffer.copy_(part.view(buffer.shape))


def unpack_buffers(blob: bytes, model: nn.Module) -> dict[str, torch.Tensor]:
    """Put the buffers alone back: a new run that begins with this model. Returns everything the blob holds."""
    tensors: dict[str, torch.Tensor] = load(blob)
    for name, value in model.named_buffers():
        if f"buffer:{name}" not in tensors:
            raise InputError(f"the checkpoint has no buffer {name!r}: it belongs to another model")
        value.copy_(tensors[f"buffer:{name}"])
    return tensors
