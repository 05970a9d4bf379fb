"""A stand-in for AWS's session-manager-plugin: the same command line, as the AWS CLI calls it, and a local port that forwards.

The real one carries the bytes through Systems Manager to the host; this one connects to the same port of this machine, where the
fake's API server is. It says what it was called with in the file that UMIAK_TEST_PLUGIN names.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
from pathlib import Path

VERSION = "1.2.764.0"


def main(words: list[str]) -> int:
    if words == ["--version"]:
        print(os.environ.get("UMIAK_TEST_PLUGIN_VERSION", VERSION))
        return 0
    session, region, operation, profile, request, endpoint = words
    if session == "AWS_SSM_START_SESSION_RESPONSE":
        session = os.environ[session]
    response, asked = json.loads(session), json.loads(request)
    assert set(response) == {"SessionId", "TokenValue", "StreamUrl"}, response
    assert operation == "StartSession"
    told = {"argv": words, "region": region, "profile": profile, "endpoint": endpoint, "request": asked}
    Path(os.environ["UMIAK_TEST_PLUGIN"]).write_text(json.dumps(told))
    if os.environ.get("UMIAK_TEST_PLUGIN_FAILS"):
        print("Cannot perform start session: EOF")
        return 1
    signal.signal(signal.SIGINT, lambda *_: os._exit(0))
    parameters = asked["Parameters"]
    with socket.create_server(("127.0.0.1", int(parameters["localPortNumber"][0]))) as listener:
        print(f"Port {parameters['localPortNumber'][0]} opened for sessionId {response['SessionId']}.", flush=True)
        while True:
            near, _ = listener.accept()
            far = socket.create_connection(("127.0.0.1", int(parameters["portNumber"][0])))
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=carry, args=(one, other), daemon=True).start()


def carry(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            target.sendall(data)
    except OSError:
        """Either side may hang up."""
    finally:
        for each in (source, target):
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                """Gone already."""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
