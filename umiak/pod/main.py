"""The life of a pod: join the job, fetch what is needed, be a worker, end together with the others.

A pod outlives its coordinator: when that is gone, it ends its processes and waits for another. torch stays imported and
the config loaded, so that a restart costs neither.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import secrets
import signal
import time
import traceback
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from umiak import logs
from umiak.contract import ports
from umiak.errors import InputError, ReplacedError, RetryError, UmiakError
from umiak.files import disk_error, is_of_volume
from umiak.messages.control import (
    NO_GENERATION,
    CannotPrepare,
    Finish,
    Leaving,
    ServiceAddress,
    encode_report,
)
from umiak.messages.events import Notice, Phase
from umiak.messages.failure import Failure
from umiak.pod import report, staging
from umiak.pod import settings as pod_settings
from umiak.pod.heartbeat import Heartbeat
from umiak.pod.lead import Lead
from umiak.pod.report import PodEnd
from umiak.pod.settings import PodSettings
from umiak.rundir import layout, lease
from umiak.rundir.eventlog import EventLog
from umiak.spec.load import Loaded, load, settled
from umiak.wire import credentials
from umiak.wire.address import socket_directory
from umiak.wire.frames import Channel, Kind
from umiak.worker.conclusion import conclude
from umiak.worker.forked import start_trainer, warm_up
from umiak.worker.link import Dismissed, Silent, arrived, join, order_of
from umiak.worker.supervisor import ANY_HOST, Supervisor, WorkerPlan, sources_of, tail

TRY_SECONDS = 2.0
PAUSE_SECONDS = 0.5
REMIND_SECONDS = 10.0
REFUSED_SECONDS = 30.0
"""For so long a refusal is not believed: a name may lead to another job's pod until its record has expired."""
ANSWER_SECONDS = 15.0
MARGIN_SECONDS = 10.0
"""Of the grace period, kept for saying why this pod ends."""
LEAD_SECONDS = 30.0
log = logging.getLogger("umiak.worker")


class Told(BaseException):
    """This pod was told to end, while it was doing something that can simply be left."""


class Over(Exception):
    """The pod ends, with this outcome."""

    def __init__(self, outcome: PodEnd) -> None:
        super().__init__(outcome.cause)
        self.outcome = outcome


def main(environ: Mapping[str, str]) -> int:
    """The pod's exit code is the training's."""
    path = pod_settings.termination_log(environ)
    index = -1
    try:
        env = pod_settings.read(environ)
        index, path = env.index, env.termination_log
        outcome = Pod(env).live()
    except UmiakError as error:
        outcome = PodEnd(error.exit_code, str(error))
    except Exception as error:
        traceback.print_exc()
        outcome = PodEnd(UmiakError.exit_code, f"{type(error).__name__}: {error}")
        if is_of_volume(error):
            told = disk_error(error, Path(error.filename or "the volume"))
            outcome = PodEnd(told.exit_code, str(told))
    if outcome.code:
        message = report.termination(outcome, index)
        log.error("%s", outcome.cause)
        report.write_termination(path, message)
        report.emit_failure(message)
    return outcome.code


