# Python 2, as in 2016.
"""The features of movies and users, as data/meta.bin describes them.

meta.bin is a pickle {'movie': ..., 'user': ...}; each half has its features under '__meta__', in their order,
and under every id the values of all of them but the id itself.
"""
from paddle.trainer.PyDataProvider2 import *


def described(half):
    return half['__meta__']['raw_meta']


def slot_type(feature):
    kind = feature['type']
    if kind in ('id', 'embedding'):
        size = feature['max'] + 1 if kind == 'id' else len(feature['dict'])
        if feature.get('seq') == 'sequence':
            return integer_value_sequence(size)
        return integer_value(size)
    elif kind == 'one_hot_dense':
        return dense_vector(len(feature['dict']))
    raise ValueError, 'no slot for a feature of type %s' % kind


def slot_names(prefix, half):
    return ['%s_%s' % (prefix, feature['name']) for feature in described(half)]


def values(half, key):
    """The id and the features of one movie or user, ready to be yielded."""
    row = [key]
    for feature, value in zip(described(half)[1:], half[key]):
        if feature['type'] == 'one_hot_dense':
            dense = [0.] * len(feature['dict'])
            for position in value:
                dense[position] = 1.
            value = dense
        row.append(value)
    return row
