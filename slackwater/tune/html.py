"""A report as one page that needs nothing else: findings, table, plots, lines to copy."""

from __future__ import annotations

from html import escape
from importlib.resources import files

from slackwater.progress.time import TimeDomain
from slackwater.tune.durations import DAY, HOUR, MINUTE, NICE, SECOND, nice, say
from slackwater.tune.report import Report
from slackwater.tune.show import COLUMNS, advice, cells, heading, ordered, percent, remarks, to_copy
from slackwater.tune.svg import Axis, Plot

_SPANS = tuple(
    span / SECOND
    for span in (
        *(10, 100, 1_000, 10_000, 100_000, SECOND, 10 * SECOND, MINUTE, 10 * MINUTE),
        *(HOUR, 3 * HOUR, 12 * HOUR, DAY, 7 * DAY, 30 * DAY, 365 * DAY, 3_650 * DAY),
    )
)
_STEPS = tuple(length / SECOND for length in (*NICE, 14 * DAY, 30 * DAY, 100 * DAY, 365 * DAY, 1_000 * DAY))
#: A plot of heartbeats is cut off if its top is this many times as high as three of four values.
_FAR, _HIGHEST = 20, 5
_STYLE = files("slackwater.tune").joinpath("report.css").read_text(encoding="utf-8")
_COLOURS = "".join(
    f".sw-tune rect.c{n},.sw-tune circle.c{n}{{fill:var(--c{n})}}.sw-tune path.c{n}{{stroke:var(--c{n})}}"
    f".sw-tune i.c{n}{{background:var(--c{n})}}"
    for n in range(4)
)


