"""OUT/run.json: what a run was started with, for people who compare runs, and the seed for the one who resumes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from umiak.files import read_bytes, write_json
from umiak.rundir import layout
from umiak.spec.flags import written
from umiak.spec.load import Loaded
from umiak.spec.outline import Outline
from umiak.spec.settings import Settings

MOST_TEXT = 1 << 20


def write(out: Path, settings: Settings, loaded: Loaded, workers: int, outline: Outline | None = None) -> None:
    about: dict[str, Any] = {"seed": settings.seed, "workers": workers, "flags": written(settings)}
    if loaded.path is not None:
        text = read_bytes(loaded.path)[:MOST_TEXT].decode(errors="replace")
        about |= {"config": str(loaded.path), "config_text": text}
    higher = {name: bool(getattr(metric, "higher_is_better", False)) for name, metric in loaded.config.metrics.items()}
    if outline is not None:
        about["outline"] = outline.to_json()
    write_json(out / layout.RUN, {**about, "higher_is_better": higher})
