"""Labelled text: words to ids, the dictionary, and the review snippets."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from umiak.data import text
from umiak.errors import InputError


def words_of(table: object, row: int) -> list[int]:
    column = table["words"]  # type: ignore[index]
    return list(column.values[column.offsets[row] : column.offsets[row + 1]])


def test_text_becomes_lower_case_words_and_marks() -> None:
    assert text.tokenize("It's GREAT - isn't it?! 5 stars_") == ["it's", "great", "isn't", "it", "?", "!", "5", "stars"]


def test_the_dictionary_holds_the_most_frequent_words_of_the_training_part(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("1\tgood good fine\n0\tbad fine good\n")
    with gzip.open(tmp_path / "test.txt.gz", "wt") as file:
        file.write("1\tgood new fine\n0\t...\n")
    data = text.load(tmp_path / "train.txt", tmp_path / "test.txt.gz", size=2)
    assert data.words == {"good": 1, "fine": 2}
    assert words_of(data.train, 1) == [0, 2, 1]
    assert words_of(data.test, 0) == [1, 0, 2]
    assert words_of(data.test, 1) == [text.UNKNOWN], "no sample is without a word"
    assert data.train["label"].tolist() == [1, 0]
    assert text.ids("Good? Bad.", data.words) == [1, 0, 0]


def test_without_a_test_file_a_tenth_is_set_aside_by_seed(tmp_path: Path) -> None:
    (tmp_path / "all.txt").write_text("".join(f"{i % 2}\tword{i}\n" for i in range(1000)))
    sizes = []
    for seed in (0, 0, 1):
        data = text.load(tmp_path / "all.txt", seed=seed)
        assert len(data.train) + len(data.test) == 1000 and 60 < len(data.test) < 140
        assert not data.test["words"].values.any(), "the dictionary knows training words only"
        sizes.append(tuple(data.words))
    assert sizes[0] == sizes[1] != sizes[2]


@pytest.mark.parametrize("line", ["no tab", "good\ttext", "-1\ttext", "\ttext"])
def test_a_line_that_is_not_label_tab_text_is_named(line: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(f"1\tfine\n{line}\n")
    with pytest.raises(InputError, match=r"a\.txt:2 must be a label \(0, 1, …\), a tab and a text"):
        text.load(tmp_path / "a.txt")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read .*a\.txt: No such file"):
        text.load(tmp_path / "a.txt")


def snippets(folder: Path, extra: str = "") -> Path:
    lines = [f"{review}_{n}\t{(n - 2) / 2}\treview{review} text" for review in range(20) for n in range(5)]
    (folder / "amazonReviewSnippets_GroundTruth.txt").write_text("\r\n".join(lines) + extra)
    return folder


def test_reviews_are_split_whole_and_labelled_by_sentiment(tmp_path: Path) -> None:
    data = text.reviews(snippets(tmp_path))
    assert (len(data.train), len(data.test)) == (80, 20)
    assert np.concatenate([data.train["label"], data.test["label"]]).sum() == 20 * 2, (
        "0.5 and 1.0 are positive, 0 is not"
    )
    unknown = (data.test["words"].values == text.UNKNOWN).sum()
    assert unknown == 20, "no sentence of a test review was seen in training"
    assert data.words == text.reviews(tmp_path).words != text.reviews(tmp_path, seed=1).words


def test_a_damaged_review_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"GroundTruth\.txt:101 is not id, sentiment and text"):
        text.reviews(snippets(tmp_path, "\r\n7_1\tgood"))
