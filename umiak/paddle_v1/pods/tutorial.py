"""The training pod of the 2016 and 2017 tutorials, whose YAML runs as it was written: not an Indexed Job, no certificates.

Its rank is its place among its peers' addresses; rank 0 writes the keys of the job on the volume. From there on it is a
pod like any other, except that a lost pod ends the job: a new one would have another address.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from umiak.contract import environment
from umiak.errors import InputError, RetryError, UmiakError
from umiak.files import disk_error, write_json
from umiak.paddle_v1.pods import rank
from umiak.pod import report
from umiak.pod.main import Over, Pod
from umiak.pod.report import PodEnd
from umiak.pod.settings import PodSettings
from umiak.rundir import prepare
from umiak.spec.flags import parse
from umiak.spec.settings import Settings
from umiak.wire import credentials
from umiak.worker.supervisor import Supervisor

WAIT_SECONDS = 600
KEY_SECONDS = 120.0
GRACE_SECONDS = 30.0
LOOK_SECONDS = 1.0
HOME = Path("/root")
STATE = ".umiak"
"""Keys and the end of runs, in the job's directory on the volume."""
TERMINATION_LOG = Path("/dev/termination-log")
ADVICE = "umiak job submit makes a job that recovers from this by itself"


@dataclass(frozen=True)
class TutorialSettings:
    """What the environment of an old pod tells it, typed. The generations differ in where the config goes."""

    generation: str
    job: str
    directory: Path
    namespace: str
    config_directory: str
    port: int
    ports: int
    sparse_ports: int
    trainers: int
    threads: int
    api: tuple[str, str]
    wait_seconds: float

    @property
    def out(self) -> Path:
        return self.directory / "output"


def read(environ: Mapping[str, str], generation: str) -> TutorialSettings:
    job = _text(environ, "JOB_NAME")
    return TutorialSettings(
        generation=generation,
        job=job,
        directory=Path(_text(environ, "JOB_PATH")) / job,
        namespace=_text(environ, "JOB_NAMESPACE"),
        config_directory=_text(environ, "TRAIN_CONFIG_DIR").strip("/"),
        port=_number(environ, "CONF_PADDLE_PORT"),
        ports=_number(environ, "CONF_PADDLE_PORTS_NUM"),
        sparse_ports=_number(environ, "CONF_PADDLE_PORTS_NUM_SPARSE", least=0),
        trainers=_number(environ, "CONF_PADDLE_GRADIENT_NUM"),
        threads=_number(environ, "TRAINER_COUNT") if generation == "2017" else 4,
        api=(_text(environ, "KUBERNETES_SERVICE_HOST"), _text(environ, "KUBERNETES_SERVICE_PORT_HTTPS")),
        wait_seconds=_number({environment.WAIT_SECONDS: str(WAIT_SECONDS), **environ}, environment.WAIT_SECONDS),
    )


class TutorialPod(Pod):
    """A pod whose job ends for all when it ends for one: nobody comes back under the same address."""

    def __init__(self, env: PodSettings, state: State) -> None:
        super().__init__(env)
        self._end: list[PodEnd] = []
        # In a thread of its own: the volume may hang, and the coordinator must hear of this pod all the same.
        threading.Thread(target=self._watch, args=(state,), daemon=True).start()

    def look_around(self) -> None:
        super().look_around()
        self._look_for_the_end()

    def attend(self, supervisor: Supervisor) -> None:
        super().attend(supervisor)
        self._look_for_the_end()

    def _watch(self, state: State) -> None:
        while (ended := state.ended()) is None:
            time.sleep(LOOK_SECONDS)
        self._end.append(ended)

    def _look_for_the_end(self) -> None:
        if self._end:
            raise Over(self._end[0])


class State:
    """What the pods of one run leave for each other on the volume: keys, who they are, and how it ended."""

    def __init__(self, told: TutorialSettings, run: str) -> None:
        self.directory = told.directory / STATE / run

    def ended(self) -> PodEnd | None:
        try:
            value = json.loads((self.directory / "ended.json").read_text())
            return PodEnd(value["code"], f"this job has ended already: {value['cause']}", because_of=value["rank"])
        except (OSError, ValueError):
            return None

    def end(self, outcome: PodEnd, rank: int) -> None:
        """The first to end says why."""
        if self.directory.is_dir() and self.ended() is None:
            write_json(self.directory / "ended.json", {"code": outcome.code, "cause": outcome.cause, "rank": rank})

    def remove_keys(self) -> None:
        """Once the job has ended nobody needs its keys, and others can read the volume."""
        for path in [self.directory / "token", *self.directory.glob("worker-*")]:
            if path.exists():
                prepare.delete(path)

    def keys(self, me: int, hosts: Sequence[str]) -> str:
        """Rank 0 writes a certificate for each rank and a token, readable for their owner alone; the others wait for them."""
        token = self.directory / "token"
        if me == 0 and not token.exists():
            shutil.rmtree(self.directory, ignore_errors=True)
            self.directory.mkdir(parents=True, mode=0o700)
            credentials.write(self.directory, len(hosts))
            write_json(self.directory / "hosts.json", list(hosts))
            draft = self.directory / ".token"
            draft.touch(mode=0o600)
            draft.write_text(secrets.token_hex(32))
            draft.rename(token)
        deadline = time.monotonic() + KEY_SECONDS
        while not token.exists():
            if time.monotonic() > deadline:
                raise RetryError(
                    f"rank 0 has not written the job's keys to {self.directory} within {KEY_SECONDS:.0f} s"
                )
            time.sleep(0.2)
        began = json.loads((self.directory / "hosts.json").read_text())
        if began != list(hosts):
            lost = ", ".join(sorted(set(began) - set(hosts)))
            raise RetryError(f"the pod at {lost} was lost, and another cannot take its place; {ADVICE}")
        return token.read_text()


