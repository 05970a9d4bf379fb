# Python 2, as in 2016: `umiak train --paddle_version 0.9` runs it as it is.
"""How many stars will a user give a movie? A tower for each, and the cosine between them as the answer.

The scale of the cosine was 5 in 2016 and is 1 in 0.10, which cannot reach most ratings: hence --paddle_version 0.9.
"""
from paddle.trainer_config_helpers import *
import cPickle
import features

with open('data/meta.bin', 'rb') as stored:
    meta = cPickle.load(stored)

settings(
    batch_size=get_config_arg('batch_size', int, 200),
    learning_rate=get_config_arg('learning_rate', float, 1e-3),
    learning_method=RMSPropOptimizer())

define_py_data_sources2(
    'data/train.list', 'data/test.list', module='dataprovider', obj='process', args={'meta': meta})


def tower(prefix):
    """One layer over all features of a movie or a user, each through a layer of its own."""
    parts = []
    for feature in features.described(meta[prefix]):
        slot = data_layer('%s_%s' % (prefix, feature['name']), features.slot_type(feature).dim)
        if feature['type'] == 'one_hot_dense':
            part = fc_layer(input=fc_layer(input=slot, size=256), size=256)
        else:
            vector = embedding_layer(input=slot, size=256)
            if feature.get('seq') == 'sequence':
                part = text_conv_pool(input=vector, context_len=5, hidden_size=256)
            else:
                part = fc_layer(input=vector, size=256)
        parts.append(part)
    return fc_layer(name='%s_fusion' % prefix, input=parts, size=256)


movie = tower('movie')
user = tower('user')
similarity = cos_sim(a=movie, b=user)
outputs(mse_cost(input=similarity, label=data_layer('rating', 1)))
