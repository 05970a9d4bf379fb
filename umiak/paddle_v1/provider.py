"""What a program of today imports to declare a data provider of v1, as examples/paddle_v1/reading.py does."""

from __future__ import annotations

from umiak.paddle_v1.data import provider as _provider
from umiak.paddle_v1.data.provider import *  # noqa: F403

__all__ = [*_provider.__all__]
