"""Whether the workers fit on the nodes, and what is said before a submit if they do not."""

from __future__ import annotations

from typing import Any

import pytest

from tests import kube_objects as make
from umiak.jobs import capacity, manifests
from umiak.kube.nodes import node as read_node
from umiak.spec.job import JobSpec


def said(nodes: list[dict[str, Any]], items: list[dict[str, Any]] | None = None, **fields: Any) -> str | None:
    spec = JobSpec("rec", "img", **fields)
    template = manifests.job(spec)["spec"]["template"]["spec"]
    rooms = capacity.rooms([read_node(item) for item in nodes], items or [], template)
    return capacity.warning(rooms, template, spec.workers)


def using(node: str, cpu: str, memory: str, phase: str = "Running") -> dict[str, Any]:
    item = make.pod(0, node=node, phase=phase)
    item["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu, "memory": memory}}
    return item


def test_enough_room_is_not_worth_a_word() -> None:
    assert said([make.node("n1"), make.node("n2")], workers=4, cpu="1") is None


def test_too_many_workers_say_how_many_fit_and_what_is_missing() -> None:
    assert said([make.node("n1"), make.node("n2")], workers=5, cpu="1") == (
        "the nodes have room for 4 of 5 workers of 1 CPU and 2Gi (n1, n2: room for 2, then 0 of 2 CPU free): "
        "the job waits until there is more; lower cpu, memory or workers, or add nodes"
    )


def test_what_others_use_is_taken_and_what_ended_is_not() -> None:
    node = [make.node("n1", cpu="2")]
    assert said(node, [using("n1", "1500m", "1Gi")], workers=1) is not None
    assert said(node, [using("n1", "1500m", "1Gi", "Succeeded")], workers=1) is None


@pytest.mark.parametrize(
    ("node", "wanted"),
    [
        (make.node("n1", ready="Unknown"), "n1: not ready"),
        (make.node("n1", spec={"unschedulable": True}), "n1: cordoned"),
        (make.node("n1", memory="1Gi"), "n1: 1Gi of 1Gi memory free"),
        (
            make.node("n1", spec={"taints": [{"key": "gpu", "effect": "NoSchedule"}]}),
            "n1: tainted gpu, which pod.tolerations does not tolerate",
        ),
    ],
)
def test_why_a_node_takes_nobody(node: dict[str, Any], wanted: str) -> None:
    text = said([node], workers=1)
    assert text is not None
    assert wanted in text


def test_the_fragment_counts() -> None:
    node = make.node(
        "n1", labels={"disk": "ssd"}, spec={"taints": [{"key": "gpu", "value": "a", "effect": "NoSchedule"}]}
    )
    tolerated = {"tolerations": [{"key": "gpu", "value": "a"}], "nodeSelector": {"disk": "ssd"}}
    assert said([node], workers=1, pod=tolerated) is None
    text = said([node], workers=1, pod={**tolerated, "nodeSelector": {"disk": "hdd"}})
    assert text is not None
    assert "n1: without the label disk=hdd of pod.nodeSelector" in text


def test_many_nodes_are_not_all_named() -> None:
    text = said([make.node(f"n{i}", cpu="500m") for i in range(50)], workers=1)
    assert text is not None
    assert "n0, n1, n2 and 47 more: 0.5 of 0.5 CPU free" in text
