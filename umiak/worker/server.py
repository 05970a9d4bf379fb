"""A parameter server as a supervisor starts it: `python -m umiak.worker.server`. Never imports torch.

Options come as one line of JSON on stdin, which then stays open as lifeline.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys
from pathlib import Path

from umiak import logs
from umiak.contract.lines import SERVER_MARK
from umiak.errors import UmiakError
from umiak.messages import startup
from umiak.paddle_v1.registration import register
from umiak.pserver.process import ServerOptions, serve


def main() -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    register()
    options = ServerOptions(**json.loads(sys.stdin.readline()))
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    if options.log_file:
        if options.echo:
            logs.echo(os.fdopen(os.dup(2), "w", buffering=1), SERVER_MARK)
        stream = logs.setup(Path(options.log_file), queued=True)
        os.dup2(stream.fileno(), 1)
        os.dup2(stream.fileno(), 2)
    faulthandler.register(signal.SIGUSR1, file=2)
    try:
        serve(options, lambda: print(startup.encode(startup.Listening()), file=answers), sys.stdin.fileno())
    except UmiakError as error:
        print(startup.encode(error), file=answers)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
