"""How well the configs of this directory learn: `python examples/paddle_v1/quality.py [NAME …]`.

Trains each of them by `umiak train` as it is and prints what it reaches on the test data: the classifiers of quick_start beside
always guessing the more frequent class, the recommender beside the same network in plain torch and the mean of user and movie.
"""

import os
import sys
import time
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
OUT = Path("out") / "paddle_v1"
CLASSIFIERS = {"lr": 3, "emb": 3, "cnn": 2, "lstm": 2, "bidi-lstm": 2, "db-lstm": 2, "resnet-lstm": 2}
"""The configs of quick_start, and after how many passes they are measured: the data are few, and they soon know them by heart."""
RECOMMENDATION, PASSES = "recommendation", 5


@contextmanager
def working_in(name):
    """The directory of an example, with its data prepared: paths of a v1 config begin where it is started."""
    before = Path.cwd()
    directory = HERE / name
    os.chdir(directory)
    sys.path.insert(0, str(directory))
    try:
        import prepare

        if not (directory / "data" / "test.list").exists():
            prepare.write(directory / "data")
        yield
    finally:
        os.chdir(before)
        sys.path.remove(str(directory))
        sys.modules.pop("prepare", None)


def train(example, config, passes, **flags):
    """The values on the test data after the last pass, and the seconds it took."""
    import umiak

    out = (OUT / (config.strip(".") or example)).resolve()
    began = time.monotonic()
    with working_in(example):
        done = umiak.train(f"trainer_config{config}.py", 1, passes, out, overwrite=True, quiet=True, **flags)
    return done.curves[-1]["test"], time.monotonic() - began


def guessing():
    """The test error of always naming the class that is more frequent in training."""
    with working_in("quick_start"):
        train_labels, test_labels = (
            [line.split("\t")[0] for line in Path(f"data/{name}.txt").read_text().splitlines()]
            for name in ("train", "test")
        )
    frequent = max(set(train_labels), key=train_labels.count)
    return sum(label != frequent for label in test_labels) / len(test_labels)


def classifiers(names):
    print(f"{'quick_start':<14}{'passes':>7}{'test error':>12}{'time':>8}")
    for name in names:
        tested, seconds = train("quick_start", f".{name}", CLASSIFIERS[name])
        error = tested["classification_error_evaluator"]
        print(f"{name:<14}{CLASSIFIERS[name]:>7}{error:>12.4f}{seconds:>6.0f} s", flush=True)
    print(f"{'guessing':<14}{'':>7}{guessing():>12.4f}")


def recommendation():
    from umiak.data import movielens

    sys.path.insert(0, str(HERE / "recommendation"))
    import plain_torch

    print(f"{'recommendation':<24}{'passes':>7}{'test RMSE':>11}{'time':>8}")
    tested, seconds = train("recommendation", "", PASSES, paddle_version="0.9")
    print(f"{'--paddle_version 0.9':<24}{PASSES:>7}{tested['cost'] ** 0.5 / 2:>11.4f}{seconds:>6.0f} s", flush=True)
    with working_in("recommendation"):
        data = movielens.load()
    began = time.monotonic()
    plain = plain_torch.train(data, PASSES)
    print(f"{'plain torch':<24}{PASSES:>7}{plain:>11.4f}{time.monotonic() - began:>6.0f} s", flush=True)
    print(f"{'mean of user and movie':<24}{'':>7}{movielens.mean_baseline(data.train, data.test):>11.4f}")


def main(names):
    known = [*CLASSIFIERS, RECOMMENDATION]
    if unknown := [name for name in names if name not in known]:
        sys.exit(f"{unknown[0]!r} is none of {', '.join(known)}")
    if chosen := [name for name in names or known if name in CLASSIFIERS]:
        classifiers(chosen)
    if RECOMMENDATION in (names or known):
        recommendation()


if __name__ == "__main__":
    main(sys.argv[1:])