class Pod:
    def __init__(self, env: PodSettings) -> None:
        self.env = env
        self.incarnation = secrets.token_hex(8)
        """Tells this pod from the one that comes after it, should it be given up for lost."""
        self.loaded: Loaded | None = None
        self.lead: Lead | None = None
        self._told_at: float | None = None
        self._may_leave = True
        self._said = False
        self._doing = ""
        self._round = -1
        """The last round that was reported here, whoever coordinated it."""
        self._begun = time.monotonic()
        self._supervisor: Supervisor | None = None

    def live(self) -> PodEnd:
        env = self.env
        if lease.is_done(env.out, env.uid) and env.index:
            return PodEnd(0)
        logs.setup(env.directory / layout.WORKER_LOG, queued=True)
        logs.echo(os.fdopen(os.dup(1), "w", buffering=1))
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)
        try:
            # Before anything of the model is in memory: it needs none of it.
            self.lead = Lead(env, self.incarnation) if env.index == 0 else None
            return self._work()
        except Told:
            self._leave_lead()
            return PodEnd(RetryError.exit_code, "told to stop before training began")
        except Over as over:
            self._leave_lead()
            return over.outcome
        finally:
            self._may_leave = False
            if self.lead is not None:
                self.lead.wait(LEAD_SECONDS)

    def _leave_lead(self) -> None:
        if self.lead is not None:
            self.lead.end()

    def _work(self) -> PodEnd:
        self._phase("importing")
        warm_up()
        with socket_directory() as sockets:
            plan = self._plan(sockets)
            while True:
                channel = self._join(plan)
                try:
                    outcome = self._prepare(channel) or self._obey(plan, channel)
                    break
                except RetryError as error:
                    log.error("the job's coordinator is gone: %s", error)
                    if self.lead is not None and isinstance(error, Silent):
                        self.lead.give_up()
                finally:
                    channel.close()
        if outcome.code == 0 and self.env.index == 0 and self.loaded is not None:
            self._conclude(self.loaded)
        return outcome

    def _plan(self, sockets: Path) -> WorkerPlan:
        env, settings = self.env, self.env.settings
        services = ports.services(settings.ports_num, settings.ports_num_for_sparse)
        return WorkerPlan(
            index=env.index,
            workers=env.workers,
            job=env.job,
            token=env.secret,
            coordinator=env.coordinator,
            trainers=env.workers,
            trainer=env.index,
            addresses=tuple(
                ServiceAddress(f"{ANY_HOST}:{env.port + n}", holds.dense, holds.rows)
                for n, holds in enumerate(services)
            ),
            tls=str(credentials.of_worker(env.credentials, env.index)),
            insecure=False,
            directory=env.directory,
            sources=sources_of(settings),
            log_period_server=settings.log_period_server,
            replacements=0,
            beside=tuple(f"unix:{sockets}/service-{number}" for number in range(len(services))),
            echo=True,
            incarnation=self.incarnation,
        )

    def _join(self, plan: WorkerPlan) -> Channel:
        """Find the coordinator, as long as it takes and we may wait."""
        env = self.env
        assert plan.tls is not None
        tls = credentials.client_context(Path(plan.tls))
        begun = reminded = time.monotonic()
        refused = float("inf")
        while True:
            self.look_around()
            try:
                return join(plan, tls, TRY_SECONDS)
            except ReplacedError as error:
                raise Over(PodEnd(error.exit_code, str(error), because_of=-1)) from None
            except UmiakError as error:
                now = time.monotonic()
                if isinstance(error, InputError):
                    refused = min(refused, now)
                    if now - refused > min(REFUSED_SECONDS, env.wait_seconds):
                        raise
                if now - begun > env.wait_seconds:
                    cause = f"worker 0 did not come within {env.wait_seconds:.0f} s: {error}"
                    raise Over(PodEnd(RetryError.exit_code, cause, because_of=0)) from None
                if now - reminded > REMIND_SECONDS:
                    reminded = now
                    log.info("waiting for worker 0, %.0f s more: %s", env.wait_seconds - (now - begun), error)
                time.sleep(PAUSE_SECONDS)

    def look_around(self) -> None:
        """What may have happened while nobody coordinates."""
        self._reap()
        if self._told_at is not None:
            raise Over(PodEnd(RetryError.exit_code, "told to stop while waiting for the coordinator"))
        if self.env.index and self._is_done():
            raise Over(PodEnd(0))
        if self.lead is not None:
            self.lead.watch(self._round)
            if isinstance(error := self.lead.error, ReplacedError):
                raise Over(PodEnd(error.exit_code, str(error), because_of=-1))
            if error is not None:
                last = tail(self.env.out / layout.JOB_LOG)
                failure = Failure(0, "coordinator", error.exit_code, str(error), -1, last)
                raise Over(PodEnd(error.exit_code, str(error), failure))

    def _is_done(self) -> bool:
        """Whether the job has trained to its end. A volume that fails is asked again the next time."""
        try:
            return lease.is_done(self.env.out, self.env.uid)
        except RetryError as error:
            log.warning("%s", error)
            return False

    def _prepare(self, channel: Channel) -> PodEnd | None:
        """Fetch and load, once; an outcome if that was in vain."""
        if self.loaded is not None:
            return None
        target = Path.cwd() / "data"
        heartbeat = Heartbeat(channel, lambda: (self._doing, staging.staged_bytes(target)))
        try:
            with heartbeat:
                self.loaded = self._load(target)
        except Told:
            with contextlib.suppress(UmiakError):
                channel.send(Kind.CONTROL, encode_report(Leaving(), NO_GENERATION))
            raise
        except KeyboardInterrupt:
            if heartbeat.finish is None:
                raise heartbeat.dismissed or RetryError("interrupted") from None
            return PodEnd.of(heartbeat.finish)
        except UmiakError as error:
            return self._confess(channel, error)
        gc.collect()
        gc.freeze()
        return None

    def _load(self, target: Path) -> Loaded:
        env = self.env
        if env.archive is not None:
            staging.unpack(env.archive, Path.cwd())
        if env.shards is not None:
            self._phase("staging")
            files = staging.stage(env.shards, env.index, env.workers, target)
            log.info("staged %d files of shard %d from %s", files, env.index, env.shards)
        self._phase("loading")
        assert env.settings.config is not None
        loaded = load(Path.cwd() / env.settings.config, env.settings.config_args, env.settings)
        for text in loaded.warnings if env.index == 0 else ():
            report.emit(Notice(text))
        return loaded

    def _confess(self, channel: Channel, error: UmiakError) -> PodEnd:
        """Tell the others why this worker cannot take part; the coordinator says what follows."""
        log.error("%s", error)
        own = PodEnd(error.exit_code, str(error))
        deadline = time.monotonic() + ANSWER_SECONDS
        with contextlib.suppress(UmiakError):
            refusal = CannotPrepare(error.exit_code, str(error))
            channel.send(Kind.CONTROL, encode_report(refusal, NO_GENERATION))
            while time.monotonic() < deadline:
                if (frame := arrived(channel)) is None:
                    time.sleep(0.05)
                elif isinstance(answer := order_of(frame), Finish):
                    return PodEnd.of(answer)
        return own

    def _obey(self, plan: WorkerPlan, channel: Channel) -> PodEnd:
        loaded = self.loaded
        assert loaded is not None
        settings = settled(loaded, self.env.settings)
        plan = replace(plan, replacements=settings.max_restarts if settings.mode == "async" else 0)
        supervisor = Supervisor(plan, start_trainer(plan, settings, loaded), channel)
        self._supervisor, self._may_leave, self._said = supervisor, False, False
        try:
            return PodEnd.of(supervisor.run(self.attend))
        except Dismissed as error:
            return PodEnd(error.exit_code, str(error), because_of=-1)
        finally:
            self._supervisor, self._may_leave = None, True

    def attend(self, supervisor: Supervisor) -> None:
        """Between two looks at the worker's processes."""
        self._reap()
        if self.lead is not None:
            self._round = max(self._round, supervisor.round)
            self.lead.watch(self._round, supervisor.committed)
        if self._told_at is None:
            return
        if not self._said:
            self._said = True
            log.info("told to stop: asking for a checkpoint of all workers")
            supervisor.say(Leaving())
        seconds = max(self.env.grace_seconds - MARGIN_SECONDS, self.env.grace_seconds / 2)
        if time.monotonic() - self._told_at > seconds:
            cause = f"told to stop; no checkpoint was written within {seconds:.0f} s, so the last one before it is used"
            raise Over(PodEnd(RetryError.exit_code, cause))

    def _on_signal(self, number: int, frame: object) -> None:
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        self._told_at = time.monotonic()
        if self._may_leave:
            self._may_leave = False
            raise Told

    def _reap(self) -> None:
        """The first process of a container inherits what its descendants leave behind."""
        supervisor = self._supervisor
        processes = (supervisor.trainer, supervisor.server, self.lead) if supervisor else (self.lead,)
        known = {process.pid for process in processes if process is not None}
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
                if ended.si_pid in known:
                    return
                os.waitpid(ended.si_pid, 0)

    def _conclude(self, loaded: Loaded) -> None:
        """The model is there already: what goes wrong now is told, but does not make the training fail."""
        try:
            done = conclude(self.env.out, loaded, time.monotonic() - self._begun, "")
            report.emit(done)
            with contextlib.closing(EventLog(self.env.out)) as written:
                written(done)
        except Exception:
            log.exception("the curves could not be drawn")

    def _phase(self, phase: str) -> None:
        self._doing = phase
        report.emit(Phase(self.env.index, phase))
