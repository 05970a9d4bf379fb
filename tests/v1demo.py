"""A small job in the v1 language, written as in 2016: `write(directory)` puts config, provider and data there.

Training must be started in that directory. `method`, `sparse`, `is_async` and others are --config_args of the config.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

WORDS, TRAIN, TEST = 60, 300, 50

CONFIG = """
from paddle.trainer_config_helpers import *

words = {}
for number, line in enumerate(open('data/dict.txt')):
    words[line.strip()] = number
print 'a dictionary of %d words' % len(words)

methods = {
    'momentum': MomentumOptimizer(momentum=0.5),
    'sgd': MomentumOptimizer(),
    'adam': AdamOptimizer(),
    'rmsprop': RMSPropOptimizer(),
    'adagrad': AdaGradOptimizer(),
}

define_py_data_sources2(
    train_list='data/train.list', test_list='data/test.list', module='reader', obj='process',
    args={'words': words, 'shuffle': get_config_arg('shuffle', bool, True)})

settings(
    batch_size=8,
    learning_rate=get_config_arg('rate', float, 0.01),
    learning_method=methods[get_config_arg('method', str, 'adam')],
    regularization=L2Regularization(get_config_arg('decay', float, 0.001)),
    gradient_clipping_threshold=get_config_arg('clip', float, 0),
    model_average=ModelAverage(get_config_arg('average', float, 0.)),
    is_async=get_config_arg('is_async', bool, False))

word = data_layer(name='word', size=len(words))
label = data_layer(name='label', size=2)
if get_config_arg('lr', bool, False):
    last = word
else:
    attribute = ParamAttr(name='words', sparse_update=get_config_arg('sparse', bool, False))
    embedded = embedding_layer(input=word, size=6, param_attr=attribute)
    last = fc_layer(input=pooling_layer(input=embedded, pooling_type=AvgPooling()), size=5,
                    layer_attr=ExtraAttr(drop_rate=0.2))
output = fc_layer(input=last, size=2, act=SoftmaxActivation(), bias_attr=ParamAttr(l2_rate=0., initial_std=0.))
outputs(classification_cost(input=output, label=label))
"""

PROVIDER = """
import time
from paddle.trainer.PyDataProvider2 import *


def hook(settings, words, shuffle, **kwargs):
    settings.words = words
    if not shuffle:
        settings.should_shuffle = False
    settings.input_types = {'word': integer_value_sequence(len(words)), 'label': integer_value(2)}
    settings.logger.info('for %s' % ('training' if kwargs['is_train'] else 'testing'))


@provider(init_hook=hook)
def process(settings, file_name):
    for line in open(file_name):
        label, text = line.strip().split('\\t')
        yield {'label': int(label), 'word': [settings.words[word] for word in text.split()]}
"""


def write(directory: Path) -> Path:
    """The path of the config."""
    data = directory / "data"
    data.mkdir(parents=True)
    draw = np.random.default_rng(3)
    (data / "dict.txt").write_text("".join(f"w{number}\n" for number in range(WORDS)))
    for name, files, count in (("train", 3, TRAIN), ("test", 1, TEST)):
        paths = [f"data/{name}-{number}.txt" for number in range(files)]
        (data / f"{name}.list").write_text("".join(f"{path}\n" for path in paths))
        for path in paths:
            with (directory / path).open("w") as file:
                for _ in range(count // files):
                    ids = draw.integers(0, WORDS, draw.integers(1, 9))
                    file.write(f"{int(np.mean(ids) > WORDS / 2)}\t{' '.join(f'w{i}' for i in ids)}\n")
    (directory / "reader.py").write_text(PROVIDER)
    config = directory / "trainer_config.demo.py"
    config.write_text(CONFIG)
    return config


def samples(directory: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Word counts and labels in the order of the files."""
    lines = [
        line.split("\t")
        for path in (directory / "data" / f"{name}.list").read_text().split()
        for line in (directory / path).read_text().splitlines()
    ]
    counts = np.zeros((len(lines), WORDS))
    for row, (_, text) in enumerate(lines):
        np.add.at(counts[row], [int(word[1:]) for word in text.split()], 1)
    return counts, np.array([int(label) for label, _ in lines])
