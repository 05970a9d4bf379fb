"""What a program of today imports to read batches from a data provider of v1, as examples/paddle_v1/reading.py does."""

from __future__ import annotations

from umiak.paddle_v1.data.source import ProviderSource

__all__ = ["ProviderSource"]
