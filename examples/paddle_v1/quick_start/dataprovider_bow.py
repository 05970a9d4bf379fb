# Python 2, as in 2016: `umiak train` runs it as it is.
"""Reviews as bags of words: one slot with the ids of the words, one with the label."""
from paddle.trainer.PyDataProvider2 import *

UNKNOWN = 0


def remember_dictionary(settings, dictionary, **kwargs):
    settings.word_dict = dictionary
    settings.input_types = {
        'word': sparse_binary_vector(len(dictionary)),
        'label': integer_value(2)
    }
    settings.logger.info('a dictionary of %d words' % len(dictionary))


@provider(init_hook=remember_dictionary, cache=CacheType.CACHE_PASS_IN_MEM)
def process(settings, file_name):
    with open(file_name, 'r') as reviews:
        for line in reviews:
            label, text = line.rstrip('\n').split('\t', 1)
            get = settings.word_dict.get
            yield {
                'word': [get(word, UNKNOWN) for word in text.split()],
                'label': int(label)
            }


def remember_for_predicting(settings, dictionary, **kwargs):
    settings.word_dict = dictionary
    settings.input_types = {'word': sparse_binary_vector(len(dictionary))}


@provider(init_hook=remember_for_predicting, should_shuffle=False)
def process_predict(settings, file_name):
    for line in open(file_name):
        words = line.rstrip('\n').split('\t')[-1].split()
        yield {'word': [settings.word_dict.get(word, UNKNOWN) for word in words]}
