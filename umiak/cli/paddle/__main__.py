"""What the installed `paddle` runs."""

from __future__ import annotations

import sys

from umiak.cli.main import main

sys.exit(main(["paddle", *sys.argv[1:]], program="paddle"))
