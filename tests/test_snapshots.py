"""Snapshots: their bytes, and what is done with one on its own: loaded, tested, used to predict, exported."""

from __future__ import annotations

import json
import shutil
import struct
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from torch import nn

import umiak
from tests.trainers import BOTH, server, train
from umiak.data import Columns, Shard
from umiak.errors import InputError
from umiak.evaluation import evaluate
from umiak.evaluation.export import export
from umiak.pserver.rowinit import RowInit
from umiak.rundir import snapshot
from umiak.spec.load import load as load_config
from umiak.spec.settings import Settings
from umiak.trainer.forward import to_tensors

FAR = 1 << 40
"""Ids of the open table are spread wide; those above this one never occur in the data."""

CONFIG = """
import umiak
from umiak.nn.metrics import RMSE

import network

config = umiak.Config(
    model=lambda: network.Net(umiak.config_arg("width", 3)),
    train=network.data(0, 200),
    test=network.data(1, 50),
    loss=lambda output, batch: ((output - batch["target"]) ** 2).mean(),
    optimizer=umiak.Adam(0.02),
    batch_size=16,
    metrics={"rmse": RMSE()},
)
"""
NETWORK = """
import numpy as np
import torch
from torch import nn

import umiak
from umiak.data import Columns, Ragged


def data(seed, samples):
    draw = np.random.default_rng(seed)
    lengths = draw.integers(0, 4, samples)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    user, dense = draw.integers(0, 9, samples), draw.standard_normal((samples, 2)).astype(np.float32)
    words = Ragged((1 << 40) - 1 - draw.integers(0, 30, offsets[-1]), offsets)
    return Columns({"user": user, "words": words, "dense": dense, "target": np.sin(user) + dense[:, 0]})


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.user = umiak.nn.SparseEmbedding(width, 9, std=0.1)
        self.words = umiak.nn.SparseEmbedding(width, bag="sum", std=0.1)
        self.norm = nn.BatchNorm1d(2)
        self.out = nn.Linear(width + 2, 1)
        self.frozen = nn.Parameter(torch.full((2,), 0.5), requires_grad=False)

    def forward(self, batch):
        rows = self.user(batch["user"]) + self.words(batch["words"])
        return self.out(torch.cat([rows, self.norm(batch["dense"]) * self.frozen], 1)).squeeze(1)
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output of two passes by two trainers with two services, from a config file with a module beside it."""
    home = tmp_path_factory.mktemp("run")
    (home / "config.py").write_text(CONFIG)
    (home / "network.py").write_text(NETWORK)
    with server(2, (BOTH, BOTH)) as running:
        train(load_config(home / "config.py", {"width": "4"}), home / "out", running, num_passes=2)
    return home / "out"


@pytest.fixture
def copy(run: Path, tmp_path: Path) -> Path:
    """A snapshot that a test may damage."""
    return Path(shutil.copytree(run / "pass-00001", tmp_path / "copy"))


def batch(out: Path) -> dict[str, Any]:
    """The test data as one batch, with the modules of the run's config."""
    loaded = load_config(out / "pass-00001/config.py", {})
    assert loaded.config.test is not None
    return to_tensors(next(loaded.config.test.batches(1000, Shard(), None)))


def test_a_parameter_file_has_the_bytes_of_2016(run: Path) -> None:
    raw = (run / "pass-00001/out.weight").read_bytes()
    assert struct.unpack("<iIQ", raw[:16]) == (0, 4, 6)
    np.testing.assert_array_equal(np.frombuffer(raw[16:], "<f4"), umiak.load(run).out.weight.numpy().reshape(-1))
    table = (run / "pass-00001/user.weight").read_bytes()
    assert struct.unpack("<iIQ", table[:16]) == (0, 4, 9 * 4) and len(table) == 16 + 4 * 9 * 4


def test_a_snapshot_holds_parameters_done_the_config_what_it_imports_and_its_name(run: Path) -> None:
    assert sorted(path.name for path in run.glob("pass-*")) == ["pass-00000", "pass-00001"]
    names = {path.name for path in (run / "pass-00001").iterdir()}
    assert names == {
        *("done", "path.txt", "model.json", "config.py", "network.py", "buffers.safetensors", "frozen"),
        *("norm.bias", "norm.weight", "out.bias", "out.weight", "user.weight"),
        *("words.weight.service-0.safetensors", "words.weight.service-1.safetensors"),
    }
    assert (run / "pass-00001/path.txt").read_bytes() == b"config.py"
    assert (run / "pass-00001/config.py").read_text() == CONFIG


