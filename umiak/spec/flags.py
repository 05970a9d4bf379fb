"""Reading a command line into Settings by the rules of gflags.

`--flag=value` or `--flag value`, underscores or dashes, `--x`, `--nox` and `--x=0/1/true/false` for switches, the last
one wins. What the flags are is umiak/spec/settings.py; what they do is for the verbs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, replace
from pathlib import Path
from textwrap import wrap
from typing import Any, Generic, NamedTuple, TypeVar

from umiak.errors import InputError
from umiak.spec.ignored import IGNORED
from umiak.spec.settings import FLAGS, Flag, Settings

__all__ = ["Own", "Settings", "build", "help_own", "help_text", "parse", "parse_own", "written"]

S = TypeVar("S")
POSITIONAL = {
    "pserver": None,
    "paddle train": None,
    "paddle pserver": None,
    "paddle merge_model": None,
}
DEFAULTS: dict[str, dict[str, Any]] = {
    "pserver": {"transport": "tcp", "save_dir": Path()},
    "trainer": {"transport": "tcp"},
    "predict": {"workers": 1},
    # v1's own. How many trainers there are, its servers were told and its trainers not always: 0 asks the servers.
    "paddle train": {
        "transport": "tcp",
        "local": True,
        "num_passes": 100,
        "save_dir": Path("output/model"),
        "num_gradient_servers": 0,
    },
    "paddle pserver": {"transport": "tcp", "save_dir": Path()},
}
ROLE_OF = {"paddle train": "trainer", "paddle pserver": "pserver"}
"""The flags of v1 that act in these roles act in v1's commands too."""
TAKES_V1 = ("train", "pserver", "trainer", "test", "predict", "paddle train", "paddle pserver", "paddle merge_model")
JOBS = ("train", "test")
"""What --job may say outside of `paddle train`, which knows two more."""
_TRUE = ("1", "true", "t", "yes", "y")
_FALSE = ("0", "false", "f", "no", "n")


@dataclass(frozen=True)
class _Known:
    """A flag as the reader sees it; `flag` is None when it has no effect anywhere."""

    name: str
    type: str
    flag: Flag | None
    default: Any = None


@dataclass(frozen=True)
class Own(Generic[S]):
    """The arguments of a verb that shares them with no other: a dataclass, its flags, and the one word without dashes."""

    cls: type[S]
    flags: Mapping[str, Flag]
    positional: str
    metavar: str


class Listed(NamedTuple):
    """A flag as a person writes it."""

    names: tuple[str, ...]
    type: str
    help: str
    choices: tuple[str, ...]


class _Read(NamedTuple):
    """What a command line says: values by name, warnings, words without dashes."""

    values: dict[str, Any]
    warnings: dict[str, str]
    positionals: list[str]


def _known(cls: type[Any] = Settings, flags: Mapping[str, Flag] = FLAGS) -> dict[str, _Known]:
    known = {name: _Known(name, ignored.type, None) for name, ignored in IGNORED.items()} if cls is Settings else {}
    for f in fields(cls):
        if flag := flags.get(f.name):
            known |= dict.fromkeys((f.name, *flag.aliases), _Known(f.name, str(f.type), flag, f.default))
    return known


def parse(verb: str, argv: list[str]) -> Settings:
    """Settings for a verb, or a command of `paddle`. An InputError names the flag and what to write.

    What is ignored ends up in `.warnings`.
    """
    known = _known()
    read = _read(verb, argv, known)
    _place(verb, read, POSITIONAL.get(verb, "config"), _metavar(verb), known)
    values = {**DEFAULTS.get(verb, {}), **read.values}
    return replace(Settings(), **values, warnings=tuple(read.warnings.values()))


def parse_own(verb: str, argv: list[str], own: Own[S]) -> S:
    """The same for a verb with arguments of its own."""
    known = _known(own.cls, own.flags)
    read = _read(verb, argv, known)
    _place(verb, read, own.positional, own.metavar, known)
    return own.cls(**read.values)


def build(verb: str, given: Mapping[str, Any]) -> Settings:
    """Settings from what a Python caller gives by name, held to what flags are held to. A text is read as a flag's is."""
    known = _known()
    values: dict[str, Any] = {}
    warnings: dict[str, str] = {}
    for written, value in given.items():
        entry, _ = _find(verb, f"--{written}", written, known)
        typed = _value(f"--{written}", value, entry) if isinstance(value, str) else _typed(f"--{written}", value, entry)
        _take(verb, entry, typed, f"--{written}", values, warnings)
    return replace(Settings(), **{**DEFAULTS.get(verb, {}), **values}, warnings=tuple(warnings.values()))


