"""How `umiak cluster` prints: findings and bills as plain, aligned text. Decides nothing."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from decimal import Decimal

from umiak.cluster.checks.finding import Finding
from umiak.cluster.cost import Line, Report
from umiak.cluster.prices import Price
from umiak.spec.cluster import ClusterSpec

WIDTH = 118
UNKNOWN = "unknown"
STATES = {True: "created", False: "not created", None: "planned; whether it is created is not known"}


def findings(found: Sequence[Finding]) -> str:
    order = {"error": 0, "warning": 1, "info": 2}
    lines = []
    for item in sorted(found, key=lambda item: order[item.level]):
        head = f"{item.level:<8} {item.check:<12} "
        lines += textwrap.wrap(head + item.text, WIDTH, subsequent_indent=" " * len(head), break_on_hyphens=False)
        if item.fix:
            lines += textwrap.wrap(
                "→ " + item.fix,
                WIDTH,
                initial_indent=" " * len(head),
                subsequent_indent=" " * (len(head) + 2),
                break_on_hyphens=False,
                break_long_words=False,
            )
    counts = Counter(item.level for item in found)
    lines.append(f"{_many(counts['error'], 'error')}, {_many(counts['warning'], 'warning')}")
    return "\n".join(lines)


def _many(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"


def bill(spec: ClusterSpec, report: Report, now: datetime) -> str:
    """Fixed lines with their sums, then prices by use; what is not known says so, and a sum without it says «at least»."""
    fixed = [line for line in report.lines if line.per != "use"]
    used = [line for line in report.lines if line.per == "use"]
    head = ["", "quantity", "price", "per hour", "per month"]
    if report.created:
        head += ["age", "so far"]
    rows = [head]
    for line in fixed:
        row = [
            line.what,
            _quantity(line),
            _price(line.price, line),
            _money(line.hourly, line, 4),
            _money(line.monthly, line, 2),
        ]
        if report.created:
            row += [_age(now - line.since) if line.since else "", _money(line.so_far(now), line, 2)]
        rows.append(row)
    rows.append(_total(report, fixed, now))
    text = [f"cluster {spec.name} in {spec.region}: {STATES[report.created]}", "", _aligned(rows)]
    if used:
        text += ["", "by use", _aligned([[line.what, _price(line.price, line)] for line in used])]
    text += ["", *_notes(report)]
    return "\n".join(text)


def per_hour(lines: Sequence[Line]) -> str:
    fixed = [line for line in lines if line.per != "use"]
    total = sum((line.hourly or Decimal(0) for line in fixed), Decimal(0))
    unknown = sum(line.hourly is None for line in fixed)
    currency = next((line.price.currency for line in fixed if line.price), "USD")
    amount = f"{'$' if currency == 'USD' else currency + ' '}{total:.2f} an hour"
    return f"at least {amount} ({unknown} prices unknown)" if unknown else amount


def _total(report: Report, fixed: Sequence[Line], now: datetime) -> list[str]:
    unknown = sum(line.hourly is None for line in fixed)
    currency = next((line.price.currency for line in fixed if line.price), "USD")
    title = "total" if not unknown else f"total, at least ({_many(unknown, 'price')} unknown)"

    def total(amounts: Iterable[Decimal | None], digits: int) -> str:
        return _amount(sum((amount or Decimal(0) for amount in amounts), Decimal(0)), currency, digits)

    row = [title, "", "", total((line.hourly for line in fixed), 4), total((line.monthly for line in fixed), 2)]
    if report.created:
        row += ["", total((line.so_far(now) for line in fixed), 2)]
    return row


def _notes(report: Report) -> list[str]:
    dates = sorted({line.price.asked.isoformat() for line in report.lines if line.price})
    notes = [
        f"Prices of {' and '.join(dates)}, AWS Price List (spot: EC2). A month is 730 hours; no taxes, discounts or free tiers."
    ]
    if report.trouble:
        notes.append(f"Some questions had no answer: {report.trouble}")
    return notes if dates else notes[1:] or ["No price is known."]


def _quantity(line: Line) -> str:
    number = f"{line.quantity:.2f}".rstrip("0").rstrip(".") if line.quantity % 1 else f"{line.quantity:.0f}"
    return f"{number} {line.unit}".strip()


def _price(price: Price | None, line: Line) -> str:
    if price is None:
        return UNKNOWN
    unit = line.unit if line.per == "use" else "-".join(part for part in (line.unit, line.per) if part)
    return f"{_amount(price.amount, price.currency)} /{unit}"


def _money(value: Decimal | None, line: Line, digits: int) -> str:
    return UNKNOWN if value is None or line.price is None else _amount(value, line.price.currency, digits)


def _amount(value: Decimal, currency: str, digits: int = 4) -> str:
    return f"{'$' if currency == 'USD' else currency + ' '}{value:,.{digits}f}"


def _age(age: timedelta) -> str:
    hours = age.total_seconds() / 3600
    if hours < 1:
        return f"{hours * 60:.0f} min"
    return f"{hours:.1f} h" if hours < 48 else f"{hours / 24:.1f} d"


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    """First column to the left, the others to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )
