"""`make test` needs no cluster and no root; the tests in tests/kube and tests/faults do, and `make test-kube` runs them."""

collect_ignore = ["kube", "faults"]
