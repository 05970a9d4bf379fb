# Python 2, as in 2016.
"""Is a review positive? The average of its words' embeddings, and one layer on top."""
from paddle.trainer_config_helpers import *
from reviews import *

predict = get_config_arg('is_predict', bool, False)
words = read_dictionary()
sources('dataprovider_emb', words, predict)

settings(
    batch_size=1 if predict else 32,
    learning_rate=2e-3,
    learning_method=AdamOptimizer(),
    regularization=L2Regularization(8e-4))

text = data_layer(name='word', size=len(words))
vectors = embedding_layer(input=text, size=128)
average = pooling_layer(input=vectors, pooling_type=AvgPooling())
finish(fc_layer(input=average, size=2, act=SoftmaxActivation()), predict)
