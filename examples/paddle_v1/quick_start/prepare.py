"""Writes the review sentences as ./data in the layout of 2016: `python prepare.py`, in this directory.

data/dict.txt has a word per line, the first one for all unknown words; data/train.txt and data/test.txt a label, a tab and
the words of a sentence on each line; data/*.list name these files, for the configs.
"""

from pathlib import Path

from umiak.data import text

UNKNOWN = "unk"


def write(directory):
    reviews = text.reviews()
    words = [UNKNOWN, *reviews.words]
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "dict.txt").write_text("".join(f"{word}\n" for word in words))
    for name, table in (("train", reviews.train), ("test", reviews.test)):
        ids, offsets = table["words"]
        with (directory / f"{name}.txt").open("w") as file:
            for number, label in enumerate(table["label"]):
                spoken = " ".join(words[i] for i in ids[offsets[number] : offsets[number + 1]])
                file.write(f"{label}\t{spoken}\n")
        (directory / f"{name}.list").write_text(f"data/{name}.txt\n")
    (directory / "pred.list").write_text("data/test.txt\n")


if __name__ == "__main__":
    write(Path("data"))
    print("wrote data/")
