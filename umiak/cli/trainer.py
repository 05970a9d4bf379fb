"""`umiak trainer CONFIG`: one trainer in the foreground."""

from __future__ import annotations

from umiak.cli.arguments import required, settings

ABOUT = "Trainer 0 sets the model up, the others wait for it. All trainers must name the same --pservers in one order."


def run(argv: list[str]) -> int:
    read = settings("trainer", argv, ABOUT)
    if read.job == "test":
        from umiak.cli import test

        return test.show(read)
    required(read.config, "trainer", "a CONFIG")

    from umiak.worker import roles

    return roles.trainer(read)
