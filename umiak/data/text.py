"""Labelled text (label TAB text) as tables of word ids, and the Amazon review snippets as a real data set of that kind."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from umiak.data.columns import Columns
from umiak.data.fetch import fetch
from umiak.data.formats import lines
from umiak.errors import InputError

UNKNOWN = 0
"""The word id of everything that is not in the dictionary."""


@dataclass(frozen=True)
class Text:
    """Tables with `words` (Ragged ids, at least one per sample) and `label`; `words` gives the id of a word."""

    train: Columns
    test: Columns
    words: Mapping[str, int]


def load(train: str | Path, test: str | Path | None = None, *, size: int = 30_000, seed: int = 0) -> Text:
    """The texts of a file with a label (a whole number from 0), a tab and a text on each line; also .gz.

    Without a `test` file a tenth of the lines, chosen by `seed`, is for testing. The dictionary holds the `size` most
    frequent words of the training part.
    """
    rows = list(_labelled(train))
    if test is not None:
        return tables(rows, list(_labelled(test)), size)
    chosen = np.random.default_rng(seed).random(len(rows)) < 0.1
    return tables(_where(rows, ~chosen), _where(rows, chosen), size)


def reviews(path: str | Path | None = None, seed: int = 0) -> Text:
    """3,708 sentences from 300 Amazon reviews; label 1 where twenty people found them positive on average.

    Fetched where no path is given. A fifth of the reviews is for testing: whole reviews, because the sentences of one
    review resemble each other.
    """
    name = "amazonReviewSnippets_GroundTruth.txt"
    file = (fetch("reviews") if path is None else Path(path)) / name
    rows: list[tuple[int, str]] = []
    review: list[int] = []
    for number, line in lines(str(file)):
        try:
            key, sentiment, text = line.split("\t")
            review.append(int(key.partition("_")[0]))
            rows.append((int(float(sentiment) > 0), text))
        except ValueError:
            raise InputError(f"{file}:{number} is not id, sentiment and text: {line[:60]!r}; fetch it again") from None
    ids, which = np.unique(review, return_inverse=True)
    chosen = (np.random.default_rng(seed).permutation(len(ids)) < len(ids) // 5)[which]
    return tables(_where(rows, ~chosen), _where(rows, chosen), size=30_000)


def tables(train: Sequence[tuple[int, str]], test: Sequence[tuple[int, str]], size: int) -> Text:
    """Tables of (label, text) rows, with a dictionary made from the training rows."""
    words = dictionary((text for _, text in train), size)
    return Text(_columns(train, words), _columns(test, words), words)


def tokenize(text: str) -> list[str]:
    """Lower-case words and numbers, with their apostrophes, and the marks ! and ? that carry feeling."""
    return re.findall(r"[^\W_]+(?:'[^\W_]+)*|[!?]", text.lower())


def dictionary(texts: Iterable[str], size: int) -> dict[str, int]:
    """Ids from 1 for the `size` most frequent words, the most frequent first, equals in the order of the alphabet."""
    counts = Counter(word for text in texts for word in tokenize(text))
    ordered = sorted(counts, key=lambda word: (-counts[word], word))
    return {word: number for number, word in enumerate(ordered[:size], 1)}


def ids(text: str, words: Mapping[str, int]) -> list[int]:
    """The word ids of a text: what a model trained on these tables wants to be given."""
    return [words.get(word, UNKNOWN) for word in tokenize(text)] or [UNKNOWN]


def _columns(rows: Sequence[tuple[int, str]], words: Mapping[str, int]) -> Columns:
    return Columns.from_samples({"words": ids(text, words), "label": label} for label, text in rows)


def _labelled(path: str | Path) -> Iterator[tuple[int, str]]:
    for number, line in lines(str(path)):
        label, tab, text = line.partition("\t")
        if not tab or not label.strip().isdecimal():
            raise InputError(f"{path}:{number} must be a label (0, 1, …), a tab and a text, not {line[:60]!r}")
        yield int(label), text


def _where(rows: Sequence[tuple[int, str]], chosen: np.ndarray) -> list[tuple[int, str]]:
    return [rows[i] for i in np.flatnonzero(chosen).tolist()]
