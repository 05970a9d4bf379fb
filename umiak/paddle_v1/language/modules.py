"""What `import` means inside v1 files: paddle.* is ours, Python 2's library has its old names, files beside are translated.

A `Modules` holds what it loaded itself. Nothing enters sys.modules or sys.path, so no other code sees any of it.
"""

from __future__ import annotations

import builtins
import importlib
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from umiak.errors import InputError, UmiakError
from umiak.paddle_v1.python2 import builtin_names, library, pickles, translation

_HELPERS = "paddle.trainer_config_helpers"
_PARTS = (
    *("layers", "networks", "attrs", "activations", "poolings", "optimizers", "data_sources", "evaluators"),
    "default_decorators",
)
# What stands for the original's modules. None: a package that only holds others.
_OURS = {
    "paddle": None,
    "paddle.trainer": None,
    "paddle.trainer.PyDataProvider2": "umiak.paddle_v1.data.provider",
    "paddle.trainer.config_parser": "umiak.paddle_v1.language.names",
    _HELPERS: "umiak.paddle_v1.language.names",
    **{f"{_HELPERS}.{part}": "umiak.paddle_v1.language.names" for part in _PARTS},
    **{f"{_HELPERS}.{part}": "umiak.paddle_v1.language.arithmetic" for part in ("layer_math", "math")},
}


