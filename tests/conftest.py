"""`make test` needs no cluster, no root and no browser: `make test-kube` runs kube and faults here, `make test-page` page."""

from __future__ import annotations

import pytest

from tests.quick import Quick, is_slow
from umiak.paddle_v1.registration import register

collect_ignore = ["kube", "faults", "page"]

register()  # as every entry point does


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="leave out tests that start a process or ask the fake AWS")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: starts a process where tests/quick.py cannot see it, or takes seconds")
    if config.getoption("--quick"):
        config.pluginmanager.register(Quick())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Slow tests first: a long file that begins last would have all others wait for it."""
    slow = {item.path for item in items if is_slow(item)}
    items.sort(key=lambda item: item.path not in slow)
