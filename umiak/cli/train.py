"""`umiak train CONFIG`: a whole job on this machine, shown while it runs."""

from __future__ import annotations

from umiak.cli.arguments import required, settings

ABOUT = """Ctrl-C stops with a checkpoint; the same command with --resume continues from there.
A directory that already holds a run is refused unless --resume or --overwrite is given."""


def run(argv: list[str]) -> int:
    read = settings("train", argv, ABOUT)
    if read.job == "test":
        from umiak.cli import test

        return test.show(read)
    if read.init_model_path is None:
        required(read.config, "train", "a CONFIG")

    from umiak.display.screen import display
    from umiak.launch import local

    with display() as show:
        return local.train(read, show)
