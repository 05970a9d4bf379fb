"""`pytest --quick` leaves out every test that starts a process or asks the fake AWS. `make quick` runs the others.

Nobody keeps a list. Whether a test may be slow is read from its code: the functions, classes and fixtures of the tests that it
reaches, and whether one of them names something in SLOW. What is missed, as a process that umiak itself starts, fails when it
starts: it says so, and gets `@pytest.mark.slow`.
"""

from __future__ import annotations

import inspect
import os
import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest

SLOW = ("subprocess", "multiprocessing", "tests.fork_server", "tests.fake_aws")
FORKS = {"fork", "forkpty", "posix_spawn", "execv"}
STARTS = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "os.system"}


class Quick:
    """The plugin, where --quick was given."""

    def __init__(self) -> None:
        self.running = ""
        self.process = os.getpid()
        sys.addaudithook(self._audit)

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        slow = [item for item in items if item.get_closest_marker("slow") or is_slow(item)]
        config.hook.pytest_deselected(items=slow)
        left_out = set(slow)
        items[:] = [item for item in items if item not in left_out]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.running = item.nodeid
        try:
            return (yield)
        finally:
            self.running = ""

    def _audit(self, event: str, args: tuple[Any, ...]) -> None:
        # matplotlib asks this program for fonts, once on a machine.
        own = event in STARTS and self.running and os.getpid() == self.process
        if own and not str(args[0]).endswith("fc-list"):
            raise AssertionError(f"{self.running} starts a process ({event} {args[:2]}): give it @pytest.mark.slow")


def is_slow(item: pytest.Item) -> bool:
    seen: set[Any] = set()
    fixtures = getattr(item, "_fixtureinfo").name2fixturedefs.values()  # noqa: B009
    todo: list[Any] = [getattr(item, "function", None), *(each.func for found in fixtures for each in found)]
    while todo:
        value = inspect.unwrap(todo.pop())
        if value in seen:
            continue
        seen.add(value)
        if isinstance(value, type):
            todo += [each for each in vars(value).values() if isinstance(each, types.FunctionType)]
        elif isinstance(value, types.FunctionType):
            names = set(_names(value.__code__))
            if names & FORKS:
                return True
            reached = [value.__globals__[name] for name in names if name in value.__globals__]
            modules = [
                each for each in reached if isinstance(each, types.ModuleType) and _place(each).startswith("tests.")
            ]
            reached += [vars(module)[name] for module in modules for name in names if name in vars(module)]
            if any(_place(each).startswith(SLOW) for each in reached):
                return True
            todo += [each for each in reached if _place(each).startswith("tests.") and callable(each)]
    return False


def _place(value: Any) -> str:
    """The module that something is, or comes from."""
    return value.__name__ if isinstance(value, types.ModuleType) else str(getattr(value, "__module__", ""))


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)