def main(environ: Mapping[str, str], generation: str, flags: Sequence[str]) -> int:
    """`flags` are those of the old start.sh. The exit code is the training's."""
    index, state = -1, None
    try:
        told = read(environ, generation)
        place = _place(told)
        index, state = place.rank, State(told, place.run)
        outcome = TutorialPod(_environment(told, place, _settings(told, flags), state), state).live()
        if outcome.code not in (0, InputError.exit_code):
            outcome = replace(outcome, cause=f"{outcome.cause}; {ADVICE}")
    except UmiakError as error:
        outcome = PodEnd(error.exit_code, str(error))
    except OSError as error:
        found = disk_error(error, Path(error.filename or environ["JOB_PATH"]))
        outcome = PodEnd(found.exit_code, str(found))
    except Over as over:
        outcome = over.outcome
    if outcome.code:
        _say(outcome.cause)
        report.write_termination(TERMINATION_LOG, report.termination(outcome, index))
    if state is not None and (outcome.code or index == 0):
        _close(state, outcome, index)
    return outcome.code


def _close(state: State, outcome: PodEnd, index: int) -> None:
    """The job ends for all: with the first pod that fails, or when rank 0 has seen all of them trained."""
    try:
        state.end(outcome, index)
        state.remove_keys()
    except (OSError, UmiakError) as error:
        _say(f"warning: the keys of this job may still be in {state.directory}; remove them: {error}")


def _place(told: TutorialSettings) -> rank.Place:
    ask = rank.in_cluster(*told.api, told.namespace, told.job)

    def recall(run: str) -> None:
        """The Job makes new pods when the first ones fail; they cannot take their place."""
        if (ended := State(told, run).ended()) is not None:
            raise Over(ended)

    return rank.discover(ask, socket.gethostname(), told.trainers, told.wait_seconds, _say, recall)


def _settings(told: TutorialSettings, flags: Sequence[str]) -> Settings:
    settings = parse("train", list(flags))
    for warning in settings.warnings:
        _say(warning)
    if told.out.exists() and any(told.out.iterdir()):
        _say(f"warning: {told.out} holds an earlier run; rank 0 deletes it before training begins")
    return replace(
        settings,
        workers=told.trainers,
        trainer_count=told.threads,
        ports_num=told.ports,
        ports_num_for_sparse=told.sparse_ports,
        port=told.port,
        save_dir=told.out,
        overwrite=True,
        own_data=True,
        max_restarts=0,
        local=False,
    )


def _environment(told: TutorialSettings, place: rank.Place, settings: Settings, state: State) -> PodSettings:
    token = state.keys(place.rank, place.hosts)
    _copy_config(told, settings)
    return PodSettings(
        job=told.job,
        uid=place.run,
        index=place.rank,
        workers=told.trainers,
        token=token,
        coordinator=f"{_host(place.hosts[0])}:{told.port - 1}",
        port=told.port,
        settings=settings,
        archive=None,
        credentials=state.directory,
        shards=told.directory,
        wait_seconds=told.wait_seconds,
        grace_seconds=GRACE_SECONDS,
        termination_log=TERMINATION_LOG,
    )


def _host(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def _copy_config(told: TutorialSettings, settings: Settings) -> None:
    """In 2016 the directory itself went to /root, in 2017 its content; training runs where the config is."""
    source = told.directory / told.config_directory
    if not source.is_dir():
        raise InputError(f"TRAIN_CONFIG_DIR={told.config_directory}: there is no directory {source} on the volume")
    target = HOME / told.config_directory if told.generation == "2016" else HOME
    shutil.copytree(source, target, dirs_exist_ok=True)
    os.chdir(target)
    assert settings.config is not None
    if not settings.config.exists():
        found = ", ".join(sorted(path.name for path in target.glob("*.py"))) or "none"
        raise InputError(f"{source} has no {settings.config}; Python files there: {found}")


def _say(text: str) -> None:
    print(f"umiak: {text}", file=sys.stderr, flush=True)


def _text(environ: Mapping[str, str], name: str) -> str:
    if not environ.get(name):
        raise InputError(f"{name} is not set: the pod's environment must have it, as in the tutorial's YAML")
    return environ[name]


def _number(environ: Mapping[str, str], name: str, least: int = 1) -> int:
    text = _text(environ, name)
    if not text.isascii() or not text.isdigit() or int(text) < least:
        raise InputError(f"{name}={text!r} is not a whole number of at least {least}")
    return int(text)
