# Python 2, as in 2016.
"""Is a review positive? Three words at a time through one layer, of each output the largest."""
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
largest = sequence_conv_pool(input=vectors, context_len=3, hidden_size=512)
finish(fc_layer(input=largest, size=2, act=SoftmaxActivation()), predict)
