"""Umiak: parameter-server training from a laptop to a Kubernetes cluster on AWS and back.

Names are imported when they are first used: `import umiak` alone is cheap and does not import torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from umiak import data, nn
    from umiak.api import Result, join, load, train
    from umiak.errors import InputError, RetryError, UmiakError
    from umiak.spec.config import Baseline, Config, Shard
    from umiak.spec.load import config_arg
    from umiak.spec.optim import FTRL, SGD, AdaDelta, AdaGrad, Adam, AdamW, ParamOptions, RMSProp

__version__ = "0.1.0"

_HOMES = {
    "umiak.api": ("Result", "join", "load", "train"),
    "umiak.errors": ("InputError", "RetryError", "UmiakError"),
    "umiak.spec.config": ("Baseline", "Config", "Shard"),
    "umiak.spec.load": ("config_arg",),
    "umiak.spec.optim": ("FTRL", "SGD", "AdaDelta", "AdaGrad", "Adam", "AdamW", "ParamOptions", "RMSProp"),
}
_PACKAGES = ("data", "nn")
_NAMES = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "FTRL",
    "SGD",
    "AdaDelta",
    "AdaGrad",
    "Adam",
    "AdamW",
    "Baseline",
    "Config",
    "InputError",
    "ParamOptions",
    "RMSProp",
    "Result",
    "RetryError",
    "Shard",
    "UmiakError",
    "config_arg",
    "data",
    "join",
    "load",
    "nn",
    "train",
]


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return importlib.import_module(f"umiak.{name}")
    if name in _NAMES:
        return getattr(importlib.import_module(_NAMES[name]), name)
    raise AttributeError(f"module 'umiak' has no attribute {name!r}")
