# Python 2, as in 2016: `umiak train` runs it as it is.
"""Is a review positive? Logistic regression: two weights per word."""
from paddle.trainer_config_helpers import *

predict = get_config_arg('is_predict', bool, False)

words = {}
with open('./data/dict.txt', 'r') as lines:
    for number, line in enumerate(lines):
        words[line.strip().split()[0]] = number

define_py_data_sources2(
    train_list=None if predict else 'data/train.list',
    test_list='data/pred.list' if predict else 'data/test.list',
    module='dataprovider_bow',
    obj='process_predict' if predict else 'process',
    args={'dictionary': words})

settings(
    batch_size=1 if predict else 32,
    learning_rate=get_config_arg('learning_rate', float, 5e-3),
    learning_method=AdamOptimizer(),
    regularization=L2Regularization(8e-4))

bag = data_layer(name='word', size=len(words))
output = fc_layer(input=bag, size=2, act=SoftmaxActivation())

if predict:
    outputs([maxid_layer(output), output])
else:
    label = data_layer(name='label', size=2)
    outputs(classification_cost(input=output, label=label))
