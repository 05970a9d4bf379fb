"""Where data are: a directory of this machine, of a volume, or a bucket. A config that asks here runs unchanged in all places."""

from __future__ import annotations

import os

from umiak.contract import environment


def root() -> str:
    """$UMIAK_DATA, which `data` of a job file sets in the workers, or ./data."""
    return os.environ.get(environment.DATA) or "data"


def path(name: str) -> str:
    """A file or a pattern below $UMIAK_DATA, or below ./data where that is not set.

    In a job on Kubernetes, `data` in job.yaml says where that is: a directory on the volume, or s3://BUCKET/PREFIX. So
    `umiak.data.stream(umiak.data.path("clicks/*.parquet"))` reads from each of these.
    """
    return f"{root().rstrip('/')}/{name.lstrip('/')}"
