"""The page's server over real sockets: what it answers, and whom it refuses. The page itself is a stand-in of one line."""

from __future__ import annotations

import http.client
import json
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from umiak.errors import InputError
from umiak.page import server
from umiak.page.index import Index
from umiak.page.serving import listen

ROOT = Path(__file__).parents[1]


def lines(*values: object) -> str:
    return "".join(json.dumps(value) + "\n" for value in values)


def rounds(count: int, start: int = 0) -> str:
    return lines(
        *(
            {"event": "round", "pass": 0, "batch": i, "round": i, "cost": 1 / (i + 1), "samples_per_s": 10.0}
            for i in range(start, count)
        )
    )


PASS = {
    "event": "pass",
    "pass": 0,
    "round": 9,
    "samples": 100,
    "train": {"cost": 0.5},
    "test": {"cost": 0.4, "rmse": 0.9},
}


def make_run(path: Path, text: str = "") -> Path:
    path.mkdir(parents=True)
    (path / "metrics.jsonl").write_text(text or rounds(10) + lines(PASS))
    return path


class Page:
    """A server, and a browser that may have come in."""

    def __init__(self, root: Path, static: Path) -> None:
        self.index = Index([root])
        self.listener = listen("127.0.0.1", 0)
        self.port = self.listener.getsockname()[1]
        self.host = f"127.0.0.1:{self.port}"
        self.app = server.application(self.index, static, [self.host], "http", self.port, "the-token")
        self.server = server.serve(self.app)
        self.thread = threading.Thread(target=lambda: self.server.run(sockets=[self.listener]))
        self.thread.start()
        self.cookie = ""

    def ask(self, path: str, method: str = "GET", **headers: str) -> tuple[int, str, dict[str, str]]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        given = {"Cookie": self.cookie} | {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, headers=given)
        answer = connection.getresponse()
        body = answer.read().decode()
        connection.close()
        return answer.status, body, {name.lower(): value for name, value in answer.getheaders()}

    def enter(self) -> None:
        status, _, headers = self.ask("/?token=the-token")
        assert status == 303 and headers["location"] == "/"
        self.cookie = headers["set-cookie"].split(";")[0]

    def get(self, path: str) -> Any:
        while True:
            status, body, _ = self.ask(path)
            assert status == 200, body
            answer = json.loads(body)
            if path != "/api/runs" or answer["indexing"] is None:
                return answer

    def end(self) -> None:
        self.server.should_exit = True
        self.thread.join(20)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "runs"
    path.mkdir()
    return path


@pytest.fixture
def page(root: Path, tmp_path: Path) -> Iterator[Page]:
    static = tmp_path / "static"
    static.mkdir()
    (static / "index.html").write_text("<!doctype html>")
    made = Page(root, static)
    yield made
    made.end()


def test_the_token_is_exchanged_once_for_a_cookie_that_no_script_reads(page: Page) -> None:
    assert page.ask("/?token=wrong")[0] == 401
    status, _, headers = page.ask("/?token=the-token")
    assert status == 303 and headers["location"] == "/"
    assert "HttpOnly" in headers["set-cookie"] and "samesite=strict" in headers["set-cookie"].lower()
    assert page.ask("/?token=the-token")[0] == 401


@pytest.mark.parametrize("path", ["/", "/api/runs", "/api/runs/x", "/api/stream", "/api/compare?id=x", "/page.js"])
def test_nothing_is_answered_without_the_cookie(page: Page, path: str) -> None:
    assert page.ask(path)[0] == 401
    assert page.ask(path, Cookie=f"umiak-{page.port}=guess")[0] == 401


def test_another_host_or_origin_and_every_change_are_refused(page: Page) -> None:
    page.enter()
    assert page.ask("/api/runs")[0] == 200
    assert page.ask("/api/runs", Host=f"evil.example:{page.port}")[0] == 403
    assert page.ask("/api/runs", Origin="http://evil.example")[0] == 403
    assert page.ask("/api/runs", Origin="null")[0] == 403
    assert page.ask("/api/runs", Origin=f"http://{page.host}")[0] == 200
    assert page.ask("/api/runs", Sec_Fetch_Site="cross-site")[0] == 403
    assert page.ask("/api/runs", method="POST")[0] == 405


@pytest.mark.parametrize("path", ["/", "/api/runs", "/nothing"])
def test_every_answer_allows_scripts_from_itself_only(page: Page, path: str) -> None:
    page.enter()
    headers = page.ask(path)[2]
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self';") and "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff" and headers["referrer-policy"] == "no-referrer"


def test_names_are_data_and_commands_are_quoted(page: Page, root: Path) -> None:
    made = make_run(root / "<script>alert(1)<" / "$(touch x)")
    (made / "pass-00000").mkdir()
    (made / "pass-00000" / "done").write_text("")
    page.enter()
    (run,) = page.get("/api/runs")["runs"]
    assert run["name"] == "<script>alert(1)</$(touch x)"
    commands = page.get(f"/api/runs/{run['id']}")["commands"]
    assert commands and all(f"'{made}" in each["command"] for each in commands)


