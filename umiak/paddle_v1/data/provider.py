"""What `from paddle.trainer.PyDataProvider2 import *` gives a data provider: the decorator and the input types.

Only the declaration is here; samples are read and batched by source.py.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from umiak.data.usercode import invoke
from umiak.errors import InputError
from umiak.logs import PYTHON
from umiak.paddle_v1.data import input_types as _input_types
from umiak.paddle_v1.data.input_types import *  # noqa: F403
from umiak.paddle_v1.data.input_types import InputType

__all__ = ["CacheType", "provider", *_input_types.__all__]

Process = Callable[[Any, str], Iterable[Any]]
log = logging.getLogger(PYTHON)


class CacheType:
    NO_CACHE = 0
    CACHE_PASS_IN_MEM = 1


class DataProvider:
    """The `settings` of a provider's functions: its options, and whatever the init hook stores. Public names are v1's."""

    def __init__(
        self,
        process: Process,
        options: Mapping[str, Any],
        file_list: Sequence[str],
        order: tuple[str, ...],
        is_train: bool,
    ) -> None:
        self.logger = log
        self.input_types: Any = None
        self.slots: Any = None
        self.generator = process
        self.file_list = list(file_list)
        self.input_order = list(order)
        self.is_train = is_train
        self.should_shuffle: Any = options["should_shuffle"]
        self.pool_size: int = options["pool_size"]
        self.min_pool_size: int = options["min_pool_size"]
        self.can_over_batch_size: bool = options["can_over_batch_size"]
        self.calc_batch_size: Callable[[Any], int] | None = options["calc_batch_size"]
        self.cache: int = options["cache"]
        self.check: bool = options["check"]
        self.check_fail_continue: bool = options["check_fail_continue"]

    @property
    def shuffles(self) -> bool:
        """should_shuffle in any of the ways it could be written; by default training data are shuffled, test data not."""
        said = self.should_shuffle
        said = said.lower() if isinstance(said, str) else said
        if said in (1, "t", "true", "on"):
            return True
        if said in (0, "f", "false", "off"):
            return False
        if said is not None:
            log.warning("should_shuffle=%r is neither True nor False; the default is used", said)
        return self.is_train

    def kinds(self, where: str) -> dict[str, InputType]:
        """The input type of every data layer, in the config's order."""
        declared = self.input_types if self.input_types is not None else self.slots
        order = self.input_order
        if declared is None:
            raise InputError(
                f"{where} has no input_types: give them to @provider or set settings.input_types in init_hook"
            )
        if isinstance(declared, InputType):
            declared = [declared]
        if isinstance(declared, Mapping):
            if missing := [name for name in order if name not in declared]:
                raise InputError(
                    f"{where}: input_types has no {missing[0]!r}, a data layer of the config; it has {', '.join(declared)}"
                )
            found = {name: declared[name] for name in order}
        else:
            if len(declared) != len(order):
                raise InputError(
                    f"{where} declares {len(declared)} input_types and the config has {len(order)} data layers: "
                    f"{', '.join(order)}"
                )
            found = dict(zip(order, declared, strict=True))
        for name, kind in found.items():
            if not isinstance(kind, InputType):
                raise InputError(f"{where}: the input type of {name!r} is {kind!r}; write one like integer_value(2)")
        return found

    @property
    def by_name(self) -> bool:
        """Whether a sample may be a dict."""
        return isinstance(self.input_types if self.input_types is not None else self.slots, Mapping)


class Definition:
    """A function that was decorated with @provider; calling it, as in a test of its author's, still runs the function."""

    def __init__(
        self, process: Process, input_types: Any, init_hook: Callable[..., Any] | None, **options: Any
    ) -> None:
        self.process, self.input_types, self.init_hook, self.options = process, input_types, init_hook, options
        self.__name__ = getattr(process, "__name__", "process")

    def __call__(self, *arguments: Any) -> Iterable[Any]:
        return self.process(*arguments)

    def create(
        self, file_list: Sequence[str], order: tuple[str, ...], is_train: bool, args: Mapping[str, Any]
    ) -> DataProvider:
        """Run the init hook; the provider for these files."""
        made = DataProvider(self.process, self.options, file_list, order, is_train)
        made.slots = self.options.get("slots")
        if self.init_hook is not None:
            named = {**args, "is_train": is_train, "input_order": list(order), "file_list": made.file_list}
            invoke(partial(self.init_hook, made, **named), blame=self.init_hook)
        if made.input_types is None:
            made.input_types = self.input_types
        return made


def provider(
    input_types: Any = None,
    should_shuffle: Any = None,
    pool_size: int = -1,
    min_pool_size: int = -1,
    can_over_batch_size: bool = True,
    calc_batch_size: Callable[[Any], int] | None = None,
    cache: int = CacheType.NO_CACHE,
    check: bool = False,
    check_fail_continue: bool = False,
    init_hook: Callable[..., Any] | None = None,
    **others: Any,
) -> Callable[[Process], Definition]:
    """Make a data provider of `process(settings, file_name)`, which yields the samples of a file."""
    for name in others.keys() - {"slots"}:
        log.warning("@provider has no argument %r; it has no effect", name)

    def decorate(process: Process) -> Definition:
        return Definition(
            process,
            input_types,
            init_hook,
            should_shuffle=should_shuffle,
            pool_size=pool_size,
            min_pool_size=min_pool_size,
            can_over_batch_size=can_over_batch_size,
            calc_batch_size=calc_batch_size,
            cache=cache,
            check=check,
            check_fail_continue=check_fail_continue,
            slots=others.get("slots"),
        )

    return decorate
