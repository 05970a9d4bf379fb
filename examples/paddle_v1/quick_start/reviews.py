# Python 2, as in 2016.
"""What the sequence configs share: the dictionary, where the data are, and how the network ends."""
from paddle.trainer_config_helpers import *

WORDS = 'data/dict.txt'


def read_dictionary():
    words = {}
    with open(WORDS) as lines:
        for number, line in enumerate(lines):
            words[line.split()[0]] = number
    return words


def sources(module, dictionary, predict):
    define_py_data_sources2(
        train_list=None if predict else 'data/train.list',
        test_list='data/pred.list' if predict else 'data/test.list',
        module=module,
        obj='process_predict' if predict else 'process',
        args={'dictionary': dictionary})


def finish(output, predict):
    if predict:
        outputs([maxid_layer(output), output])
    else:
        outputs(classification_cost(input=output, label=data_layer(name='label', size=2)))