def test_a_loaded_model_gives_what_training_saw_in_its_last_test(run: Path) -> None:
    """Loaded by two trainers' rows, buffers and the arguments of the config, in eval mode."""
    last = [event for event in events(run) if event["event"] == "pass"][-1]["test"]
    values = batch(run)
    error = (umiak.load(run)(values) - values["target"]).square().mean()
    assert float(error) == pytest.approx(last["cost"], rel=1e-6)


def events(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def test_every_pass_tells_the_size_of_its_tables_and_how_many_rows_were_new(run: Path) -> None:
    first, second = (event["tables"] for event in events(run) if event["event"] == "pass")
    with safe_open(run / "pass-00001/words.weight.service-0.safetensors", "np") as part:
        own = len(part.get_tensor("ids"))
    with safe_open(run / "pass-00001/words.weight.service-1.safetensors", "np") as part:
        assert second["words.weight"]["rows"] == own + len(part.get_tensor("ids"))
    assert set(first) == {"words.weight", "user.weight"}
    for table in first:
        assert first[table]["rows"] == second[table]["rows"] and second[table]["bytes"] >= 16 * second[table]["rows"]
        assert 0 < first[table]["new"] <= 1 and second[table]["new"] == second[table]["expired"] == 0


def test_a_loaded_model_is_in_eval_mode_and_without_gradients(run: Path) -> None:
    model = umiak.load(run / "pass-00000")
    assert not model.training and not any(p.requires_grad for p in model.parameters())
    assert not model(batch(run)).requires_grad
    np.testing.assert_array_equal(model.frozen, [0.5, 0.5])
    assert int(model.norm.num_batches_tracked) == 7
    assert int(umiak.load(run).norm.num_batches_tracked) == 14


def test_ids_that_training_never_met_have_their_first_value_and_are_not_created(run: Path) -> None:
    model = umiak.load(run)
    before = {path.name: path.read_bytes() for path in (run / "pass-00001").glob("words.*")}
    ids = torch.tensor([[FAR + 5], [FAR - 1], [-3], [FAR + 5]])
    rows = model.words(ids)
    expected = np.empty((2, 4), np.float32)
    RowInit.of(1, "words.weight", {"kind": "normal", "mean": 0.0, "std": 0.1}).fill(np.array([FAR + 5, -3]), expected)
    np.testing.assert_array_equal(rows[[0, 2]], expected)
    np.testing.assert_array_equal(rows[3], rows[0])
    RowInit.of(1, "words.weight", {"kind": "normal", "mean": 0.0, "std": 0.1}).fill(np.array([FAR - 1] * 2), expected)
    assert (rows[1].numpy() != expected[0]).all(), "a trained row has moved from its first value"
    assert before == {path.name: path.read_bytes() for path in (run / "pass-00001").glob("words.*")}


def test_an_id_outside_a_declared_vocabulary_is_named(run: Path) -> None:
    with pytest.raises(InputError, match=r"id 9 is outside table 'user.weight', which has num_embeddings=9"):
        umiak.load(run).user(torch.tensor([3, 9]))


def test_the_config_may_be_given_as_path_or_object(run: Path) -> None:
    values = batch(run)
    expected = umiak.load(run)(values)
    torch.testing.assert_close(umiak.load(run, run.parent / "config.py")(values), expected, rtol=0, atol=0)
    loaded = load_config(run.parent / "config.py", {"width": "4"})
    torch.testing.assert_close(umiak.load(run, loaded.config)(values), expected, rtol=0, atol=0)


def test_every_snapshot_uses_the_modules_that_were_saved_with_it(run: Path, copy: Path) -> None:
    rewrite(copy, "network.py", NETWORK.replace("* self.frozen", "* self.frozen * 0 + 1"))
    values = batch(run)
    first, changed, again = (umiak.load(path)(values) for path in (run, copy, run))
    assert not torch.equal(first, changed) and torch.equal(first, again)


def test_a_snapshot_of_a_config_object_needs_the_config_to_load(tmp_path: Path) -> None:
    config = small()
    train(config, tmp_path)
    assert isinstance(umiak.load(tmp_path, config), nn.Linear)
    with pytest.raises(InputError, match=r"holds no copy of its config: name the config .*\(config=\)"):
        umiak.load(tmp_path)


def rewrite(snapshot: Path, name: str, text: str) -> None:
    """Another content, as a run with it would have written it."""
    (snapshot / name).write_text(text)
    model = json.loads((snapshot / "model.json").read_text())
    model["files"][name] = {"bytes": len(text.encode()), "crc32": zlib.crc32(text.encode())}
    (snapshot / "model.json").write_text(json.dumps(model))


def small(**changes: Any) -> umiak.Config:
    x = np.linspace(-1, 1, 20, dtype=np.float32)

    class Line(nn.Linear):
        def forward(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
            return super().forward(batch["x"][:, None])

    config = umiak.Config(
        model=lambda: Line(1, 2),
        train=Columns({"x": x}),
        test=Columns({"x": x}),
        loss=lambda output, batch: output.square().mean(),
        optimizer=umiak.SGD(0.1),
        batch_size=8,
    )
    return replace(config, **changes)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-4])


