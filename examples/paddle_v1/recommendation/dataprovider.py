# Python 2, as in 2016: `umiak train` runs it as it is.
"""Ratings, each with the features of its user and its movie. The rating is moved to -3 … 5, as the network gives it."""
from paddle.trainer.PyDataProvider2 import *
import features


def remember_meta(settings, meta, **kwargs):
    settings.meta = meta
    types = {'rating': dense_vector(1)}
    for prefix in ('movie', 'user'):
        half = meta[prefix]
        for name, feature in zip(features.slot_names(prefix, half), features.described(half)):
            types[name] = features.slot_type(feature)
    settings.input_types = types


@provider(init_hook=remember_meta, cache=CacheType.CACHE_PASS_IN_MEM)
def process(settings, file_name):
    movies, users = settings.meta['movie'], settings.meta['user']
    names = features.slot_names('movie', movies) + features.slot_names('user', users)
    with open(file_name, 'r') as ratings:
        for line in ratings:
            user, movie, rating = line.rstrip('\r\n').split('::')[:3]
            sample = dict(zip(names, features.values(movies, int(movie)) + features.values(users, int(user))))
            sample['rating'] = [float(rating) * 2 - 5]
            yield sample
