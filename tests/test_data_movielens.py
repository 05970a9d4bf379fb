"""The MovieLens loader on small made-up data in the layouts of all editions, and the made-up ratings of ml-1m's shape."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from umiak.data import movielens, synthetic
from umiak.data.columns import Columns
from umiak.errors import InputError

USERS = [(1, "F", 1, "artist"), (2, "M", 25, "writer"), (4, "M", 56, "artist")]
MOVIES = [
    (1, "Toy Story (1995)", ("Animation", "Children's", "Comedy")),
    (3, "L'été, The (1999)", ("Drama",)),
    (7, "(1971)", ()),
]
RATINGS = [(user, movie, 1 + (user * movie + n) % 5) for user, *_ in USERS for n in range(7) for movie in (1, 3, 7)]


def ml_1m(folder: Path) -> None:
    def write(name: str, rows: list[tuple[object, ...]]) -> None:
        (folder / name).write_bytes("".join("::".join(map(str, row)) + "\n" for row in rows).encode("latin-1"))

    write("ratings.dat", [(*row, 978300760) for row in RATINGS])
    write("users.dat", [(*row, "48067") for row in USERS])
    write("movies.dat", [(number, title, "|".join(genres)) for number, title, genres in MOVIES])


def ml_100k(folder: Path) -> None:
    def write(name: str, separator: str, rows: list[tuple[object, ...]]) -> None:
        (folder / name).write_bytes("".join(separator.join(map(str, row)) + "\n" for row in rows).encode("latin-1"))

    write("u.data", "\t", [(*row, 881250949) for row in RATINGS])
    write("u.user", "|", [(number, age, gender, job, "85711") for number, gender, age, job in USERS])
    flags = [tuple(int(g in genres) for g in ("unknown", *movielens.GENRES)) for _, _, genres in MOVIES]
    write("u.item", "|", [(n, title, "", "", "", *flag) for (n, title, _), flag in zip(MOVIES, flags, strict=True)])


def recbole(folder: Path) -> None:
    def write(name: str, header: str, rows: list[tuple[object, ...]]) -> None:
        (folder / name).write_text(header + "\n" + "".join("\t".join(map(str, row)) + "\n" for row in rows))

    write("ml-100k.inter", "user_id:token\titem_id:token\trating:float\ttimestamp:float", [(*r, 1) for r in RATINGS])
    write("ml-100k.user", "user_id:token\t…", [(number, age, gender, job, 0) for number, gender, age, job in USERS])
    write("ml-100k.item", "item_id:token\t…", [(n, title[:-7], title[-5:-1], " ".join(g)) for n, title, g in MOVIES])


def zipped(folder: Path) -> Path:
    path = folder.with_suffix(".zip")
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted(folder.iterdir()):
            archive.write(file, f"{folder.name}/{file.name}")
    return path


LAYOUTS = [ml_1m, ml_100k, recbole]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("place", [Path, lambda folder: folder.parent, zipped], ids=["directory", "parent", "zip"])
def test_every_edition_gives_the_same_tables(
    layout: Callable[[Path], None], place: Callable[[Path], Path], tmp_path: Path
) -> None:
    folder = tmp_path / "edition" / "ml"
    folder.mkdir(parents=True)
    layout(folder)
    data = movielens.load(place(folder))
    assert data.sizes == {
        "user": 5,
        "movie": 8,
        "gender": 2,
        "age": 7,
        "occupation": 2,
        "title": 5,
        "genres": 18,
    }
    assert (len(data.train), len(data.test)) == (63 - 3 * 2, 3 * 2), "a tenth of each user's 21 ratings, rounded down"
    user = data.train["user"]
    people = {
        u: (g, a, o) for u, g, a, o in zip(user, *(data.train[f] for f in ("gender", "age", "occupation")), strict=True)
    }
    assert people == {1: (0, 0, 0), 2: (1, 2, 1), 4: (1, 6, 0)}
    rows = {int(movie): row for row, movie in enumerate(data.train["movie"])}
    one_of_each = Columns(data.train.take(np.array([rows[1], rows[3], rows[7]])))
    titles = np.split(one_of_each["title"].values, one_of_each["title"].offsets[1:-1])
    assert [title.tolist() for title in titles] == [[4, 2], [1, 3], [0]], "story 2, the 3, toy 4, l'été 1, nothing 0"
    assert [np.flatnonzero(genres).tolist() for genres in one_of_each["genres"]] == [[2, 3, 4], [7], []]
    together = np.concatenate(
        [np.stack([p["user"], p["movie"], (p["target"] + 5) / 2]) for p in (data.train, data.test)], 1
    )
    assert sorted(map(tuple, together.T.astype(int))) == sorted(RATINGS)


def test_the_split_depends_on_the_seed_alone(tmp_path: Path) -> None:
    ml_1m(tmp_path)
    first, again, other = (movielens.load(tmp_path, seed=seed).test["movie"].tolist() for seed in (0, 0, 3))
    assert first == again != other


def spoil(folder: Path, name: str, text: str) -> None:
    with (folder / name).open("a") as file:
        file.write(text)


@pytest.mark.parametrize(
    ("name", "line", "message"),
    [
        ("ratings.dat", "1::one::5::0\n", r"ratings\.dat: could not convert string 'one' .* at row 63"),
        ("ratings.dat", "1::1::9::0\n", "must hold ratings of 1 to 5 stars"),
        ("ratings.dat", "9::1::5::0\n", "user 9 has ratings but is not in the list of users"),
        ("ratings.dat", "1::9::5::0\n", "movie 9 has ratings but is not in the list of movies"),
        ("users.dat", "5::F::old::x::0\n", r"users\.dat:4 is not a line of MovieLens: '5::F::old::x::0'"),
        ("movies.dat", "5::Half\n", r"movies\.dat:4 is not a line of MovieLens"),
    ],
)
def test_a_damaged_file_is_named(name: str, line: str, message: str, tmp_path: Path) -> None:
    ml_1m(tmp_path)
    spoil(tmp_path, name, line)
    with pytest.raises(InputError, match=message):
        movielens.load(tmp_path)


def test_what_is_no_movielens_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no MovieLens ratings"):
        movielens.load(tmp_path)
    with pytest.raises(InputError, match="neither a directory nor a zip"):
        movielens.load(tmp_path / "nowhere")
    ml_1m(tmp_path)
    (tmp_path / "users.dat").unlink()
    with pytest.raises(InputError, match=r"has no users\.dat; unpack the whole"):
        movielens.load(tmp_path)


def test_a_fetched_set_with_too_few_ratings_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("UMIAK_DATA", str(tmp_path))
    (tmp_path / "ml-100k").mkdir()
    ml_100k(tmp_path / "ml-100k")
    with pytest.raises(InputError, match="holds 63 ratings where ml-100k has 100000"):
        movielens.load()


def test_the_baseline_is_mean_plus_shrunken_offsets() -> None:
    train = Columns({"user": np.array([0, 0, 1]), "movie": np.array([0, 1, 0]), "target": np.array([5.0, -3.0, 1.0])})
    test = Columns({"user": np.array([0, 2]), "movie": np.array([0, 1]), "target": np.array([1.0, 1.0])})
    movie_0, movie_1 = (4 + 0) / 7, -4 / 6
    user_0 = ((4 - movie_0) + (-4 - movie_1)) / 7
    errors = np.array([1 + movie_0 + user_0 - 1, 1 + movie_1 + 0 - 1])
    assert movielens.mean_baseline(train, test) == pytest.approx(np.sqrt((errors**2).mean()) / 2)


@pytest.mark.slow
def test_made_up_ratings_have_the_shape_of_ml_1m() -> None:
    data = synthetic.movielens(seed=1, ratings=100_000)
    assert len(data.train) + len(data.test) == 100_000
    assert (data.sizes["user"], data.sizes["occupation"]) == (6_041, 21)
    assert 3_600 < len(np.unique(data.train["movie"])) <= 3_706 and data.sizes["movie"] <= 3_953
    assert 5_000 < data.sizes["title"] < 5_400
    assert set(np.unique(data.train["target"])) == {-3, -1, 1, 3, 5}
    assert movielens.mean_baseline(data.train, data.test) < 0.95 * data.test["target"].std() / 2, (
        "there is much to learn"
    )
    again = synthetic.movielens(seed=1, ratings=100_000)
    assert all(np.array_equal(data.train[f], again.train[f]) for f in ("user", "movie", "target", "genres"))
