"""`make test` needs no cluster and no root; the tests in tests/kube and tests/faults do, and `make test-kube` runs them."""

from __future__ import annotations

from umiak.paddle_v1.registration import register

collect_ignore = ["kube", "faults"]

register()  # as every entry point does