def flip(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    path.write_bytes(raw)


def recount(path: Path) -> None:
    path.write_bytes(struct.pack("<iIQ", 0, 4, 5) + path.read_bytes()[16:])


@pytest.mark.parametrize(
    ("file", "harm", "message"),
    [
        ("done", Path.unlink, "neither a snapshot nor an output directory"),
        ("out.weight", Path.unlink, "no file for parameter 'out.weight'"),
        ("out.weight", truncate, "out.weight is 36 bytes where 6 values take 40: it is damaged"),
        ("out.weight", recount, "holds 5 values where the model has 6: it is a snapshot of another model"),
        ("user.weight", truncate, "user.weight is 156 bytes where 36 values take 160: it is damaged"),
        (
            "words.weight.service-1.safetensors",
            truncate,
            "table 'words.weight' of the snapshot cannot be used: .*bytes",
        ),
        ("words.weight.service-1.safetensors", flip, "checksum is not the one that was written"),
        ("words.weight.service-0.safetensors", Path.unlink, "words.weight.service-0.safetensors is missing"),
        ("model.json", truncate, "model.json cannot be read"),
        ("config.py", Path.unlink, "holds no copy of its config"),
        ("network.py", Path.unlink, r"has no network.py, which it had .*name the config .*\(config=\)"),
        ("buffers.safetensors", Path.unlink, r"has no buffers.safetensors, which it had when it was written"),
    ],
)
def test_a_damaged_or_incomplete_snapshot_is_named(
    copy: Path, file: str, harm: Callable[[Path], None], message: str
) -> None:
    harm(copy / file)
    with pytest.raises(InputError, match=message):
        umiak.load(copy)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("width + 2, 1)", "width + 2, 1, bias=False)", "holds 'out.bias', which the model does not have"),
        ("self.frozen =", "self.more = nn.Linear(2, 2); self.frozen =", "no file for parameter 'more.weight'"),
        ("torch.full((2,)", "torch.full((1, 2)", r"'frozen' is \[2\] in the snapshot .* but \[1, 2\] in the model"),
        ("SparseEmbedding(width, 9,", "SparseEmbedding(width, 8,", "num_embeddings 9 in the snapshot .*, but 4 and 8"),
        ("SparseEmbedding(width, bag", "SparseEmbedding(width, 7, bag", "num_embeddings None in the snapshot"),
        ("self.words", "self.other", "holds 'words.weight', which the model does not have"),
    ],
)
def test_a_snapshot_of_another_model_is_refused(copy: Path, old: str, new: str, message: str) -> None:
    text = (copy / "network.py").read_text()
    assert old in text
    rewrite(copy, "network.py", text.replace(old, new))
    with pytest.raises(InputError, match=message):
        umiak.load(copy)


def test_a_snapshot_of_2016_has_no_model_json_and_loads(tmp_path: Path) -> None:
    config = small()
    old = tmp_path / "pass-00009"
    old.mkdir()
    for name, numbers in {"weight": [1.0, 2.0], "bias": [3.0, 4.0]}.items():
        (old / name).write_bytes(struct.pack(f"<iIQ{len(numbers)}f", 0, 4, len(numbers), *numbers))
    (old / "done").write_text("")
    assert umiak.load(tmp_path, config)({"x": torch.tensor([10.0])}).tolist() == [[13.0, 24.0]]
    with pytest.raises(InputError, match=r"no model\.json"):
        export(old, tmp_path / "x")


def test_the_newest_snapshot_is_the_one_of_the_whole_pass(tmp_path: Path) -> None:
    for name in ("pass-00000", "pass-00001-002", "pass-00001-001", "pass-00001"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "done").write_text("")
    assert snapshot.find(tmp_path).name == "pass-00001"
    (tmp_path / "pass-00001/done").unlink()
    assert snapshot.find(tmp_path).name == "pass-00001-002"
    with pytest.raises(InputError, match="no complete snapshot of pass 1"):
        snapshot.find(tmp_path, 1)


