"""docs/first-five-minutes.md for the user with an AWS account: up to the moment that creates something, against the fake AWS.

From there on it needs a cluster that runs pods: tests/kube/test_whole_way.py takes that way, from up to destroy. Here the
remaining commands are only read, by the parsers that will read them.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

from tests.fake_aws import FakeAws
from tests.first_minutes import commands, follow, section

pytest_plugins = ("tests.fake_aws.fixtures",)
CREATES = ("umiak cluster up", "umiak image push")


def test_on_aws(aws: FakeAws, tmp_path: Path) -> None:
    blocks = section("On AWS")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    told = follow(blocks[:1], tmp_path, {**os.environ, "PATH": path}, ("pip install", *CREATES))
    assert "0 errors" in told and "per hour" in told
    assert (tmp_path / "first-cluster" / "cluster.yaml").exists()
    assert aws.eks.clusters == {}

    verbs = [line.removeprefix("umiak ").split() for line in commands(blocks) if line.startswith("umiak ")]
    assert [" ".join(words[:2]) for words in verbs] == [
        *("cluster init", "cluster validate", "cluster cost", "cluster up", "image push"),
        *("job init", "job submit", "output pull", "cluster destroy"),
    ]
    for verb, *words in verbs:
        importlib.import_module(f"umiak.cli.{verb}")._parser().parse_args(words)
