"""Which pass was the best so far, by its test, and whether training should stop because none after it was better."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from umiak.errors import InputError
from umiak.spec.config import Config
from umiak.spec.settings import Settings


class Best(NamedTuple):
    """A pass, and what its test gave."""

    pass_id: int
    value: float


@dataclass(frozen=True)
class Rule:
    """Passes are compared by `metric`. Training stops after `patience` passes in a row without a new best; 0: it does not."""

    metric: str
    higher: bool
    patience: int

    def better(self, before: Best | None, pass_id: int, tested: Mapping[str, float]) -> Best | None:
        """This pass, if it is better than the best before. A value that is not a number is better than nothing at all."""
        value = tested[self.metric]
        if before is None or before.value != before.value:
            return Best(pass_id, value)
        return Best(pass_id, value) if (value > before.value if self.higher else value < before.value) else None

    def is_over(self, best: Best | None, next_pass: int) -> bool:
        return self.patience > 0 and best is not None and next_pass - best.pass_id > self.patience

    def reason(self, best: Best) -> str:
        """Why training stops, for people."""
        count = "1 pass" if self.patience == 1 else f"{self.patience} passes"
        return f"no better {self.metric} than {best.value:.6g} of pass {best.pass_id} in {count}: training stops"


def rule_of(config: Config, settings: Settings) -> Rule | None:
    """None where neither the config names a metric nor the user a patience."""
    if config.best is None and not settings.patience:
        return None
    if config.test is None:
        raise InputError("--patience compares the tests of passes, but the config has no test data: add Config(test=…)")
    name = config.best or "cost"
    return Rule(name, bool(getattr(config.metrics.get(name), "higher_is_better", False)), settings.patience)