def test_half_precision_rows_come_back_as_they_were(tmp_path: Path) -> None:
    x, ids = np.ones(16, np.float32), np.arange(16)

    class Half(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = umiak.nn.SparseEmbedding(3, dtype="float16", std=1.0)

        def forward(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
            return self.table(batch["ids"])

    train(small(model=Half, train=Columns({"x": x, "ids": ids}), test=None), tmp_path)
    rows = umiak.load(tmp_path, small(model=Half))({"ids": torch.tensor([3, 99])})
    assert torch.equal(rows, rows.half().float())


def test_testing_a_snapshot_gives_cost_and_metrics_of_the_whole_test_set(run: Path) -> None:
    last = [event for event in events(run) if event["event"] == "pass"][-1]["test"]
    result = evaluate.test(Settings(init_model_path=run))
    assert (result["snapshot"], result["samples"]) == (str(run / "pass-00001"), 50)
    assert result["cost"] == pytest.approx(last["cost"], rel=1e-6)
    assert result["rmse"] == pytest.approx(last["rmse"], rel=1e-6)
    earlier = evaluate.test(Settings(config=run.parent / "config.py", save_dir=run, test_pass=0))
    assert earlier["snapshot"] == str(run / "pass-00000") and earlier["cost"] != result["cost"]


def test_a_config_without_test_data_cannot_be_tested(copy: Path) -> None:
    rewrite(copy, "config.py", CONFIG.replace("test=network.data(1, 50)", "test=None"))
    with pytest.raises(InputError, match="the config has no test data"):
        evaluate.test(Settings(init_model_path=copy))


def test_predictions_are_one_line_per_sample_in_order(run: Path, tmp_path: Path) -> None:
    output = tmp_path / "predictions"
    evaluate.predict(Settings(init_model_path=run), output)
    np.testing.assert_array_equal(np.loadtxt(output, np.float32), umiak.load(run)(batch(run)))
    with pytest.raises(InputError, match="predictions exists: choose another --output or replace it with --overwrite"):
        evaluate.predict(Settings(init_model_path=run), output)
    evaluate.predict(Settings(init_model_path=run, overwrite=True), output)


@pytest.mark.parametrize(
    ("predict", "line"),
    [
        ("lambda output: torch.stack([output > -9, output < -9], 1)", "True False"),
        ("lambda output: (output * 0 + 0.1).numpy()", "0.1"),
        ("lambda output: (torch.ones(len(output), dtype=int), torch.ones(len(output), 2) / 4)", "1;0.25 0.25;"),
    ],
)
def test_a_config_decides_what_a_prediction_is(copy: Path, tmp_path: Path, predict: str, line: str) -> None:
    rewrite(copy, "config.py", f"import torch\n{CONFIG.rstrip().removesuffix(')')}    predict={predict},\n)\n")
    evaluate.predict(Settings(init_model_path=copy), tmp_path / "lines")
    assert (tmp_path / "lines").read_text() == f"{line}\n" * 50


def test_predictions_that_are_not_one_per_sample_are_refused_and_nothing_is_written(copy: Path, tmp_path: Path) -> None:
    rewrite(copy, "config.py", f"{CONFIG.rstrip().removesuffix(')')}    predict=lambda output: output[1:],\n)\n")
    with pytest.raises(InputError, match=r"one entry per sample: 16 samples gave an output of shape \(15,\)"):
        evaluate.predict(Settings(init_model_path=copy), tmp_path / "lines")
    assert not list(tmp_path.glob("*lines*"))


def test_an_exported_file_holds_every_value_under_its_name(run: Path, tmp_path: Path) -> None:
    export(run, tmp_path / "model.safetensors")
    model = umiak.load(run)
    with safe_open(tmp_path / "model.safetensors", "pt") as file:
        found = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        metadata = file.metadata()
    assert metadata["snapshot"] == "pass-00001" and metadata["seed"] == "1"
    ids, rows = found.pop("words.weight.ids"), found.pop("words.weight.rows")
    assert ids.tolist() == [FAR - 30 + i for i in range(30)]
    torch.testing.assert_close(rows, model.words(ids[:, None]), rtol=0, atol=0)
    torch.testing.assert_close(found.pop("user.weight"), model.user(torch.arange(9)), rtol=0, atol=0)
    assert found.keys() == model.state_dict().keys()
    for name, value in model.state_dict().items():
        assert torch.equal(found[name], value), name


def test_an_export_does_not_replace_a_file_by_accident(run: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match="exists: choose another --output or replace it with --overwrite"):
        export(run, tmp_path / "file")
    export(run, tmp_path / "file", overwrite=True)
    assert (tmp_path / "file").stat().st_size > 500
