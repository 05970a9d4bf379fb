"""`aws`: an empty account, and an environment in which boto3 is its administrator. A test fails on anything not modelled."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import boto3
import botocore.loaders
import botocore.session
import pytest

from tests.fake_aws import FakeAws

# AWS's service descriptions, which boto3 would read again for every session.
DESCRIPTIONS = botocore.loaders.create_loader()


def _session() -> boto3.Session:
    core = botocore.session.get_session()
    core.register_component("data_loader", DESCRIPTIONS)
    return _Session(botocore_session=core)


_Session = boto3.Session


@pytest.fixture(scope="session")
def aws_server() -> Iterator[FakeAws]:
    with FakeAws().running() as fake:
        yield fake


@pytest.fixture
def aws(aws_server: FakeAws, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeAws]:
    aws_server.arrange()
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in aws_server.environment(aws_server.admin).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr("boto3.Session", _session)
    yield aws_server
    assert not aws_server.unmodelled, "the fake does not model: " + "; ".join(aws_server.unmodelled)
