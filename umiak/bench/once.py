"""One run in a process of its own: `python -m umiak.bench.once` with a Run as JSON. Its result, if any, is its last line."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

from umiak.bench.run import Run
from umiak.bench.systems import place
from umiak.errors import UmiakError
from umiak.paddle_v1.registration import register


def main(request: dict[str, Any]) -> int:
    run = Run(**{**request, "data": Path(request["data"]), "directory": Path(request["directory"])})
    register()
    module, function = place(run.workload, run.system)
    try:
        result = getattr(importlib.import_module(f"umiak.bench.{module}"), function)(run)
    except UmiakError as error:
        print(json.dumps({"failed": str(error)}))
        return error.exit_code
    if result is not None:
        print(json.dumps({**result, "others": run.watch.stop()}))
    return 0


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
