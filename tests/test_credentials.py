"""Mutual TLS by a per-job authority: members get in, everybody else stays out, and bad files are one clear line."""

from __future__ import annotations

import contextlib
import datetime
import re
import shutil
import socket
import ssl
import stat
import subprocess
import threading
from pathlib import Path

import pytest

from tests.processes import umiak
from tests.served import JOB, TOKEN, Echo, served
from umiak.errors import InputError, RetryError
from umiak.wire import credentials, hello
from umiak.wire.hello import Member


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("job") / "tls"
    credentials.write(directory, 3)
    return directory


@pytest.fixture(scope="module")
def other_job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("other") / "tls"
    credentials.write(directory, 1)
    return directory


def talk(server: ssl.SSLContext, client: ssl.SSLContext | None) -> tuple[bytes, int | None, ssl.SSLSocket | None]:
    """One word from a client to a server over real sockets: what arrived, from which worker, and the client's end."""
    listener = socket.create_server(("127.0.0.1", 0))
    got: list[tuple[bytes, int | None]] = []

    def serve() -> None:
        plain, _ = listener.accept()
        with plain:
            plain.settimeout(5)
            try:
                with server.wrap_socket(plain, server_side=True) as sock:
                    got.append((sock.recv(5), credentials.worker_of(sock)))
            except OSError:
                got.append((b"", None))

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with socket.create_connection(listener.getsockname(), timeout=5) as plain:
            if client is None:
                plain.sendall(b"hello")
                plain.shutdown(socket.SHUT_WR)
                end = None
            else:
                end = client.wrap_socket(plain, server_hostname="10.1.2.3")
                # A server that refuses the certificate may have hung up already.
                with contextlib.suppress(OSError):
                    end.sendall(b"hello")
            thread.join(10)
            return *got[0], end
    finally:
        thread.join(10)
        listener.close()


def test_members_of_a_job_talk_and_are_known_by_their_certificate(job: Path) -> None:
    server = credentials.server_context(job / "worker-0")
    word, worker, end = talk(server, credentials.client_context(job / "worker-2"))
    assert (word, worker) == (b"hello", 2)
    assert end is not None
    assert end.version() == "TLSv1.3"
    assert credentials.worker_of(end) == 0


def test_a_client_refuses_the_server_of_another_job(job: Path, other_job: Path) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        talk(credentials.server_context(job / "worker-0"), credentials.client_context(other_job / "worker-0"))


def test_a_server_refuses_the_certificate_of_another_job(job: Path, other_job: Path) -> None:
    client = credentials.client_context(other_job / "worker-0")
    client.verify_mode = ssl.CERT_NONE
    assert talk(credentials.server_context(job / "worker-0"), client)[0] == b""


def test_a_client_that_trusts_anyone_still_needs_its_own_certificate(job: Path) -> None:
    stranger = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    stranger.check_hostname = False
    stranger.verify_mode = ssl.CERT_NONE
    assert talk(credentials.server_context(job / "worker-0"), stranger)[0] == b""


def test_plain_text_is_refused(job: Path) -> None:
    assert talk(credentials.server_context(job / "worker-0"), None)[0] == b""


def test_old_tls_is_refused(job: Path) -> None:
    client = credentials.client_context(job / "worker-1")
    client.minimum_version = ssl.TLSVersion.TLSv1_2
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError):
        talk(credentials.server_context(job / "worker-0"), client)


def test_a_workers_directory_is_all_it_needs(job: Path, tmp_path: Path) -> None:
    shutil.copytree(job / "worker-1", tmp_path / "mine")
    assert credentials.of_worker(job, 1) == job / "worker-1"
    assert credentials.of_worker(tmp_path / "mine", 1) == tmp_path / "mine"
    server = credentials.server_context(job / "worker-0")
    assert talk(server, credentials.client_context(tmp_path / "mine"))[:2] == (b"hello", 1)


