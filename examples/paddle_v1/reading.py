"""How fast a sparse_binary provider feeds a trainer: `python examples/paddle_v1/reading.py`, a few seconds.

Texts of 80 words as lines of ids, read by a provider as one would write it, and cut into batches of 128. Samples per second of
CPU time, on one core: in the pass that reads the file, and in one that finds them cached.
"""

import tempfile
import time
from pathlib import Path

import numpy as np

from umiak.paddle_v1.provider import CacheType, integer_value, provider, sparse_binary_vector
from umiak.paddle_v1.source import ProviderSource
from umiak.spec.config import Shard

SAMPLES, WORDS, VOCABULARY = 50_000, 80, 30_000


@provider(
    input_types={"word": sparse_binary_vector(VOCABULARY), "label": integer_value(2)}, cache=CacheType.CACHE_PASS_IN_MEM
)
def process(settings, file_name):
    with Path(file_name).open() as lines:
        for line in lines:
            label, words = line.split("\t")
            yield {"word": list(map(int, words.split())), "label": int(label)}


def samples_per_second(source, seed):
    began = time.process_time()
    count = sum(len(batch["label"]) for batch in source.batches(128, Shard(), seed))
    assert count == SAMPLES
    return count / (time.process_time() - began)


def main():
    draw = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "train.txt"
        with path.open("w") as file:
            for ids in draw.integers(0, VOCABULARY, (SAMPLES, WORDS)):
                file.write(f"{ids[0] % 2}\t{' '.join(map(str, ids))}\n")
        reading, cached = [], []
        for _ in range(3):
            made = process.create((str(path),), ("word", "label"), True, {})
            source = ProviderSource("reading::process", made, made.kinds("reading::process"))
            reading.append(samples_per_second(source, 1))
            cached.append(samples_per_second(source, 2))
    print(
        f"{WORDS}-word samples/s per core, best of 3: {max(reading):,.0f} reading the file, {max(cached):,.0f} cached"
    )


if __name__ == "__main__":
    main()
