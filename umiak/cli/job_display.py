"""A job on Kubernetes while it runs: a picture that changes on a terminal, a line for each change elsewhere."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from umiak.cli import job_text as text
from umiak.cli.job_text import FEW
from umiak.display.screen import line as event_line
from umiak.messages.events import Checkpoint, Notice, Pass, Restart

if TYPE_CHECKING:
    from umiak.jobs.status import Status
    from umiak.jobs.watch import Away, Meter, Price
    from umiak.kube.api import Api

# Rounds come at a pace that suits a log; all else when it happens.
ROUND_SECONDS = 15.0
TOLD = (Pass, Checkpoint, Restart, Notice)
_COLOURS = {"done": "dim", "running": "green", "training": "green", "failed": "red", "stopping": "yellow"}


def watch(api: Api, namespace: str, name: str, price: Price) -> int:
    """Show a job until it ends; its exit code is ours. Ctrl-C leaves it running and says how to come back."""
    from umiak.jobs.watch import Away, Meter, asked, states

    console = Console(highlight=False)
    meter, (cpu, memory) = Meter(api, price), asked(api, namespace, name)
    seen: Status | None = None
    try:
        if console.is_terminal and not console.is_dumb_terminal:
            with Live(console=console, auto_refresh=False, transient=True) as live:
                for state in states(api, namespace, name):
                    seen, away = (seen, state.why) if isinstance(state, Away) else (state, "")
                    live.update(_picture(seen, away, meter, cpu, memory), refresh=True)
        else:
            teller = _Teller(console)
            for state in states(api, namespace, name):
                teller.tell(state)
                seen = seen if isinstance(state, Away) else state
    except KeyboardInterrupt:
        where = f"{name} -n {namespace}"
        console.print(f"{name} keeps running; watch it again with: umiak job status {where} --watch", soft_wrap=True)
        console.print(f"stop it with: umiak job cancel {where}", soft_wrap=True)
        return 130
    assert seen is not None
    for line in text.end(seen):
        console.print(line, markup=False, soft_wrap=True)
    return seen.exit_code


def _picture(seen: Status | None, away: str, meter: Meter, cpu: Decimal, memory: Decimal) -> RenderableType:
    parts: list[RenderableType] = []
    if away:
        parts.append(Text(f"no answer; training does not need the API server and continues ({away})", style="yellow"))
    if seen is None:
        return Group(*parts)
    now, progress = datetime.now(UTC), text.gathered(seen)
    parts.insert(0, Text(text.head(seen, now), style="bold"))
    if line := text.training(progress):
        parts.append(Text(line))
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for title in ("worker", "phase", "pass", "samples/s", "cost", "node", "last event"):
        table.add_column(title, justify="right" if title in ("pass", "samples/s", "cost") else "left", no_wrap=True)
    for worker in text.shown(seen, progress):
        number_, phase, passed, rate = text.row(worker, seen, progress)
        money = meter.cost(worker, cpu, memory, now)
        shown = f"${money:.2f}" if money is not None else "-"
        coloured = Text(phase, style=_COLOURS.get(phase, ""))
        table.add_row(number_, coloured, passed, rate, shown, worker.node or "-", Text(text.last_event(worker)))
    parts.append(table)
    if len(seen.workers) > table.row_count:
        parts.append(Text(f"{len(seen.workers) - table.row_count} more are like worker 0", style="dim"))
    parts += [Text(line, style="yellow") for line in text.failures(seen, with_log=False)]
    return Group(*parts)


class _Teller:
    """Where nobody looks at a picture: a line for everything that changes."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._said: set[str] = set()
        self._phases: dict[int, str] = {}
        self._next = 0.0

    def tell(self, state: Status | Away) -> None:
        from umiak.jobs.watch import Away

        if isinstance(state, Away):
            self._once(f"no answer, training continues: {state.why}")
            return
        progress = text.gathered(state)
        changed: dict[str, list[str]] = {}
        for worker in state.workers:
            phase = text.row(worker, state, progress)[1]
            if self._phases.get(worker.worker) != phase:
                changed.setdefault(phase, []).append(str(worker.worker))
                self._phases[worker.worker] = phase
        for phase, workers in changed.items():
            word = "worker" if len(workers) == 1 else "workers"
            self._print(f"{word} {', '.join(workers[:FEW])}{'…' if len(workers) > FEW else ''}: {phase}")
        for told in state.told:
            if isinstance(told.event, TOLD):
                self._once(event_line(told.event), told.time)
        if progress.round and time.monotonic() >= self._next:
            self._print(event_line(progress.round))
            self._next = time.monotonic() + ROUND_SECONDS
        for line in text.failures(state, with_log=False):
            self._once(line)

    def _once(self, line: str, when: str = "") -> None:
        if line and line + when not in self._said:
            self._said.add(line + when)
            self._print(line)

    def _print(self, line: str) -> None:
        self.console.print(line, markup=False, soft_wrap=True)
        self.console.file.flush()
