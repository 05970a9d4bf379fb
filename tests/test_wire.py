"""Frames and the door every connection passes: members get in and are told why if not; nothing a stranger sends hurts."""

from __future__ import annotations

import ast
import contextlib
import datetime
import json
import random
import socket
import ssl
import struct
import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest

from tests.served import TOKEN, served
from umiak.errors import DamagedError, InputError, RetryError, UmiakError, describe, described
from umiak.wire import address, connections, credentials, door, frames, hello
from umiak.wire.address import Address, connect, listen
from umiak.wire.frames import HEADER, MAGIC, Channel, Kind, pack

UMIAK = Path(__file__).parents[1] / "umiak"


def whole(kind: Kind, head: bytes | dict[str, object] = b"", body: bytes = b"") -> bytes:
    return b"".join(pack(kind, head, [body]))


def greeting(**changes: object) -> bytes:
    """A HELLO that would be complete, were its proof not of another token."""
    head = {"version": frames.VERSION, "job": "here", "generation": 0, "role": "trainer", "index": 0, "count": 2}
    return whole(Kind.HELLO, {**head, "proof": "0" * 64, **changes})


def hear_out(sock: socket.socket) -> None:
    """Read until the server hangs up."""
    with contextlib.suppress(ConnectionResetError):
        while sock.recv(4096):
            pass


def test_a_frame_arrives_as_it_was_sent_and_its_arrays_are_aligned() -> None:
    here, there = socket.socketpair()
    sending, receiving = Channel(here, "here"), Channel(there, "there")
    ids, rows = np.arange(5), np.linspace(0, 1, 3, dtype=np.float32)
    sending.send(Kind.ROUND, b"odd length", [ids, np.empty((0, 4), np.float32), rows])
    frame = receiving.receive()
    assert frame.kind is Kind.ROUND and bytes(frame.head).rstrip(b"\0") == b"odd length"
    assert frame.body[:40].view(np.int64).tolist() == ids.tolist()
    assert frame.body[40:].view(np.float32).tolist() == rows.tolist()
    assert frame.body.ctypes.data % 8 == 0
    sending.close()
    with pytest.raises(RetryError, match="lost there: the connection was closed"):
        receiving.receive()
    receiving.close()


def test_a_member_gets_in_over_tcp_and_over_a_unix_socket(tmp_path: Path) -> None:
    with served() as server:
        server.still_serves()
    with served(unix=tmp_path / "socket") as server:
        server.still_serves()
        assert Address.parse(str(server.address)) == server.address


