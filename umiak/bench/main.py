"""The bench as a user runs it: which workloads, what is said meanwhile, where the figures go."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict

from umiak.bench import driver, report, scale
from umiak.bench.arguments import Arguments
from umiak.bench.systems import GROUPS, has_peers, systems
from umiak.bench.workloads import WORKLOADS
from umiak.errors import UmiakError

NO_PEERS = (
    "the systems that umiak is compared with (torch, DistributedDataParallel, Paddle) come with umiak's source tree, not with "
    "the wheel: this measures umiak against its limit"
)


def bench(arguments: Arguments) -> int:
    if not has_peers():
        say(NO_PEERS)
    if arguments.paddle and has_peers():
        from umiak.bench.peers import paddle

        say("installing Paddle unless it is installed already (600 MB)")
        paddle.install()
    if arguments.feeders and has_peers():
        from umiak.bench.peers import feeders

        say("installing mosaicml-streaming and litdata unless they are installed already (6 GB)")
        feeders.install()
    if arguments.workload == "scale":
        return _scale(arguments)
    if arguments.workload == "capacity":
        return _capacity(arguments)
    figures: list[report.Figure] = []
    notes: list[str] = []
    for workload in GROUPS[arguments.workload]:
        wanted = systems(workload, arguments.paddle, arguments.baseline is not None, arguments.feeders)
        measured = driver.measure(
            workload, wanted, arguments.rounds, arguments.seconds, say, baseline=arguments.baseline
        )
        figures += report.figures(measured)
        notes += [f"{workload}: {note}" for note in (*measured.notes, *report.feeders(measured))]
        _write(arguments, [figure.to_json() for figure in figures])
    print("\n".join([report.table(figures), *notes]))
    if arguments.plot is not None:
        from umiak.bench.plot import draw

        draw(figures, arguments.plot)
        print(arguments.plot)
    return 0


def _capacity(arguments: Arguments) -> int:
    from umiak.bench import capacity

    outcome = capacity.measure(arguments.rows, arguments.seconds, say)
    print(capacity.report(outcome))
    _write(arguments, [capacity.to_json(outcome)])
    return 0


def _scale(arguments: Arguments) -> int:
    points = scale.measure(arguments.rounds, arguments.seconds, say)
    costs = scale.fit([point for point in points if point.workers in scale.FITTED], os.cpu_count() or 1)
    network = scale.Link(arguments.network_gbit, arguments.network_us)
    sizes = {name: WORKLOADS[name].batch_size for name in scale.WORKLOADS}
    print(scale.report(points, costs, network, sizes))
    _write(arguments, [asdict(point) for point in points])
    wrong = [
        point for point, predicted in scale.check(points, costs) if abs(predicted / point.seconds - 1) > scale.TOLERANCE
    ]
    if wrong:
        told = ", ".join(f"{point.workload} with {point.workers} workers" for point in wrong)
        raise UmiakError(
            f"the prediction is off by more than {scale.TOLERANCE:.0%} for {told}: measure again when the machine is quiet"
        )
    return 0


def say(text: str) -> None:
    """Progress, apart from the result."""
    print(text, file=sys.stderr, flush=True)


def _write(arguments: Arguments, values: list[dict[str, object]]) -> None:
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(values, indent=1) + "\n")