def written(settings: Settings) -> dict[str, str]:
    """The flags that would give these settings, each as a user writes its value. Those at their default are left out."""
    defaults = Settings()
    changed = {name: getattr(settings, name) for name in FLAGS if getattr(settings, name) != getattr(defaults, name)}
    return {name: _text(value) for name, value in changed.items() if value is not None}


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ",".join(f"{name}={each}" for name, each in value.items())
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _read(verb: str, argv: list[str], known: dict[str, _Known]) -> _Read:
    values: dict[str, Any] = {}
    warnings: dict[str, str] = {}
    positionals: list[str] = []
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        if word == "--":
            positionals += rest
            break
        if not word.startswith("-") or word == "-":
            positionals.append(word)
            continue
        written, equals, text = word.partition("=")
        name = written.lstrip("-").replace("-", "_")
        entry, negated = _find(verb, written, name, known)
        if negated and equals:
            raise InputError(f"{written} takes no value; write {written} or --{entry.name}={text}")
        if entry.type == "bool":
            text = "false" if negated else text if equals else "true"
        elif not equals:
            if not rest:
                raise InputError(f"{written} needs a value; write {written}={_example(entry)}")
            text = rest.pop(0)
        _take(verb, entry, _value(written, text, entry), word, values, warnings)
    return _Read(values, warnings, positionals)


def _take(verb: str, entry: _Known, value: Any, word: str, values: dict[str, Any], warnings: dict[str, str]) -> None:
    """Keep a value, or say why it has no effect."""
    if entry.flag is None:
        if reason := IGNORED[entry.name].reason:
            warnings[entry.name] = f"--{entry.name} has no effect: {reason}"
    elif not _acts(entry.flag, verb):
        only = f"; it acts in {entry.flag.verbs[0]}" if entry.flag.verbs[0].startswith("paddle ") else ""
        warnings[entry.name] = f"--{entry.name} has no effect in {called(verb)}{only}"
    else:
        values[entry.name] = value
    if entry.name == "job" and value not in JOBS and not verb.startswith("paddle "):
        raise InputError(f"--job={value} is for paddle train; {called(verb)} takes {' and '.join(JOBS)}")
    if verb == "train" and (entry.name == "pservers" or (entry.name == "local" and value is False)):
        raise InputError(
            f"{word}: umiak train starts servers of its own on this machine; one trainer that joins the servers of "
            "--pservers is `paddle train` or `umiak trainer`"
        )


def called(verb: str) -> str:
    """A verb as a user writes it."""
    return verb if verb.startswith("paddle ") else f"umiak {verb}"


def _acts(flag: Flag, verb: str) -> bool:
    return not flag.verbs or verb in flag.verbs or (flag.v1 and ROLE_OF.get(verb) in flag.verbs)


def _find(verb: str, written: str, name: str, known: dict[str, _Known]) -> tuple[_Known, bool]:
    entry, negated = known.get(name), False
    if entry is None and name.startswith("no"):
        entry = known.get(name[2:].removeprefix("_"))
        negated = entry is not None and entry.type == "bool"
        entry = entry if negated else None
    if entry is None or (entry.flag is None and verb not in TAKES_V1):
        raise InputError(f"unknown flag {written}{_nearest(verb, name, known)}; {called(verb)} --help lists all")
    if entry.flag and not _acts(entry.flag, verb) and not (entry.flag.v1 and verb in TAKES_V1):
        others = " and ".join(called(v) for v in entry.flag.verbs if not v.startswith("paddle "))
        raise InputError(f"{written} is a flag of {others}, not of {called(verb)}; {called(verb)} --help lists all")
    return entry, negated


def _nearest(verb: str, name: str, known: dict[str, _Known]) -> str:
    import difflib

    names = [n for n, entry in known.items() if (_acts(entry.flag, verb) if entry.flag else verb in TAKES_V1)]
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f", did you mean --{close[0]}?" if close else ""


def _place(verb: str, read: _Read, name: str | None, metavar: str, known: dict[str, _Known]) -> None:
    """Give the one word without dashes its name. `test` and `predict` take a snapshot or a config (.py)."""
    positionals, values = read.positionals, read.values
    if not positionals:
        return
    if name is None:
        raise InputError(f"{called(verb)} takes flags only, and was given {positionals[0]!r}")
    if len(positionals) > 1:
        raise InputError(f"umiak {verb} takes one {metavar}, and was given {positionals[1]!r} after it")
    if verb in ("test", "predict") and not positionals[0].endswith(".py"):
        name = "init_model_path"
    if values.get(name) is not None:
        raise InputError(f"{positionals[0]!r} and --{name} say the same thing; give one of them")
    values[name] = _value(metavar, positionals[0], known[name])


def _value(written: str, text: str, entry: _Known) -> Any:
    read, kind, _ = _READERS[entry.type]
    try:
        value = read(text)
    except ValueError:
        raise InputError(f"{written}={text!r} is not {kind}; write {written}={_example(entry)}") from None
    return _bounded(written, text, value, entry)


def _typed(written: str, value: Any, entry: _Known) -> Any:
    """A value that is no text, as it is where it has the type of its flag."""
    kinds, kind = _TYPES[entry.type], _READERS[entry.type][1]
    if not isinstance(value, kinds) or (isinstance(value, bool) and entry.type != "bool"):
        raise InputError(f"{written}={value!r} is not {kind}; write {written}={_example(entry)}")
    if isinstance(value, list | tuple):
        value = tuple(map(str, value))
    elif isinstance(value, dict):
        value = {str(name): str(each) for name, each in value.items()}
    return _bounded(written, value, value, entry)


