"""Writes MovieLens ml-100k as ./data in the layout of 2016: `python prepare.py`, in this directory.

data/ratings.train and data/ratings.test have user::movie::stars on each line, split as umiak.data.movielens splits them;
data/meta.bin is a pickle with the features of every user and movie (features.py says how); data/*.list name the files.
"""

import pickle
from pathlib import Path

import numpy as np

from umiak.data import movielens


def write(directory, data=None):
    data = data or movielens.load()
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "meta.bin").write_bytes(pickle.dumps(meta(data), protocol=2))
    for name, table in (("train", data.train), ("test", data.test)):
        stars = (table["target"] + 5) / 2
        with (directory / f"ratings.{name}").open("w") as file:
            for user, movie, given in zip(table["user"], table["movie"], stars, strict=True):
                file.write(f"{user}::{movie}::{given:g}\n")
        (directory / f"{name}.list").write_text(f"data/ratings.{name}\n")


def meta(data):
    """The features of every user and movie that has a rating."""
    halves = {
        "movie": (("title", "embedding", "sequence"), ("genres", "one_hot_dense", "no_sequence")),
        "user": tuple((name, "embedding", "no_sequence") for name in ("gender", "age", "occupation")),
    }
    return {key: half(data, key, features) for key, features in halves.items()}


def half(data, key, features):
    described = [{"name": "id", "type": "id", "max": int(data.sizes[key]) - 1}]
    for name, kind, sequence in features:
        positions = {str(number): number for number in range(data.sizes[name])}
        described.append({"name": name, "type": kind, "seq": sequence, "dict": positions})
    entries = {"__meta__": {"raw_meta": described}}
    for table in (data.train, data.test):
        ids, rows = np.unique(table[key], return_index=True)
        chosen = table.take(rows)
        for number, each in enumerate(ids.tolist()):
            entries[each] = [value(chosen[name], kind, number) for name, kind, _ in features]
    return entries


def value(column, kind, row):
    if kind == "one_hot_dense":
        return np.flatnonzero(column[row]).tolist()
    if hasattr(column, "offsets"):
        return column.values[column.offsets[row] : column.offsets[row + 1]].tolist()
    return int(column[row])


if __name__ == "__main__":
    write(Path("data"))
    print("wrote data/")
