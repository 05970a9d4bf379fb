"""Makes PaddlePaddle v1 known to a process: its configs to umiak/spec, its update rules to umiak/pserver.

Every entry point that may meet a v1 job calls `register` once. It costs next to nothing: the language and the arithmetic are
loaded when the first config or the first rule needs them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from umiak.pserver import registry
from umiak.spec import readers

if TYPE_CHECKING:
    from umiak.pserver.optimizers import Formula
    from umiak.spec.load import Loaded
    from umiak.spec.optim import Optimizer
    from umiak.spec.settings import Settings


class V1Configs:
    """The reader of configs in the language of v1."""

    def reads(self, path: Path) -> bool:
        from umiak.paddle_v1.dialect import is_v1

        return is_v1(path)

    def load(self, path: Path, arguments: Mapping[str, str], settings: Settings) -> Loaded:
        from umiak.paddle_v1 import config

        return config.load(path, arguments, settings)


class V1Rules:
    """The family of v1's update rules."""

    def kinds(self) -> Mapping[str, type[Optimizer]]:
        from umiak.paddle_v1.rules.settings import KINDS

        return KINDS

    def formula(self, optimizer: Optimizer, rows: bool) -> Formula:
        from umiak.paddle_v1.rules.formulas import formula

        return formula(optimizer, rows)


CONFIGS, RULES = V1Configs(), V1Rules()


def register() -> None:
    readers.register(CONFIGS)
    registry.register(RULES)