def test_keys_are_private_and_the_authoritys_is_not_kept(job: Path) -> None:
    assert sorted(path.name for path in job.iterdir()) == ["worker-0", "worker-1", "worker-2"]
    for path in job.glob("worker-*/key.pem"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len({path.read_text() for path in job.glob("worker-*/key.pem")}) == 3
    assert len({path.read_text() for path in job.glob("worker-*/ca.pem")}) == 1


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the openssl command")
def test_openssl_agrees_that_the_chain_holds(job: Path) -> None:
    command = ["openssl", "verify", "-x509_strict", "-CAfile", "ca.pem", "cert.pem"]
    done = subprocess.run(command, cwd=job / "worker-0", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_existing_certificates_are_replaced_only_when_told(tmp_path: Path) -> None:
    credentials.write(tmp_path, 3)
    before = (tmp_path / "worker-0" / "key.pem").read_text()
    with pytest.raises(InputError, match=r"already holds certificates.*--overwrite"):
        credentials.write(tmp_path, 3)
    assert (tmp_path / "worker-0" / "key.pem").read_text() == before
    credentials.write(tmp_path, 2, overwrite=True)
    assert (tmp_path / "worker-0" / "key.pem").read_text() != before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["worker-0", "worker-1"]


def test_a_missing_file_is_named(job: Path, tmp_path: Path) -> None:
    shutil.copytree(job / "worker-0", tmp_path, dirs_exist_ok=True)
    (tmp_path / "key.pem").unlink()
    with pytest.raises(InputError, match=r"key\.pem is missing: write certificates with umiak certs"):
        credentials.client_context(tmp_path)


def test_an_unreadable_file_is_named(job: Path, tmp_path: Path) -> None:
    shutil.copytree(job / "worker-0", tmp_path, dirs_exist_ok=True)
    (tmp_path / "ca.pem").unlink()
    (tmp_path / "ca.pem").mkdir()
    with pytest.raises(InputError, match=r"cannot read .*ca\.pem"):
        credentials.client_context(tmp_path)


def test_a_file_that_is_no_certificate_is_named(job: Path, tmp_path: Path) -> None:
    shutil.copytree(job / "worker-0", tmp_path, dirs_exist_ok=True)
    (tmp_path / "cert.pem").write_text("hello")
    with pytest.raises(InputError, match=r"cert\.pem is not a certificate"):
        credentials.client_context(tmp_path)


@pytest.mark.parametrize("name", ["key.pem", "ca.pem"])
def test_files_of_two_jobs_do_not_mix(job: Path, other_job: Path, tmp_path: Path, name: str) -> None:
    shutil.copytree(job / "worker-0", tmp_path, dirs_exist_ok=True)
    shutil.copy(other_job / "worker-0" / name, tmp_path / name)
    with pytest.raises(InputError, match="copy both from the same worker-N"):
        credentials.client_context(tmp_path)


def test_an_expired_certificate_is_named_with_its_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "DAYS", 0)
    credentials.write(tmp_path, 1)
    with pytest.raises(InputError, match=r"ca\.pem expired on \d{4}-\d\d-\d\d .* write new certificates"):
        credentials.server_context(tmp_path / "worker-0")


def test_certificates_are_valid_where_the_clock_is_hours_behind(job: Path) -> None:
    from cryptography import x509

    for name in ("ca.pem", "cert.pem"):
        certificate = x509.load_pem_x509_certificate((job / "worker-0" / name).read_bytes())
        age = datetime.datetime.now(datetime.UTC) - certificate.not_valid_before_utc
        assert age >= datetime.timedelta(hours=23)


def test_a_clock_that_is_behind_is_named_with_both_times_and_may_be_corrected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A certificate that begins in an hour is what a clock an hour behind sees of one that begins now."""
    monkeypatch.setattr(credentials, "HEAD_START", datetime.timedelta(hours=-1))
    credentials.write(tmp_path, 1)
    with pytest.raises(RetryError, match=r"ca\.pem is valid from .* on, but this machine's clock says .*") as refused:
        credentials.server_context(tmp_path / "worker-0")
    begins, now = map(datetime.datetime.fromisoformat, re.findall(r"\d{4}-\d\d-\d\d [\d:]+", str(refused.value)))
    assert datetime.timedelta(minutes=59) < begins - now <= datetime.timedelta(hours=1)
    said = umiak("pserver", "--nics=lo", "--port=1", "--tls", tmp_path / "worker-0", code=75)
    assert "this machine's clock says" in said


def test_of_several_that_write_at_once_one_succeeds_with_a_whole_set(tmp_path: Path) -> None:
    """Threads, because they share a process id as containers on one volume do."""
    outcomes: list[str] = []

    def write() -> None:
        try:
            credentials.write(tmp_path, 2)
            outcomes.append("")
        except InputError as error:
            outcomes.append(str(error))

    threads = [threading.Thread(target=write) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes.count("") == 1
    assert all("certificates" in told and str(tmp_path) in told for told in outcomes if told)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["worker-0", "worker-1"]
    server = credentials.server_context(tmp_path / "worker-0")
    assert talk(server, credentials.client_context(tmp_path / "worker-1"))[:2] == (b"hello", 1)


def test_certificates_that_end_soon_are_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for days, warned in ((31, False), (29, True)):
        caplog.clear()
        monkeypatch.setattr(credentials, "DAYS", days)
        credentials.write(tmp_path, 1, overwrite=True)
        credentials.client_context(tmp_path / "worker-0")
        assert ("replace the certificates before then" in caplog.text) is warned


def test_a_member_that_poses_as_another_is_told_nothing(job: Path) -> None:
    """Worker 1 at the coordinator's address: it has a certificate of the job, but not worker 0's."""
    heard = Echo()
    with served(heard, tls=credentials.server_context(job / "worker-1")) as server:
        me, tls = Member(JOB, 0, "worker", 2, 3), credentials.client_context(job / "worker-2")
        with pytest.raises(InputError, match="shows the certificate of worker 1 where worker 0 should be"):
            hello.join(server.address, me, TOKEN, tls, 5.0, worker=0)
        assert not heard.admitted, "it has heard who we are"
        for worker in (1, None):
            hello.join(server.address, me, TOKEN, tls, 5.0, worker=worker).close()
        assert heard.admitted == [me, me]


def from_token(directory: Path, token: str, worker: int) -> Path:
    directory.mkdir()
    credentials.write_from_token(directory, token, worker)
    return directory


def test_a_token_alone_makes_members_that_trust_each_other_and_nobody_with_another(tmp_path: Path) -> None:
    ours, theirs = "a" * 64, "b" * 64
    server = credentials.server_context(from_token(tmp_path / "server", ours, 0))
    word, worker, _ = talk(server, credentials.client_context(from_token(tmp_path / "client", ours, 2)))
    assert (word, worker) == (b"hello", 2)
    with pytest.raises(ssl.SSLCertVerificationError):
        talk(server, credentials.client_context(from_token(tmp_path / "stranger", theirs, 2)))
    for path in (tmp_path / "server", tmp_path / "client"):
        assert {file.name for file in path.iterdir()} == {"ca.pem", "cert.pem", "key.pem"}
        assert stat.S_IMODE((path / "key.pem").stat().st_mode) == 0o600
    assert (tmp_path / "server/key.pem").read_bytes() != (tmp_path / "client/key.pem").read_bytes()
