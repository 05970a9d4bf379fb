"""Sources in memory: parsed once for all trainers of a machine, with the batches that each trainer would have had alone."""

from __future__ import annotations

import os
import signal
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.processes import snapshot_bytes, umiak
from umiak.data import Columns, Ragged, Shard, provider, read
from umiak.data.shared import Numbered, Store, shared

ROWS = 101


def samples() -> Iterator[dict[str, Any]]:
    for i in range(ROWS):
        yield {"id": i, "list": [i] * (i % 3), "x": i / 3}


def skipping(line: str) -> dict[str, Any] | None:
    return None if int(line) % 5 == 2 else {"id": int(line), "list": [0.5] * (int(line) % 2), "x": np.ones(2)}


def shards(source: Any, count: int, seed: int | None) -> list[list[dict[str, Any]]]:
    return [list(source.batches(7, Shard(index, count), seed)) for index in range(count)]


def plain(value: Any) -> Any:
    if isinstance(value, Ragged):
        return plain(value.values), plain(value.offsets)
    # Lists that are all empty in a shard do not say what they would hold; in the whole they do.
    return (value.dtype if value.size else None, value.tolist())


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "lines.txt"
    path.write_text("".join(f"{i}\n" for i in range(ROWS)))
    return path


@pytest.mark.parametrize("seed", [None, 7])
@pytest.mark.parametrize("count", [1, 2, 3, 200])
def test_batches_are_those_of_trainers_that_parse_for_themselves(seed: int | None, count: int, lines: Path) -> None:
    makers: list[Callable[[], Any]] = [lambda: provider(samples), lambda: read(lines, skipping)]
    for make in makers:
        alone, together = make(), make()
        with shared(together):
            found = shards(together, count, seed)
        expected = shards(alone, count, seed)
        assert [len(shard) for shard in found] == [len(shard) for shard in expected]
        for mine, others in zip(found, expected, strict=True):
            for batch, other in zip(mine, others, strict=True):
                assert {name: plain(column) for name, column in batch.items()} == {
                    name: plain(column) for name, column in other.items()
                }
        assert shards(together, count, seed), "it can be used when it is shared no longer"


def test_what_a_killed_trainer_began_the_next_one_makes() -> None:
    store = Store()
    child = os.fork()
    if child == 0:
        store.get(lambda: os.kill(os.getpid(), signal.SIGKILL) or pytest.fail("it is dead"))  # type: ignore[arg-type]
    os.waitpid(child, 0)
    table = Numbered(Columns({"id": np.arange(5)}), np.arange(5))
    assert store.get(lambda: table).columns["id"].tolist() == list(range(5))  # type: ignore[union-attr, index]
    child = os.fork()
    if child == 0:
        found = store.get(lambda: os._exit(3))
        os._exit(0 if found and found.numbers.tolist() == list(range(5)) else 4)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    store.close()


def test_a_disk_without_room_costs_the_sharing_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    source = provider(samples)
    with shared(source):
        monkeypatch.setattr(
            "os.pwrite", lambda *arguments: (_ for _ in ()).throw(OSError(28, "No space left on device"))
        )
        found = shards(source, 2, 3)
    assert sorted(i for shard in found for batch in shard for i in batch["id"].tolist()) == list(range(ROWS))
    assert "each parses its own" in caplog.text


CONFIG = """
import os
from pathlib import Path
import torch, umiak


def parse(line):
    with open(PARSED, "a") as file:
        file.write(f"{os.getpid()}\\n")
    user, item = line.split()
    return {"user": int(user), "item": int(item), "target": float(int(user) % 2)}


class Ratings(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.user, self.item = (umiak.nn.SparseEmbedding(4, std=0.1) for _ in range(2))

    def forward(self, batch):
        return (self.user(batch["user"]) * self.item(batch["item"])).sum(1)


config = umiak.Config(
    model=Ratings,
    train=umiak.data.read(LINES, parse),
    loss=lambda output, batch: torch.nn.functional.mse_loss(output, batch["target"]),
    optimizer=umiak.AdaGrad(lr=0.1),
    batch_size=8,
)
"""


def test_a_job_parses_every_line_once_and_trains_as_trainers_that_parse_for_themselves_do(tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("".join(f"{i % 17} {i % 23}\n" for i in range(ROWS)))
    parsed = tmp_path / "parsed"
    text = CONFIG.replace("PARSED", repr(str(parsed))).replace("LINES", repr(str(tmp_path / "lines.txt")))
    (tmp_path / "config.py").write_text(text)
    before = set(Path(tempfile.gettempdir()).glob("umiak-data-*"))
    umiak("train", tmp_path / "config.py", "--workers=3", "--passes=2", f"--out={tmp_path / 'out'}")
    counted = Counter(parsed.read_text().split())
    assert list(counted.values()) == [ROWS], "one process, every line once"
    assert set(Path(tempfile.gettempdir()).glob("umiak-data-*")) <= before
    # A source of the user's own class is shared with nobody: what the trainers had before there was sharing.
    (tmp_path / "alone.py").write_text(
        text.replace(
            "config = ",
            "class Own:\n    def __init__(self, source):\n        self.batches = source.batches\n\n\nconfig = ",
        )
        .replace("train=umiak.data.read(", "train=Own(umiak.data.read(")
        .replace(", parse),", ", parse)),")
    )
    parsed.unlink()
    umiak("train", tmp_path / "alone.py", "--workers=3", "--passes=2", f"--out={tmp_path / 'alone'}")
    assert len(Counter(parsed.read_text().split())) == 3
    ours, theirs = (values_of(tmp_path / name) for name in ("out", "alone"))
    assert ours == theirs and ours


def values_of(out: Path) -> dict[str, bytes]:
    """Every file of every snapshot, but for those that name the config."""
    told = (".py", "path.txt", "model.json")
    return {name: data for name, data in snapshot_bytes(out).items() if not name.endswith(told)}
