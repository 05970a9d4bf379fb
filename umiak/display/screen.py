"""A running job on the screen: a live picture on a terminal, plain lines elsewhere, and a summary at the end."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from umiak.display.progress import Progress, duration, number, spark, values_of
from umiak.messages.events import Checkpoint, Event, Notice, Pass, Phase, Restart, Round, Start, Values

LIVE_PASSES = 12
FEW_WORKERS = 6
PLAIN_SECONDS = 5.0
COUNTED = ("worker", "service", "parameter", "table")
# On a terminal these are written above the picture and stay when it is gone.
LASTING = (Notice, Restart)
_COLOURS = {"starting": "yellow", "ready": "cyan", "training": "green", "testing": "blue", "lost": "red", "done": "dim"}


@contextmanager
def display(console: Console | None = None) -> Iterator[Callable[[Event], None]]:
    """Gives a function to call with every event of a job. What was reached is shown at the end, also of a failed one."""
    console = console or Console(highlight=False)
    progress = Progress()
    try:
        if not console.is_terminal or console.is_dumb_terminal:
            yield Plain(progress, console)
        else:
            with _live(progress, console) as show:
                yield show
    finally:
        if progress.passes:
            console.print(Padding(_table(progress), (1, 1)))
        for text in results(progress):
            console.print(text, soft_wrap=True)


@contextmanager
def _live(progress: Progress, console: Console) -> Iterator[Callable[[Event], None]]:
    """A picture that is redrawn while the job runs, and then makes room for the summary."""
    lock = threading.Lock()

    def show(event: Event) -> None:
        with lock:
            progress.apply(event)
        if isinstance(event, LASTING):
            console.print(line(event), style="yellow", markup=False)

    def draw() -> RenderableType:
        with lock:
            return picture(progress)

    with Live(console=console, get_renderable=draw, refresh_per_second=6, transient=True):
        yield show


class Plain:
    """One line per event; rounds at a pace that suits a log."""

    def __init__(self, progress: Progress, console: Console) -> None:
        self.progress, self.console = progress, console
        self._spoke = time.monotonic()

    def __call__(self, event: Event) -> None:
        self.progress.apply(event)
        if isinstance(event, Round):
            if time.monotonic() - self._spoke < PLAIN_SECONDS:
                return
            self._spoke = time.monotonic()
        if text := line(event):
            self.console.print(text, markup=False, soft_wrap=True)
            self.console.file.flush()


def line(event: Event) -> str:
    """An event in one line of text; empty for those that say nothing new to a reader of a log."""
    match event:
        case Start():
            return f"{_size(event)}; output in {event.out}"
        case Phase(phase="lost"):
            return f"worker {event.worker} is lost"
        case Round():
            return f"pass {event.pass_id}  {_rate(event)}"
        case Pass():
            done = f"pass {event.pass_id} done in {duration(event.seconds)}"
            parts = [(part, values) for part in ("train", "test") if (values := values_of(event, part))]
            return "  ".join([done, *(_metrics(part, values) for part, values in parts)])
        case Checkpoint():
            return f"checkpoint of round {event.round:,}: {event.path}"
        case Restart():
            return f"{event.cause}; continuing as generation {event.generation}"
        case Notice():
            return event.text
    return ""


def picture(progress: Progress) -> RenderableType:
    """Everything about a job that is still running."""
    parts: list[RenderableType] = [_head(progress)]
    if progress.phases:
        parts.append(_workers(progress))
    parts.append(_pass(progress))
    if progress.passes:
        parts.append(Padding(_table(progress, LIVE_PASSES), (1, 0, 0, 0)))
    return Padding(Group(*parts), (0, 1))


def results(progress: Progress) -> list[Text]:
    """What stays below the table of passes: the best one beside the baseline, and where everything is."""
    texts = []
    if progress.baseline and (best := progress.best()):
        base, (pass_id, value) = progress.baseline, best
        text = Text.assemble("best pass ", (str(pass_id), "bold"), f": {base.metric} ", (number(value), "bold green"))
        texts.append(text.append(f", baseline ({base.name}) {number(base.value)}"))
    rows = [("restarts", str(len(progress.restarts)))] if progress.restarts else []
    if done := progress.done:
        rows.append(("time", duration(done.seconds)))
        rows += [(name, path) for name, path in (("snapshot", done.snapshot), ("plot", done.plot)) if path]
    texts += [Text.assemble((f"{name:<9} ", "dim"), text) for name, text in rows]
    return [Text(" ") + text for text in texts]


def _size(start: Start) -> str:
    counts = zip((start.workers, start.services, start.parameters, start.tables), COUNTED, strict=True)
    return ", ".join(f"{count:,} {name}{'' if count == 1 else 's'}" for count, name in counts if count)


def _rate(event: Round) -> str:
    return f"batch {event.batch}  {event.samples_per_s:,.0f} samples/s  cost {number(event.cost)}"


def _metrics(part: str, values: Values) -> str:
    return part + "".join(f" {name} {number(value)}" for name, value in values.items())


def _head(progress: Progress) -> Text:
    text = Text.assemble(("umiak", "bold cyan"))
    if not progress.start:
        return text.append(" is starting", style="dim")
    text.append(f"  {_size(progress.start)}")
    return text.append(f"  → {progress.start.out}", style="dim")


def _workers(progress: Progress) -> Text:
    text = Text("workers  ", style="dim", no_wrap=True, overflow="ellipsis")
    if len(progress.phases) <= FEW_WORKERS:
        shown = [(phase, f"{worker} {phase}") for worker, phase in sorted(progress.phases.items())]
    else:
        shown = [(phase, f"{count} {phase}") for phase, count in Counter(progress.phases.values()).items()]
    for phase, words in shown:
        text.append("● ", style=_COLOURS.get(phase, "white"))
        text.append(f"{words}   ", style="not dim")
    if progress.restarts:
        text.append(f"restarts {len(progress.restarts)}   ", style="not dim yellow")
    if progress.checkpoint:
        text.append(f"checkpoint of round {progress.checkpoint.round:,}")
    return text


def _pass(progress: Progress) -> RenderableType:
    event = progress.round
    if event is None:
        return Text("")
    batches = progress.batches()
    row = Table.grid(padding=(0, 2))
    for _ in range(5):
        row.add_column(no_wrap=True)
    row.add_row(
        Text(f"pass {event.pass_id}", style="bold"),
        ProgressBar(total=batches, completed=event.batch, width=20, pulse=not batches),
        Text(f"{event.batch:,}" + (f"/{batches:,}" if batches else "")),
        Text(f"{event.samples_per_s:,.0f} samples/s", style="cyan"),
        Text.assemble("cost ", (number(event.cost), "bold"), (f" {spark(list(progress.costs))}", "magenta")),
    )
    return row


def _table(progress: Progress, last: int | None = None) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("pass", justify="right")
    table.add_column("time", justify="right")
    columns = progress.metrics()
    base, best = progress.baseline, progress.best()
    winner = ("test", base.metric, best[0]) if base and best else None
    for part, name in columns:
        table.add_column(f"{part} {name}", justify="right")
    if base:
        table.add_column(f"{base.name} {base.metric}", justify="right")
    for pass_id in sorted(progress.passes)[-(last or 0) :]:
        event = progress.passes[pass_id]
        cells = [Text(str(pass_id)), Text(duration(event.seconds), style="dim")]
        for part, name in columns:
            value = values_of(event, part).get(name)
            style = "bold green" if (part, name, pass_id) == winner else "bold" if part == "test" else ""
            cells.append(Text("" if value is None else number(value), style=style))
        if base:
            cells.append(Text(number(base.value), style="dim"))
        table.add_row(*cells)
    return table
