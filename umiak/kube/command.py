"""A command in a running pod: one line goes in, bytes come out, and how it ended is known. Over a WebSocket, as kubectl exec."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from umiak.errors import RetryError, UmiakError
from umiak.kube.api import Api
from umiak.kube.objects import path

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
STDIN, STDOUT, STDERR, STATUS = range(4)
KEPT = 2000
"""How much of the end of its standard error is told when it fails."""


def run(api: Api, namespace: str, pod: str, command: Sequence[str], line: str = "") -> Iterator[bytes]:
    """Standard output, in pieces. Raises what the command wrote to standard error if it fails."""
    from websocket import ABNF, WebSocketException

    query = [("command", word) for word in command]
    query += [(name, "true") for name in ("stdin", "stdout", "stderr")]
    socket = api.connect(path("Pod", namespace, pod, "exec"), query, PROTOCOLS)
    said = b""
    try:
        socket.send_binary(bytes([STDIN]) + line.encode() + b"\n")
        while True:
            opcode, data = socket.recv_data()
            if opcode == ABNF.OPCODE_CLOSE:
                raise RetryError(f"the connection to pod {pod} ended before its command did; try again")
            if not data:
                continue
            channel, content = data[0], data[1:]
            if channel == STDOUT and content:
                yield content
            elif channel == STDERR:
                said = (said + content)[-KEPT:]
            elif channel == STATUS:
                _judge(json.loads(content), pod, said.decode(errors="replace"))
                return
    except (OSError, WebSocketException) as error:
        raise RetryError(f"lost the connection to pod {pod}: {error}; try again") from None
    finally:
        socket.close()


def _judge(status: dict[str, Any], pod: str, said: str) -> None:
    if status.get("status") == "Success":
        return
    causes = (status.get("details") or {}).get("causes") or []
    code = next((int(cause["message"]) for cause in causes if cause.get("reason") == "ExitCode"), 1)
    lines = said.strip().splitlines() or [status.get("message", "")]
    error = UmiakError(f"pod {pod}: {lines[-1].removeprefix('umiak: ')}")
    error.exit_code = code
    raise error
