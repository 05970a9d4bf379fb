"""Umiak from Python and notebooks: train a config, load a snapshot, or write a training loop of one's own.

`train` runs the job in processes of its own, so it does not matter what this one has done with torch before. Keyword
arguments are the flags of `umiak train` and `umiak trainer`, and are read by the same rules.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import re
import select
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from umiak.errors import InputError, RetryError, UmiakError
from umiak.launch.request import Request
from umiak.messages.events import Done, Event, Failed, Notice, decode_lines, encode
from umiak.spec.config import Config
from umiak.spec.flags import build
from umiak.spec.settings import Settings

if TYPE_CHECKING:
    from torch.nn import Module

    from umiak.spec.load import Loaded
    from umiak.trainer.trainer import Trainer

OnEvent = Callable[[Event], None]
TICK_SECONDS = 0.2


@dataclass(frozen=True)
class Result:
    """A finished training run.

    `out` is its output directory and `snapshot` the newest snapshot in it. `curves` has one entry per pass: its number as
    "pass", and its values by name as "train" and "test".
    """

    out: Path
    snapshot: Path
    curves: list[dict[str, Any]]
    config: Config | Path

    @cached_property
    def model(self) -> Module:
        """The trained model, as `load` returns it."""
        return load(self.snapshot, self.config)

    def __repr__(self) -> str:
        last = self.curves[-1]
        values = ", ".join(f"{part} {last[part]}" for part in ("train", "test") if last.get(part))
        return f"Result({str(self.snapshot)!r}, {len(self.curves)} passes, the last: {values})"


def train(
    config: Config | str | Path,
    workers: int = 3,
    passes: int = 10,
    out: str | Path | None = None,
    *,
    resume: bool = False,
    overwrite: bool = False,
    local: bool = False,
    seed: int = 1,
    config_args: Mapping[str, str] | None = None,
    quiet: bool = False,
    **flags: Any,
) -> Result:
    """Train a config (an object, or the path of a file) on this machine, as `umiak train` does.

    Everything goes below `out`, by default `./output`. A directory that already holds a run is refused unless `resume` or
    `overwrite` is true. Progress is shown unless `quiet` is true. Ctrl-C, or a notebook's stop button, ends training with a
    checkpoint and raises KeyboardInterrupt. `flags` are more flags of `umiak train`, such as `servers=2`, `init_from=…` or
    `log_period=50`.
    """
    if passes < 1:
        raise InputError(f"passes must be at least 1, not {passes}")
    own = {"workers": workers, "passes": passes, "out": out, "resume": resume, "overwrite": overwrite, "seed": seed}
    own |= {"local": True} if local else {}
    settings = _settings("train", {**own, **flags}, config_args)
    if not isinstance(config, Config):
        settings = replace(settings, config=Path(config))
    with _page(settings) as announce, _shown(quiet) as show:
        announce(lambda text: print(text) if quiet else show(Notice(text)))
        done = _run_apart(settings, _pickled(config) if isinstance(config, Config) else None, show)
    curves = [encode(each) for each in done.passes]
    return Result(
        settings.save_dir, Path(done.snapshot), curves, config if isinstance(config, Config) else Path(config)
    )


def load(snapshot: str | Path, config: Config | str | Path | None = None) -> Module:
    """Return the model of a snapshot, or of the newest one in an output directory, in eval mode and without gradients.

    The model is built from the snapshot's own copy of its config, which runs that code: load only what you trust. Pass
    `config` to use another one; you must do so if you trained a Config object.
    """
    from umiak.evaluation.loading import config_of, load_model
    from umiak.paddle_v1.registration import register
    from umiak.rundir.snapshot import find

    register()
    with _speaking_python():
        found = find(Path(snapshot))
        if not isinstance(config, Config):
            config = config_of(found, Path(config) if config is not None else None).config
        return load_model(found, config)


@contextlib.contextmanager
def join(
    config: Config | str | Path,
    *,
    trainer_id: int = 0,
    trainers: int = 1,
    pservers: Sequence[str] = (),
    passes: int = 10,
    out: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    seed: int = 1,
    config_args: Mapping[str, str] | None = None,
    **flags: Any,
) -> Iterator[Trainer]:
    """Be one trainer of a job, with your own training loop::

        with umiak.join(config, trainer_id=0, trainers=2, pservers=["127.0.0.1"]) as job:
            for batch in job.batches():
                loss = my_loss(job.model(batch), batch)
                loss.backward()
                job.step(loss)

    `pservers` are the hosts on which `umiak pserver` runs; without them this process trains alone. Snapshots and checkpoints
    go below `out`; without it nothing is written. `flags` are more flags of `umiak trainer`, such as `port=7164` or `tls=…`.
    """
    import torch

    from umiak.paddle_v1.registration import register
    from umiak.trainer.run import opened
    from umiak.worker import roles

    register()
    if trainers > 1 and not pservers:
        raise InputError(f"{trainers} trainers need parameter servers: name their hosts with pservers=[…]")
    own = {"trainer_id": trainer_id, "num_gradient_servers": trainers, "local": not pservers, "passes": passes}
    more = {"pservers": tuple(pservers) or None, "out": out, "resume": resume, "overwrite": overwrite, "seed": seed}
    threads = torch.get_num_threads()
    with _speaking_python():
        settings, assignment = roles.assign(_settings("trainer", {**own, **more, **flags}, config_args))
        loaded = _loaded(config, settings)
        assignment = replace(assignment, out=None) if out is None else roles.take_output(settings, assignment)
        try:
            with opened(loaded, settings, assignment, lambda event: None, lambda: False) as job:
                yield job
        finally:
            torch.set_num_threads(threads)


def _settings(verb: str, values: Mapping[str, Any], config_args: Mapping[str, str] | None) -> Settings:
    """Keyword arguments, held to what the flags of the same names are held to."""
    with _speaking_python():
        settings = build(verb, {name: value for name, value in values.items() if value is not None})
    for text in settings.warnings:
        warnings.warn(_in_python(text), stacklevel=3)
    return replace(settings, config_args={name: str(value) for name, value in (config_args or {}).items()})


def _loaded(config: Config | str | Path, settings: Settings) -> Loaded:
    from umiak.spec import load as spec

    return (
        spec.Loaded(config) if isinstance(config, Config) else spec.load(Path(config), settings.config_args, settings)
    )


def _pickled(config: Config) -> bytes:
    import cloudpickle

    try:
        return bytes(cloudpickle.dumps(config))
    except Exception as error:
        raise InputError(
            f"the config cannot be sent to the training process: {error}; "
            "create what cannot be pickled inside the model or provider, or write the config to a file and give its path"
        ) from error


def _page(settings: Settings) -> contextlib.AbstractContextManager[Callable[[Callable[[str], None]], None]]:
    """A page about the run while it trains, if one is wanted; gives a function that says where it is."""
    if settings.keep_page:
        raise InputError("keep_page is for the command line: give page=True, and look with `umiak page` afterwards")
    if not settings.page:
        return contextlib.nullcontext(lambda say: None)

    from umiak.page import beside

    return beside.shown(settings.save_dir)


@contextlib.contextmanager
def _shown(quiet: bool) -> Iterator[OnEvent]:
    if quiet:
        yield lambda event: None
        return
    from umiak.display.screen import display

    with display() as show:
        yield show


def _run_apart(settings: Settings, config: bytes | None, on_event: OnEvent) -> Done:
    """Run a job through umiak/launch/__main__.py and pass its events on; the last one, which sums it up."""
    reading, writing = os.pipe()
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "umiak.launch", str(writing)],
            stdin=subprocess.PIPE,
            pass_fds=(writing,),
            start_new_session=True,
        )
    finally:
        os.close(writing)
    message, done, told = "", None, False
    with _forwarding_interrupts(process) as interrupted:
        _send(process, pickle.dumps(Request(settings, config, sys.path)))
        for event in _events(reading):
            if interrupted.is_set() and not told:
                told = True
                on_event(Notice("stopping with a checkpoint; press Ctrl-C again to stop at once"))
            if isinstance(event, Failed):
                message = event.message
            elif isinstance(event, Done):
                done = event
            if event is not None:
                on_event(event)
        code = process.wait()
    message = _in_python(message or f"the training process ended with exit code {code}")
    if interrupted.is_set():
        raise KeyboardInterrupt(message)
    if code or done is None:
        raise {2: InputError, 75: RetryError}.get(code, UmiakError)(message)
    return done


def _send(process: subprocess.Popen[bytes], request: bytes) -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # it has ended, and its exit code tells
        process.stdin.write(request)
        process.stdin.flush()


def _events(descriptor: int) -> Iterator[Event | None]:
    """Events as they come, until the other end is closed; None when there was none for a while."""
    rest = b""
    try:
        while True:
            if not select.select([descriptor], [], [], TICK_SECONDS)[0]:
                yield None
                continue
            data = os.read(descriptor, 1 << 16)
            if not data:
                return
            lines, _, rest = (rest + data).rpartition(b"\n")
            yield from decode_lines(lines)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _forwarding_interrupts(process: subprocess.Popen[bytes]) -> Iterator[threading.Event]:
    """Hand Ctrl-C on to the job, which then stops with a checkpoint; a second one ends it at once.

    Whatever else ends the block ends the job too.
    """
    interrupted = threading.Event()

    def handle(number: int, frame: object) -> None:
        if interrupted.is_set():
            process.kill()
        else:
            process.send_signal(signal.SIGINT)
        interrupted.set()

    ours = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, handle) if ours else None
    try:
        with process:
            try:
                yield interrupted
            except BaseException:
                process.kill()
                raise
    finally:
        if ours:
            signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def _speaking_python() -> Iterator[None]:
    """Errors that name flags name arguments instead."""
    try:
        yield
    except UmiakError as error:
        error.args = (_in_python(str(error)),)
        raise


def _in_python(message: str) -> str:
    message = re.sub(r"(?<!\S)--(resume|overwrite|local|insecure|use_gpu)\b(?!=)", r"\1=True", message)
    return re.sub(r"(?<![\w-])--(?!help)([a-z][a-z_-]*)=?", lambda flag: flag[1].replace("-", "_") + "=", message)
