"""The page over HTTP: the answers of web/src/api.ts, server-sent events, and the built page. Reads only."""

from __future__ import annotations

import asyncio
import difflib
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from umiak import __version__, system
from umiak.page import built, logfile
from umiak.page.answers import Axis, Comparison, Runs, Series
from umiak.page.gate import Gate
from umiak.page.index import Index
from umiak.page.rundirectory import RunDirectory

STATIC = Path(__file__).parent / "static"
FILES = {"index.html": "text/html", "page.js": "text/javascript", "page.css": "text/css", "LICENSES.txt": "text/plain"}
POLL_SECONDS = 0.5
REST = 4
LONGEST_PAUSE = 2.0
PATIENCE = 1.0
"""For so long a list waits to be whole."""
WIDEST = 10_000
CURVES = 200


class Answers:
    def __init__(self, index: Index, static: Path) -> None:
        self.index, self.static, self._looked, self._pause = index, static, 0.0, 0.0
        self._task: asyncio.Future[None] | None = None

    def routes(self) -> list[Route]:
        return [
            Route("/", self.file),
            Route("/api/runs", self.runs),
            Route("/api/runs/{id}", self.detail),
            Route("/api/runs/{id}/series", self.series),
            Route("/api/runs/{id}/log/{name}", self.log),
            Route("/api/compare", self.compare),
            Route("/api/stream", self.stream),
            Route("/{name}", self.file),
        ]

    async def file(self, request: Request) -> Response:
        name = request.path_params.get("name", "index.html")
        if name not in built.FILES or not (self.static / name).is_file():
            raise HTTPException(404)
        return FileResponse(self.static / name, media_type=built.FILES[name])

    def look(self) -> None:
        """Read what is new, unless somebody has just done so."""
        now = time.monotonic()
        if now - self._looked > max(POLL_SECONDS / 2, self._pause):
            self.index.refresh()
            self._looked = time.monotonic()
            self._pause = min(REST * (self._looked - now), LONGEST_PAUSE)

    async def _look(self) -> None:
        """The same, but what takes long continues while an answer says how far it is."""
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(run_in_threadpool(self.look))
        await asyncio.wait({self._task}, timeout=PATIENCE)

    async def runs(self, request: Request) -> Response:
        await self._look()
        index = self.index
        answer: Runs = {
            "runs": list(dict(index.runs).values()),
            "roots": index.titles,
            "indexing": index.indexing,
            "problems": index.problems,
            "version": __version__,
        }
        return _json(answer)

    def _run(self, name: str) -> RunDirectory:
        found = self.index.find(name)
        if found is None or not (found.path.is_dir() or self.index.expected_id):
            raise HTTPException(404, "this run is not there any more")
        return found

    async def _found(self, name: str) -> RunDirectory:
        if self.index.find(name) is None:
            await self._look()
        return self._run(name)

    async def detail(self, request: Request) -> Response:
        run = await self._found(request.path_params["id"])

        def work() -> Any:
            with self.index.lock:
                run.refresh(self.index.patience)
                return run.detail(system.locked_files())

        return _json(await run_in_threadpool(work))

    async def series(self, request: Request) -> Response:
        run = await self._found(request.path_params["id"])
        return _json(await run_in_threadpool(lambda: self._parts(run, request, None)))

    def _parts(self, run: RunDirectory, request: Request, after: float | None) -> list[Series]:
        query = request.query_params
        axis = query.get("axis", "round")
        if axis not in ("round", "time", "pass"):
            raise HTTPException(400, "axis is round, time or pass")
        low, high = _float(query.get("from")), _float(query.get("to"))
        width = min(WIDEST, int(_float(query.get("width")) or 800))
        with self.index.lock:
            run.refresh(self.index.patience)
            curves = run.curves
            names = query.getlist("name")[:CURVES]
            found = [
                curves.part(name, cast(Axis, axis), low if after is None else after, high, width) for name in names
            ]
        return [each for each in found if each is not None]

    async def log(self, request: Request) -> Response:
        run = await self._found(request.path_params["id"])
        known = run.logs().get(request.path_params["name"])
        if known is None:
            raise HTTPException(404, "there is no such log")
        query = request.query_params
        start, before, level = _int(query.get("from")), _int(query.get("before")), query.get("level", "")
        question = logfile.Question(
            start,
            before,
            _float(query.get("time")),
            query.get("search", "")[:200],
            level if level in logfile.LEVELS else "",
        )

        def work() -> Any:
            return logfile.lines(known[1], self.index.roots, question)

        try:
            return _json(await run_in_threadpool(work))
        except OSError:
            raise HTTPException(404, "this log cannot be read") from None

    async def compare(self, request: Request) -> Response:
        runs = [await self._found(name) for name in request.query_params.getlist("id")[:20]]
        configs = [run.config() for run in runs]
        names = sorted({name for config in configs for name in config["flags"]})
        texts = [config["text"] for config in configs]
        both = [(text or "").splitlines(keepends=True) for text in texts[:2]]
        values = {name: [config["flags"].get(name) for config in configs] for name in names}
        answer: Comparison = {
            "runs": [{"id": run.id, "name": run.name} for run in runs],
            "flags": [{"name": name, "values": each, "differs": len(set(each)) > 1} for name, each in values.items()],
            "config": {
                "values": texts,
                "difference": "".join(difflib.unified_diff(both[0], both[1])) if len(both) == 2 else "",
            },
        }
        return _json(answer)

    async def stream(self, request: Request) -> Response:
        return StreamingResponse(self._updates(request), media_type="text/event-stream")

    async def _updates(self, request: Request) -> AsyncIterator[str]:
        """Files are looked at only while somebody is connected."""
        yield _event("hello", {})
        sent = dict(self.index.runs)
        shown: dict[str, float] = {}
        last = ""
        while not await request.is_disconnected():
            await self._look()
            runs = dict(self.index.runs)
            if changed := [run for each, run in runs.items() if sent.get(each) != run]:
                yield _event("runs", changed)
            if gone := [each for each in sent if each not in runs]:
                yield _event("gone", gone)
            sent = runs
            run = self.index.find(request.query_params.get("id", ""))
            if run is not None:
                update, last = await run_in_threadpool(self._update, run, request, shown, last)
                if update:
                    yield update
            yield _event("beat", {})
            await asyncio.sleep(max(POLL_SECONDS, self._pause))

    def _update(self, run: RunDirectory, request: Request, shown: dict[str, float], last: str) -> tuple[str, str]:
        """What is new of the run that is shown; empty if nothing is. `shown` is the last point that was sent of each curve."""
        with self.index.lock:
            run.refresh(self.index.patience)
            detail = run.detail(system.locked_files())
        known = json.dumps({**detail, "atRisk": None})
        if known == last:
            return "", last
        series = []
        for each in self._parts(run, request, min(shown.values(), default=None)):
            begun = shown.get(each["name"])
            keep = [i for i, x in enumerate(each["x"]) if begun is None or x > begun]
            series.append({**each, "x": [each["x"][i] for i in keep], "y": [each["y"][i] for i in keep]})
            if each["to"] is not None:
                shown[each["name"]] = each["to"]
        return _event("run", {"detail": detail, "series": series}), known


