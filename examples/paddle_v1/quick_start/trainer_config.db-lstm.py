# Python 2, as in 2016.
"""Is a review positive? LSTMs on top of each other, every second one from the end to the beginning."""
from paddle.trainer_config_helpers import *
from reviews import *

predict = get_config_arg('is_predict', bool, False)
depth = get_config_arg('depth', int, 8)
words = read_dictionary()
sources('dataprovider_emb', words, predict)

settings(
    batch_size=1 if predict else 32,
    learning_rate=1e-3,
    learning_method=AdamOptimizer(),
    regularization=L2Regularization(8e-4),
    gradient_clipping_threshold=25)

no_decay = ParamAttr(initial_std=0., l2_rate=0.)

text = data_layer(name='word', size=len(words))
vectors = embedding_layer(input=text, size=128)

with mixed_layer(size=128, bias_attr=no_decay) as below:
    below += full_matrix_projection(input=vectors)
steps = lstmemory(input=below, bias_attr=no_decay)

# every layer but the first sees the layer below and what that layer saw
chain = [below, steps]
for number in xrange(1, depth):
    hidden = fc_layer(input=chain, size=128, act=LinearActivation(), bias_attr=no_decay)
    steps = lstmemory(input=hidden, reverse=number % 2 == 1, bias_attr=no_decay,
                      layer_attr=ExtraAttr(drop_rate=0.1))
    chain = [hidden, steps]

largest = pooling_layer(input=steps, pooling_type=MaxPooling())
finish(fc_layer(input=largest, size=2, act=SoftmaxActivation()), predict)
