"""Made-up ratings with the shape of ml-1m, for measuring speed where the real data are not at hand."""

from __future__ import annotations

import numpy as np

from umiak.data.movielens import AGES, GENRES, Movie, MovieLens, User, assemble

RATINGS, USERS, MOVIES, LAST_MOVIE, WORDS, OCCUPATIONS = 1_000_209, 6_040, 3_706, 3_952, 5_600, 21
_TASTE = 8
_TITLE_LENGTHS = (0.08, 0.15, 0.20, 0.20, 0.15, 0.10, 0.07, 0.05)


def movielens(seed: int = 0, ratings: int = RATINGS) -> MovieLens:
    """As many users, movies, title words and ratings as ml-1m, a few popular ones and a long tail.

    Stars follow hidden tastes that depend on user, movie, genres, words, gender, age and occupation, plus noise, so a
    model can learn from every field. A user may rate a movie twice.
    """
    random = np.random.default_rng(seed)
    movie_ids = np.sort(random.permutation(LAST_MOVIE)[:MOVIES]) + 1
    lengths = random.choice(len(_TITLE_LENGTHS), MOVIES, p=_TITLE_LENGTHS) + 1
    titles = [_popular(random, WORDS, length, 1.0, 3) for length in lengths]
    genres = [random.permutation(len(GENRES))[: random.integers(1, 4)] for _ in range(MOVIES)]
    gender, age, occupation = (random.integers(0, n, USERS) for n in (2, len(AGES), OCCUPATIONS))

    word_taste, genre_taste = (random.normal(size=(n, _TASTE)) for n in (WORDS, len(GENRES)))
    movie_taste = random.normal(size=(MOVIES, _TASTE)) * 0.8
    movie_taste += [0.5 * word_taste[t].mean(0) + genre_taste[g].mean(0) for t, g in zip(titles, genres, strict=True)]
    user_taste = random.normal(size=(USERS, _TASTE)) * 0.7
    for feature, size in ((gender, 2), (age, len(AGES)), (occupation, OCCUPATIONS)):
        user_taste += 0.4 * random.normal(size=(size, _TASTE))[feature]

    user = _popular(random, USERS, ratings, 0.9, 100)
    movie = _popular(random, MOVIES, ratings, 0.9, 50)
    liking = 0.25 * np.einsum("nk,nk->n", user_taste[user], movie_taste[movie])
    liking += 0.3 * random.normal(size=USERS)[user] + 0.4 * random.normal(size=MOVIES)[movie]
    stars = np.clip(np.rint(3.58 + liking + 0.7 * random.normal(size=ratings)), 1, 5).astype(np.int64)

    users = {
        number + 1: User("FM"[gender[number]], AGES[age[number]], f"{occupation[number]:02}") for number in range(USERS)
    }
    movies = {
        int(number): Movie(" ".join(f"word{word}" for word in title), frozenset(GENRES[genre] for genre in kinds))
        for number, title, kinds in zip(movie_ids, titles, genres, strict=True)
    }
    return assemble(user + 1, movie_ids[movie], stars, users, movies, seed)


def _popular(random: np.random.Generator, n: int, size: int, power: float, shift: float) -> np.ndarray:
    """Numbers below n, a few of them often: the k-th most frequent (at a random place) in proportion to (k + shift)^-power."""
    share = np.cumsum((np.arange(1, n + 1) + shift) ** -power)
    return random.permutation(n)[np.searchsorted(share, random.random(size) * share[-1], side="right")]
