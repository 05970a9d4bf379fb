"""The two roles on their own, in the foreground: `umiak pserver` and `umiak trainer`. Nobody supervises them here.

Both log to stderr, where whoever started them sends it. UMIAK_JOB says which job they belong to and the token
(token.py) proves it; both are the same for all roles of a job.
"""

from __future__ import annotations

import contextlib
import fcntl
import ipaddress
import logging
import os
import secrets
import shlex
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from umiak.contract import environment, ports
from umiak.errors import InputError, RetryError, UmiakError
from umiak.logs import GlogFormatter
from umiak.messages.events import Checkpoint, Event
from umiak.pserver.process import ServerOptions, listening, tls_for
from umiak.rundir import generations
from umiak.spec.settings import Settings
from umiak.wire import credentials
from umiak.wire.address import Address
from umiak.worker import token

if TYPE_CHECKING:
    from umiak.spec.load import Loaded
    from umiak.trainer.task import Assignment

ENDING_SECONDS = 20.0
POLL_SECONDS = 0.5
SIOCGIFADDR = 0x8915
SIGNALS = (signal.SIGINT, signal.SIGTERM)
log = logging.getLogger("umiak.worker")


def pserver(settings: Settings) -> int:
    """Serve one job after another until told to end; trainers that are here get a little time to save."""
    addresses = listening_on(settings)
    tls_for(addresses, _server_tls(settings), settings.insecure, credentials.server_context)
    secret, told = token.for_server(addresses)
    log_to_stderr()
    if told:
        log.warning("%s", told)
    return serve(server_options(settings, addresses, secret))


def listening_on(settings: Settings) -> list[Address]:
    """Where a server listens: on each port of each interface."""
    _check(settings)
    hosts = dict.fromkeys([_address_of(nic) for nic in settings.nics] or ["0.0.0.0"])
    return [Address(host, port) for host in hosts for port in _ports(settings)]


def server_options(settings: Settings, addresses: Sequence[Address], secret: str) -> ServerOptions:
    return ServerOptions(
        job=_job(),
        generation=None,
        trainers=settings.num_gradient_servers,
        addresses=[str(address) for address in addresses],
        root=str(settings.save_dir),
        token=secret,
        tls=_server_tls(settings),
        insecure=settings.insecure,
        log_period=settings.log_period_server,
    )


def serve(options: ServerOptions) -> int:
    """Serve until a signal; the second one ends at once."""
    signals: list[float] = []
    with _on_signal(lambda: signals.append(time.monotonic())), listening(options) as (server, host):
        while not signals:
            server.poll(POLL_SECONDS)
        if host.busy:
            log.info("stopping: trainers have %.0f s to save and leave; a second signal stops at once", ENDING_SECONDS)
        while host.busy and len(signals) == 1 and time.monotonic() - signals[0] < ENDING_SECONDS:
            server.poll(POLL_SECONDS)
    return 0


def trainer(settings: Settings) -> int:
    """Train to the end with the servers of --pservers, or alone with --local."""
    config = settings.config
    if config is None:
        raise InputError("name a config file: umiak trainer CONFIG")
    settings, assignment = assign(settings)

    from umiak.rundir.checkpoint import was_committed
    from umiak.rundir.snapshot import check_start
    from umiak.spec.load import load
    from umiak.trainer.trainer import Stopped

    log_to_stderr()
    loaded = load(config, settings.config_args, settings)
    check_start(loaded.config.shapes, settings)
    assignment = take_output(settings, assignment)
    try:
        run_until_stopped(loaded, settings, assignment)
    except UmiakError as error:
        # After a stop, trainer 0 may still be writing the checkpoint that the others have given their part of.
        if isinstance(error, Stopped) or (error.exit_code == RetryError.exit_code and was_committed(settings.save_dir)):
            raise RetryError(f"{error}; start every trainer again with --resume") from error
        raise
    return 0


def run_until_stopped(loaded: Loaded, settings: Settings, assignment: Assignment) -> None:
    """Train to the end, or until a signal asks all trainers to stop."""
    from umiak.trainer.run import run

    stop = _Stop()
    try:
        with _on_signal(stop.request):
            run(loaded, settings, assignment, _report, stop.requested, sys.stderr)
    except UmiakError:
        if stop.training and settings.dot_period:
            print(file=sys.stderr)
        raise


def assign(settings: Settings, secret: str | None = None) -> tuple[Settings, Assignment]:
    """A trainer's place in its job, and its settings with what follows from that place. Nothing is written.

    Without a `secret` the user's token is looked for, where one is needed.
    """
    _check(settings)
    if not settings.local and 0 < settings.num_gradient_servers <= settings.trainer_id:
        raise InputError(
            f"--trainer_id={settings.trainer_id} is not one of {settings.num_gradient_servers} trainers: ids go from 0 to "
            f"{settings.num_gradient_servers - 1}, and --num_gradient_servers says how many there are"
        )
    if settings.seed == 0:
        raise InputError("--seed=0 would give every trainer a different seed: write the same number for all")
    services = () if settings.local else services_of(settings)
    me, count = (0, 1) if settings.local else (settings.trainer_id, settings.num_gradient_servers)
    # Servers write their part of a checkpoint themselves, and need not have been started in the same directory.
    settings = replace(settings, save_dir=settings.save_dir.absolute())
    if settings.tls is not None:
        settings = replace(settings, tls=credentials.of_worker(settings.tls, me))
    # Connecting asks this too, but only after the output directory was made.
    tls_for([address for address, _, _ in services], _text(settings.tls), settings.insecure, credentials.client_context)

    from umiak.messages.control import ServiceAddress
    from umiak.trainer.task import Assignment

    return settings, Assignment(
        trainer=me,
        trainers=count,
        job=_job(),
        services=[ServiceAddress(str(address), dense, rows) for address, dense, rows in services],
        token=token.for_trainer([address for address, _, _ in services]) if secret is None else secret,
        out=settings.save_dir,
    )


