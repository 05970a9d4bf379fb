"""How `up` and `destroy` speak to whoever called them: lines to read, questions to answer. Prints nothing itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from umiak.errors import InputError


@dataclass(frozen=True)
class Talk:
    say: Callable[[str], None]
    # A question → what was typed; None when there is nobody to ask.
    ask: Callable[[str], str | None]
    # Continue without asking.
    yes: bool = False

    def agreed(self, question: str) -> bool:
        if self.yes:
            return True
        answer = self.ask(f"{question} [y/N] ")
        if answer is None:
            raise InputError("there is no terminal to ask at; add --yes to continue without asking")
        return answer.strip().lower() in ("y", "yes")

    def typed(self, question: str, wanted: str) -> bool:
        """Only the exact word counts."""
        if self.yes:
            return True
        answer = self.ask(f"{question} ")
        if answer is None:
            raise InputError("there is no terminal to ask at; add --yes to continue without asking")
        return answer.strip() == wanted
