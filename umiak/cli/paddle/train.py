"""`paddle train`: trains, tests, times or checks a config, alone or as one trainer among several."""

from __future__ import annotations

from dataclasses import replace

from umiak.cli.arguments import settings
from umiak.cli.paddle.environment import paddle_version
from umiak.spec.settings import Settings

ABOUT = """Without --local=0 it trains alone. With it, it joins the servers of --pservers as trainer --trainer_id, and reads
all of its own data. UMIAK_PADDLE_VERSION=0.9 in the environment is --paddle_version=0.9 for scripts that do not know it."""


def run(argv: list[str]) -> int:
    read = settings("paddle train", argv, ABOUT)
    return JOBS[read.job](replace(read, paddle_version=paddle_version(read.paddle_version)))


def _train(read: Settings) -> int:
    from umiak.paddle_v1.command import v1_roles

    return v1_roles.train(read)


def _test(read: Settings) -> int:
    from umiak.evaluation import modeltests
    from umiak.worker import roles

    roles.log_to_stderr()
    modeltests.run(read)
    return 0


def _time(read: Settings) -> int:
    from umiak.evaluation import timing
    from umiak.paddle_v1.command import v1_roles
    from umiak.worker import roles

    roles.log_to_stderr()
    with v1_roles.placed(read) as (settings, assignment):
        timing.run(v1_roles.load(settings), settings, assignment)
    return 0


def _check(read: Settings) -> int:
    from umiak.evaluation import checkgrad
    from umiak.paddle_v1.command import v1_roles
    from umiak.worker import roles

    roles.log_to_stderr()
    checkgrad.run(v1_roles.load(read), read)
    return 0


JOBS = {"train": _train, "test": _test, "time": _time, "checkgrad": _check}
