"""What takes long or may hang: torch, a cluster, AWS. Each is a process of its own, and all of them run at the same time.

Run as a program, this file is that process: it prints one check as JSON.
"""

from __future__ import annotations

import dataclasses
import email.utils
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

from umiak import extras
from umiak.doctor.report import Check
from umiak.errors import UmiakError

NETWORK_SECONDS = 5.0
SECONDS = {"torch": 60.0, "kubeconfig": NETWORK_SECONDS, "aws": NETWORK_SECONDS}
LOWEST_TORCH, NEWEST_TORCH = (2, 4), (2, 15)
"""The versions that were run; docs/install.md."""
SLOW_IMPORT_SECONDS = 20.0
CLOCK_SECONDS = 30.0
LATE = {
    "torch": "its import did not end: look at the disk it is on, and at `python -X importtime -c 'import torch'`",
    "kubeconfig": "no answer: check the network and the cluster's address, or wait until it is up",
    "aws": "no answer: check the network and the proxy",
}


def checks() -> Iterator[Check]:
    """The checks of all probes. None takes longer than its time."""
    began = time.monotonic()
    running = {name: _start(name) for name in SECONDS}
    try:
        for name, process in running.items():
            yield _result(name, process, SECONDS[name] - (time.monotonic() - began))
    finally:
        for process in running.values():
            _end(process)


def _start(name: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "umiak.doctor.probes", name],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def _result(name: str, process: subprocess.Popen[str], seconds: float) -> Check:
    try:
        out, errors = process.communicate(timeout=max(0.1, seconds))
    except subprocess.TimeoutExpired:
        return Check(name, "fail", f"nothing within {SECONDS[name]:.0f} s", LATE[name])
    if process.returncode == 0 and out.strip():
        return Check(**json.loads(out.splitlines()[-1]))
    last = (errors.strip().splitlines() or [f"exit code {process.returncode}"])[-1]
    return Check(name, "fail", last, "install it again" if name == "torch" else "")


def _end(process: subprocess.Popen[str]) -> None:
    """With what it started, as a plugin that signs in."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def torch() -> Check:
    from importlib.metadata import PackageNotFoundError, version

    try:
        told = version("torch")
    except PackageNotFoundError:
        return Check(
            "torch", "fail", "is not installed", "pip install torch, or see docs/install.md for a smaller build"
        )
    began = time.monotonic()
    import torch

    took = time.monotonic() - began
    number = tuple(int(part) for part in told.split("+")[0].split(".")[:2])
    found = f"{told}, imported in {took:.1f} s, {torch.get_num_threads()} threads"
    if number < LOWEST_TORCH:
        lowest = ".".join(map(str, LOWEST_TORCH))
        return Check("torch", "fail", found, f"older than {lowest}, the oldest that works: pip install -U torch")
    if number > NEWEST_TORCH:
        newest = ".".join(map(str, NEWEST_TORCH))
        return Check("torch", "warn", found, f"newer than {newest}, the newest that umiak was tested with")
    if took > SLOW_IMPORT_SECONDS:
        return Check(
            "torch", "warn", found, "the second time should be faster; if not, move the environment to a local disk"
        )
    return Check("torch", "ok", found)


def kubeconfig() -> Check:
    if absent := extras.missing("kube"):
        return Check("kubeconfig", "none", f"not looked at without {', '.join(absent)}", extras.install("kube"))
    from umiak.kube import kubeconfig
    from umiak.kube.api import Api

    try:
        named = os.environ.get("KUBECONFIG")
        if not named and not any(path.exists() for path in kubeconfig.candidates(None, os.environ)):
            return Check("kubeconfig", "none", "there is none; `umiak job` and `umiak output` need one")
        access = kubeconfig.load(None, None, os.environ)
        with Api(access) as api:
            version = api.get("/version").get("gitVersion", "of unknown version")
            late = _late(api.date)
    except (UmiakError, OSError) as error:
        return Check("kubeconfig", "fail", str(error))
    found = f"{access.server} answers, Kubernetes {version}"
    if late is not None and abs(late) > CLOCK_SECONDS:
        told = f"{found}; this clock is {abs(late):.0f} s {'ahead of' if late > 0 else 'behind'} its own"
        return Check("kubeconfig", "warn", told, "correct the one that is wrong")
    return Check("kubeconfig", "ok", found)


def _late(date: str) -> float | None:
    """By how much this clock is ahead of the one that gave the date."""
    try:
        return time.time() - email.utils.parsedate_to_datetime(date).timestamp()
    except (TypeError, ValueError):
        return None


def aws() -> Check:
    if absent := extras.missing("cluster"):
        return Check("aws", "none", f"not looked at without {', '.join(absent)}", extras.install("cluster"))
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError

    # The address of a machine on EC2, asked for credentials as the last resort, does not answer elsewhere.
    os.environ.setdefault("AWS_METADATA_SERVICE_TIMEOUT", "1")
    os.environ.setdefault("AWS_METADATA_SERVICE_NUM_ATTEMPTS", "1")
    try:
        from umiak.cluster.session import session

        made = session()
        if made.get_credentials() is None:
            return Check("aws", "none", "no credentials; `umiak cluster` needs some: aws configure")
        options = Config(connect_timeout=2, read_timeout=2, retries={"max_attempts": 0})
        region = made.region_name or "us-east-1"
        identity = made.client("sts", region_name=region, config=options).get_caller_identity()
    except ClientError as error:
        code = error.response.get("Error", {}).get("Code", "")
        return Check(
            "aws", "fail", f"AWS refuses the credentials ({code})", "sign in again: aws configure, or aws sso login"
        )
    except (BotoCoreError, UmiakError) as error:
        return Check(
            "aws", "fail", " ".join(str(error).split()), "check ~/.aws, the profile in AWS_PROFILE and the network"
        )
    return Check("aws", "ok", f"{identity['Arn']}, region {made.region_name or 'not set'}")


PROBES: dict[str, Callable[[], Check]] = {"torch": torch, "kubeconfig": kubeconfig, "aws": aws}


def main(name: str) -> None:
    print(json.dumps(dataclasses.asdict(PROBES[name]())))


if __name__ == "__main__":
    main(sys.argv[1])
