"""--average_test_period: what averaged values score on batches that are about to be trained on, as v1 logged it."""

from __future__ import annotations

import logging

import torch

from umiak import logs
from umiak.errors import InputError
from umiak.spec.config import Config
from umiak.spec.settings import Settings
from umiak.trainer import forward
from umiak.trainer.session import Session
from umiak.trainer.tables import Prepared
from umiak.trainer.totals import Totals

log = logging.getLogger("umiak.trainer")


class AverageTests:
    """The last --log_period batches of every --average_test_period are run with averaged values before they are trained on."""

    def __init__(self, config: Config, settings: Settings) -> None:
        self._config = config
        self._period, self._log_period = settings.average_test_period, settings.log_period
        if self._period % max(self._log_period, 1):
            raise InputError(
                f"--average_test_period={self._period} must be a multiple of --log_period={self._log_period}, as in v1"
            )
        self._totals = Totals(config.metrics)

    def before(self, number: int, model: torch.nn.Module, session: Session, prepared: Prepared) -> None:
        """Before batch `number` of a pass is trained on."""
        if number % self._period < self._period - self._log_period:
            return
        model.eval()
        try:
            with torch.no_grad(), session.averaged():
                output, loss = forward.run(model, self._config, prepared.batch)
                self._totals.add(float(loss), prepared.samples, output, prepared.batch)
        finally:
            model.train()

    def after(self, number: int) -> None:
        if number % self._period == self._period - 1 and (values := self._totals.values()):
            log.info(logs.averaged_line(values.pop("cost"), values))
            self._totals = Totals(self._config.metrics)
