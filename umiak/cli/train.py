"""`umiak train CONFIG`: a whole job on this machine, shown while it runs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from umiak.cli.arguments import required, settings
from umiak.messages.events import Notice
from umiak.spec.settings import Settings

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

    with _page(read) as announce, display() as show:
        announce(lambda text: show(Notice(text)))
        return local.train(read, show)


def _page(read: Settings) -> AbstractContextManager[Callable[[Callable[[str], None]], None]]:
    """Gives a function that says where the page is, or nothing if none is wanted."""
    if not (read.page or read.keep_page):
        return nullcontext(lambda say: None)

    from umiak.page import beside

    return beside.shown(read.save_dir, read.keep_page)
