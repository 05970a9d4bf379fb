# Python 2, as in 2016.
"""Is a review positive? LSTMs on top of each other, each added to what it was given."""
from paddle.trainer_config_helpers import *
from reviews import *

predict = get_config_arg('is_predict', bool, False)
words = read_dictionary()
sources('dataprovider_emb', words, predict)

settings(
    batch_size=1 if predict else 32,
    learning_rate=2e-3,
    learning_method=AdamOptimizer(),
    regularization=L2Regularization(8e-4),
    gradient_clipping_threshold=25)

no_decay = ParamAttr(initial_std=0., l2_rate=0.)

text = data_layer(name='word', size=len(words))
stream = embedding_layer(input=text, size=128)
stream = simple_lstm(input=stream, size=128, lstm_cell_attr=ExtraAttr(drop_rate=0.1))

for number in range(3):
    added = simple_lstm(input=stream, size=128, bias_param_attr=no_decay,
                        lstm_cell_attr=ExtraAttr(drop_rate=0.1))
    stream = addto_layer(input=[stream, added], bias_attr=False, act=LinearActivation())

largest = pooling_layer(input=stream, pooling_type=MaxPooling())
finish(fc_layer(input=largest, size=2, act=SoftmaxActivation()), predict)
