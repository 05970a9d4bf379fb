"""Compiles every kernel once, so that later processes load them from numba's cache: `python -m umiak.pserver.warm`.

Part of setting up a machine or an image; without it the first job of a fresh installation spends half a minute on it.
"""

from __future__ import annotations

import numpy as np

from umiak.pserver.placement import merge, owned_by
from umiak.pserver.protocol import Fetch, Flags, ServiceSpec, TableSpec
from umiak.pserver.service import Contribution, Service
from umiak.spec.optim import SGD, to_json


def main() -> None:
    ids, counts, _ = merge(np.arange(8), 2)
    owned_by(ids, 0, len(counts))
    limits = {"min_count": 2, "expire_after": 1, "max_rows": None}
    normal = {"kind": "normal", "mean": 0.0, "std": 1.0}
    tables = [
        TableSpec("whole", 4, normal, None, {**limits, "dtype": "float32"}),
        TableSpec("half", 4, normal, None, {**limits, "dtype": "float16"}),
        TableSpec("plain", 4, normal, 100, {}),
    ]
    spec = ServiceSpec(0, 1, 1, 1, to_json(SGD(lr=0.1)), {}, [("dense", 0, 4)], tables, 0, 1)
    service = Service(spec, np.zeros(4, np.float32))
    wanted = [ids] * len(tables)
    service.fetch(0, wanted, Fetch.CREATE)
    service.fetch(0, wanted, Fetch.PEEK)
    for number in range(4):
        flags = Flags.OUT_OF_DATA if number == 3 else Flags.NONE
        service.want(0, wanted)
        part = Contribution(1, flags, 0.0, np.ones(4, np.float32), [np.ones((8, 4), np.float32)] * len(tables))
        service.contribute(0, number, part)
        service.finish()
        service.rows(0)
    service.tables[0].reserve(1 << 17)
    grown = np.arange(1 << 17)
    for some in (grown, grown[:8]):  # the second finds its ids in the index that was outgrown
        service.tables[1].locate(some)
    service.tables[1].locate(grown[:8], create=False)
    for table in service.tables:
        for chunk in table.export():
            table.restore(chunk.ids, chunk.rows, chunk.passes)
        table.restore_waiting(*table.export_waiting())


if __name__ == "__main__":
    main()
