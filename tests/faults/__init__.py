"""What reality does to a training job: volumes that fail, hang or are slow, and clocks that are wrong.

These tests need root, FUSE and the Debian packages that `tests/kube/needs.py` names; `make test-kube` runs them.
"""
