"""The failure that ended a run: its cause, what to do about it, and the last lines of the process that failed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from umiak.contract import reasons
from umiak.page.answers import Failure
from umiak.page.values import number, seconds

LAST_LINES = 12
_AGAIN = "the same command with --resume continues from the last checkpoint"
_ADVICE = {
    2: f"correct this; then {_AGAIN}",
    75: f"once the cause is gone, {_AGAIN}",
    1: f"the whole log says more (see Logs); {_AGAIN}",
}
_MORE_MEMORY = f"use more workers, so that each holds less of the model, or a machine with more memory; {_AGAIN}"
_LOGS = {"trainer": "{}-train", "server": "{}-server", "supervisor": "{}-worker", "worker": "{}-worker"}


def of_event(event: Mapping[str, Any], in_pods: bool = False) -> Failure:
    """Of a `failed` event, as a run on this machine writes it; or a job `in_pods`, with the advice of `umiak job status`."""
    worker, code = event.get("worker"), event.get("code")
    advise = reasons.pod_advice if in_pods else advice
    known = isinstance(worker, int) and not isinstance(worker, bool) and worker >= 0
    return {
        "worker": worker if known else None,
        "role": str(event.get("role") or "job"),
        "cause": str(event.get("cause") or event.get("message") or "it gave no cause"),
        "advice": advise(str(event.get("reason") or ""), code if isinstance(code, int) else None) or None,
        "time": number(seconds(event.get("time"))),
        "log": "\n".join(str(event.get("log") or "").strip().splitlines()[-LAST_LINES:]),
    }


def advice(reason: str, code: int | None) -> str:
    """For a run on this machine; empty where there is none."""
    if reason == reasons.OUT_OF_MEMORY:
        return _MORE_MEMORY
    # Below zero: the number of the signal that killed it.
    return "" if code is None else _ADVICE.get(code, _ADVICE[1] if code < 0 else "")


def log_of(failure: Failure) -> str:
    """The name of the log that says most about it."""
    pattern = _LOGS.get(failure["role"])
    return pattern.format(failure["worker"]) if pattern and failure["worker"] is not None else "job"