def page(report: Report) -> str:
    """A whole document."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>slackwater tune</title>'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        "<style>body{margin:0;background:var(--back)}</style>"
        f"</head><body>{body(report)}</body></html>\n"
    )


def body(report: Report) -> str:
    """What stands in the document; also for notebooks."""
    found = "".join(f"<li>{escape(f.text)}</li>" for f in report.findings)
    plots = [plot.svg() for plot in (_lateness(report), _trade(report), _lags(report), _losses(report)) if plot]
    lines = "\n\n".join(f"# {name}{lost and ':'}{lost}\n{line}" for name, line, lost in to_copy(report))
    return (
        f'<style>{_STYLE}{_COLOURS}</style><div class="sw-tune"><h1>What would disorder policies have cost?</h1>'
        f'<p class="soft">{escape(" ".join([f"{heading(report)}.", *remarks(report)]))}</p>'
        f"{f'<h2>Findings</h2><ul>{found}</ul>' if found else ''}"
        f"<h2>Policies</h2>{_table(report)}<p>{escape(advice(report))}</p>"
        f"<h2>Lines to copy</h2><pre>{escape(lines)}</pre>{''.join(plots)}{_NOTE}</div>"
    )


_NOTE = (
    '<p class="soft">Lost: the share of (row, window) pairs whose window had been answered when the row came. '
    "Worst stretch: the largest share in 100 pages. Wait: from a window's end to its final answer. Rows held: rows "
    "of open windows, on average. Lost an hour: rows, on average and in the worst hour.</p>"
)


def _table(report: Report) -> str:
    rows = []
    for tried in ordered(report):
        kind = "best" if tried is report.best else "bad" if tried.missed else ""
        cell = "".join(f"<td>{escape(text)}</td>" for text in cells(report, tried))
        rows.append(f'<tr class="{kind}">{cell}</tr>')
    head = "".join(f"<th>{name}</th>" for name in COLUMNS)
    return f'<div class="wide"><table><tr>{head}</tr>{"".join(rows)}</table></div>'


def _span(seconds: float) -> str:
    return say(seconds * SECOND)


def _lateness(report: Report) -> Plot | None:
    bars = [bar for bar in report.lateness if bar[1] > 0]
    if not bars:
        return None
    total = sum(rows for *_, rows in report.lateness)
    shares = [(a, b, rows / total) for a, b, rows in bars]
    x = Axis(bars[0][0], bars[-1][1], "behind the largest time seen", _span, True, _SPANS)
    y = Axis(min(s for *_, s in shares if s) / 2, 3 * max(s for *_, s in shares), "share of rows", percent, True)
    late = sum(share for *_, share in shares)
    title = f"How late rows come: {percent(late)} of them behind the largest time seen"
    delays = {
        f.delay: ", ".join(percent(g.target) for g in report.fixed if g.delay == f.delay) for f in report.fixed
    }
    marks = {delay / 1e6: targets for delay, targets in delays.items() if x.least < delay / 1e6 < x.most}
    plot = Plot(x, y, f"{title}; dashed: the fixed delay for a share that may be lost" if marks else title)
    plot.bars(shares, "c0")
    for at, targets in marks.items():
        plot.mark(at, targets)
    return plot


def _trade(report: Report) -> Plot | None:
    tried = [t for t in report.tried if t.figures.lost_share > 0]
    points = [(share, wait) for _, share, wait in report.curve if share > 0]
    xs = [s for s, _ in points] + [t.figures.lost_share for t in tried]
    if not xs:
        return None
    ys = [w for _, w in points] + [t.figures.wait_mean for t in tried]
    x = Axis(min(xs) / 1.3, max(xs) * 1.3, "lost", percent, True)
    y = Axis(min(0.0, *ys), max(*ys, 1e-3) * 1.05, "mean wait", _span, steps=_STEPS)
    plot = Plot(x, y, "Wait against loss: nearer to the lower left is better")
    plot.line(points, "c0", "every fixed delay (withWatermark)")
    for t in tried:
        kind = "c1" if t.policy.startswith("drop_ratio") else "c2" if t.by_source or "learned" in t.policy else "c3"
        if not t.policy.startswith("bounded("):
            by = f", by {report.source}" if t.by_source else ""
            plot.dot(t.figures.lost_share, t.figures.wait_mean, kind, f"{t.policy}{by}")
    for name, kind in (("drop_ratio", "c1"), ("learned, and others by source", "c2"), ("others", "c3")):
        plot.named(name, kind)
    return plot


def _instants(report: Report) -> tuple[Axis, list[tuple[float, float]]]:
    at = report.timeline.at
    step = at[1] - at[0] if len(at) > 1 else report.page
    show = TimeDomain.TIMESTAMP.show

    end = at[-1] + step
    apart = nice((end - at[0]) / 6)

    def text(value: float) -> str:
        instant = show(int(value))
        if apart >= DAY:
            return instant[5:10]
        return instant[5:16] if end - at[0] > DAY else instant[11:16] if apart >= MINUTE else instant[11:19]

    marks = tuple(float(mark) for mark in range(-(-at[0] // apart) * apart, end, apart))
    return Axis(at[0], end, "arrival", text, marks=marks), [(t, t + step) for t in at]


def _lags(report: Report) -> Plot | None:
    x, parts = _instants(report)
    known = [lag for lags in report.timeline.lags.values() for lag in lags if lag is not None]
    if not known:
        return None
    title = f"How far each heartbeat was behind arrival ({percent(report.target)} may be lost)"
    usual = max(sorted(map(abs, known))[len(known) * 3 // 4], 1e-3)
    most, least = max(*known, 1e-3), min(0.0, *known)
    if max(most, -least) > _FAR * usual:
        # A corrupt time can carry a heartbeat years away; then all others would be one line.
        most, least = min(most, _HIGHEST * usual), max(least, -_HIGHEST * usual)
        title += f"; cut off at {_span(_HIGHEST * usual)}"
    plot = Plot(x, Axis(least, most, "behind arrival", _span, steps=_STEPS), title, height=240)
    for n, (name, lags) in enumerate(report.timeline.lags.items()):
        plot.line([(t, lag) for (t, _), lag in zip(parts, lags, strict=True)], f"c{n % 4}", name)
    return plot


def _losses(report: Report) -> Plot | None:
    x, parts = _instants(report)
    rows, lost = report.timeline.rows, report.timeline.lost
    most = max(rows)
    plot = Plot(x, Axis(0.5, most * 1.1, "rows", lambda v: f"{v:,.0f}", True), "Rows that came, and rows lost", 240)
    plot.bars([(a, b, n) for (a, b), n in zip(parts, rows, strict=True)], "rows")
    plot.named("rows", "rows")
    for n, (name, counts) in enumerate(list(lost.items())[:2]):
        points = [(a, float(c) if c else None) for (a, _), c in zip(parts, counts, strict=True)]
        plot.line(points, f"c{n}", f"lost by {name}")
    return plot
