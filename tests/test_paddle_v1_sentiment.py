"""A config of the shape of the sentiment demo of v1: nets in a module beside it, LSTMs in turns, a model average."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.test_paddle_jobs import lines
from tests.v1command import installed, shell

CONFIG = """
from nets import *
from paddle.trainer_config_helpers import *

testing = get_config_arg('is_test', bool, False)
words = count('data/words.txt')
define_py_data_sources2(None if testing else 'data/train.list', 'data/test.list', module='reader', obj='process',
                        args={'words': dictionary('data/words.txt')})
settings(
    batch_size=20,
    learning_rate=2e-3,
    learning_method=AdamOptimizer(),
    AVERAGE,
    regularization=L2Regularization(8e-4),
    gradient_clipping_threshold=25)
net = stacked if get_config_arg('net', str, 'stacked') == 'stacked' else both_ways
net(words, classes=2)
"""

NETS = """
from paddle.trainer_config_helpers import *


def count(path):
    return len(open(path).readlines())


def dictionary(path):
    return dict((line.split('\\t')[0], number) for number, line in enumerate(open(path, 'r')))


def both_ways(size, classes):
    embedded = embedding_layer(input=data_layer('word', size), size=8)
    dropped = dropout_layer(input=bidirectional_lstm(input=embedded, size=8), dropout_rate=0.5)
    end(fc_layer(input=dropped, size=classes, act=SoftmaxActivation()))


def stacked(size, classes, depth=3):
    attributes = [ParameterAttribute(learning_rate=1e-3), ParameterAttribute(initial_std=0., learning_rate=1.)]
    bias = ParameterAttribute(initial_std=0., l2_rate=0.)
    dropping = ExtraLayerAttribute(drop_rate=0.5)
    embedded = embedding_layer(input=data_layer('word', size), size=8)
    flat = fc_layer(input=embedded, size=32, act=LinearActivation(), bias_attr=bias)
    deep = lstmemory(input=flat, act=ReluActivation(), bias_attr=bias, layer_attr=dropping)
    for level in range(2, depth + 1):
        flat = fc_layer(input=[flat, deep], size=32, act=LinearActivation(), param_attr=attributes, bias_attr=bias)
        deep = lstmemory(input=flat, reverse=level % 2 == 0, act=ReluActivation(), bias_attr=bias, layer_attr=dropping)
    pooled = [pooling_layer(input=each, pooling_type=MaxPooling()) for each in (flat, deep)]
    end(fc_layer(input=pooled, size=classes, act=SoftmaxActivation(), bias_attr=bias, param_attr=attributes))


def end(output):
    outputs(classification_cost(input=output, label=data_layer('label', 1)))
"""

READER = """
from paddle.trainer.PyDataProvider2 import *


def hook(settings, words, **kwargs):
    settings.words = words
    settings.input_types = [integer_value_sequence(len(words)), integer_value(2)]


@provider(init_hook=hook)
def process(settings, name):
    with open(name, 'r') as data:
        for line in data:
            label, text = line.strip().split('\\t\\t')
            yield [settings.words[word] for word in text.split()], int(label)
"""

AVERAGES = {"0.9": "average_window=0.5", "0.10": "model_average=ModelAverage(0.5)"}


def write(directory: Path, version: str) -> None:
    (directory / "data").mkdir()
    (directory / "trainer_config.py").write_text(CONFIG.replace("AVERAGE", AVERAGES[version]))
    (directory / "nets.py").write_text(NETS)
    (directory / "reader.py").write_text(READER)
    (directory / "data" / "words.txt").write_text("".join(f"w{number}\t{number}\n" for number in range(40)))
    draw = random.Random(1)
    for name, samples in (("train", 120), ("test", 40)):
        (directory / "data" / f"{name}.list").write_text(f"data/{name}.txt\n")
        with (directory / "data" / f"{name}.txt").open("w") as file:
            for _ in range(samples):
                label = draw.randrange(2)
                text = " ".join(f"w{draw.randrange(20) + 20 * label}" for _ in range(draw.randint(2, 7)))
                file.write(f"{label}\t\t{text}\n")


@pytest.mark.parametrize(("version", "net"), [("0.9", "stacked"), ("0.10", "stacked"), ("0.10", "bidirectional")])
def test_the_nets_train_and_a_saved_model_scores_what_its_test_said(tmp_path: Path, version: str, net: str) -> None:
    """The snapshot holds the mean that was tested: --job=test would score something else if it held the last values."""
    path = installed(tmp_path / "bin")
    write(tmp_path, version)
    flags = f"--config=trainer_config.py --use_gpu=false --trainer_count=1 --config_args=net={net}"
    said = shell(
        f"paddle train {flags} --save_dir=./model --job=train --num_passes=6 --log_period=2 --test_all_data_in_one_period=1",
        path,
        tmp_path,
        UMIAK_PADDLE_VERSION=version,
    )
    costs = [float(line.partition("AvgCost=")[2].split()[0]) for line in lines(said, "Pass=")]
    assert costs[-1] < costs[0] - 0.01, costs
    (tmp_path / "model.list").write_text("model/pass-00005\n")
    test = f"paddle train {flags},is_test=1 --model_list=./model.list --job=test"
    tested = lines(shell(test, path, tmp_path, UMIAK_PADDLE_VERSION=version), "Pass=")
    expected = lines(said, "Test ")[5].replace("Test ", "Pass=0 ").replace("cost=", "AvgCost=")
    assert tested == [expected]
