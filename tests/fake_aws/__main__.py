"""`python -m tests.fake_aws`: the fake as a server to play with; prints what to export, until it is interrupted."""

from __future__ import annotations

import contextlib
import threading

from tests.fake_aws import FakeAws

if __name__ == "__main__":
    with FakeAws().running() as fake, contextlib.suppress(KeyboardInterrupt):
        for name, value in fake.environment(fake.admin).items():
            print(f"export {name}={value}", flush=True)
        threading.Event().wait()
