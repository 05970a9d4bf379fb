"""Runs a config file and takes its `config`. Errors name the file and line; nothing of torch is imported here."""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import os
import sys
import traceback
from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from umiak.errors import InputError, UmiakError
from umiak.files import disk_error, read_bytes
from umiak.spec import readers
from umiak.spec.config import Config
from umiak.spec.settings import Settings

_arguments: dict[str, str] = {}
_beside: set[str] = set()
"""Modules that stood beside a config loaded earlier in this process: the next config imports its own."""
_added: list[str] = []
"""The directory put on sys.path for that config."""


@dataclass(frozen=True)
class Loaded:
    """A config and where it came from: the file itself and the modules beside it that it imported."""

    config: Config
    path: Path | None = None
    files: tuple[Path, ...] = ()
    arguments: Mapping[str, str] = field(default_factory=dict)
    version: str = ""
    """The version of PaddlePaddle v1 that a v1 config means."""
    beside: tuple[Path, ...] = ()
    """Files it depends on that no snapshot copies."""
    decides: Mapping[str, Any] = field(default_factory=dict)
    """Settings that the config itself makes."""
    warnings: tuple[str, ...] = ()
    """What the user should know of the config."""
    records: tuple[logging.LogRecord, ...] = ()
    """What was logged while it was loaded, for the log of each trainer."""

    @property
    def name(self) -> str:
        return self.path.name if self.path else "config.py"

    def fingerprint(self) -> str:
        """Changes with the text of the config, of what it imports from beside it, and with its arguments."""
        digest = hashlib.sha256(repr(sorted(self.arguments.items())).encode() + self.version.encode())
        for path in (*self.files, *self.beside):
            digest.update(path.name.encode() + b"\0" + read_bytes(path))
        return digest.hexdigest()[:16]


def settled(loaded: Loaded, settings: Settings) -> Settings:
    """Settings with what the config decides."""
    return replace(settings, **loaded.decides)


def config_arg(name: str, default: str | int | float | bool) -> str | int | float | bool:
    """The value of `name` in `--config_args name=value`, converted to the type of `default`; otherwise `default`."""
    if name not in _arguments:
        return default
    text = _arguments[name]
    try:
        if isinstance(default, bool):
            return {"true": True, "1": True, "false": False, "0": False}[text.lower()]
        return type(default)(text)
    except (KeyError, ValueError):
        raise InputError(f"--config_args {name}={text}: write a {type(default).__name__}") from None


def load(path: Path, arguments: Mapping[str, str], settings: Settings | None = None) -> Loaded:
    """Run a config, with the reader of its language (readers.py). Such a reader may look at `settings` too."""
    path = path.resolve()
    try:
        data = path.read_bytes()
        if (reader := readers.reader_of(path)) is not None:
            return reader.load(path, arguments, settings or Settings())
        source = data.decode()
    except OSError as error:
        raise disk_error(error, path, "read the config") from None
    except UnicodeDecodeError:
        raise InputError(f"the config {path} is not a Python file") from None
    _arguments.clear()
    _arguments.update(arguments)
    for name in _beside:
        sys.modules.pop(name, None)
    before = set(sys.modules)
    module = _run(path, source)
    config = getattr(module, "config", None)
    if not isinstance(config, Config):
        raise InputError(f"{path} does not define `config`: end it with config = umiak.Config(...)")
    beside = _imported_from_beside(path, before)
    _beside.update(beside)
    return Loaded(config, path, (path, *sorted(beside.values())), dict(arguments))


def _run(path: Path, source: str) -> ModuleType:
    """The config as a module of its own. Errors name the line of the config, or of what it imported, that is to blame."""
    _put_on_path(str(path.parent))
    spec = importlib.util.spec_from_loader(f"umiak_config_{path.stem}", None, origin=str(path))
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    try:
        exec(compile(source, str(path), "exec"), module.__dict__)
    except UmiakError:
        raise
    except SyntaxError as error:
        raise InputError(f"the config is not valid Python: {error.filename}:{error.lineno}: {error.msg}") from None
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        raise InputError(f"the config does not load: {_where(error, path)}: {type(error).__name__}: {error}") from error
    return module


def _imported_from_beside(path: Path, before: Set[str]) -> dict[str, Path]:
    """The modules that a config has imported from its own directory: all but those that were there `before`."""
    return {
        name: Path(file)
        for name, imported in list(sys.modules.items())
        if name not in before
        and (file := getattr(imported, "__file__", None))
        and Path(file).parent == path.parent
        and Path(file) != path
    }


def _put_on_path(directory: str) -> None:
    """Let the config import what stands beside it, and no longer what stands beside the one before."""
    if _added and _added[0] in sys.path:
        sys.path.remove(_added[0])
    sys.path.insert(0, directory)
    _added[:] = [directory]


def _where(error: BaseException, path: Path) -> str:
    """The deepest line of the traceback that is in the config's directory."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename.startswith(f"{path.parent}{os.sep}")
    ]
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else str(path)
