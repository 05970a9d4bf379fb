"""Pods that read their data from S3 with the role of their service account: nothing is copied, and no secret is left anywhere."""

from __future__ import annotations

import secrets
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.pods import job
from umiak.bench.peers import s3
from umiak.bench.peers.s3 import Conduct

ROWS = 90
CONFIG = """
import torch
import umiak


class Line(torch.nn.Linear):
    def forward(self, batch):
        return super().forward(batch["x"][:, None])


config = umiak.Config(
    model=lambda: Line(1, 1),
    train=umiak.data.stream(umiak.data.path("day=*/*.parquet"), columns=["x", "y"], window=20),
    loss=lambda output, batch: torch.nn.functional.mse_loss(output[:, 0], batch["y"]),
    optimizer=umiak.SGD(lr=0.0001),
    batch_size=4,
)
"""


def test_workers_read_with_their_role_and_its_credentials_are_in_no_log_and_no_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.arange(ROWS, dtype=np.float32) / ROWS
    parquet.write_table(pa.table({"x": x, "y": 2 * x}), tmp_path / "a.parquet", row_group_size=10)
    (tmp_path / "config.py").write_text(CONFIG)
    (tmp_path / "token").write_text("token-of-the-pod")
    role = {
        "AccessKeyId": "ASIAROLEOFTHEPODS",
        "SecretAccessKey": secrets.token_hex(20),
        "Token": secrets.token_hex(30),
        "Expiration": "2099-01-01T00:00:00Z",
    }
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    conduct = Conduct(role=role, token="token-of-the-pod")
    with s3.moto() as address, s3.proxy(address, conduct) as port:
        s3.upload(address, "clicks", {"2026/day=1/a.parquet": tmp_path / "a.parquet"})
        with job(tmp_path / "job", 2, "--passes=2", config=tmp_path / "config.py") as pods:
            # What EKS sets in the pods of a service account that has a role.
            pods.environment |= {
                "UMIAK_DATA": "s3://clicks/2026",
                "AWS_ENDPOINT_URL": f"http://{s3.HOST}:{port}",
                "AWS_DEFAULT_REGION": "us-east-1",
                "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"http://{s3.HOST}:{port}{s3.CREDENTIALS}",
                "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(tmp_path / "token"),
                "AWS_CONFIG_FILE": str(tmp_path / "none"),
                "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "none"),
                "XDG_CACHE_HOME": str(tmp_path / "cache"),
            }
            pods.start()
            assert pods.wait() == [0, 0]
            assert [event["samples"] for event in pods.events(0, "pass")] == [ROWS, 2 * ROWS]
    assert {each.access_key for each in conduct.seen} == {"ASIAROLEOFTHEPODS"}
    written = [path for path in (tmp_path / "job").rglob("*") if path.is_file()]
    assert any("checkpoints" in str(path) for path in written)
    for path in [*written, *(tmp_path / "cache").rglob("*.json")]:
        content = path.read_bytes()
        for secret in (role["SecretAccessKey"], role["Token"], "token-of-the-pod"):
            assert secret.encode() not in content, f"{path} holds a secret"
