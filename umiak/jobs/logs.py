"""The log of one worker, line by line; followed through lost connections and from a pod to its replacement."""

from __future__ import annotations

import time
from collections.abc import Iterator

from umiak.contract.lines import EVENT_MARK, SERVER_MARK
from umiak.errors import InputError, RetryError
from umiak.jobs import status
from umiak.jobs.manifests import CONTAINER, LABEL
from umiak.jobs.pods import Pod, pod
from umiak.jobs.status import FINAL, Status
from umiak.kube.api import Api
from umiak.kube.objects import path
from umiak.kube.refusals import ApiError

POLL_SECONDS = 1.0
AWAY_SECONDS = 600


def chosen(seen: Status, worker: int | None) -> int:
    """Whose log to show: the wanted worker's, else that of the first failure, else of worker 0, who speaks for all."""
    if worker is not None:
        if not 0 <= worker < len(seen.workers):
            raise InputError(f"the job {seen.name!r} has workers 0 to {len(seen.workers) - 1}, and no worker {worker}")
        return worker
    return seen.first.worker if seen.first else 0


def lines(
    api: Api, namespace: str, name: str, worker: int, *, server: bool, since: int | None, follow: bool
) -> Iterator[str]:
    """The trainer's lines, or with `server` those of the parameter server beside it."""
    reader = _Reader(api, namespace, name, worker, since)
    source = reader.followed() if follow else reader.now()
    for line in source:
        if line.startswith(SERVER_MARK):
            if server:
                yield line[len(SERVER_MARK) :]
        elif not server and not line.startswith(EVENT_MARK):
            yield line


class _Reader:
    def __init__(self, api: Api, namespace: str, name: str, worker: int, since: int | None) -> None:
        self.api, self.namespace, self.name, self.worker, self.since = api, namespace, name, worker, since

    def pods(self) -> list[Pod]:
        """This worker's, those that ran, oldest first."""
        items = self.api.items(path("Pod", self.namespace), labelSelector=f"{LABEL}={self.name}")
        mine = [each for item in items if (each := pod(item)).worker == self.worker and each.started]
        return sorted(mine, key=lambda each: str(each.started))

    def now(self) -> Iterator[str]:
        """Of the newest pod that has something to say; of a failed one if its replacement is still silent."""
        for each in reversed(self.pods()):
            text = self._text(each)
            if text:
                yield from text.splitlines()
                return

    def _text(self, each: Pod) -> str:
        try:
            return self.api.text(self._log(each), container=CONTAINER, sinceSeconds=self.since)
        except ApiError as error:
            raise _unreadable(error, each) from error

    def followed(self) -> Iterator[str]:
        """Until the job ends. A stamp on every line tells what was seen before a connection was lost."""
        seen: dict[str, str] = {}
        ended: set[str] = set()
        away: float | None = None
        while True:
            try:
                job_over = status.gather(self.api, self.namespace, self.name).state in FINAL
                for each in self.pods():
                    if each.uid not in ended:
                        yield from self._follow(each, seen)
                        if each.end:
                            ended.add(each.uid)
                away = None
                if job_over:
                    return
            except (RetryError, ApiError) as error:
                if error.exit_code != RetryError.exit_code:
                    raise
                away = away or time.monotonic()
                if time.monotonic() - away > AWAY_SECONDS:
                    raise
            time.sleep(POLL_SECONDS)

    def _follow(self, each: Pod, seen: dict[str, str]) -> Iterator[str]:
        last = seen.get(each.uid, "")
        query = {"sinceTime": _second(last)} if last else {"sinceSeconds": self.since}
        try:
            for line in self.api.lines(self._log(each), container=CONTAINER, follow="true", timestamps="true", **query):
                stamp, _, text = line.partition(" ")
                if stamp > last:
                    seen[each.uid] = last = stamp
                    yield text
        except ApiError as error:
            raise _unreadable(error, each) from error

    def _log(self, each: Pod) -> str:
        return path("Pod", self.namespace, each.name, "log")


def _second(stamp: str) -> str:
    """The API takes whole seconds; what comes twice by that is left out by its stamp."""
    return stamp.partition(".")[0].rstrip("Z") + "Z"


def _unreadable(error: ApiError, each: Pod) -> Exception:
    """A kubelet out of reach answers through the API server, as an error of the latter."""
    if error.code in (500, 502, 503, 504):
        return RetryError(f"node {each.node} does not give out the log of {each.name}: it may be lost; try again")
    return error