def _bounded(written: str, text: Any, value: Any, entry: _Known) -> Any:
    """A value that is one of the choices and within the bounds of its flag."""
    flag = entry.flag
    if flag and flag.choices and value not in flag.choices:
        raise InputError(f"{written}={text!r} is unknown; write one of {', '.join(flag.choices)}")
    if flag and flag.minimum is not None and value < flag.minimum:
        raise InputError(f"{written}={text} is too small; write at least {flag.minimum}")
    if flag and flag.maximum is not None and value > flag.maximum:
        raise InputError(f"{written}={text} is too large; write at most {flag.maximum}")
    return value


def _switch(text: str) -> bool:
    if text.lower() not in _TRUE + _FALSE:
        raise ValueError
    return text.lower() in _TRUE


def _path(text: str) -> Path:
    if not text:
        raise ValueError
    return Path(text)


def _maybe_path(text: str) -> Path | None:
    return Path(text) if text else None


def _number(text: str) -> float:
    value = float(text)
    if value != value or value in (float("inf"), float("-inf")):
        raise ValueError
    return value


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def pairs(text: str) -> dict[str, str]:
    """What --config_args holds; a ValueError if it is not name=value, with commas."""
    found = {}
    for item in _words(text):
        key, equals, value = item.partition("=")
        if not equals or not key.isidentifier():
            raise ValueError
        found[key] = value
    return found


# By type: how to read it, what an error calls it, and an example to write.
_READERS: dict[str, tuple[Callable[[str], Any], str, str]] = {
    "bool": (_switch, "a switch", "true"),
    "int": (int, "a whole number", "3"),
    "int | None": (int, "a whole number", "3"),
    "float": (_number, "a number", "1.5"),
    "str": (str, "a text", "TEXT"),
    "Path": (_path, "a path", "PATH"),
    "Path | None": (_maybe_path, "a path", "PATH"),
    "tuple[str, ...]": (_words, "a list", "A,B"),
    "dict[str, str]": (pairs, "a list of name=value", "NAME=VALUE"),
}


# By type: what a Python caller may give.
_TYPES: dict[str, tuple[type, ...]] = {
    "bool": (bool,),
    "int": (int,),
    "int | None": (int,),
    "float": (int, float),
    "str": (str,),
    "Path": (Path,),
    "Path | None": (Path,),
    "tuple[str, ...]": (list, tuple),
    "dict[str, str]": (dict,),
}


def _example(entry: _Known) -> str:
    return entry.flag.choices[0] if entry.flag and entry.flag.choices else _READERS[entry.type][2]


def _metavar(verb: str) -> str:
    if verb in ("test", "predict"):
        return "SNAPSHOT or CONFIG"
    if POSITIONAL.get(verb, "config") is None:
        return ""
    return "CONFIG"


def listed(verb: str, cls: type[Any], own: Own[Any] | None) -> list[Listed]:
    """The flags that act in a verb, without the one that is its word without dashes."""
    known = _known(cls, own.flags) if own else _known()
    positional = own.positional if own else POSITIONAL.get(verb, "config")
    return [
        Listed(_written(entry), entry.type, entry.flag.help, entry.flag.choices)
        for name, entry in known.items()
        if entry.flag and _acts(entry.flag, verb) and name == entry.name != positional
    ]


def _written(entry: _Known) -> tuple[str, ...]:
    assert entry.flag is not None
    return tuple(f"--{name.replace('_', '-')}" for name in (*entry.flag.aliases, entry.name))


def help_text(verb: str) -> str:
    """How a verb is called and its flags, one line each with the default."""
    text = _help(verb, _known(), POSITIONAL.get(verb, "config"), _metavar(verb))
    if verb in TAKES_V1:
        ignored = ", ".join(f"--{name}" for name in IGNORED)
        text += ["", *wrap(f"Read for the sake of old scripts, without effect: {ignored}", 110, break_on_hyphens=False)]
    return "\n".join(text)


def help_own(verb: str, own: Own[Any]) -> str:
    return "\n".join(_help(verb, _known(own.cls, own.flags), own.positional, own.metavar))


def _help(verb: str, known: dict[str, _Known], positional: str | None, metavar: str) -> list[str]:
    lines = []
    for name, entry in known.items():
        if entry.flag is None or not _acts(entry.flag, verb) or name != entry.name or name == positional:
            continue
        names = ", ".join(_written(entry))
        if entry.type != "bool":
            kind = {"int": "N", "int | None": "N", "float": "N"}.get(entry.type, _READERS[entry.type][2])
            names += " " + ("|".join(entry.flag.choices) or kind)
        default = DEFAULTS.get(verb, {}).get(name, entry.default)
        shown = ",".join(default) if isinstance(default, tuple) else str(default)
        given = entry.type != "bool" and default not in (None, MISSING, "", ())
        lines.append(f"  {names:<34} {entry.flag.help}" + (f" [{shown}]" if given else ""))
    usage = " ".join(filter(None, ["usage:", called(verb), metavar, "[flags]"]))
    return [usage, "", *lines]