@pytest.mark.parametrize("transport", ["unix", "tcp", "tls"])
def test_frames_sent_without_waiting_for_answers_are_all_answered_in_order(
    transport: str, tmp_path: Path, job: Path
) -> None:
    """Sizes around what is read at once: several frames in one read, and one frame in many."""
    sizes = [0, 8, 16_000, 70_000, 24, 1_000_000, 8, frames.AHEAD - 40, 16, 300_000]
    server_tls, client_tls = (
        (
            credentials.server_context(credentials.of_worker(job, 0)),
            credentials.client_context(credentials.of_worker(job, 0)),
        )
        if transport == "tls"
        else (None, None)
    )
    with served(tls=server_tls, unix=tmp_path / "socket" if transport == "unix" else None) as server:
        channel = server.join(tls=client_tls)
        bodies = [np.random.default_rng(size).integers(0, 256, size, np.uint8) for size in sizes]

        for body in bodies:
            channel.send(Kind.CONTROL, {}, [body[: len(body) // 2], body[len(body) // 2 :]])
        for body in bodies:
            assert channel.receive().body.tobytes() == body.tobytes()
        channel.close()


def test_an_answer_is_received_in_place_behind_news_of_other_work() -> None:
    here, there = socket.socketpair()
    sending, receiving = Channel(here, "here"), Channel(there, "there")
    dense, rows = np.arange(3, dtype=np.float32), np.ones((50_000, 2), np.float32)

    def send() -> None:
        for number in range(3):
            sending.send(Kind.DONE, {"result": number})
            sending.send(Kind.REPLY, b"12345678", [dense + number, rows * number])

    thread = threading.Thread(target=send)
    thread.start()
    aside: list[dict[str, object]] = []
    head, got_dense, got_rows = memoryview(bytearray(8)), np.empty_like(dense), np.empty_like(rows)
    for number in range(3):
        receiving.receive_parts(Kind.REPLY, head, [got_dense, np.empty((0, 2), np.float32), got_rows], aside)
        assert bytes(head) == b"12345678"
        assert got_dense.tolist() == (dense + number).tolist() and (got_rows == number).all()
    assert aside == [{"result": 0}, {"result": 1}, {"result": 2}]
    thread.join()
    sending.close()
    receiving.close()


def test_an_address_is_read_and_said_to_be_on_this_machine_or_not() -> None:
    assert Address.parse("[::1]:80") == ("::1", 80)
    for text, local in {
        "unix:x": True,
        "127.0.0.2:1": True,
        "localhost:1": True,
        "0.0.0.0:1": False,
        "h:1": False,
    }.items():
        assert Address.parse(text).is_local is local
    for text in ("nothing", "host:", "host:0", "host:65536", "host:http"):
        with pytest.raises(InputError, match="write host:port or unix:PATH"):
            Address.parse(text)


def test_a_long_tmpdir_is_no_place_for_unix_sockets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = tmp_path / ("x" * 120)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    with address.socket_directory() as directory:
        listen(Address(str(directory / "server-999-999"))).close()
        assert directory.stat().st_mode & 0o777 == 0o700
    assert not directory.exists()
    with pytest.raises(InputError, match=r"is too long for a unix socket: 10\d bytes at most"):
        listen(Address(str(long / "socket")))


STRANGERS = {
    "garbage": (b"\x16\x03\x01" * 20, "not a frame of this protocol"),
    "a browser": (b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n", "not a frame of this protocol"),
    "an unknown kind of frame": (HEADER.pack(MAGIC, 99, 0, 0, 0, 0), "unknown kind of frame 99"),
    "an oversized body": (HEADER.pack(MAGIC, Kind.HELLO, 0, 8, 0, 1 << 62), "at most 4096 are allowed"),
    "an oversized head": (HEADER.pack(MAGIC, Kind.HELLO, 0, 0xFFFFFFF8, 0, 0), "at most 4096 are allowed"),
    "a truncated header": (HEADER.pack(MAGIC, Kind.HELLO, 0, 0, 0, 0)[:10], "closed in the middle of a frame"),
    "a truncated frame": (greeting()[:-9], "closed in the middle of a frame"),
    "a frame before any greeting": (whole(Kind.SETUP, {"spec": {}}), "SETUP frame where a greeting was expected"),
    "a greeting that is not JSON": (whole(Kind.HELLO, b"\xff\xfe{}"), "not JSON"),
    "a greeting that is no object": (whole(Kind.HELLO, b"[1, 2]"), "not a JSON object"),
    "a greeting of endless brackets": (whole(Kind.HELLO, b"[" * 4000), "not JSON"),
    "a greeting of endless objects": (whole(Kind.HELLO, b'{"a":' * 500 + b"1" + b"}" * 500), "version None"),
    "half a greeting": (greeting(index=None), "an incomplete greeting"),
    "a greeting of infinite generation": (
        greeting(generation=0)
        .replace(b'"generation":0,', b'"generation":Infinity,')
        .replace(struct.pack("<I", len(greeting()) - 24), struct.pack("<I", len(greeting()) - 24 + 8))
        + b"\0",
        "an incomplete greeting",
    ),
    "another version": (greeting(version=7), f"protocol version 7, but this process uses {frames.VERSION}"),
    "an unknown role": (greeting(role="king\nE0101 fake line"), r"unknown role 'king\nE0101 fake line'"),
    "another token": (greeting(), "another job's token"),
    "a proof that is not ASCII": (greeting(proof="\u00e9\ud800"), "another job's token"),
    "nothing at all": (b"", "closed"),
}


@pytest.mark.parametrize("name", STRANGERS)
def test_a_stranger_is_refused_and_logged_and_the_server_goes_on(name: str) -> None:
    data, reason = STRANGERS[name]
    with served() as server:
        with server.knock() as sock:
            with contextlib.suppress(OSError):  # it may have hung up on us before we are done
                sock.sendall(data)
                sock.shutdown(socket.SHUT_WR)
            hear_out(sock)
        assert "refused a stranger at 127.0.0.1:" in server.logged(reason)
        assert len(server.log) == 1, "one line is enough"
        server.still_serves()


def test_a_peer_that_resets_its_connection_is_survived() -> None:
    with served() as server:
        for _ in range(20):
            sock = server.knock()
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            sock.close()
        server.still_serves()


def test_silence_and_a_greeting_byte_by_byte_are_refused_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "GREETING_SECONDS", 0.3)
    with served() as server, server.knock() as silent, server.knock() as slow:
        with pytest.raises(OSError):
            for byte in greeting():
                slow.sendall(bytes([byte]))
                threading.Event().wait(0.02)
        assert silent.recv(4096)[:4] == MAGIC
        assert silent.recv(4096) == b""
        server.logged("no greeting in time")
        server.still_serves()


def test_a_crowd_of_silent_strangers_does_not_keep_a_member_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "MAX_STRANGERS", 5)
    with served() as server:
        crowd = [server.knock() for _ in range(40)]
        server.logged("too many unknown connections at once")
        server.still_serves()
        for sock in crowd:
            sock.close()


def test_the_client_hears_why_it_is_refused() -> None:
    with served() as server:
        with pytest.raises(InputError, match=r"trainer 0 of job 'here'.*another job's token") as refused:
            server.join(token=b"guess")
        assert refused.value.exit_code == 2


def test_random_and_mutated_greetings_never_end_the_server(tmp_path: Path) -> None:
    draw = random.Random(20161116)
    seeds = [data for data, _ in STRANGERS.values() if data]
    with served(unix=tmp_path / "socket") as server:
        for number in range(5000):
            data = (
                bytearray(draw.choice(seeds)) if draw.random() < 0.8 else bytearray(draw.randbytes(draw.randrange(200)))
            )
            for _ in range(draw.randrange(6)):
                at = draw.randrange(len(data) + 1)
                data[at : at + draw.randrange(3)] = draw.randbytes(draw.randrange(4))
            with server.knock() as sock:
                try:
                    sock.sendall(data)
                except OSError:
                    continue
            if number % 500 == 0:
                server.still_serves()
        server.still_serves()


def test_what_a_member_sends_is_bounded_too() -> None:
    with served() as server:
        channel = server.join()
        channel.sock.sendall(HEADER.pack(MAGIC, Kind.CONTROL, 0, 0, 0, 1 << 40))
        with pytest.raises(RetryError):
            channel.receive()
        assert "trainer 0 of job 'here'" in server.logged("bytes where at most")
        server.still_serves()


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("job")
    credentials.write(directory, 2)
    return directory


@pytest.fixture(scope="module")
def other_job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("other")
    credentials.write(directory, 1)
    return directory


def trusting(context: ssl.SSLContext) -> ssl.SSLContext:
    """Trusts any server, so that it is the server's turn to refuse."""
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def test_with_tls_only_the_jobs_own_certificates_get_in(job: Path, other_job: Path) -> None:
    mine = credentials.client_context(job / "worker-0")
    with served(tls=credentials.server_context(job / "worker-1")) as server:
        server.still_serves(tls=mine)
        with pytest.raises(InputError, match=r"do not trust each other \(certificate verify failed\): check --tls"):
            server.join(tls=credentials.client_context(other_job / "worker-0"))
        with pytest.raises(InputError, match="do not trust each other"):
            server.join(tls=trusting(credentials.client_context(other_job / "worker-0")))
        with pytest.raises(InputError, match="do not trust each other"):
            server.join(tls=trusting(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)))
        with pytest.raises(InputError, match="shows the certificate of worker 1: give each its own --tls"):
            server.join(tls=credentials.client_context(job / "worker-1"))
        with server.knock() as sock:
            sock.sendall(greeting())
            hear_out(sock)
        server.logged("it does not prove that it has the job's token")
        assert len([line for line in server.log if "refused" in line]) == 5
        server.still_serves(tls=mine)


@pytest.mark.parametrize("seconds", [3600, -86400 * 400])
def test_a_handshake_that_fails_because_of_a_clock_says_so_on_either_side_and_may_be_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    """Certificates of another time than now: one that begins in an hour, and one that ended a month ago."""
    monkeypatch.setattr(credentials, "HEAD_START", -datetime.timedelta(seconds=seconds))
    monkeypatch.setattr(credentials, "DAYS", 365 + seconds / 86400)
    monkeypatch.setattr(credentials, "_check", lambda *files: None)
    credentials.write(tmp_path, 1)
    doubting, other = (credentials.client_context(tmp_path / "worker-0") for _ in range(2))
    with served(tls=credentials.server_context(tmp_path / "worker-0")) as server:
        for context in (doubting, trusting(other)):
            with pytest.raises(
                RetryError, match=r"do not agree about the time \(.*\): here it is .*; correct the clock"
            ):
                server.join(tls=context)


def test_a_client_without_tls_at_a_server_with_it_is_told_to_look_there(job: Path) -> None:
    with_tls = served(tls=credentials.server_context(job / "worker-1"))
    with with_tls as server, pytest.raises(InputError, match="uses TLS, and this process does not: check --tls"):
        server.join()
    with served() as server, pytest.raises(InputError, match="does not use TLS, and this process does: check --tls"):
        server.join(tls=credentials.client_context(job / "worker-0"))


def test_a_stranger_gets_no_handshake_without_the_jobs_token(job: Path) -> None:
    """A handshake is what costs a server, whoever asks for it; here one with a certificate that would be good."""
    mine = credentials.client_context(job / "worker-0")
    with served(tls=credentials.server_context(job / "worker-1")) as server:
        with pytest.raises(InputError, match="it has another job's token; give all roles the same"):
            server.join(tls=mine, token=b"guess")
        with server.knock() as sock, pytest.raises(ssl.SSLError):
            mine.wrap_socket(sock)
        with server.knock() as sock:
            sock.sendall(b"0" * 31)
            sock.shutdown(socket.SHUT_WR)
            hear_out(sock)
        server.logged("the connection was closed")
        assert sum("it does not prove that it has the job's token" in line for line in server.log) == 2
        server.still_serves(tls=mine)


def test_lines_about_strangers_are_few_however_many_come() -> None:
    with served() as server:
        for _ in range(100):
            with server.knock() as sock:
                sock.shutdown(socket.SHUT_WR)
                hear_out(sock)
        assert len(server.log) == door.TOLD_STRANGERS
        log = server.log
    assert [line for line in log if "90 more like these within" in line and "the last: refused a stranger" in line]
    assert len(log) == door.TOLD_STRANGERS + 1


@pytest.mark.parametrize(
    "banner", [b"SSH-2.0-OpenSSH_9.6\r\n" + b" " * 24, whole(Kind.DONE), whole(Kind.CHALLENGE, {})]
)
def test_a_server_of_another_kind_is_named(banner: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            sock, _ = listener.accept()
            sock.sendall(banner)
            hear_out(sock)
            sock.close()

        thread = threading.Thread(target=answer)
        thread.start()
        there = Address(*listener.getsockname())
        with pytest.raises(InputError, match=rf"{there} is not an umiak server .*: check --pservers and --port"):
            hello.join(there, hello.Member("here", 0, "trainer", 0, 1), TOKEN, None, 5.0)
        thread.join(10)


def test_connecting_waits_for_a_late_server_and_says_so_and_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(address, "PATIENCE_SECONDS", 0.0)
    with served() as other:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            there = Address(*free.getsockname())
        with pytest.raises(
            RetryError, match=rf"cannot reach {there} within 0 s \(Connection refused\): is it running\?"
        ):
            connect(there, None, 0.3)
        late: list[socket.socket] = []
        timer = threading.Timer(0.3, lambda: late.append(listen(there)))
        timer.start()
        connect(there, None, 10.0).close()
        timer.join()
        late[0].close()
        other.logged(f"waiting up to 10 s for {there}")


def test_errors_keep_their_exit_code_on_the_way() -> None:
    for error in (InputError("a"), RetryError("b"), UmiakError("c"), DamagedError("d")):
        arrived = described(json.loads(json.dumps(describe(error))))
        assert (type(arrived), str(arrived), arrived.exit_code) == (type(error), str(error), error.exit_code)


@pytest.mark.parametrize("package", ["wire", "pserver", "trainer", "worker"])
def test_nothing_that_arrives_is_ever_unpickled_or_executed(package: str) -> None:
    forbidden = {"pickle", "_pickle", "cloudpickle", "dill", "marshal", "shelve", "joblib"}
    for path in sorted((UMIAK / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            assert not forbidden & {name.split(".")[0] for name in names}, f"{path} imports {names}"
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                assert called not in ("eval", "exec", "torch.load", "np.load", "numpy.load"), f"{path} calls {called}"


def test_a_server_that_says_nothing_is_waited_for_as_long_as_the_client_wants() -> None:
    """One that restores from a volume which hangs is waited for; a coordinator that is frozen is not, for long."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = Address("127.0.0.1", silent.getsockname()[1])
        with pytest.raises(RetryError, match="before it said anything"):
            hello.join(address, hello.Member("here", 0, "worker", 0, 1), TOKEN, None, 5.0, answer_seconds=0.1)
