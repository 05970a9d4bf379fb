"""`paddle survey DIR`: a table of what becomes of each v1 config below a directory; no config can stop it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import v1demo
from tests.processes import umiak
from umiak.cli.paddle import run as paddle
from umiak.errors import InputError

HEAD = "from paddle.trainer_config_helpers import *\n"
END = "settings(batch_size=4)\nd = data_layer(name='d', size=3)\n"


def rows(text: str) -> dict[str, tuple[str, str]]:
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in text.splitlines()]
    return {name: (result, why) for name, result, why in cells[2:]}


def test_every_config_is_tried_whatever_the_others_do(tmp_path: Path) -> None:
    trains = tmp_path / "demo"
    v1demo.write(trains)
    (trains / "pass-00000").mkdir()
    (trains / "pass-00000" / "done").touch()
    (trains / "pass-00000" / "copy.py").write_text(HEAD + END)
    (tmp_path / "nets").mkdir()
    (tmp_path / "nets" / "net.py").write_text(HEAD + "def net(d):\n    outputs(fc_layer(input=d, size=2))\n")
    (tmp_path / "nets" / "inner").mkdir()
    (tmp_path / "nets" / "inner" / "builds.conf").write_text(
        "import sys\nsys.path.append('..')\nfrom net import *\n" + END + "net(d)\n"
    )
    others = {
        "refused.py": END + "x = 1\ncrf_layer(input=d, label=d)\noutputs(d)\n",
        "exits.py": "import os\nos._exit(3)\n" + END,
        "wants.py": "open('dict.txt')\n" + END,
        "unnamed.py": END
        + "define_py_data_sources2('no.list', None, 'reader', 'process')\noutputs(fc_layer(input=d, size=2))\n",
    }
    for name, source in others.items():
        (tmp_path / name).write_text(HEAD + source)
    (tmp_path / "reader.py").write_text("from paddle.trainer.PyDataProvider2 import *\n")
    (tmp_path / "native.py").write_text("import umiak\nsettings(3)\n")
    found = rows(umiak("paddle", "survey", tmp_path, timeout=280))
    assert {name: result for name, (result, _) in found.items()} == {
        "demo/trainer_config.demo.py": "trains",
        "exits.py": "refused",
        "nets/inner/builds.conf": "builds",
        "refused.py": "refused",
        "unnamed.py": "builds",
        "wants.py": "wants files",
    }
    assert found["refused.py"][1].startswith("refused.py:5: crf_layer is a name of PaddlePaddle v1 that umiak does not")
    assert found["exits.py"][1].startswith("its process ended with code 3")
    assert found["wants.py"][1].startswith("wants.py:2: FileNotFoundError")
    assert found["unnamed.py"][1] == "there is no no.list"
    assert found["demo/trainer_config.demo.py"][1].startswith("cost of batch 1: ")
    assert not list(tmp_path.rglob("pass-00000/model.json")), "a survey leaves no snapshots"


def test_a_config_that_never_ends_is_ended(tmp_path: Path) -> None:
    (tmp_path / "hangs.py").write_text(HEAD + "while True: pass\n" + END)
    found = rows(umiak("paddle", "survey", tmp_path, "--seconds", "2"))
    assert found == {"hangs.py": ("refused", "it took longer than 2 s (--seconds)")}


def test_a_directory_without_configs_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no v1 config below"):
        paddle(["survey", str(tmp_path)])
    with pytest.raises(InputError, match="there is no directory"):
        paddle(["survey", str(tmp_path / "nothing")])
    with pytest.raises(InputError, match="--batches and --seconds must be above 0"):
        paddle(["survey", str(tmp_path), "--batches", "0"])