class Modules:
    """The modules of one config and its providers, found in `directories`; `given` are names they all can use."""

    def __init__(self, directories: Sequence[Path], given: Mapping[str, Any] | None = None) -> None:
        self._directories, self._path = tuple(directories), set(sys.path)
        self.files: list[Path] = []
        self._loaded: dict[str, ModuleType] = {}
        own = {"__import__": self._import, "execfile": self._execfile, **(given or {})}
        self._python2 = {**builtin_names.namespace(), **own, "exec": self._exec}
        self._python3 = {**vars(builtins), **own}

    @property
    def directories(self) -> tuple[Path, ...]:
        """Where modules are looked for: also in what a config has put on sys.path."""
        return (*self._directories, *(Path(added).resolve() for added in sys.path if added not in self._path))

    def load(self, name: str) -> ModuleType:
        """The module of that name beside the config; an InputError names the file and line of what is wrong with it."""
        with self.explained():
            module = self._local(name)
        if module is None:
            where = " or ".join(map(str, dict.fromkeys(self.directories)))
            raise InputError(f"there is no {name.replace('.', '/')}.py in {where}")
        return module

    def run(self, path: Path) -> ModuleType:
        """Run a config file."""
        with self.explained():
            return self._execute("__config__", path, package="")

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Whatever v1 code raises becomes an InputError that names its line."""
        try:
            yield
        except translation.Located as error:
            raise InputError(str(error)) from error
        except InputError as error:
            raise InputError(f"{self._blame(error)}{error}") from error
        except (UmiakError, KeyboardInterrupt):
            raise
        except BaseException as error:
            said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            raise InputError(f"{self._blame(error)}{said}") from error

    def where(self) -> tuple[str, int]:
        """The file and line of v1 code that is running now."""
        known = set(map(str, self.files))
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if frame.f_code.co_filename in known:
                return frame.f_code.co_filename, frame.f_lineno
            frame = frame.f_back
        return str(self.files[0]), 1

    def _blame(self, error: BaseException) -> str:
        known = set(map(str, self.files))
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in known]
        return f"{frames[-1].filename}:{frames[-1].lineno}: " if frames else ""

    def _execute(self, name: str, path: Path, package: str) -> ModuleType:
        try:
            data = path.read_bytes()
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror}") from None
        self.files.append(path)
        compiled = translation.compile_file(data, str(path))
        module = ModuleType(name)
        module.__dict__.update(__file__=str(path), __package__=package)
        module.__dict__["__builtins__"] = self._python2 if compiled.python2 else self._python3
        self._loaded[name] = module
        try:
            exec(compiled.code, module.__dict__)
        except BaseException:
            del self._loaded[name]
            raise
        return module

    def _import(
        self,
        name: str,
        namespace: Mapping[str, Any] | None = None,
        _locals: Any = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        package = str((namespace or {}).get("__package__") or "")
        if level > 0:
            base = package.rsplit(".", level - 1)[0]
            return self._wanted(f"{base}.{name}" if name else base, base, fromlist)
        if package and self._local(f"{package}.{name.partition('.')[0]}"):
            # Python 2 looks beside the importing module of a package first.
            return self._wanted(f"{package}.{name}", f"{package}.{name.partition('.')[0]}", fromlist)
        return self._wanted(name, name.partition(".")[0], fromlist)

    def _wanted(self, name: str, top: str, fromlist: Sequence[str] | None) -> ModuleType:
        """What an import statement binds: the first part of the name, or the last where names are taken from it."""
        module = self._find(name)
        if not fromlist:
            return self._find(top)
        for wanted in fromlist:
            if wanted != "*" and not hasattr(module, wanted) and hasattr(module, "__path__"):
                self._find(f"{name}.{wanted}")
        return module

    def _find(self, name: str) -> ModuleType:
        if name in self._loaded:
            return self._loaded[name]
        if name.partition(".")[0] == "paddle":
            return self._paddle(name)
        if (local := self._local(name)) is not None:
            return local
        if name in ("pickle", "cPickle", "six.moves.cPickle"):
            module: ModuleType | None = pickles.pickling(self._class)
        elif name in ("six", "six.moves"):
            ours = {"moves": "six.moves"} if name == "six" else {"cPickle": "cPickle"}
            names = {attribute: self._find(each) for attribute, each in ours.items()}
            module = library.OldModule(name, importlib.import_module(name), names)
        else:
            module = library.find(name)
        self._loaded[name] = module or importlib.import_module(name)
        return self._loaded[name]

    def _local(self, name: str) -> ModuleType | None:
        """A module in a file beside the config, with the packages it is in."""
        if name in self._loaded:
            return self._loaded[name]
        parent, _, last = name.rpartition(".")
        holder = self._local(parent) if parent else None
        if parent and holder is None:
            return None
        for directory in self.directories:
            path = directory.joinpath(*name.split("."))
            package = path / "__init__.py"
            if package.is_file():
                module = self._execute(name, package, package=name)
                module.__path__ = [str(path)]
            elif (file := path.with_name(f"{path.name}.py")).is_file():
                module = self._execute(name, file, package=parent)
            else:
                continue
            if holder is not None:
                setattr(holder, last, module)
            return module
        return None

    def _paddle(self, name: str) -> ModuleType:
        if name not in _OURS:
            file, line = self.where()
            raise translation.Located(
                f"{file}:{line}: umiak has no {name}; it has {_HELPERS} and paddle.trainer.PyDataProvider2"
            )
        ours = _OURS[name]
        module = ModuleType(name)
        if ours is None:
            module.__path__ = []
        else:
            stands = importlib.import_module(ours)
            names = getattr(stands, "NAMES", None) or {key: getattr(stands, key) for key in stands.__all__}
            module.__dict__.update(names, __all__=sorted(names), __path__=[])
        self._loaded[name] = module
        parent, _, last = name.rpartition(".")
        if parent:
            setattr(self._find(parent), last, module)
        return module

    def _class(self, module: str, name: str) -> Any:
        """A class that a pickle names and that stands in a file beside the config."""
        return getattr(self._find(module), name)

    def _exec(self, code: Any, namespace: Any = None, local: Any = None) -> None:
        frame = sys._getframe(1)
        if isinstance(code, str):
            code = translation.compile_python2(code.encode("latin-1"), "<string>")
        own = frame.f_globals if namespace is None else namespace
        own.setdefault("__builtins__", self._python2)
        exec(code, own, (frame.f_locals if namespace is None else own) if local is None else local)

    def _execfile(self, name: str, namespace: Any = None, local: Any = None) -> None:
        path = Path(name)
        self.files.append(path)
        frame = sys._getframe(1)
        code = translation.compile_file(path.read_bytes(), str(path)).code
        own = frame.f_globals if namespace is None else namespace
        own.setdefault("__builtins__", self._python2)
        exec(code, own, local)
