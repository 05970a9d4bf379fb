# Python 2, as in 2016.
"""Is a review positive? An LSTM over its words, of each output the largest."""
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

text = data_layer(name='word', size=len(words))
vectors = embedding_layer(input=text, size=128)
lstm = simple_lstm(
    input=vectors, size=128, lstm_cell_attr=ExtraAttr(drop_rate=0.25))
largest = pooling_layer(input=lstm, pooling_type=MaxPooling())
finish(fc_layer(input=largest, size=2, act=SoftmaxActivation()), predict)
