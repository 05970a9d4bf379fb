"""What a watch shows on a terminal: a line per worker with its share of the node's price."""

from __future__ import annotations

import io
import json
import time
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests import kube_objects as make
from tests.fake_aws import FakeAws
from tests.recorded_kube import RecordedKube, recorded
from umiak.cli import job_display
from umiak.cli.job_prices import Prices
from umiak.contract.lines import Told
from umiak.jobs import pods, status, watch
from umiak.kube import kubeconfig
from umiak.kube.api import Api
from umiak.kube.nodes import node as read_node
from umiak.messages.events import Round

pytest_plugins = ("tests.fake_aws.fixtures",)

NOW = datetime(2026, 11, 16, 9, 30, 5, tzinfo=UTC)
AWS = {
    "node.kubernetes.io/instance-type": "m6i.large",
    "topology.kubernetes.io/region": "us-west-2",
    "topology.kubernetes.io/zone": "us-west-2a",
}


def api(kube: RecordedKube, directory: Path) -> Api:
    return Api(kubeconfig.load(kube.kubeconfig(directory / "kubeconfig"), None, {}))


def shown(seen: status.Status, meter: watch.Meter, away: str = "") -> str:
    out = io.StringIO()
    console = Console(file=out, width=140, force_terminal=False)
    console.print(job_display._picture(seen, away, meter, Decimal(1), Decimal(2**31)))
    return out.getvalue()


def seen(*items: dict[str, Any], **more: Any) -> status.Status:
    return status.assemble(make.job(), [pods.pod(item) for item in items], **more)


def test_a_worker_costs_its_share_of_the_node_for_as_long_as_it_runs(tmp_path: Path) -> None:
    """1 of 2 CPU and 2 of 8 GiB is half a node; from 09:00:05 it has run half an hour."""
    with recorded() as kube:
        kube.put(make.node("n1"))
        meter = watch.Meter(api(kube, tmp_path), lambda node: Decimal("0.40"))
        running, ended, gone = seen(
            make.running(0), make.failed(1, 1, "09:15:05", node="n1"), make.running(2, node="n9")
        ).workers

        def ask(worker: status.Worker) -> Decimal | None:
            return meter.cost(worker, Decimal(1), Decimal(2**31), NOW)

        assert ask(running) == Decimal("0.1")
        assert ask(ended) == Decimal("0.05")
        assert ask(gone) is None
        assert len(kube.requests) == 2, "a node is asked for once"


def test_the_picture_has_a_line_per_worker(tmp_path: Path) -> None:
    told = [Told(Round(2, 5, 23, cost=0.7, samples_per_s=3000.0), "")]
    pending = make.waiting(2, "ErrImagePull", "not found")
    events = [make.event(pending, "Failed", "Failed to pull image")]
    with recorded() as kube:
        kube.put(make.node("n1"))
        meter = watch.Meter(api(kube, tmp_path), lambda node: Decimal("1000"))
        text = shown(seen(make.running(0), make.running(1), pending, told=told, events=events), meter)
    lines = {line.split()[0]: line for line in text.splitlines() if line[:1].isdigit()}
    assert lines["0"].split()[1:4] == ["training", "2", "1,000"]
    assert lines["0"].split()[4].startswith("$")
    assert lines["1"].split()[1:6] == ["training", "2", "1,000", "-", "n2"]
    assert "Failed: Failed to pull image" in lines["2"]
    assert "first failure: worker 2 waits" in text


def test_a_large_job_shows_who_differs(tmp_path: Path) -> None:
    items = [make.running(worker) for worker in range(199)] + [make.waiting(199, "ErrImagePull", "not found")]
    with recorded() as kube:
        text = shown(
            status.assemble(make.job(workers=200), [pods.pod(item) for item in items]),
            watch.Meter(api(kube, tmp_path), lambda node: None),
            away="cannot reach it",
        )
    assert "198 more are like worker 0" in text
    assert "\n199 " in text
    assert "continues (cannot reach it)" in text


def test_prices_come_from_aws_in_the_background(aws: FakeAws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    prices = Prices()
    elsewhere = read_node(make.node("n1", labels=AWS))
    assert prices(elsewhere) is None
    node = read_node(make.node("n1", labels=AWS, spec={"providerID": "aws:///us-west-2a/i-1"}))
    assert prices(node) is None, "nobody waits for AWS"
    limit = time.monotonic() + 30
    while (price := prices(node)) is None and time.monotonic() < limit:
        time.sleep(0.05)
    assert price == Decimal("0.096")


def test_what_programs_read_of_a_status_has_the_events_as_their_lines_have_them() -> None:
    """As since umiak 0.1.0."""
    line = (
        '@umiak {"event": "checkpoint", "round": 40, "path": "/volume/rec/output/checkpoints/x", '
        '"time": "2026-11-16T09:41:06.900Z"}'
    )
    seen = status.assemble(make.job(), [], told=status.events_in([line]))
    assert json.loads(seen.as_json())["said"] == [json.loads(line.removeprefix("@umiak "))]
