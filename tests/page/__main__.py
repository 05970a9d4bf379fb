"""`python -m tests.page`: what the browser tests need, and the pictures of docs/page.md."""

from __future__ import annotations

import argparse
import sys

from tests.page import needs
from umiak.errors import UmiakError


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.page", description="The page in a real browser.")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    verbs.add_parser("install", help="install Debian's Chromium and its driver, if they are missing")
    verbs.add_parser("pictures", help="train the runs of docs/page.md and make its pictures again")
    given = parser.parse_args()
    try:
        needs.require()
        if given.verb == "pictures":
            from tests.page import pictures

            pictures.make()
    except UmiakError as error:
        print(f"python -m tests.page: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
