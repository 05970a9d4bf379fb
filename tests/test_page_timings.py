"""What the page newly measures in a trainer costs next to nothing."""

from __future__ import annotations

from tests import timings


def test_measuring_a_round_costs_a_trainer_a_few_microseconds_at_most() -> None:
    """The limit is 2 µs on an idle machine (`python -m tests.timings`); others may share this one's caches and cores."""
    found = timings.microseconds(5_000)
    print(f"{found:.2f} µs a round")
    assert found < 10
