"""The process of `umiak train … --page` (beside.py): serves one run until its standard input is closed. Prints one line."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

from umiak.errors import UmiakError
from umiak.extras import needed
from umiak.page.beside import READY


def main(out: Path) -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with needed("page", "--page needs"):
            from umiak.page import serving
            from umiak.page.index import Index

        index = Index([out], expected=True)
        page = serving.prepare(index, place=f"#/run/{index.expected_id}")
    except UmiakError as error:
        print(error, flush=True)
        return error.exit_code
    print(f"{READY}{page.address}", flush=True)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    page.run()
    return 0


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
