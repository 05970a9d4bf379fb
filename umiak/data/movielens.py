"""MovieLens ratings (ml-1m or ml-100k) as train and test tables, and the baseline a model has to beat.

Each row is one rating with what is known of its user and movie:

    user, movie         the ids of the files
    gender, age         0 F, 1 M; the seven age groups of ml-1m
    occupation          numbered in the order of their names
    title               Ragged word ids: lower case, without the year; 0 is kept for unknown words
    genres              18 floats, 1 for each genre of the movie, in the order of GENRES
    target              2·stars − 5, so that 1 to 5 stars lie evenly in −3 … 5
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from umiak.data.columns import Columns, Ragged
from umiak.data.fetch import fetch
from umiak.errors import InputError

GENRES = (
    *("Action", "Adventure", "Animation", "Children's", "Comedy", "Crime", "Documentary", "Drama", "Fantasy"),
    *("Film-Noir", "Horror", "Musical", "Mystery", "Romance", "Sci-Fi", "Thriller", "War", "Western"),
)
AGES = (1, 18, 25, 35, 45, 50, 56)
"""The youngest age of each group."""

TEST_SHARE = 0.1


@dataclass(frozen=True)
class MovieLens:
    """`sizes[field]` is above every id of that field: what an embedding of it needs to hold."""

    train: Columns
    test: Columns
    sizes: Mapping[str, int]


class User(NamedTuple):
    gender: str
    age: int
    occupation: str


class Movie(NamedTuple):
    title: str
    genres: frozenset[str]


Entry = TypeVar("Entry")


def load(path: str | Path | None = None, seed: int = 0) -> MovieLens:
    """The ratings in a directory or zip file of ml-1m or ml-100k; ml-100k is fetched where no path is given.

    A tenth of each user's ratings, rounded down and chosen by `seed`, is for testing.
    """
    files = _Files(fetch("movielens") if path is None else Path(path))
    layout = next((layout for layout in _LAYOUTS if files.has(layout.ratings)), None)
    if layout is None:
        known = ", ".join(layout.ratings for layout in _LAYOUTS)
        raise InputError(
            f"{files.path} holds no MovieLens ratings (looked for {known}); give the unpacked directory or the zip"
        )
    ratings = _ratings(files, layout)
    if path is None and len(ratings) != 100_000:
        raise InputError(
            f"{files.path} holds {len(ratings)} ratings where ml-100k has 100000; remove it and fetch again"
        )
    users = dict(_parsed(files, layout.users, layout, layout.user))
    movies = dict(_parsed(files, layout.movies, layout, layout.movie))
    return assemble(ratings[:, 0], ratings[:, 1], ratings[:, 2], users, movies, seed)


def assemble(
    user: np.ndarray,
    movie: np.ndarray,
    stars: np.ndarray,
    users: Mapping[int, User],
    movies: Mapping[int, Movie],
    seed: int,
) -> MovieLens:
    """Join the ratings with the features of their users and movies, and split them."""
    for kind, ids, known in (("user", user, users), ("movie", movie, movies)):
        unknown = np.setdiff1d(ids, np.fromiter(known, np.int64, len(known)))
        if len(unknown):
            raise InputError(f"MovieLens: {kind} {unknown[0]} has ratings but is not in the list of {kind}s")
    occupations = {name: number for number, name in enumerate(sorted({known.occupation for known in users.values()}))}
    words = {
        word: number for number, word in enumerate(sorted({w for m in movies.values() for w in _words(m.title)}), 1)
    }
    movie_at = _index(movies)
    user_at = _index(users)
    titles = [[words[word] for word in _words(known.title)] or [0] for known in movies.values()]
    movie_table = Columns(
        {
            "title": _ragged(titles),
            "genres": np.array([[genre in m.genres for genre in GENRES] for m in movies.values()], np.float32),
        }
    )
    user_table = Columns(
        {
            "gender": np.array([known.gender == "M" for known in users.values()], np.int64),
            "age": np.searchsorted(AGES[1:], [known.age for known in users.values()], side="right").astype(np.int64),
            "occupation": np.array([occupations[known.occupation] for known in users.values()], np.int64),
        }
    )
    test = _for_testing(user, seed)

    def rows(chosen: np.ndarray) -> Columns:
        u, m = user[chosen], movie[chosen]
        target = (2 * stars[chosen] - 5).astype(np.float32)
        return Columns(
            {"user": u, "movie": m, **user_table.take(user_at[u]), **movie_table.take(movie_at[m]), "target": target}
        )

    sizes = {
        "user": len(user_at),
        "movie": len(movie_at),
        "gender": 2,
        "age": len(AGES),
        "occupation": len(occupations),
    }
    return MovieLens(
        rows(np.flatnonzero(~test)), rows(np.flatnonzero(test)), sizes | {"title": len(words) + 1, "genres": 18}
    )


def mean_baseline(train: Columns, test: Columns) -> float:
    """Test RMSE, in stars, of predicting mean + movie offset + user offset.

    The movie's offset is its mean distance from the overall mean, the user's the mean distance from that; both are
    shrunk towards 0 as if there were five more ratings without any distance.
    """
    mean = train["target"].mean(dtype=np.float64)
    rest = train["target"] - mean
    movie = _offsets(train["movie"], rest, test["movie"])
    user = _offsets(train["user"], rest - movie[train["movie"]], test["user"])
    predicted = mean + movie[test["movie"]] + user[test["user"]]
    return float(np.sqrt(np.mean((predicted - test["target"]) ** 2))) / 2


def _offsets(ids: np.ndarray, rest: np.ndarray, others: np.ndarray) -> np.ndarray:
    size = int(max(ids.max(), others.max(initial=0))) + 1
    return np.bincount(ids, rest, size) / (np.bincount(ids, minlength=size) + 5)


def _for_testing(user: np.ndarray, seed: int) -> np.ndarray:
    """Which ratings are for testing, as booleans."""
    order = np.lexsort((np.random.default_rng(seed).random(len(user)), user))
    ordered = user[order]
    counts = np.bincount(user)
    rank = np.arange(len(user)) - (np.cumsum(counts) - counts)[ordered]
    chosen = np.zeros(len(user), bool)
    chosen[order] = rank < np.floor(counts * TEST_SHARE)[ordered]
    return chosen


def _words(title: str) -> list[str]:
    return re.findall(r"[^\W_]+(?:'[^\W_]+)*", re.sub(r"\s*\(\d{4}\)\s*$", "", title).lower())


def _ragged(lists: Iterable[list[int]]) -> Ragged:
    lists = list(lists)
    offsets = np.zeros(len(lists) + 1, np.int64)
    np.cumsum([len(entry) for entry in lists], out=offsets[1:])
    return Ragged(np.array([value for entry in lists for value in entry], np.int64), offsets)


def _index(known: Mapping[int, object]) -> np.ndarray:
    """Position by id."""
    at = np.full(max(known) + 1, -1, np.int64)
    at[list(known)] = np.arange(len(known))
    return at


class _Files:
    """The files of a directory or of a zip, by their bare names."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if path.is_dir():
            self._read: dict[str, Callable[[], bytes]] = {
                p.name: p.read_bytes for p in sorted(path.rglob("*")) if p.is_file()
            }
        elif zipfile.is_zipfile(path):
            archive = zipfile.ZipFile(path)
            names = [name for name in archive.namelist() if not name.endswith("/")]
            self._read = {Path(name).name: partial(archive.read, name) for name in names}
        else:
            raise InputError(f"{path} is neither a directory nor a zip file; give the MovieLens directory or its zip")

    def has(self, name: str) -> bool:
        return name in self._read

    def read(self, name: str) -> bytes:
        if name not in self._read:
            raise InputError(f"{self.path} has no {name}; unpack the whole MovieLens archive")
        return self._read[name]()