def test_no_path_and_no_link_leads_out_of_the_named_directory(page: Page, root: Path, tmp_path: Path) -> None:
    secret = make_run(tmp_path / "secret") / "metrics.jsonl"
    run = make_run(root / "run")
    (run / "job.log").symlink_to(secret)
    (run / "node_0").symlink_to(tmp_path / "secret")
    (tmp_path / "secret" / "train.log").write_text("hidden\n")
    (root / "linked").symlink_to(tmp_path / "secret")
    made = root / "half"
    made.mkdir()
    (made / "metrics.jsonl").symlink_to(secret)
    page.enter()
    runs = {each["name"]: each for each in page.get("/api/runs")["runs"]}
    assert set(runs) == {"run", "half"} and runs["half"]["round"] is None
    name = runs["run"]["id"]
    for log in ("job", "0-train", "..%2f..%2fsecret%2ftrain.log", "%2e%2e"):
        status, body, _ = page.ask(f"/api/runs/{name}/log/{log}")
        assert status == 404 and "hidden" not in body
    for path in ("/..%2fserver.py", "/%2e%2e/server.py", "/server.py", "/api/runs/..%2f.."):
        assert page.ask(path)[0] == 404


def test_a_run_is_listed_and_told(page: Page, root: Path) -> None:
    make_run(root / "one")
    page.enter()
    (run,) = page.get("/api/runs")["runs"]
    assert (run["name"], run["round"], run["passes"]) == ("one", 9, 1)
    assert run["metric"] == {"name": "rmse", "higherIsBetter": False, "value": 0.9, "best": 0.9, "bestPass": 0}
    detail = page.get(f"/api/runs/{run['id']}")
    assert {each["name"] for each in detail["series"]} == {
        "cost",
        "samplesPerSecond",
        "train/cost",
        "test/cost",
        "test/rmse",
    }
    (cost,) = page.get(f"/api/runs/{run['id']}/series?name=cost&axis=round&from=2&to=4&width=100")
    assert cost["x"] == [2, 3, 4] and cost["points"] == 3 and (cost["from"], cost["to"]) == (0, 9)
    assert set(detail) == keys("Detail") and set(run) == keys("Run") and set(cost) == keys("Series")


def keys(name: str) -> set[str]:
    """Of an interface in web/src/api.ts."""
    text = (ROOT / "web" / "src" / "api.ts").read_text()
    found = re.search(rf"export interface {name} {{\n(.*?)\n}}", text, re.S)
    assert found
    return set(re.findall(r"^  (\w+)\??:", found[1], re.M))


def test_damaged_lines_are_passed_over_and_told(page: Page, root: Path) -> None:
    make_run(root / "one", rounds(5) + '{"event": "round", "rou\nnull\n\x00\x01\n' + rounds(8, 5) + '{"half')
    page.enter()
    (run,) = page.get("/api/runs")["runs"]
    assert run["round"] == 7 and run["problem"] == "3 damaged lines were passed over"


def test_a_run_that_is_deleted_while_shown_is_gone_and_the_rest_stays(page: Page, root: Path) -> None:
    kept, gone = make_run(root / "kept"), make_run(root / "gone")
    page.enter()
    runs = {each["name"]: each["id"] for each in page.get("/api/runs")["runs"]}
    (gone / "metrics.jsonl").unlink()
    gone.rmdir()
    assert page.ask(f"/api/runs/{runs['gone']}")[0] == 404
    assert page.get(f"/api/runs/{runs['kept']}")["run"]["place"] == str(kept)


def test_what_a_run_writes_arrives_by_itself_within_a_second_or_two(page: Page, root: Path) -> None:
    run = make_run(root / "one", rounds(5))
    page.enter()
    name = page.get("/api/runs")["runs"][0]["id"]
    connection = http.client.HTTPConnection("127.0.0.1", page.port, timeout=20)
    connection.request("GET", f"/api/stream?id={name}&axis=round&name=cost", headers={"Cookie": page.cookie})
    answer = connection.getresponse()
    written, found = 0.0, []
    while not found or found[-1]["series"][0]["x"] != [5, 6]:
        line = answer.readline().decode()
        if line.startswith("event: run\n"):
            found.append(json.loads(answer.readline().decode().removeprefix("data: ")))
            if len(found) == 1:
                with (run / "metrics.jsonl").open("a") as file:
                    file.write(rounds(7, 5))
                written = time.monotonic()
    assert time.monotonic() - written < 5
    connection.close()


def test_secrets_in_flags_and_logs_are_masked(page: Page, root: Path) -> None:
    run = make_run(root / "one")
    (run / "run.json").write_text(json.dumps({"flags": {"token": "abc", "data": "s3://me:pw12@host/x", "seed": "1"}}))
    (run / "job.log").write_text("I1116 09:10:17.123121    50 a.py:1] password=hunter2 ok\n")
    page.enter()
    name = page.get("/api/runs")["runs"][0]["id"]
    flags = page.get(f"/api/runs/{name}")["config"]["flags"]
    assert flags == {"token": "•••", "data": "s3://me:•••@host/x", "seed": "1"}
    (line,) = page.get(f"/api/runs/{name}/log/job")["lines"]
    assert line["level"] == "I" and line["text"].endswith("password=••• ok")


def test_a_directory_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a directory: name one that holds runs"):
        Index([tmp_path / "nothing"])


def test_a_port_in_use_is_one_line_and_without_one_two_pages_run() -> None:
    with listen("127.0.0.1", None), listen("127.0.0.1", None) as second:
        port = second.getsockname()[1]
        with pytest.raises(InputError, match=f"cannot listen on 127.0.0.1:{port}: Address already in use"):
            listen("127.0.0.1", port)
