"""`python -m tests.fake_aws [SPEED]`: the fake as a server to play with, its time so many times faster than ours (60).

Prints what to export, until it is interrupted.
"""

from __future__ import annotations

import contextlib
import sys
import threading

from tests.fake_aws import FakeAws

if __name__ == "__main__":
    speed = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    with FakeAws(speed).running() as fake, contextlib.suppress(KeyboardInterrupt):
        for name, value in fake.environment(fake.admin).items():
            print(f"export {name}={value}", flush=True)
        threading.Event().wait()