def take_output(settings: Settings, assignment: Assignment) -> Assignment:
    """See that the output directory can be used, and which checkpoint it resumes from; trainer 0 also makes it ready."""
    from umiak.rundir import checkpoint, prepare

    if assignment.trainer == 0:
        preparation = prepare.decide(settings)
        prepare.make(settings.save_dir)
        assignment = replace(assignment, generation=generations.seize(settings.save_dir, secrets.token_hex(8)))
        prepare.carry_out(preparation, log.warning)
        checkpoint.remove_unfinished(settings.save_dir)
    found = checkpoint.select(settings.save_dir, settings.resume_round) if settings.resume else None
    if settings.resume and found is None:
        raise InputError(f"{settings.save_dir} holds no checkpoint: every trainer needs the directory of the others")
    return replace(assignment, checkpoint=found)


def _report(event: Event) -> None:
    """Everything else that is reported has its line in the log already."""
    if isinstance(event, Checkpoint):
        log.info("checkpoint of round %d: %s", event.round, event.path)


class _Stop:
    """A wish to end. Before the first round there is nothing to save; from then on all trainers stop together."""

    def __init__(self) -> None:
        self.training = False
        self._wished = False

    def request(self) -> None:
        """Called by a signal, so at any point of the program: a user's code must not take what is raised for its own error."""
        if self._wished:
            raise KeyboardInterrupt
        if not self.training:
            _say("stopped before training began")
            raise SystemExit(RetryError.exit_code)
        self._wished = True
        _say("stopping all trainers with a checkpoint after this round; press Ctrl-C again to stop at once")

    def requested(self) -> bool:
        """Asked once in every round."""
        self.training = True
        return self._wished


def _say(text: str) -> None:
    """Past the log, whose stream a signal may have interrupted, and on a line of its own after any dots."""
    os.write(2, f"\numiak: {text}\n".encode())


def _check(settings: Settings) -> None:
    if settings.transport != "tcp":
        raise InputError(f"--transport={settings.transport}: roles on their own talk over TCP; leave it out")
    last = settings.port + settings.ports_num + settings.ports_num_for_sparse - 1
    if settings.port < 1 or last > 65535:
        raise InputError(f"--port={settings.port}: the ports would be {settings.port} to {last}; write 1 to 65535")


def _ports(settings: Settings) -> range:
    return range(settings.port, settings.port + settings.ports_num + settings.ports_num_for_sparse)


def services_of(settings: Settings) -> list[tuple[Address, bool, bool]]:
    """Every port of every host in the order that all trainers must share; whether it holds dense blocks, and rows."""
    if not settings.pservers:
        raise InputError("--pservers names no host: write --pservers=HOST,HOST in the same order for every trainer")
    holds = ports.services(settings.ports_num, settings.ports_num_for_sparse)
    services = []
    for host in settings.pservers:
        if host.count(":") == 1:
            raise InputError(f"--pservers={host}: name hosts without ports; --port is the first port of all of them")
        services += [(Address(host, port), *each) for port, each in zip(_ports(settings), holds, strict=True)]
    return services


def _address_of(nic: str) -> str:
    """The IPv4 address of an interface; an address is taken as it is."""
    with contextlib.suppress(ValueError):
        return str(ipaddress.ip_address(nic))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            found = fcntl.ioctl(sock.fileno(), SIOCGIFADDR, struct.pack("256s", nic.encode()[:15]))
        except OSError:
            names = ", ".join(name for _, name in socket.if_nameindex())
            raise InputError(
                f"--nics={nic}: no interface of that name has an IPv4 address; there are {names}, or write an address"
            ) from None
    return socket.inet_ntoa(found[20:24])


def _server_tls(settings: Settings) -> str | None:
    return _text(credentials.of_worker(settings.tls, 0) if settings.tls else None)


def _text(path: Path | None) -> str | None:
    return str(path) if path else None


def _job() -> str:
    return os.environ.get(environment.JOB, "umiak")


def log_to_stderr() -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(GlogFormatter())
    logger = logging.getLogger("umiak")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    log.info("commandline: %s", shlex.join(sys.argv))


@contextlib.contextmanager
def _on_signal(call: Callable[[], None]) -> Iterator[None]:
    """Call back on Ctrl-C and SIGTERM, unless whoever started this process wants them ignored."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, lambda *_: call())
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
