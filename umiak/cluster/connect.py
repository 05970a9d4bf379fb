"""`umiak cluster connect`: a local port that leads to a private API server, through the bastion and AWS Systems Manager.

AWS's own session-manager-plugin carries the bytes; it is called as the AWS CLI calls it. TLS goes from here to the API server,
under the server's own name, so that nobody in between can read or answer.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

from umiak.cluster import access, stacks, waiting
from umiak.cluster.aws import Aws, AwsError
from umiak.cluster.scopes import DOCUMENT
from umiak.errors import InputError, RetryError
from umiak.spec.cluster import ClusterSpec

PLUGIN = "session-manager-plugin"
MANUAL = "https://docs.aws.amazon.com/systems-manager/latest/userguide/session-manager-working-with-install-plugin.html"
INSTALL = {
    "Darwin": "brew install --cask session-manager-plugin",
    "Windows": "winget install Amazon.SessionManagerPlugin",
}
# Plugins after this one take the session's token from the environment, where other users do not see it.
LAST_BY_ARGUMENT = (1, 2, 497, 0)
RESPONSE = "AWS_SSM_START_SESSION_RESPONSE"
# A new instance needs a minute or two to report to Systems Manager.
REGISTRATION_SECONDS, LISTEN_SECONDS, END_SECONDS = 300.0, 30.0, 5.0


def plugin() -> str:
    """Where the plugin is; raises with how to install it."""
    found = shutil.which(PLUGIN)
    if found:
        return found
    how = INSTALL.get(platform.system(), "a .deb or .rpm from AWS")
    raise InputError(
        f"you reach a private API server with AWS's {PLUGIN}, which is not installed here: {how}; see {MANUAL}"
    )


@contextlib.contextmanager
def tunnel(aws: Aws, spec: ClusterSpec, say: Callable[[str], None], port: int | None = None) -> Iterator[int]:
    """The local port, which leads to the API server as long as the block lasts."""
    program = plugin()
    server = urlsplit(access.endpoint(aws, spec.name)[0])
    local = _free(port)
    request = {
        "Target": _bastion(aws, spec),
        "DocumentName": DOCUMENT,
        "Parameters": {
            "host": [server.hostname],
            "portNumber": [str(server.port or 443)],
            "localPortNumber": [str(local)],
        },
    }
    answer = _session(aws, request, say)
    with tempfile.TemporaryFile() as said, _running(program, aws, answer, request, said) as process:
        _listening(process, local, said)
        yield local


def _bastion(aws: Aws, spec: ClusterSpec) -> str:
    stack = stacks.find(aws, spec.name)
    if stack is None or not stack.ours or "Bastion" not in stack.outputs:
        raise InputError(
            f"the cluster {spec.name} has nothing to connect through: create it with `umiak cluster up --api-access private`"
        )
    return stack.outputs["Bastion"]


def _free(port: int | None) -> int:
    """The wanted port; else the usual one, or any where that is taken."""
    for wanted in [port] if port else [access.PORT, 0]:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", wanted))
                return int(probe.getsockname()[1])
    raise InputError(f"port {port} of this machine is taken; choose another with --port")


def _session(aws: Aws, request: dict[str, Any], say: Callable[[str], None]) -> dict[str, Any]:
    told = False
    for _ in waiting.pauses(REGISTRATION_SECONDS, f"the instance {request['Target']} reporting to Systems Manager"):
        try:
            return aws.call("ssm", "StartSession", **request)
        except AwsError as error:
            if error.code != "TargetNotConnected":
                raise
            if not told:
                say("waiting until the instance reports to AWS Systems Manager")
            told = True
    raise AssertionError("pauses end with an error")


@contextlib.contextmanager
def _running(
    program: str, aws: Aws, answer: dict[str, Any], request: dict[str, Any], said: Any
) -> Iterator[subprocess.Popen[bytes]]:
    session = json.dumps({name: answer[name] for name in ("SessionId", "TokenValue", "StreamUrl")})
    environment = dict(os.environ)
    if _version(program) > LAST_BY_ARGUMENT:
        environment[RESPONSE], session = session, RESPONSE
    profile = os.environ.get("AWS_PROFILE", "")
    words = [program, session, aws.region, "StartSession", profile, json.dumps(request), aws.endpoint("ssm")]
    # In a group of its own: Ctrl-C is ours to pass on, when the command that uses the tunnel has ended.
    process = subprocess.Popen(
        words, env=environment, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True
    )
    try:
        yield process
    finally:
        # The plugin ends its session on this.
        process.send_signal(signal.SIGINT)
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _version(program: str) -> tuple[int, ...]:
    done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=30, check=False)
    found = re.fullmatch(r"\d+(\.\d+){0,3}", done.stdout.strip())
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def _listening(process: subprocess.Popen[bytes], port: int, said: Any) -> None:
    """Wait until the plugin takes connections. It connects to the API server only when the first comes."""
    until = time.monotonic() + LISTEN_SECONDS
    while time.monotonic() < until:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.1)
            raise RetryError(f"{PLUGIN} ended with {process.returncode}{_last(said)}; try again")
    raise RetryError(f"{PLUGIN} does not listen on port {port} after {LISTEN_SECONDS:.0f} s{_last(said)}; try again")


def _last(said: Any) -> str:
    said.seek(0)
    lines = said.read().decode(errors="replace").split("\n")
    return next((f": {line.strip()}" for line in reversed(lines) if line.strip()), "")
