"""What moto would work out again for every request or every empty account, and what no test here asks it for."""

from __future__ import annotations

import functools
import os

from moto import backends
from moto.core import responses


def install() -> None:
    # 1,300 machine images for every region of every empty account. EKS here has images of its own.
    os.environ["MOTO_EC2_LOAD_DEFAULT_AMIS"] = "false"
    modules = tuple(backends.list_of_moto_modules())
    backends.list_of_moto_modules = lambda: modules
    responses.method_names_from_class = functools.cache(responses.method_names_from_class)