@dataclass(frozen=True)
class _Layout:
    """How one edition writes its files."""

    ratings: str
    users: str
    movies: str
    separator: str
    encoding: str
    header: bool
    user: Callable[[list[str]], User]
    movie: Callable[[list[str]], Movie]


def _ratings(files: _Files, layout: _Layout) -> np.ndarray:
    content = files.read(layout.ratings).replace(b"::", b"\t")
    try:
        table = np.loadtxt(
            io.BytesIO(content), np.int64, delimiter="\t", usecols=(0, 1, 2), skiprows=int(layout.header), ndmin=2
        )
    except ValueError as error:
        raise InputError(f"{files.path}/{layout.ratings}: {error}; the file is damaged, fetch it again") from None
    if not len(table) or table[:, 2].min() < 1 or table[:, 2].max() > 5:
        raise InputError(f"{files.path}/{layout.ratings} must hold ratings of 1 to 5 stars")
    return table


def _parsed(
    files: _Files, name: str, layout: _Layout, parse: Callable[[list[str]], Entry]
) -> Iterator[tuple[int, Entry]]:
    for number, line in enumerate(files.read(name).decode(layout.encoding).splitlines(), 1):
        if line and not (layout.header and number == 1):
            cells = line.split(layout.separator)
            try:
                yield int(cells[0]), parse(cells)
            except (ValueError, IndexError):
                raise InputError(f"{files.path}/{name}:{number} is not a line of MovieLens: {line[:60]!r}") from None


_FLAGS = ("unknown", *GENRES)
_LAYOUTS = (
    _Layout(
        *("ratings.dat", "users.dat", "movies.dat", "::", "latin-1", False),
        user=lambda cells: User(cells[1], int(cells[2]), cells[3]),
        movie=lambda cells: Movie(cells[1], frozenset(cells[2].split("|"))),
    ),
    _Layout(
        *("u.data", "u.user", "u.item", "|", "latin-1", False),
        user=lambda cells: User(cells[2], int(cells[1]), cells[3]),
        movie=lambda cells: Movie(
            cells[1], frozenset(g for g, flag in zip(_FLAGS, cells[5:], strict=True) if flag == "1")
        ),
    ),
    _Layout(
        *("ml-100k.inter", "ml-100k.user", "ml-100k.item", "\t", "utf-8", True),
        user=lambda cells: User(cells[2], int(cells[1]), cells[3]),
        movie=lambda cells: Movie(cells[1], frozenset(cells[3].split(" "))),
    ),
)
