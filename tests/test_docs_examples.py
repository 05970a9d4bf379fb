"""The Python examples of the docs do what the docs say: `>>>` examples are compared, the others run.

The first model of the README, and what a newcomer types, are run word for word in test_first_minutes.py.
"""

from __future__ import annotations

import doctest
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import mse_loss

import umiak
from umiak.nn.metrics import RMSE

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]


class Ratings(torch.nn.Module):
    """A small model under the name that the docs use."""

    def __init__(self) -> None:
        super().__init__()
        self.user = umiak.nn.SparseEmbedding(4, std=0.1)
        self.mean = torch.nn.Parameter(torch.zeros(1))

    def forward(self, batch: Any) -> torch.Tensor:
        return self.mean + self.user(batch["user"]).sum(1)


class Data:
    train = umiak.data.Columns({"user": np.arange(60) % 7, "target": np.arange(60, dtype="float32") % 7})
    test = train


def squared_error(output: torch.Tensor, batch: Any) -> torch.Tensor:
    return mse_loss(output, batch["target"])


def blocks(page: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.DOTALL | re.MULTILINE)


def written() -> umiak.Config:
    """The config of docs/writing-a-model.md, with the names that it leaves to the reader."""
    names = {"umiak": umiak, "Ratings": Ratings, "data": Data, "squared_error": squared_error, "RMSE": RMSE}
    names |= {"compute_it": lambda: 2.0}
    (block,) = blocks("docs/writing-a-model.md")
    exec(block, names)
    config = names["config"]
    assert isinstance(config, umiak.Config)
    return config


def test_the_examples_of_the_api_reference_give_what_they_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    examples = "\n".join(blocks("docs/api.md"))
    test = doctest.DocTestParser().get_doctest(examples, {}, "docs/api.md", "docs/api.md", 0)
    assert len(test.examples) > 30
    said: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=said.append)
    assert not said, "".join(said)


def test_the_config_of_writing_a_model_is_one() -> None:
    config = written()
    assert (config.batch_size, config.optimizer, list(config.metrics)) == (512, umiak.Adam(1e-3), ["rmse"])
    assert config.baseline is not None and config.baseline.metric == "rmse"


def test_the_examples_of_training_from_python_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    training, loop = blocks("docs/python.md")
    names: dict[str, Any] = {"umiak": umiak, "config": written(), "my_loss": squared_error}
    exec(training, names)
    result = names["result"]
    assert result.snapshot == Path("out/first/pass-00009") and len(result.curves) == 10
    assert {"pass", "train", "test"} <= set(result.curves[0]) and "rmse" in result.curves[0]["test"]
    # The same loop by itself: the servers of the example are on a machine that a test does not have.
    alone, count = re.subn(r"trainer_id=0, .*? out=\"/shared/out\"", 'passes=2, out="out/loop"', loop)
    assert count == 1
    exec(alone, names)
    assert names["cost"] > 0 and Path("out/loop/pass-00001/done").exists()
