"""The two descriptions of what the server sends, umiak/page/answers.py and web/src/api.ts, say the same."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints, is_typeddict

import pytest

from umiak.page import answers

SOURCE = (Path(__file__).parents[1] / "web" / "src" / "api.ts").read_text()
Shape = dict[str, Any]
"""By key: what is inside it, None if that is no object; the key ends with `?` where there may be nothing."""


def uncommented(text: str) -> str:
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)


INTERFACES = dict(re.findall(r"export interface (\w+) (\{.*?\n\})", uncommented(SOURCE), re.S))
UNIONS = dict(re.findall(r"export type (\w+) = ([^;]*);", uncommented(SOURCE)))


def of_interface(text: str) -> Shape:
    """Of `{ key: type; … }`."""
    fields, depth, start = [], 0, 1
    for place, letter in enumerate(text):
        depth += (letter in "{<[(") - (letter in "}>])")
        if letter == ";" and depth == 1:
            fields.append(text[start:place])
            start = place + 1
    fields.append(text[start : text.rindex("}")])
    shape: Shape = {}
    for field in fields:
        name, colon, kind = field.partition(":")
        if colon:
            shape[name.strip() + ("?" if _outer_null(kind) else "")] = inside(kind)
    return shape


def _outer_null(kind: str) -> bool:
    return bool(re.search(r"\|\s*null\s*$", kind))


def inside(kind: str) -> Shape | None:
    if "{" in kind:
        return of_interface(kind[kind.index("{") : kind.rindex("}") + 1])
    found = [word for word in re.findall(r"\w+", kind) if word in INTERFACES]
    return of_interface(INTERFACES[found[0]]) if found else None


def of_type(cls: type) -> Shape:
    hints = get_type_hints(cls)
    return {name + ("?" if type(None) in get_args(hint) else ""): within(hint) for name, hint in hints.items()}


def within(hint: Any) -> Shape | None:
    if is_typeddict(hint):
        return of_type(hint)
    found = [each for argument in get_args(hint) if (each := within(argument)) is not None]
    return found[0] if found else None


@pytest.mark.parametrize("name", sorted(INTERFACES))
def test_every_object_has_the_same_keys_on_both_sides(name: str) -> None:
    assert of_type(getattr(answers, name)) == of_interface(INTERFACES[name])


@pytest.mark.parametrize("name", ["State", "Axis"])
def test_every_choice_has_the_same_words_on_both_sides(name: str) -> None:
    hint = getattr(answers, name)
    assert get_origin(hint) is Literal
    assert list(get_args(hint)) == re.findall(r'"(\w+)"', UNIONS[name])


@pytest.mark.parametrize(("owner", "key", "words"), [("SeriesName", "group", "Group"), ("Change", "kind", "Kind")])
def test_choices_within_an_object_have_the_same_words_on_both_sides(owner: str, key: str, words: str) -> None:
    line = next(line for line in INTERFACES[owner].splitlines() if line.strip().startswith(f"{key}:"))
    assert re.findall(r'"(\w+)"', line) == list(get_args(getattr(answers, words)))


def test_a_key_that_one_side_lacks_is_found() -> None:
    """That the comparison compares: another key, an inner one, and one that may be nothing all make a difference."""
    text = "{\n  a: number;\n  b: { c: string | null }[] | null;\n}"
    assert of_interface(text) == {"a": None, "b?": {"c?": None}}
