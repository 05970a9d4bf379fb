"""The optional dependencies, and the one line a user reads where one is missing.

An extra is a group of packages in pyproject.toml that training itself does not need. Whatever imports one of them does so inside
`needed`, when it is first used.
"""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Iterator

from umiak.errors import InputError

EXTRAS: dict[str, dict[str, str]] = {
    "cluster": {"boto3": "boto3", "botocore": "boto3", "troposphere": "troposphere", "yaml": "PyYAML"},
    "image": {"urllib3": "urllib3", "uv": "uv", "yaml": "PyYAML"},
    "kube": {
        "cryptography": "cryptography",
        "urllib3": "urllib3",
        "websocket": "websocket-client",
        "yaml": "PyYAML",
    },
    "mlflow": {"mlflow": "mlflow-skinny"},
    "page": {"starlette": "starlette", "uvicorn": "uvicorn"},
    "paddle": {"fissix": "fissix"},
    "parquet": {"pyarrow": "pyarrow"},
    "plot": {"matplotlib": "matplotlib"},
    "s3": {"boto3": "boto3", "botocore": "boto3"},
    "tensorboard": {"tensorboardX": "tensorboardX"},
    "tls": {"cryptography": "cryptography"},
    "wandb": {"wandb": "wandb"},
}
"""By extra: the modules it brings, and the package that each comes with."""


class MissingExtraError(InputError):
    """An optional dependency that this call needs is not installed."""


@contextlib.contextmanager
def needed(extra: str, what: str) -> Iterator[None]:
    """Around imports: if a package of `extra` is missing, an error says so. `what` is its beginning: "Parquet files need"."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = EXTRAS[extra].get((error.name or "").partition(".")[0])
        if package is None:
            raise
        raise MissingExtraError(f"{what} {package}: {install(extra)}") from None


def install(extra: str) -> str:
    """The command that installs an extra."""
    return f"pip install 'umiak[{extra}]'"


def missing(extra: str) -> list[str]:
    """The packages of an extra that are not installed. Imports none of them."""
    return sorted({package for module, package in EXTRAS[extra].items() if importlib.util.find_spec(module) is None})


def not_written() -> str:
    """What a training leaves out for want of an extra, in one line; empty if nothing."""
    absent = {"plot": "no picture of the curves", "tensorboard": "no TensorBoard events"}
    absent = {extra: text for extra, text in absent.items() if missing(extra)}
    return f"{' and '.join(absent.values())}: {install(','.join(absent))} adds them" if absent else ""
