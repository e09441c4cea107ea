"""The figures as tables: on the terminal, and in benchmarks/README.md."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from statistics import median

import agree
from cases import BATCH, FAST, GOALS, NATIVE, OURS, Case, Goal
from marked import put
from measure import Figures, python_peak
from report import Report
from rich.console import Console
from rich.table import Table

_BEGIN, _END = "<!-- figures: begin (throughput.py --readme) -->", "<!-- figures: end -->"


# --- on the terminal


def show(report: Report, console: Console) -> None:
    """Print all tables."""
    rates = [c for c in report.cases if c.figure != BATCH]
    times = [c for c in report.cases if c.figure == BATCH]
    for title, cases in (("Rows a second", rates), ("Milliseconds a micro-batch", times)):
        if cases:
            console.print(_ratios(report, f"{title} (median, min–max)", cases))
    console.print(_goals(report))
    console.print(_inside(report))
    others = report.others()
    if others:
        busy = f"Other processes kept {median(others):.2f} cores busy meanwhile (at most {max(others):.2f})"
        console.print(busy if median(others) < 0.1 else f"[yellow]{busy}: the figures are indicative only[/yellow]")
    console.print(f"Python's peak resident memory: {_size(python_peak())}")
    for error in report.errors:
        console.print(f"[red]{error}[/red]")
    if report.quick:
        console.print("[yellow]A quick run: too few batches for figures that could be quoted.[/yellow]")
    console.print(f"The whole benchmark took {report.total_seconds / 60:.1f} minutes.")


def _ratios(report: Report, title: str, cases: list[Case]) -> Table:
    table = Table(title=title)
    for name in ("case", NATIVE, FAST, OURS, "over native", "over fast", "target", "held", "results"):
        table.add_column(name, justify="left" if name == "case" else "right")
    for case in cases:
        ratios = report.ratios(case, NATIVE)
        table.add_row(
            case.name,
            *(_spread(report.values(case, side), _value(case)) for side in (NATIVE, FAST, OURS)),
            _spread(ratios, _times),
            _spread(report.ratios(case, FAST), _times),
            _target(case),
            _held(case.held(median(ratios)) if ratios else None),
            _agreement(report.agreement.get(case.name)),
        )
    return table


def _goals(report: Report) -> Table:
    table = Table(title="Slackwater beside itself (median, min–max)")
    for name in ("figure", "reached", "target", "held"):
        table.add_column(name, justify="left" if name == "figure" else "right")
    for goal in GOALS:
        ratios = report.reached(goal)
        held = goal.held(median(ratios)) if ratios else None
        table.add_row(goal.name, _spread(ratios, _times), _bound(goal), _held(held))
    return table


def _inside(report: Report) -> Table:
    table = Table(title="Inside (medians)")
    names = ("case", "side", "processor", "jobs a page", "in page jobs", "heap peak", "old heap peak", "state")
    for name in names:
        table.add_column(name, justify="left" if name in ("case", "side") else "right")
    for case in report.cases:
        for side in case.sides:
            runs = list(report.figures[case.name][side].values())
            if runs:
                table.add_row(case.name, side, *_inside_of(case, runs))
    return table


def _inside_of(case: Case, runs: list[Figures]) -> list[str]:
    small = case.figure == BATCH
    cpu = [
        f.cpu_seconds * 1e3 / f.batches if small else f.cpu_seconds * 1e9 / f.rows
        for f in runs
        if f.cpu_seconds is not None
    ]
    share = [f.more["spark_seconds"] / f.whole_seconds for f in runs if "spark_seconds" in f.more]
    # Panes may be those of several queries: what one of them has says nothing then.
    state = [f.more["state_bytes"] for f in runs if "state_bytes" in f.more and len(case.queries) == 1]
    return [
        f"{median(cpu):,.0f} {'ms a page' if small else 'ns a row'}" if cpu else "–",
        f"{median(f.jobs / f.batches for f in runs):.2f}",
        f"{median(share):.0%}" if share else "–",
        _size(median(f.heap_peak for f in runs)),
        _size(median(f.old_peak for f in runs)),
        _size(median(state)) if state else "–",
    ]


def _agreement(counts: dict[str, int] | None) -> str:
    if counts is None:
        return "[red]not compared[/red]"
    return f"[green]{counts['compared']:,} equal[/green]" if agree.agreed(counts) else f"[red]{counts}[/red]"


def _held(held: bool | None) -> str:
    return "–" if held is None else "[green]yes[/green]" if held else "[red]no[/red]"


# --- in the README


def rewrite(readme: Path, report: Report) -> None:
    """Put this run's figures between the two marks of a README."""
    put(readme, _BEGIN, _END, markdown(report))


def markdown(report: Report) -> str:
    """The figures that the README shows."""
    versions, others = report.setting["versions"], report.others()
    busy = f", other processes took {median(others):.2f} cores meanwhile" if others else ""
    head = (
        f"{report.setting['begun'][:10]}, two cores, Spark {versions['pyspark']}, Java {versions['java']}, "
        f"one run of {report.total_seconds / 60:.1f} minutes{busy}. "
        "Medians of the repeats, least and largest in brackets:"
    )
    cases = [
        [
            case.name,
            *(_spread(report.values(case, side), _value(case), "{} ({}–{})") for side in (NATIVE, FAST, OURS)),
            _spread(report.ratios(case, NATIVE), _times, "{} ({}–{})"),
            _target(case),
        ]
        for case in report.cases
    ]
    goals = [[goal.name, _spread(report.reached(goal), _times, "{} ({}–{})"), _bound(goal)] for goal in GOALS]
    tables = (
        _markdown(["case", NATIVE, FAST, OURS, "over native", "target"], cases),
        _markdown(["Slackwater beside itself", "reached", "target"], goals),
    )
    return "\n\n".join(["", head, *tables, ""]).strip("\n")


def _markdown(head: list[str], rows: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rows])


# --- figures in words


def _spread(values: list[float], show: Callable[[float], str], form: str = "{}\n{}–{}") -> str:
    if not values:
        return "–"
    if len(values) == 1:
        return show(values[0])
    return form.format(show(median(values)), *(show(v).removesuffix(" ×") for v in (min(values), max(values))))


def _value(case: Case) -> Callable[[float], str]:
    return (lambda v: f"{v:.0f} ms") if case.figure == BATCH else (lambda v: f"{v / 1e6:.2f} M")


def _times(value: float) -> str:
    return f"{value:.2f} ×"


def _target(case: Case) -> str:
    return "–" if case.target is None else f"at {'most' if case.figure == BATCH else 'least'} {case.target}"


def _bound(goal: Goal) -> str:
    return f"at least {goal.least}" if goal.most is None else f"at most {goal.most}"


def _size(value: float) -> str:
    return f"{value / 2**20:,.1f} MiB"
