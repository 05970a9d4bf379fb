"""A run in MLflow: flags and config arguments as parameters, metrics by round, config and final snapshot as tags."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import Any

# Retries are ours: what is not sent stays in metrics.jsonl. These are read when mlflow is imported.
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")

from mlflow.entities import Metric, Param, RunTag
from mlflow.tracking import MlflowClient

from umiak.messages.events import Pass, Round, scalars
from umiak.sinks.parameters import parameters

EXPERIMENT = "umiak"
MOST_METRICS = 1000
MOST_PARAMETERS = 100
MOST_TEXT = 5000
"""Limits of a request and of a value."""
ENDS = {"done": "FINISHED", "stopped": "KILLED", "killed": "KILLED", "failed": "FAILED"}


class MlflowSink:
    def __init__(self, place: str, out: Path, about: dict[str, Any], run: str) -> None:
        self._client = MlflowClient(place)
        if run:
            self.run = run
            self._client.update_run(run, status="RUNNING")
            return
        experiment = os.environ.get("MLFLOW_EXPERIMENT_NAME", EXPERIMENT)
        known = self._client.get_experiment_by_name(experiment)
        number = known.experiment_id if known else self._client.create_experiment(experiment)
        tags = {"umiak.out": str(out), "umiak.config": str(about.get("config_text", ""))[:MOST_TEXT]}
        self.run = str(self._client.create_run(number, run_name=out.name, tags=tags).info.run_id)
        given = [Param(_name(name), value[:MOST_TEXT]) for name, value in parameters(about).items()]
        for first in range(0, len(given), MOST_PARAMETERS):
            self._client.log_batch(self.run, params=given[first : first + MOST_PARAMETERS])

    def write(self, told: list[Round | Pass]) -> None:
        now = int(time.time() * 1000)
        points = [
            Metric(_name(name), value, now, event.round) for event in told for name, value in scalars(event).items()
        ]
        for first in range(0, len(points), MOST_METRICS):
            self._client.log_batch(self.run, metrics=points[first : first + MOST_METRICS])

    def end(self, state: str, snapshot: str) -> None:
        if snapshot:
            self._client.log_batch(self.run, tags=[RunTag("umiak.snapshot", snapshot)])
        self._client.set_terminated(self.run, ENDS[state])


def _name(name: str) -> str:
    """MLflow allows no other characters."""
    return re.sub(r"[^\w\-. :/]", "_", name)
