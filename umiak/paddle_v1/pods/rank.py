"""Which of a Job's pods this one is, for pods that were not started as an Indexed Job: the order of their IP addresses.

Deciding is a pure function of the API server's answer; asking again until it is complete is `discover`'s work.
"""

from __future__ import annotations

import ipaddress
import json
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from umiak.errors import InputError, RetryError, UmiakError

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
UID_LABELS = ("batch.kubernetes.io/controller-uid", "controller-uid")
POLL_SECONDS = 2.0
ANSWER_SECONDS = 10.0
ENDED = ("Succeeded", "Failed")

Ask = Callable[[], Mapping[str, Any]]
"""Gives the list of pods that carry the job's name, as the API server answers it."""


@dataclass(frozen=True)
class Place:
    """A pod's place among its peers. `run` is the same for all pods of one Job object, and for no others."""

    rank: int
    hosts: tuple[str, ...]
    run: str


@dataclass(frozen=True)
class Waiting:
    """Why the place is not known yet, in words."""

    reason: str


def place(answer: Mapping[str, Any], pod: str, expected: int) -> Place | Waiting:
    """Where `pod` stands once `expected` pods of its own Job object run. Pods of earlier runs, and ended ones, do not count."""
    pods = answer.get("items") or []
    mine = _named(answer, pod)
    if mine is None:
        return Waiting(f"the API server does not list this pod, {pod}, among those of its job")
    run = _run_of(mine)
    peers = [item for item in pods if _run_of(item) == run and not _gone(item)]
    running = [item for item in peers if item["status"].get("phase") == "Running" and item["status"].get("podIP")]
    if len(running) < expected:
        others = [f"{item['metadata']['name']} {_state(item)}" for item in peers if item not in running]
        ended = [f"{item['metadata']['name']} {_state(item)}" for item in pods if _run_of(item) == run and _gone(item)]
        told = "; ".join(filter(None, [", ".join(others), ", ".join(ended)])) or "no other pod exists"
        return Waiting(f"{len(running)} of {expected} pods are running ({told})")
    if len(running) > expected:
        names = ", ".join(sorted(item["metadata"]["name"] for item in running))
        raise InputError(
            f"{len(running)} pods of this job are running ({names}), but CONF_PADDLE_GRADIENT_NUM={expected}: "
            "make it the same as the Job's parallelism"
        )
    by_address = sorted(running, key=lambda item: ipaddress.ip_address(item["status"]["podIP"]))
    rank = next(number for number, item in enumerate(by_address) if item["metadata"]["name"] == pod)
    return Place(rank, tuple(item["status"]["podIP"] for item in by_address), run)


def discover(
    ask: Ask,
    pod: str,
    expected: int,
    seconds: float,
    say: Callable[[str], None],
    on_run: Callable[[str], None] = lambda run: None,
) -> Place:
    """Ask until the place is known, `seconds` at most. Says what it waits for whenever that changes.

    `on_run` is called with what this run is called, before anybody is waited for.
    """
    deadline = time.monotonic() + seconds
    told = ""
    while True:
        try:
            answer = ask()
            mine = _named(answer, pod)
            if mine is not None:
                on_run(_run_of(mine))
            found = place(answer, pod, expected)
        except RetryError as error:
            found = Waiting(str(error))
        if isinstance(found, Place):
            return found
        if found.reason != told:
            told = found.reason
            say(f"waiting: {told}")
        if time.monotonic() > deadline:
            raise RetryError(f"gave up after {seconds:.0f} s: {told}; see kubectl describe for the missing pods")
        time.sleep(POLL_SECONDS)


def in_cluster(host: str, port: str, namespace: str, job: str, account: Path = ACCOUNT) -> Ask:
    """Ask the API server of the cluster this pod runs in, with the pod's own token; its certificate is verified."""
    own = account / "namespace"
    if own.exists() and (here := own.read_text().strip()) != namespace:
        raise InputError(
            f"JOB_NAMESPACE is {namespace!r}, but this pod and its peers are in namespace {here!r}: make it the same"
        )
    selector = urllib.parse.quote(f"job-name={job}", safe="")
    name = f"[{host}]" if ":" in host else host
    url = f"https://{name}:{port}/api/v1/namespaces/{urllib.parse.quote(namespace)}/pods?labelSelector={selector}"
    try:
        context = ssl.create_default_context(cafile=account / "ca.crt")
    except OSError:
        raise InputError(
            f"this pod has no service account token in {account}: remove automountServiceAccountToken: false from it"
        ) from None

    def ask() -> Mapping[str, Any]:
        # Read every time: Kubernetes replaces a token before it expires.
        token = (account / "token").read_text().strip()
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
        try:
            with urllib.request.urlopen(request, timeout=ANSWER_SECONDS, context=context) as answer:
                return dict(json.load(answer))
        except urllib.error.HTTPError as error:
            raise _refused(error.code, namespace) from None
        except (OSError, ValueError) as error:
            raise RetryError(f"the API server at {host}:{port} does not answer: {error}") from None

    return ask


def _refused(code: int, namespace: str) -> UmiakError:
    if code == 403:
        return InputError(
            f"the service account may not list pods in namespace {namespace!r}: a Role and a RoleBinding are missing; "
            f"umiak job legacy -n {namespace} | kubectl apply -f - adds them"
        )
    if code == 401:
        return InputError("the API server does not accept this pod's token; delete the Job and create it again")
    return RetryError(f"the API server answered with status {code}")


def _named(answer: Mapping[str, Any], pod: str) -> Mapping[str, Any] | None:
    return next((item for item in answer.get("items") or [] if item["metadata"]["name"] == pod), None)


def _run_of(pod: Mapping[str, Any]) -> str:
    labels = pod["metadata"].get("labels") or {}
    return next((labels[name] for name in UID_LABELS if name in labels), "")


def _gone(pod: Mapping[str, Any]) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp")) or pod["status"].get("phase") in ENDED


def _state(pod: Mapping[str, Any]) -> str:
    status = pod["status"]
    if pod["metadata"].get("deletionTimestamp"):
        return "is being deleted"
    if status.get("phase") == "Running":
        return "runs but has no address yet"
    waiting = [_waits(state) for state in status.get("containerStatuses") or []]
    unscheduled = [
        condition.get("message", "")
        for condition in status.get("conditions") or []
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False"
    ]
    why = next((text for text in (*unscheduled, *waiting) if text), "")
    return f"is {status.get('phase', 'unknown')}" + (f": {why}" if why else "")


def _waits(state: Mapping[str, Any]) -> str:
    return str(((state.get("state") or {}).get("waiting") or {}).get("reason", ""))
