"""An S3 server on this machine, and a proxy in front of it that is as far away, as slow and as unreliable as it is told.

The server is moto's. The proxy adds to every request the time it would take from elsewhere, and fails on demand: it throttles as
S3 does, breaks off in the middle of an object, and says that credentials have expired. It notes what was asked for.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qs, unquote, urlsplit

HOST = "127.0.0.1"
BLOCK = 256 << 10
PAGE = 1000
CREDENTIALS = "/credentials"
"""Where the proxy gives the credentials of a role, as EKS gives them to the pods of a service account."""
_ERROR = "<?xml version='1.0' encoding='UTF-8'?><Error><Code>{code}</Code><Message>{message}</Message></Error>"
_ERRORS = {
    "throttled": (503, "SlowDown", "Please reduce your request rate."),
    "expired": (400, "ExpiredToken", "The provided token has expired."),
    "denied": (403, "AccessDenied", "Access Denied"),
    "broken": (500, "InternalError", "We encountered an internal error. Please try again."),
}
Fault = Literal["throttled", "expired", "denied", "broken", "cut"]
"""What goes wrong with a request; `cut`: the connection ends in the middle of the answer."""


@dataclass(frozen=True)
class Request:
    method: str
    key: str
    """Bucket and key."""
    begin: int
    end: int
    """Of the range; both 0 where none was asked for."""
    access_key: str
    fault: Fault | None


@dataclass
class Conduct:
    """How the proxy behaves. May be changed while it runs."""

    latency: float = 0.0
    """Seconds that every request takes longer."""
    bytes_per_s: float = 0.0
    """Over all connections together; 0: as fast as they go."""
    faults: list[Fault] = field(default_factory=list)
    """What goes wrong with the next requests for objects, in this order."""
    always: Fault | None = None
    """What goes wrong with all of them after that."""
    role: dict[str, str] = field(default_factory=dict)
    """The credentials of a role, for whoever asks with the right token."""
    token: str = ""
    listings: dict[str, list[str]] = field(default_factory=dict)
    """Buckets that the proxy lists itself, by their keys in order: moto would take minutes for so many."""
    seen: list[Request] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _free: float = 0.0

    def next_fault(self) -> Fault | None:
        with self._lock:
            return self.faults.pop(0) if self.faults else self.always

    def note(self, request: Request) -> None:
        with self._lock:
            self.seen.append(request)

    def pass_on(self, count: int) -> None:
        """Wait until so many bytes may go."""
        if not self.bytes_per_s:
            return
        with self._lock:
            begin = max(self._free, time.monotonic())
            self._free = begin + count / self.bytes_per_s
            pause = self._free - time.monotonic()
        time.sleep(max(pause, 0.0))

    def fetched(self) -> list[Request]:
        """The requests for parts of objects that were answered."""
        return [each for each in self.seen if each.method == "GET" and each.end and each.fault is None]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    conduct: Conduct
    upstream: tuple[str, int]

    def log_message(self, format: str, *arguments: Any) -> None:
        pass

    def _answer(self) -> None:
        path = unquote(urlsplit(self.path).path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if path == CREDENTIALS:
            self._give_credentials()
            return
        time.sleep(self.conduct.latency)
        fault = self.conduct.next_fault() if self.command == "GET" else None
        begin, _, end = (self.headers.get("Range") or "").removeprefix("bytes=").partition("-")
        who = self.headers.get("Authorization", "").partition("Credential=")[2].partition("/")[0]
        self.conduct.note(Request(self.command, path, int(begin or 0), int(end or -1) + 1, who, fault))
        if fault is not None and fault != "cut":
            status, code, message = _ERRORS[fault]
            self._send(status, "application/xml", _ERROR.format(code=code, message=message).encode())
            return
        if keys := self.conduct.listings.get(path.strip("/")):
            self._list(path.strip("/"), keys)
            return
        self._forward(body, cut=fault == "cut")

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _answer

    def _send(self, status: int, kind: str, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _give_credentials(self) -> None:
        if self.headers.get("Authorization") != self.conduct.token or not self.conduct.role:
            self._send(403, "text/plain", b"no such role")
            return
        self._send(200, "application/json", json.dumps(self.conduct.role).encode())

    def _list(self, bucket: str, keys: list[str]) -> None:
        """A page of ListObjectsV2."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
        found = [key for key in keys if key.startswith(asked.get("prefix", ""))]
        begin = int(asked.get("continuation-token", "0"))
        page, more = found[begin : begin + PAGE], begin + PAGE < len(found)
        entries = "".join(
            f"<Contents><Key>{key}</Key><Size>1</Size><ETag>&quot;a&quot;</ETag></Contents>" for key in page
        )
        token = f"<NextContinuationToken>{begin + PAGE}</NextContinuationToken>" if more else ""
        head = f"<Name>{bucket}</Name><KeyCount>{len(page)}</KeyCount><IsTruncated>{str(more).lower()}</IsTruncated>{token}"
        self._send(200, "application/xml", f"<ListBucketResult>{head}{entries}</ListBucketResult>".encode())

    def _forward(self, body: bytes, cut: bool) -> None:
        connection = http.client.HTTPConnection(*self.upstream)
        try:
            connection.request(self.command, self.path, body, dict(self.headers.items()))
            answer = connection.getresponse()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("connection", "date", "server", "transfer-encoding"):
                    self.send_header(name, value)
            length = int(answer.headers.get("Content-Length") or 0)
            if "Content-Length" not in answer.headers:
                self.send_header("Content-Length", "0")
            self.end_headers()
            if self.command != "HEAD":
                self._pass_on(answer, length // 2 if cut else length)
            if cut:
                self.close_connection = True
        except (ConnectionError, TimeoutError):
            self.close_connection = True
        finally:
            connection.close()

    def _pass_on(self, answer: http.client.HTTPResponse, length: int) -> None:
        while length > 0 and (block := answer.read(min(BLOCK, length))):
            self.conduct.pass_on(len(block))
            self.wfile.write(block)
            length -= len(block)


class _Server(ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = True


@contextlib.contextmanager
def proxy(upstream: tuple[str, int], conduct: Conduct) -> Iterator[int]:
    """A proxy that runs in threads of this process; its port."""
    handler = type("Handler", (_Handler,), {"conduct": conduct, "upstream": upstream})
    with _Server((HOST, 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), name="s3-proxy", daemon=True)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


@contextlib.contextmanager
def moto() -> Iterator[tuple[str, int]]:
    """moto's server; its address."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(HOST, 0, verbose=False)
    server.start()
    try:
        yield server.get_host_and_port()
    finally:
        server.stop()


def environment(port: int) -> dict[str, str]:
    """What a client must know to ask at this port, with keys that moto accepts."""
    return {
        "AWS_ENDPOINT_URL": f"http://{HOST}:{port}",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
    }


def upload(address: tuple[str, int], bucket: str, files: dict[str, Path]) -> None:
    """Make a bucket and put files into it, by their keys."""
    import boto3

    client = boto3.client(
        "s3",
        endpoint_url=f"http://{address[0]}:{address[1]}",
        aws_access_key_id="test",
        aws_secret_access_key="test",
        region_name="us-east-1",
    )
    client.create_bucket(Bucket=bucket)
    for key, path in files.items():
        client.put_object(Bucket=bucket, Key=key, Body=path.read_bytes())


@contextlib.contextmanager
def started(directory: Path, pattern: str, bucket: str, latency: float, bytes_per_s: float) -> Iterator[int]:
    """The server and the proxy, each in a process of its own, with the files of a directory in a bucket; the proxy's port."""
    with contextlib.ExitStack() as stack:
        upstream = stack.enter_context(_program("moto"))
        upload((HOST, upstream), bucket, {path.name: path for path in sorted(directory.glob(pattern))})
        yield stack.enter_context(_program("proxy", str(upstream), str(latency), str(bytes_per_s)))


@contextlib.contextmanager
def _program(*words: str) -> Iterator[int]:
    command = [sys.executable, "-m", "umiak.bench.peers.s3", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


def main(what: str, *words: str) -> None:
    """Serve until standard input ends: so a server ends with whoever started it."""
    if what == "moto":
        running: Any = moto()
    else:
        running = proxy((HOST, int(words[0])), Conduct(latency=float(words[1]), bytes_per_s=float(words[2])))
    with running as address:
        print(address[1] if isinstance(address, tuple) else address, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
