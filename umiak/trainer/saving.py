"""When and what a trainer saves: snapshots of the model, and its part in checkpoints. Trainer 0 writes and commits."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save
from torch import nn

from umiak import logs
from umiak.files import make_directory
from umiak.messages.events import Checkpoint, Event, Snapshot
from umiak.pserver.protocol import Fetch, TableSpec
from umiak.rundir import checkpoint, generations, layout
from umiak.rundir.checkpoint import Manifest
from umiak.rundir.snapshot import Draft, link_best
from umiak.spec.optim import to_json
from umiak.system import cpu_model
from umiak.trainer.session import Session
from umiak.trainer.state import Position
from umiak.trainer.stopping import Best
from umiak.trainer.task import Task

CHUNK_ROWS = 1 << 16
log = logging.getLogger("umiak.trainer")


class Saver:
    """Saves a run below its output directory: nothing without one, only snapshots where no `checkpoints` are wanted."""

    def __init__(self, task: Task, session: Session, model: nn.Module, report: Callable[[Event], None]) -> None:
        self.task, self.session, self.model, self.report = task, session, model, report
        self.out, self.generation = task.assignment.out, task.assignment.generation
        self.checkpoints = task.assignment.checkpoints and self.out is not None
        self.identity = identity(task, session)
        self._pending: tuple[Path, Position, int] | None = None
        self._written: list[Any] = []
        self._kept: set[Path] = set()
        """The snapshots that this process has written and not deleted, for --save_only_one."""

    def checkpoint(self, position: Position, blob: bytes) -> None:
        if self.out is None or not self.checkpoints:
            return
        self.finish()
        directory = checkpoint.directory_for(self.out, self.session.round, self.generation)
        if self.task.trainer == 0:
            self._check_owner()
            shutil.rmtree(directory, ignore_errors=True)
            make_directory(directory)
            self._pending = directory, Position(**vars(position)), self.session.round
        self.session.checkpoint(directory, blob, self.task.trainer)

    @property
    def busy(self) -> bool:
        """Whether a checkpoint is being written."""
        return self._pending is not None

    def poll(self) -> None:
        """Commit the checkpoint under way if all its pieces are there."""
        self._collect(wait=False)

    def finish(self) -> None:
        """Wait for the checkpoint under way and commit it."""
        self._collect(wait=True)

    def _collect(self, wait: bool) -> None:
        if self._pending is None:
            return
        services = [placed.service for placed in self.session.services]
        while len(self._written) < len(services):
            piece = services[len(self._written)].written(wait)
            if piece is None:
                return
            self._written.append(piece)
        directory, position, round_id = self._pending
        pieces, self._pending, self._written = self._written, None, []
        self._check_owner()
        checkpoint.commit(
            directory,
            Manifest(round_id, position.pass_id, position.samples, self.identity, machine(), pieces),
        )
        self.report(Checkpoint(str(directory), round_id))

    def snapshot(self, pass_id: int, inner: int | None, best: Best | None = None) -> None:
        """`best` is the best pass so far, where passes are compared."""
        if self.out is None or self.task.trainer != 0:
            return
        self.finish()
        self._check_owner()
        with self.session.averaged():
            published = self._snapshot(self.out, pass_id, inner)
        if best is not None and (self.task.settings.patience or not self.task.settings.save_only_one):
            link_best(self.out, layout.snapshot_name(best.pass_id))
        if self.task.settings.save_only_one:
            self._delete_others(published)
        self.report(Snapshot(str(published)))

    def _delete_others(self, published: Path) -> None:
        """Only the newest snapshot stays, and the one that `best` links to."""
        best = layout.linked_best(published.parent)
        for path in sorted(self._kept - {published, best}):
            log.info("--save_only_one: deleting %s", path)
            shutil.rmtree(path, ignore_errors=True)
            self._kept.discard(path)
        self._kept.add(published)

    def _snapshot(self, out: Path, pass_id: int, inner: int | None) -> Path:
        loaded = self.task.loaded
        draft = Draft(out, layout.snapshot_name(pass_id, inner), self.generation)
        log.info(logs.saving_line(draft.final))
        state = self.model.state_dict(keep_vars=True)
        shapes = {}
        for name, parameter in self.model.named_parameters():
            values = parameter.detach().cpu().numpy()
            draft.add_parameter(name, values.size, [values])
            shapes[name] = list(values.shape)
        buffers = {name: state[name].cpu() for name, _ in self.model.named_buffers() if name in state}
        if buffers:
            draft.add(layout.BUFFERS, save({n: t.contiguous() for n, t in buffers.items()}))
        tables = {spec.name: self._table(spec, draft) for spec in self.session.tables.specs}
        if any(spec.vocab is None for spec in self.session.tables.specs):
            for piece in self.session.snapshot(draft.directory):
                tables[piece["table"]]["files"].append({key: piece[key] for key in ("name", "bytes", "crc32")})
        model = {
            "seed": self.task.settings.seed,
            "config_args": dict(loaded.arguments),
            "parameters": shapes,
            "tables": tables,
        }
        if loaded.version:
            model["paddle_version"] = loaded.version
        self._check_owner()
        return draft.publish(model, loaded.files, loaded.name)

    def _check_owner(self) -> None:
        """Before anything is committed, published or removed: one that was given up for lost may be this one."""
        assert self.out is not None
        generations.check(self.out, self.generation)

    def _table(self, spec: TableSpec, draft: Draft) -> dict[str, Any]:
        """Write a table with a vocabulary whole; an open one is written by its services."""
        described: dict[str, Any] = {
            "dim": spec.dim,
            "vocab": spec.vocab,
            "init": spec.init,
            "dtype": spec.limits["dtype"],
        }
        if spec.vocab is None:
            described["files"] = []
        else:
            draft.add_parameter(spec.name, spec.vocab * spec.dim, self._all_rows(spec))
        return described

    def _all_rows(self, spec: TableSpec) -> Iterator[np.ndarray]:
        assert spec.vocab is not None
        number = self.session.tables.specs.index(spec)
        for start in range(0, spec.vocab, CHUNK_ROWS):
            ids = np.arange(start, min(start + CHUNK_ROWS, spec.vocab))
            wanted, index = self.session.tables.want_ids(number, ids)
            yield self.session.fetch(wanted, Fetch.PEEK)[number][index]


def identity(task: Task, session: Session) -> dict[str, Any]:
    """What two runs must have in common for one to resume where the other stopped."""
    loaded, settings = task.loaded, task.settings
    return {
        "the number of workers": task.trainers,
        checkpoint.SERVICES: len(session.services),
        "the seed": settings.seed,
        "the model's parameters": {name: list(p.shape) for name, p in session.parameters.items()},
        "the model's tables": {spec.name: [spec.dim, spec.vocab] for spec in session.tables.specs},
        "the optimizer": to_json(loaded.config.optimizer),
        "batch_size": loaded.config.batch_size,
        "the mode": settings.mode,
        "the config file": loaded.fingerprint(),
    }


def machine() -> dict[str, Any]:
    """What byte-identical results also depend on."""
    return {"cpu": cpu_model(), "torch": torch.__version__, "threads": torch.get_num_threads()}
