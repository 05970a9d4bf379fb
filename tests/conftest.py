"""`make test` needs no cluster; the tests in tests/kube do, and `make test-kube` runs them."""

collect_ignore = ["kube"]
