"""`paddle usage`, with which the old demos told the project how they went: nothing is sent anywhere."""

from __future__ import annotations


def run(argv: list[str]) -> int:
    print("paddle usage: nothing is sent anywhere. The original told api.paddlepaddle.org; the arguments are not read.")
    return 0
