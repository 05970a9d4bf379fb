"""Whether an output directory may be used for a run, asked before anything starts. Does without torch."""

from __future__ import annotations

import shutil

from umiak.errors import InputError
from umiak.spec.settings import Settings
from umiak.trainer import checkpoint, snapshot

OUTPUTS = ("checkpoints", "metrics.jsonl", "tensorboard", "curves.png", "run.json", "job.log")


def check_output(settings: Settings) -> None:
    """Refuse an output directory that holds a run, or that cannot be written, before anything starts."""
    out = settings.save_dir
    holds = any(out.glob("pass-*")) or any(out.glob("checkpoints/round-*")) or (out / "metrics.jsonl").exists()
    goes_on = settings.start_pass > 0 and settings.init_model_path is None
    if holds and settings.overwrite:
        sources = (settings.init_from, settings.init_model_path, out if goes_on else None)
        if any(source is not None and source.resolve().is_relative_to(out.resolve()) for source in sources):
            raise InputError(
                f"--overwrite would remove from {out} what this run is to begin with: choose another --out"
            )
        for entry in [*out.glob("pass-*"), *out.glob(".pass-*"), *out.glob("node_*"), *(out / n for n in OUTPUTS)]:
            if entry.is_dir():
                shutil.rmtree(entry)
            else:
                entry.unlink(missing_ok=True)
    elif goes_on and not settings.resume:
        snapshot.find(out, settings.start_pass - 1)
        # Those of the run before would be taken for this one's.
        shutil.rmtree(out / "checkpoints", ignore_errors=True)
    elif holds and not settings.resume:
        raise InputError(
            f"{out} already holds a run: go on with --resume, replace it with --overwrite, or choose another --out"
        )
    elif settings.resume and checkpoint.select(out) is None:
        raise InputError(f"{out} holds no checkpoint to resume from: start without --resume")
    try:
        out.mkdir(parents=True, exist_ok=True)
        probe = out / ".writable"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        raise InputError(f"cannot write to {out}: {error.strerror}; choose another --out") from None
