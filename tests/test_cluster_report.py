"""`umiak cluster report`: what a maintainer needs, and nothing that is nobody's business."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster_life import Life, life
from tests.fake_aws.people import ACCOUNT
from umiak.cluster.display import report

pytest_plugins = ("tests.fake_aws.fixtures",)
__all__ = ["life"]


def parts(text: str) -> dict[str, str]:
    return {part.partition("\n")[0]: part.partition("\n")[2] for part in text.split("== ")[1:]}


def test_a_report_of_a_cluster_has_every_part_and_no_account(life: Life, tmp_path: Path) -> None:
    assert life.up() == 0, life.output
    assert life.run("report", "--out", str(tmp_path / "report.txt")) == 0, life.output
    text = (tmp_path / "report.txt").read_text()
    found = parts(text)
    assert "umiak " in found["versions"] and "boto3 " in found["versions"]
    assert "name: paddle" in found["cluster.yaml"]
    assert '"stack": "CREATE_COMPLETE"' in found["status"]
    assert "Nodes AWS::EKS::Nodegroup CREATE_COMPLETE" in found["last events of the stack"]
    assert found["nodes"].count("Ready") == 3
    assert ACCOUNT not in text and "<account>" in text
    assert "secret" not in text.replace("secrets", "")


def test_a_report_before_anything_is_there_says_what_is_missing(life: Life) -> None:
    assert life.run("report") == 0, life.output
    found = parts(life.output)
    assert "not available: there is no kubeconfig here" in found["nodes"]
    assert '"stack": null' in found["status"] and "nothing" in found["last events of the stack"]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("arn:aws:iam::123456789012:role/Admin", "arn:aws:iam::<account>:role/Admin"),
        ("AKIAIOSFODNN7EXAMPLE and ASIAIOSFODNN7EXAMPLE", "<key id> and <key id>"),
        ("from 203.0.113.7/32 to 10.20.0.4", "from <public address>/32 to 10.20.0.4"),
        ("k8s-aws-v1.aHR0cHM6Ly9", "<token>"),
        ("somebody@example.com", "<mail address>"),
        ("made 2026-11-17 of version 1.35, key 21ebb1f4-8fc9-48b1-9648-9d8d8b45f943", None),
    ],
)
def test_what_is_masked_and_what_is_not(text: str, wanted: str | None) -> None:
    assert report.masked(text) == (wanted or text)
