"""A real Kubernetes on one machine, for the tests: a control plane and three nodes, each in a network namespace of its own.

`python -m tests.kube up|down|shell|build|image` uses it by hand, `make test-kube` runs the tests in this directory.
"""
