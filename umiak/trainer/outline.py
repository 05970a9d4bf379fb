"""The model of a run for whoever draws it later: its parts, its parameters, and which service holds what."""

from __future__ import annotations

import logging

from torch import nn

from umiak.nn import outline
from umiak.spec.outline import Held, Outline
from umiak.trainer.session import Session

log = logging.getLogger("umiak.trainer")


def outlined(title: str, model: nn.Module, session: Session, alone: bool) -> Outline | None:
    """None if the model's own code fails to describe itself: no training ends for that. `alone`: there are no services."""
    own = getattr(model, "outlined", None)
    try:
        parts = own() if own else outline.parts(model)
        variables = outline.variables(model)
    except Exception:
        log.warning("the model cannot be drawn", exc_info=True)
        return None
    tables = tuple(variable.name for variable in variables if variable.kind == "table")
    held = [
        Held(number, 0, tuple(blocks), tables if placed.rows else ())
        for number, (placed, blocks) in enumerate(zip(session.services, session.blocks, strict=True))
    ]
    return Outline(title, parts, variables, () if alone else tuple(held), flows=own is not None)
