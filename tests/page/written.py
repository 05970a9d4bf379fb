"""Run directories as a trainer would have left them, made without training: for numbers of points and runs that take days."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from pathlib import Path

START = 1_790_000_000.0


def write_run(path: Path, rounds: int, passes: int = 3, seed: int = 0, seconds: float = 0.05) -> Path:
    """With a cost that falls and a metric that rises a little at the end."""
    path.mkdir(parents=True)
    draw = random.Random(seed)
    with (path / "metrics.jsonl").open("w") as file:
        for number in range(rounds):
            cost = 3 * (1 + number / rounds * 40) ** -0.5 + draw.gauss(0, 0.05)
            when = _time(START + seed * 60 + number * seconds)
            file.write(
                f'{{"event": "round", "pass": {number * passes // rounds}, "batch": {number}, "round": {number}, '
                f'"cost": {cost:.6f}, "samples_per_s": {draw.gauss(5000, 200):.1f}, "time": "{when}"}}\n'
            )
            if (number + 1) * passes // rounds > number * passes // rounds:
                file.write(json.dumps(_pass(number * passes // rounds, number + 1, cost, when)) + "\n")
    (path / "run.json").write_text(json.dumps({"config": "config.py", "flags": {"seed": str(seed)}, "workers": 3}))
    return path


def _pass(number: int, round_: int, cost: float, when: str) -> dict[str, object]:
    test = {"cost": cost + 0.2, "rmse": 0.9 + cost / 10}
    return {
        "event": "pass", "pass": number, "round": round_, "samples": round_ * 100, "seconds": 10.0, "time": when,
        "train": {"cost": cost, "rmse": 0.85 + cost / 10}, "test": test,
    }  # fmt: skip


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
