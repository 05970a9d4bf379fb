"""A trainer's view of the model on the servers: dense values in one flat vector, table rows, one exchange per round."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import accumulate
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from umiak.errors import InputError, RetryError
from umiak.messages.events import Values, Work
from umiak.nn.sparse import sparse_tables
from umiak.pserver.codec import Restore
from umiak.pserver.placement import dense_blocks, holders, model_bytes
from umiak.pserver.protocol import Dense, Fetch, Flags, RoundResult, ServiceSpec
from umiak.spec.average import Average
from umiak.spec.optim import Optimizer, ParamOptions, to_json
from umiak.trainer.services import ServiceClient
from umiak.trainer.tables import Prepared, Tables, Wanted
from umiak.trainer.timings import Timings


def idle() -> None:
    """What a session does while it waits, unless it is given something to do."""


class Placed(NamedTuple):
    """A service and what it holds."""

    service: ServiceClient
    dense: bool
    rows: bool


@dataclass(frozen=True)
class Setup:
    """How services train, the same for all of them."""

    trainers: int
    seed: int
    optimizer: Optimizer
    parameters: Mapping[str, ParamOptions]
    start_pass: int
    mode: str
    lag_ratio: float
    average: Average | None


class Session:
    """Talks to all services of a job on behalf of one trainer. Every trainer makes the same calls in the same order."""

    def __init__(
        self, model: nn.Module, services: Sequence[Placed], device: torch.device, averages: bool = False
    ) -> None:
        self.device, self.averages = device, averages
        self.parameters = dense_parameters(model)
        tables = [(module.num_embeddings, module.dim) for module in sparse_tables(model).values()]
        size = model_bytes(sum(p.numel() for p in self.parameters.values()), tables)
        placed = holders([(s.dense, s.rows) for s in services], size)
        self._idle = [s.service for s, held in zip(services, placed, strict=True) if not any(held)]
        self.services = services = [
            Placed(s.service, *held) for s, held in zip(services, placed, strict=True) if any(held)
        ]
        self.tables = Tables(model, sum(s.rows for s in services))
        if not self.parameters and not self.tables.specs:
            raise InputError("the model has no parameters to train")
        sizes = [(name, p.numel()) for name, p in self.parameters.items()]
        blocks = iter(dense_blocks(sizes, sum(s.dense for s in services)))
        self.blocks = [next(blocks) if s.dense else [] for s in services]
        lengths = [sum(stop - start for _, start, stop in blocks) for blocks in self.blocks]
        ends = list(accumulate(lengths))
        total = sum(lengths)
        self.values = np.empty(total, np.float32)
        self._device_values, self._device_grads = _flatten(self.parameters, self.values, device)
        self._spans = [slice(end - length, end) for end, length in zip(ends, lengths, strict=True)]
        self._wanted: list[Wanted] = []
        self._row_buffers: list[list[np.ndarray]] = [[], []]
        self.round = 0
        self.sent = self.dropped = 0
        self.timings = Timings()
        self._told = 0, 0
        """Bytes sent and received until the last report."""

    def setup(self, setup: Setup, restore: Restore | None) -> None:
        """Tell every service what it holds and its first values. Trainer 0 does this."""
        names = [*self.parameters, *(spec.name for spec in self.tables.specs)]
        options = match_options(setup.parameters, names)
        for index, ((service, _, rows), blocks, span) in enumerate(
            zip(self.services, self.blocks, self._spans, strict=True)
        ):
            spec = ServiceSpec(
                index=index,
                services=len(self.services),
                trainers=setup.trainers,
                seed=setup.seed,
                optimizer=to_json(setup.optimizer),
                options=options,
                blocks=blocks,
                tables=self.tables.specs if rows else [],
                row_service=sum(s.rows for s in self.services[:index]),
                row_services=self.tables.services,
                start_pass=setup.start_pass,
                mode=setup.mode,
                lag_ratio=setup.lag_ratio,
                average=setup.average.to_json() if setup.average else None,
            )
            service.setup(spec, self.values[span], restore)
        for service, _, _ in self.services:
            service.ready()

    def pull(self) -> list[int]:
        """Get the dense values; the round that comes next, as each service counts."""
        rounds = self._pull(Dense.VALUES)
        self.round = rounds[0]
        return rounds

    def _pull(self, dense: Dense) -> list[int]:
        for service, _, rows in self.services:
            service.send_fetch([np.empty(0, np.int64)] * len(self.tables.specs) if rows else [], Fetch.PEEK, dense)
        outcomes = []
        for (service, _, rows), span in zip(self.services, self._spans, strict=True):
            nothing = [np.empty((0, spec.dim), np.float32) for spec in self.tables.specs] if rows else []
            outcomes.append(service.receive([self.values[span], *nothing]))
        self._load_values()
        return [outcome.round for outcome in outcomes]

    @contextlib.contextmanager
    def averaged(self) -> Iterator[None]:
        """The model has its averaged values inside, if the job keeps them."""
        if not self.averages:
            yield
            return
        plain = self.values.copy()
        self._pull(Dense.AVERAGED)
        try:
            yield
        finally:
            self.values[:] = plain
            self._load_values()

    def fetch(self, wanted: list[Wanted], how: Fetch, meanwhile: Callable[[], None] = idle) -> list[np.ndarray]:
        """Rows of these ids. Unless it is a PEEK, they become those the next round's gradients are of.

        `meanwhile` is called between asking and receiving.
        """
        for (service, _, _), ids in zip(self.services, self._ids(wanted), strict=True):
            service.send_fetch(ids, how, Dense.NONE)
        meanwhile()
        rows, parts = self._room(wanted)
        for (service, _, _), part in zip(self.services, parts, strict=True):
            service.receive(part)
        if how is not Fetch.PEEK:
            self._wanted = wanted
        return rows

    def begin(self, prepared: Prepared, again: bool, meanwhile: Callable[[], None] = idle) -> None:
        """Get the rows of a batch outside a round: a pass's first, or one whose rows were wanted before."""
        how = Fetch.AGAIN if again else Fetch.CREATE
        rows = self.fetch(prepared.wanted, how, meanwhile)
        self.tables.bind(prepared.wanted, rows, grad=True, device=self.device)
        self._device_grads.zero_()

    def exchange(
        self,
        samples: int,
        flags: Flags,
        cost: float,
        following: Prepared | None,
        meanwhile: Callable[[], None] = idle,
    ) -> RoundResult:
        """One round: this batch's gradients, which count by its samples, for new values and the next batch's rows.

        `meanwhile` is called between sending and receiving.
        """
        begun = perf_counter()
        grads, row_grads = self._gradients() if samples else (self.values, [])
        wanted = following.wanted if following else self.tables.nothing()
        ids = self._ids(wanted)
        current = self._split(self._wanted, row_grads)
        for (service, _, _), span, some_ids, some_rows in zip(self.services, self._spans, ids, current, strict=True):
            service.send_round(self.round, samples, flags, cost, some_ids, grads[span], some_rows)
        sent = perf_counter()
        meanwhile()
        ahead = perf_counter()
        rows, parts = self._room(wanted)
        outcomes = [
            service.receive([self.values[span], *part])
            for (service, _, _), span, part in zip(self.services, self._spans, parts, strict=True)
        ]
        self.timings.exchanged(begun, sent, ahead, max([outcome.waited for outcome in outcomes]))
        self._load_values()
        self._wanted = wanted
        self.round = outcomes[0].round + 1
        self.sent += len(outcomes) if samples else 0
        self.dropped += sum(Flags.DROPPED in outcome.flags for outcome in outcomes)
        if following:
            self.tables.bind(wanted, rows, grad=True, device=self.device)
        self._device_grads.zero_()
        return outcomes[0]

    def reduce(self, vector: np.ndarray) -> np.ndarray:
        """The sum over all trainers."""
        return self.services[0].service.reduce(vector)

    def work(self, worker: int) -> Work | None:
        """Where the time went since this was last told, if it is time to tell again."""
        sent, received = (sum(service.traffic()[way] for service, _, _ in self.services) for way in (0, 1))
        work = self.timings.report(worker, self.round - 1, sent - self._told[0], received - self._told[1])
        if work:
            self._told = sent, received
        return work

    def statistics(self) -> tuple[dict[str, dict[str, float]], tuple[Values, ...]]:
        """Each table over all services: rows, waiting, bytes; since last asked for: expired, and new per touch.
        Then rows and bytes of each service."""
        found = {}
        answers = [service.statistics() for service, _, rows in self.services if rows] if self.tables.specs else []
        for spec in self.tables.specs:
            parts = [answer[spec.name] for answer in answers]
            total = {key: sum(part[key] for part in parts) for key in parts[0]}
            share = total.pop("new") / max(total.pop("touches"), 1)
            found[spec.name] = {**total, "new": share}
        services = [
            {key: sum(part[key] for part in answer.values()) for key in ("rows", "bytes")} for answer in answers
        ]
        return found, tuple(services)

    def checkpoint(self, directory: Path, blob: bytes, trainer: int) -> None:
        """Ask for a checkpoint: service 0 gets every trainer's state, trainer 0 asks the others for theirs."""
        for service, _, _ in self.services if trainer == 0 else self.services[:1]:
            service.checkpoint(directory, blob)

    def snapshot(self, directory: Path) -> list[dict[str, Any]]:
        """Have the open tables written; what each service wrote."""
        for service, _, _ in self.services:
            service.snapshot(directory)
        return [piece for service, _, _ in self.services for piece in service.written(wait=True) or ()]

    def close(self) -> None:
        for service in (*(service for service, _, _ in self.services), *self._idle):
            with contextlib.suppress(RetryError):  # it may have gone meanwhile: nobody needs it any more
                service.close()

    def _gradients(self) -> tuple[np.ndarray, list[np.ndarray]]:
        return self._device_grads.cpu().numpy(), self.tables.gradients()

    def _load_values(self) -> None:
        if self.device.type != "cpu":
            self._device_values.copy_(torch.from_numpy(self.values))

    def _ids(self, wanted: list[Wanted]) -> list[list[np.ndarray]]:
        return self._split(wanted, [want.ids for want in wanted])

    def _split(self, wanted: list[Wanted], arrays: list[np.ndarray]) -> list[list[np.ndarray]]:
        """Per service, its part of each table's array: arrays are grouped by service."""
        split: list[list[np.ndarray]] = []
        number = 0
        for _, _, holds_rows in self.services:
            parts = (
                [
                    array[want.offsets[number] : want.offsets[number + 1]]
                    for array, want in zip(arrays, wanted, strict=True)
                ]
                if holds_rows and arrays
                else []
            )
            number += holds_rows
            split.append(parts)
        return split

    def _room(self, wanted: list[Wanted]) -> tuple[list[np.ndarray], list[list[np.ndarray]]]:
        """Buffers for rows to be received: whole per table, and cut per service. Two sets take turns."""
        buffers = self._row_buffers[0]
        self._row_buffers.reverse()
        rows = []
        for number, (want, spec) in enumerate(zip(wanted, self.tables.specs, strict=True)):
            count = len(want.ids)
            if number == len(buffers):
                buffers.append(np.empty((0, spec.dim), np.float32))
            if len(buffers[number]) < count:
                buffers[number] = np.empty((count * 5 // 4, spec.dim), np.float32)
            rows.append(buffers[number][:count])
        return rows, self._split(wanted, rows)


def dense_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
    for name, parameter in parameters.items():
        if parameter.dtype != torch.float32:
            raise InputError(f"parameter {name!r} is {parameter.dtype}; only float32 parameters are trained")
    return parameters


def match_options(options: Mapping[str, ParamOptions], names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Options by parameter name; a key of Config.parameters is a name or a pattern such as "*.bias"; the last match wins."""
    found: dict[str, dict[str, Any]] = {}
    for pattern, option in options.items():
        matching = [name for name in names if fnmatchcase(name, pattern)]
        if not matching:
            raise InputError(f"Config.parameters names {pattern!r}, but the model has only {', '.join(names)}")
        found.update(dict.fromkeys(matching, to_json(option)))
    return found


def _flatten(
    parameters: Mapping[str, nn.Parameter], values: np.ndarray, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """Lay the parameters end to end in `values` (their storage, on a CPU) and their gradients in a vector like it."""
    flat = torch.from_numpy(values)
    at = 0
    with torch.no_grad():
        for parameter in parameters.values():
            flat[at : at + parameter.numel()] = parameter.detach().reshape(-1).cpu()
            at += parameter.numel()
    if device.type != "cpu":
        flat = flat.to(device)
    grads = torch.zeros_like(flat)
    at = 0
    for parameter in parameters.values():
        span = slice(at, at + parameter.numel())
        parameter.data = flat[span].view(parameter.shape)
        parameter.grad = grads[span].view(parameter.shape)
        at += parameter.numel()
    return flat, grads
