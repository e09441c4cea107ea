"""A report on the screen: findings in words, a table, the lines to copy."""

from __future__ import annotations

import io
import sys

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from slackwater.progress.time import TimeDomain
from slackwater.tune.durations import say, write
from slackwater.tune.engines import ENGINES
from slackwater.tune.report import PolicyTrial, Report

#: The names of the table's columns.
COLUMNS = ("may lose", "policy", "lost", "worst stretch", "wait mean", "p95", "p99", "rows held", "lost an hour")
NATIVE = " = withWatermark"
#: Rows that a share allows to lose, below which the table says so: it takes dozens to judge a policy by.
FEW = 25


def show(report: Report, console: Console | None = None) -> None:
    """Print a report."""
    # A pipe has no width, and a cut cell would be of no use there.
    console = console or Console(width=None if sys.stdout.isatty() else 200)
    console.print(rendered(report))


def as_text(report: Report) -> str:
    """The table as plain text."""
    text = io.StringIO()
    Console(file=text, width=200, color_system=None).print(rendered(report))
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines())


def heading(report: Report) -> str:
    """One line: rows, page, windows and target of the back-test."""
    instant = TimeDomain.TIMESTAMP.show
    first, last = (instant(t).partition(".")[0] for t in (report.first, report.last))
    length, slide = (write(t) for t in report.window)
    each = "" if slide == length else f" every {slide}"
    return (
        f"{report.rows:,} rows, arrived {first} to {last}; windows of {length}{each}; "
        f"{report.pages:,} pages of {write(report.page)}"
    )


def remarks(report: Report) -> list[str]:
    """The settings that `tune` chose because the user left them out."""
    if not report.chosen:
        return []
    wanted = {
        "windows": "those of your query (windows=, --window)",
        "page": "the interval of your trigger (page=, --page)",
    }
    write_these = " and ".join(wanted[c] for c in report.chosen)
    said = [f"tune has chosen {' and '.join(report.chosen)}. To set them, write {write_these}."]
    if "page" in report.chosen:
        said.append("Rows of one page are never late for each other, so a shorter page needs a longer delay.")
    return said


def percent(share: float) -> str:
    """A share with two digits that count.

    >>> percent(0.001), percent(0.05), percent(0.12345), percent(0.0), percent(0.00883)
    ('0.1 %', '5 %', '12 %', '0 %', '0.88 %')
    """
    return f"{float(f'{share * 100:.2g}'):g} %"


def _count(rows: float) -> str:
    return f"{rows:,.0f}" if rows >= 10 else f"{rows:.2g}"


def cells(report: Report, tried: PolicyTrial) -> list[str]:
    """A row of the table."""
    figures = tried.figures
    fixed = [f for f in report.fixed if f.target == tried.target and tried.policy == f"bounded({f.native!r})"]
    hour = f"{_count(fixed[0].lost_per_hour)}, worst {fixed[0].worst_hour_rows:,}" if fixed else ""
    name = tried.policy + (NATIVE if fixed else "") + (f", by {report.source}" if tried.by_source else "")
    waits = (say(s * 1e6) for s in (figures.wait_mean, figures.wait_p95, figures.wait_p99))
    held = f"{figures.held_mean:,.0f} (max {figures.held_max:,})"
    return [
        "" if tried.target is None else percent(tried.target) + _few(report, tried.target),
        name,
        percent(figures.lost_share),
        percent(figures.worst_share),
        *waits,
        held,
        hour,
    ]


def _few(report: Report, target: float) -> str:
    """How many rows the share allows, if these are few: one backlog may have more, so nothing is certain."""
    allowed = target * report.rows
    return f" = {allowed:,.0f} rows" if allowed < FEW else ""


def ordered(report: Report) -> list[PolicyTrial]:
    """The policies by target; those without one at the end."""
    return sorted(report.tried, key=lambda t: (t.target is None, t.target or 0.0, t.by_source))


def to_copy(report: Report) -> list[tuple[str, str, str]]:
    """Of each engine its name, its line, and what it would have lost with it."""
    lost = {name: f"   lost {percent(share)}" for name, share in report.lost.items()}
    return [(ENGINES[name], line, lost.get(name, "")) for name, line in report.lines.items()]


def advice(report: Report) -> str:
    """Which policy, and why."""
    best, fixed = report.best, report.fixed_for(report.target)
    grouped = f", where the query groups by {report.source}" if best.by_source else ""
    kept = "keeps to" if best.keeps(report.target) else "comes nearest to"
    worst = f" ({percent(best.figures.worst_share)} in its worst stretch)" if best.missed else ""
    found = (
        f"For {percent(report.target)}: {best.policy} {kept} it{worst} with a mean wait of "
        f"{say(best.figures.wait_mean * 1e6)}{grouped}, and follows when delays change. A delay of {fixed.native} "
        f"would have waited {say(fixed.figures.wait_mean * 1e6)}; it was fitted to these rows."
    )
    if report.filtered is not None:
        found += (
            f" A watermark needs a filter against times far ahead; then a delay of {write(report.filtered[1])} "
            "does for it."
        )
    return found


def rendered(report: Report) -> RenderableType:
    """All of it, for a console."""
    table = Table(box=None, header_style="bold", padding=(0, 1))
    for n, name in enumerate(COLUMNS):
        table.add_column(name, justify="left" if n == 1 else "right", no_wrap=True)
    before: float | None = 0.0
    for tried in ordered(report):
        row = cells(report, tried)
        if tried.target == before:
            row[0] = ""
        before = tried.target
        table.add_row(*row, style="bold" if tried is report.best else "red" if tried.missed else "")
    found = [Text(f"• {finding.text}") for finding in report.findings]
    return Group(
        Text(heading(report), style="bold"),
        *(Text(remark, style="dim") for remark in remarks(report)),
        *(Padding(line, (0, 0, 0, 2), expand=False) for line in found),
        Text(),
        table,
        Text(),
        Text(advice(report)),
        *(Text.assemble(f"  {name:13} ", (line, "green"), loss) for name, line, loss in to_copy(report)),
    )