def _json(value: Any) -> Response:
    return Response(json.dumps(value, separators=(",", ":")), media_type="application/json")


def _event(kind: str, value: Any) -> str:
    return f"event: {kind}\ndata: {json.dumps(value, separators=(',', ':'))}\n\n"


def _float(text: str | None) -> float | None:
    try:
        value = float(text) if text else None
    except ValueError:
        raise HTTPException(400, "from, to, before, time and width are numbers") from None
    return value if value is not None and abs(value) < 1e18 else None


def _int(text: str | None) -> int | None:
    value = _float(text)
    return None if value is None else int(value)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return PlainTextResponse(error.detail, error.status_code)


def application(index: Index, static: Path, hosts: list[str], scheme: str, port: int, token: str) -> Gate:
    app = Starlette(routes=Answers(index, static).routes(), exception_handlers={HTTPException: _refused})
    return Gate(app, hosts, scheme, port, token)


def serve(app: Gate, tls: tuple[Path, Path] | None = None) -> uvicorn.Server:
    """A server that is ready to `run` with the sockets it listens on."""
    certificate, key = tls or (None, None)
    config = uvicorn.Config(
        app, log_level="error", access_log=False, server_header=False, lifespan="off", ws="none",
        timeout_graceful_shutdown=1, ssl_certfile=certificate, ssl_keyfile=key,
    )  # fmt: skip
    return uvicorn.Server(config)
