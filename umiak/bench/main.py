"""The bench as a user runs it: which workloads, what is said meanwhile, where the figures go."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict

from umiak.bench import driver, report, scale
from umiak.bench.systems import GROUPS, systems
from umiak.bench.workloads import WORKLOADS
from umiak.errors import UmiakError
from umiak.spec.settings import Settings


def bench(settings: Settings) -> int:
    if settings.paddle:
        from umiak.bench import paddle

        say("installing Paddle if it is not there yet (600 MB)")
        paddle.install()
    if settings.workload == "scale":
        return _scale(settings)
    if settings.workload == "capacity":
        return _capacity(settings)
    figures: list[report.Figure] = []
    notes: list[str] = []
    for workload in GROUPS[settings.workload]:
        wanted = systems(workload, settings.paddle)
        measured = driver.measure(workload, wanted, settings.rounds, settings.seconds, say)
        figures += report.figures(measured)
        notes += [f"{workload}: {note}" for note in measured.notes]
        _write(settings, [figure.to_json() for figure in figures])
    print("\n".join([report.table(figures), *notes]))
    if settings.plot is not None:
        from umiak.bench.plot import draw

        draw(figures, settings.plot)
        print(settings.plot)
    return 0


def _capacity(settings: Settings) -> int:
    from umiak.bench import capacity

    outcome = capacity.measure(settings.rows, settings.seconds, say)
    print(capacity.report(outcome))
    _write(settings, [capacity.to_json(outcome)])
    return 0


def _scale(settings: Settings) -> int:
    points = scale.measure(settings.rounds, settings.seconds, say)
    costs = scale.fit([point for point in points if point.workers in scale.FITTED], os.cpu_count() or 1)
    network = scale.Network(settings.network_gbit, settings.network_us)
    sizes = {name: WORKLOADS[name].batch_size for name in scale.WORKLOADS}
    print(scale.report(points, costs, network, sizes))
    _write(settings, [asdict(point) for point in points])
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


def _write(settings: Settings, values: list[dict[str, object]]) -> None:
    if settings.json is not None:
        settings.json.write_text(json.dumps(values, indent=1) + "\n")
