# Python 2, as in 2016: `umiak train` runs it as it is.
"""Reviews as sequences of words: one slot with the ids in their order, one with the label."""
from paddle.trainer.PyDataProvider2 import *

UNKNOWN = 0


def remember_dictionary(settings, dictionary, **kwargs):
    settings.word_dict = dictionary
    settings.input_types = [
        integer_value_sequence(len(dictionary)), integer_value(2)
    ]


@provider(init_hook=remember_dictionary, cache=CacheType.CACHE_PASS_IN_MEM)
def process(settings, file_name):
    empty = 0
    with open(file_name, 'r') as reviews:
        for line in reviews:
            label, text = line.strip().split('\t', 1)
            ids = map(lambda word: settings.word_dict.get(word, UNKNOWN), text.split())
            if not ids:
                empty += 1
                continue
            yield ids, int(label)
    if empty:
        print 'skipped', empty, 'reviews without a word in', file_name


def remember_for_predicting(settings, dictionary, **kwargs):
    settings.word_dict = dictionary
    settings.input_types = [integer_value_sequence(len(dictionary))]


@provider(init_hook=remember_for_predicting, should_shuffle=False)
def process_predict(settings, file_name):
    for line in open(file_name):
        words = line.rstrip('\n').split('\t')[-1].split()
        yield [settings.word_dict.get(word, UNKNOWN) for word in words]
