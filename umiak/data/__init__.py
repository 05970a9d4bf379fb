"""What a config author reads data with. Loaders of known data sets are modules: movielens, text, ctr, synthetic."""

from umiak.data.columns import Columns, Ragged
from umiak.data.location import path
from umiak.data.readers import read
from umiak.data.sources import batch_provider, provider
from umiak.data.streaming.source import stream, train_test_split
from umiak.spec.config import Shard

__all__ = ["Columns", "Ragged", "Shard", "batch_provider", "path", "provider", "read", "stream", "train_test_split"]
