"""Who the page lets in, what it shows them, and that it changes nothing. More in tests/test_page_server.py."""

from __future__ import annotations

import http.client
import json
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.test_page_server import Page, make_run
from umiak.cli.main import main
from umiak.cli.page import _parser
from umiak.page import built, serving
from umiak.page.index import Index
from umiak.page.masking import masked


@pytest.fixture
def static(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "static"
    made.mkdir()
    (made / "index.html").write_text("<!doctype html>")
    monkeypatch.setattr(built, "STATIC", made)
    return made


@pytest.fixture
def page(static: Path, tmp_path: Path) -> Iterator[Page]:
    (tmp_path / "runs").mkdir()
    made = Page(tmp_path / "runs", static)
    yield made
    made.end()


def tree(path: Path) -> dict[str, tuple[int, int, int]]:
    return {
        str(each): (each.lstat().st_mode, each.lstat().st_size, each.lstat().st_mtime_ns)
        for each in sorted([path, *path.rglob("*")])
    }


def test_it_listens_on_this_machine_alone_unless_told_otherwise(static: Path, tmp_path: Path) -> None:
    assert _parser().parse_args([]).host == "127.0.0.1"
    made = serving.prepare(Index([tmp_path]))
    with made.listener:
        assert made.listener.getsockname()[0] == "127.0.0.1" and made.address.startswith("http://127.0.0.1:")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--host", "10.1.2.3"], "--host beyond this machine needs --tls CERT KEY, or --insecure to do without"),
        (["--host", "0.0.0.0", "--insecure"], "names no address that a browser could check"),
        (["--host", "example.org"], "is not an IP address"),
        (["--tls", "nothing", "nothing"], "nothing is not a file"),
    ],
)
def test_a_host_beyond_this_machine_needs_tls_or_is_refused(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["page", "--no-browser", *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


def test_without_tls_it_says_plainly_what_it_exposes(
    static: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(serving, "listen", lambda host, port: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        from umiak.cli import page

        page.run(["--no-browser", "--insecure", "--host", "10.1.2.3", str(tmp_path)])
    assert "can read configs, metrics and logs of all runs" in capsys.readouterr().err


@pytest.mark.slow
def test_over_tls_the_cookie_is_for_tls_alone(static: Path, tmp_path: Path) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subject = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate, *subject]
    subprocess.run(words, check=True, capture_output=True)
    program = (
        f"from pathlib import Path; from umiak.page import built; built.STATIC = Path({str(static)!r}); "
        f"from umiak.cli.main import main; main(['page', '--no-browser', '--port', '0', '--tls', {str(certificate)!r}, "
        f"{str(key)!r}, {str(tmp_path)!r}])"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        host, _, path = address.removeprefix("https://").partition("/")
        trusted = ssl.create_default_context(cafile=str(certificate))
        connection = http.client.HTTPSConnection(host, context=trusted, timeout=20)
        connection.request("GET", f"/{path}")
        cookie = str(connection.getresponse().getheader("set-cookie"))
        assert address.startswith("https://") and "Secure" in cookie and "HttpOnly" in cookie
        connection.close()
    finally:
        process.terminate()
        process.wait(20)


def test_another_name_for_this_machine_is_refused(page: Page) -> None:
    """As a page elsewhere would have it, whose name leads here (DNS rebinding)."""
    page.enter()
    for host in (
        "evil.example",
        f"evil.example:{page.port}",
        "127.0.0.1",
        f"127.0.0.1:{page.port + 1}",
        f"[::1]:{page.port}",
        "",
    ):
        assert page.ask("/api/runs", Host=host)[0] == 403, host
        assert page.ask("/?token=the-token", Host=host)[0] == 403, host


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_nothing_but_reading_is_answered(page: Page, method: str) -> None:
    page.enter()
    for path in ("/", "/api/runs", "/api/stream"):
        assert page.ask(path, method=method)[0] == 405


def test_no_answer_may_be_kept_or_shown_elsewhere(page: Page) -> None:
    page.enter()
    for path in ("/", "/api/runs", "/nothing", "/?token=x"):
        headers = page.ask(path)[2]
        assert headers["referrer-policy"] == "no-referrer" and headers["cache-control"] == "no-store"
        policy = headers["content-security-policy"]
        assert "frame-ancestors 'none'" in policy and "base-uri 'none'" in policy and "unsafe" not in policy
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert not {"server", "access-control-allow-origin"} & set(headers)


def test_looking_changes_nothing_below_the_named_directory(page: Page, tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs" / "one")
    (run / "run.json").write_text(json.dumps({"config": "c.py", "flags": {}}))
    (run / "job.log").write_text("a line\n")
    before = tree(tmp_path / "runs")
    page.enter()
    name = page.get("/api/runs")["runs"][0]["id"]
    for path in ("", "/series?name=cost", "/log/job"):
        page.get(f"/api/runs/{name}{path}")
    page.get(f"/api/compare?id={name}&id={name}")
    assert tree(tmp_path / "runs") == before


@pytest.mark.parametrize("name", ["run.json", "job.json", "price.json", "events.jsonl", "metrics.jsonl", "job.log"])
def test_no_file_that_is_a_link_to_elsewhere_is_read(page: Page, tmp_path: Path, name: str) -> None:
    secret = {"event": "failed", "message": "HIDDEN", "config_text": "HIDDEN", "text": "HIDDEN", "dollars_per_hour": 1}
    (tmp_path / "secret").write_text(json.dumps(secret | {"flags": {"x": "HIDDEN"}, "round": 77}) + "\n")
    run = make_run(tmp_path / "runs" / "one")
    (run / name).unlink(missing_ok=True)
    (run / name).symlink_to(tmp_path / "secret")
    page.enter()
    found = page.get("/api/runs")["runs"][0]
    status, log, _ = page.ask(f"/api/runs/{found['id']}/log/job")
    text = json.dumps([found, page.get(f"/api/runs/{found['id']}"), status, log])
    assert "HIDDEN" not in text and '"round": 77' not in text


def test_checkpoints_and_snapshots_elsewhere_are_not_told(page: Page, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "round-0000000005-0000").mkdir(parents=True)
    (outside / "round-0000000005-0000" / "manifest.json").write_text('{"pieces": [{"bytes": 5}]}')
    (outside / "pass-00000").mkdir()
    (outside / "pass-00000" / "done").write_text("")
    first, second = make_run(tmp_path / "runs" / "first"), make_run(tmp_path / "runs" / "second")
    (first / "checkpoints").symlink_to(outside)
    (first / "pass-00000").symlink_to(outside / "pass-00000")
    (second / "checkpoints").mkdir()
    (second / "checkpoints" / "round-0000000005-0000").symlink_to(outside / "round-0000000005-0000")
    page.enter()
    for run in page.get("/api/runs")["runs"]:
        detail = page.get(f"/api/runs/{run['id']}")
        assert detail["checkpoints"] == [] and detail["snapshots"] == []


def test_a_log_line_and_a_table_name_are_text(page: Page, tmp_path: Path) -> None:
    markup = "<img src=x onerror=alert(1)>"
    outline = {"title": markup, "flows": False, "notes": [], "held": [], "variables": []}
    outline["parts"] = [
        {"name": markup, "kind": "</text><script>x</script>", "size": "", "inputs": [], "parameters": []}
    ]
    run = make_run(tmp_path / "runs" / "one")
    (run / "job.log").write_text(f"{markup}\n")
    (run / "run.json").write_text(json.dumps({"outline": outline}))
    page.enter()
    name = page.get("/api/runs")["runs"][0]["id"]
    status, body, headers = page.ask(f"/api/runs/{name}/log/job")
    assert (
        status == 200
        and headers["content-type"] == "application/json"
        and json.loads(body)["lines"][0]["text"] == markup
    )
    drawing = page.get(f"/api/runs/{name}")["drawing"]
    assert "<img" not in drawing and "<script" not in drawing and "&lt;img" in drawing


@pytest.mark.parametrize(
    "text",
    [
        "password=HIDE1234",
        'db_password: "HIDE1234 and more"',
        "{'api_key': 'HIDE1234'}",
        "--wandb-api-key=HIDE1234",
        "AWS_SECRET_ACCESS_KEY=HIDE1234",
        "auth_token = 'HIDE1234'",
        "https://example.org/?token=HIDE1234&x=1",
        "postgres://me:HIDE1234@host/db",
        "Authorization: Bearer HIDE1234HIDE1234",
        "AKIAHIDE1234HIDE1234",
        "hf_HIDE1234HIDE1234HIDE",
        "eyJHIDE1234HIDE.HIDE1234HIDE.HIDE1234HIDE",
        "-----BEGIN RSA PRIVATE KEY-----\nHIDE1234\n-----END RSA PRIVATE KEY-----",
    ],
)
def test_what_looks_like_a_secret_is_hidden(text: str) -> None:
    assert "HIDE" not in masked(text) and "•••" in masked(text)


@pytest.mark.parametrize(
    "text",
    ["num_tokens = 512", "tokenizer = 'bpe'", "token_dim: 16", "keys = [1, 2]", "https://example.org/a:b", "lr=0.1"],
)
def test_what_models_are_made_of_is_not(text: str) -> None:
    assert masked(text) == text


@pytest.mark.parametrize(
    "part",
    [
        "a",
        "a.",
        "password",
        "password-",
        "token ",
        "eyJ-",
        "a://",
        "a:b@",
        "-----BEGIN ",
        "bearer ",
        "sk-",
        "'password':\"",
        "=",
    ],
)
def test_no_line_takes_long_to_look_for_secrets_in(part: str) -> None:
    """Of processor time, for 256 kB; where the time grew with the square of the length, it would take hours."""
    before = time.process_time()
    masked(part * (262_144 // len(part)))
    assert time.process_time() - before < 10
