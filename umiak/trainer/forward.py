"""One forward pass of a user's model: a batch becomes tensors, the model gives an output, the loss a number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from umiak.data.columns import Ragged
from umiak.data.usercode import invoke
from umiak.errors import InputError
from umiak.spec.config import Config


def build(config: Config, device: torch.device) -> torch.nn.Module:
    model = invoke(config.model)
    if not isinstance(model, torch.nn.Module):
        raise InputError(f"Config.model must build a torch.nn.Module, not {type(model).__name__}")
    return model.to(device)


def choose_device(use_gpu: bool) -> torch.device:
    if not use_gpu:
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise InputError("--use_gpu: torch finds no CUDA device on this machine; leave the flag out to use the CPU")
    return torch.device("cuda")


def to_tensors(batch: Mapping[str, Any]) -> dict[str, Any]:
    """A batch's fields as a model sees them: whole numbers are int64, others float32."""
    return {name: _to_tensor(value) for name, value in batch.items()}


def to_device(value: Any, device: torch.device) -> Any:
    """A field of a batch, a tensor or a Ragged, on the device that computes."""
    if isinstance(value, torch.Tensor):
        return value.to(device)
    return type(value)(*(to_device(part, device) for part in value))


def run(model: torch.nn.Module, config: Config, batch: Mapping[str, Any]) -> tuple[Any, torch.Tensor]:
    """The model's output for a batch, and its loss."""
    output = invoke(model, batch, blame=model.forward)
    loss = invoke(config.loss, output, batch)
    if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
        raise InputError(f"the loss must be a tensor with one value, the mean over the batch, not {_describe(loss)}")
    return output, loss


def _to_tensor(value: Any) -> Any:
    if isinstance(value, Ragged):
        return Ragged(_to_tensor(value.values), _to_tensor(value.offsets))
    array = np.ascontiguousarray(value)
    if array.dtype.kind in "iu" and array.dtype != np.int64:
        array = array.astype(np.int64)
    elif array.dtype == np.float64:
        array = array.astype(np.float32)
    return torch.from_numpy(array)


def _describe(value: Any) -> str:
    return f"one of shape {tuple(value.shape)}" if isinstance(value, torch.Tensor) else type(value).__name__
