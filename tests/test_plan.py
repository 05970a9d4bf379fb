"""Who runs what in a local job is decided by a pure function: these are its cases."""

from __future__ import annotations

from pathlib import Path

from tests.processes import TINY, snapshot_bytes, umiak
from umiak.launch.plan import plan_workers
from umiak.messages.control import ServiceAddress
from umiak.spec.settings import Settings

RUN = Path("run")


def test_a_worker_is_a_trainer_and_a_server_side_by_side() -> None:
    plans = plan_workers(Settings(workers=2), RUN, "token")
    assert [plan.trainer for plan in plans] == [0, 1]
    assert [plan.addresses for plan in plans] == [
        (ServiceAddress("unix:run/server-0-0", True, True),),
        (ServiceAddress("unix:run/server-1-0", True, True),),
    ]


def test_servers_apart_are_workers_without_a_trainer() -> None:
    plans = plan_workers(Settings(workers=2, servers=1), RUN, "token")
    assert [plan.trainer for plan in plans] == [0, 1, None]
    assert [len(plan.addresses) for plan in plans] == [0, 0, 1]


def test_sparse_ports_hold_the_rows_and_dense_ports_the_blocks() -> None:
    settings = Settings(workers=2, transport="tcp", port=7164, ports_num=2, ports_num_for_sparse=1)
    plans = plan_workers(settings, RUN, "token")
    assert plans[1].addresses == (
        ServiceAddress("127.0.0.1:7167", True, False),
        ServiceAddress("127.0.0.1:7168", True, False),
        ServiceAddress("127.0.0.1:7169", False, True),
    )


def test_a_trainer_reaches_the_server_beside_it_without_tcp_as_in_a_pod() -> None:
    plans = plan_workers(Settings(workers=2, transport="tcp", port=7164, ports_num=2), RUN, "token")
    assert plans[1].beside == ("unix:run/server-1-0", "unix:run/server-1-1")
    assert plan_workers(Settings(workers=2), RUN, "token")[1].beside == ()
    apart = plan_workers(Settings(workers=2, servers=2, transport="tcp"), RUN, "token")
    assert [plan.beside for plan in apart] == [(), (), (), ()]


def test_where_the_servers_are_changes_no_byte(tmp_path: Path) -> None:
    job = ("train", TINY, "--workers", "2", "--passes", "1", "--out")
    umiak(*job, tmp_path / "beside")
    umiak(*job, tmp_path / "apart", "--servers", "2")
    assert snapshot_bytes(tmp_path / "beside") == snapshot_bytes(tmp_path / "apart")
