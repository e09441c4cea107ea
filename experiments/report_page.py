"""The HTML of the report: one file that needs no other."""

from __future__ import annotations

import base64
import math
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any

from claims import Claim

PAPERS = {
    "S1": "Srivastava & Widom, Flexible Time Management",
    "S2": "Babcock et al., Chain",
    "S3": "Bai et al., Optimizing Timestamp Management",
    "S4": "Kim et al., Efficient Window Processing over Disordered Streams",
    "S5": "Bhat, Low-latency Estimates",
}
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 75em; margin: 2em auto; padding: 0 1em; color: #222 }
table { border-collapse: collapse; font-size: 13px } caption { text-align: left; font-weight: 600; padding: .6em 0 }
td, th { padding: .15em .7em; border-bottom: 1px solid #ddd; text-align: left }
td.n { text-align: right; font-variant-numeric: tabular-nums }
.table { overflow-x: auto } img { max-width: 100%; background: #fff } summary { cursor: pointer; padding: .5em 0 }
.no { color: #b00 } .yes { color: #070 } nav a { margin-right: 1em }
"""
#: Tables that are longer begin folded.
_LONG = 24


@dataclass(frozen=True)
class Table:
    """Rows under a title; columns are those of any row."""

    title: str
    rows: list[dict[str, Any]]


@dataclass(frozen=True)
class Shown:
    """One experiment: claims with ours beside them, tables, pictures."""

    title: str
    program: str
    claims: list[tuple[Claim, str, bool | None]]
    tables: list[Table]
    pictures: list[Path]


@dataclass(frozen=True)
class Section:
    """The experiments of one paper."""

    paper: str
    experiments: list[Shown]
    not_run: list[str]
    """Titles of those that there is nothing of."""


def page(sections: list[Section], full: bool) -> str:
    """The whole page."""
    mode = "whole streams" if full else "quick mode: shorter streams, nothing on Spark"
    when = datetime.now(UTC).strftime("%d %b %Y %H:%M UTC")
    links = "".join(f'<a href="#{s.paper}">{s.paper}</a>' for s in sections)
    body = "".join(_section(section) for section in sections)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Experiments</title><style>{_STYLE}</style>'
        f"<h1>The papers' experiments, theirs beside ours</h1>"
        f"<p>{when}; last run: {mode}.</p><nav>{links}</nav>{body}</html>"
    )


def _section(section: Section) -> str:
    shown = "".join(map(_experiment, section.experiments)) or "<p>Not run yet.</p>"
    if section.experiments and section.not_run:
        shown += f"<p>Not run yet, for it takes longer: {escape('; '.join(section.not_run))}.</p>"
    return f'<h2 id="{section.paper}">{section.paper}: {escape(PAPERS[section.paper])}</h2>{shown}'


def _experiment(shown: Shown) -> str:
    parts = [f"<h3>{escape(shown.title)}</h3><p><code>{escape(shown.program)}</code></p>"]
    if shown.claims:
        words = {True: "yes", False: "no", None: ""}
        rows = [{"the paper": c.says, "ours": ours, "holds": words[holds]} for c, ours, holds in shown.claims]
        parts.append(_table(Table("claims", rows)))
    parts += [_picture(path) for path in shown.pictures]
    parts += [_table(table) for table in shown.tables]
    return "".join(parts)


def _picture(path: Path) -> str:
    data = base64.b64encode(path.read_bytes()).decode()
    return f'<p><img alt="{escape(path.stem.replace("_", " "))}" src="data:image/svg+xml;base64,{data}"></p>'


def _table(table: Table) -> str:
    names = list(dict.fromkeys(name for row in table.rows for name in row))
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join("<tr>" + "".join(_cell(row.get(name)) for name in names) + "</tr>" for row in table.rows)
    title = escape(table.title)
    if len(table.rows) > _LONG:
        inside = f"<table><tr>{head}</tr>{body}</table>"
        return f'<details class="table"><summary>{title} ({len(table.rows)} rows)</summary>{inside}</details>'
    return f'<div class="table"><table><caption>{title}</caption><tr>{head}</tr>{body}</table></div>'


def _cell(value: Any) -> str:
    if isinstance(value, bool) or value is None or isinstance(value, (str, list, dict)):
        text = "" if value is None else str(value)
        mark = f' class="{text}"' if text in ("yes", "no") else ""
        return f"<td{mark}>{escape(text)}</td>"
    if isinstance(value, float):
        if math.isnan(value):
            return "<td>–</td>"
        return f'<td class="n">{value:,.2f}</td>' if abs(value) >= 0.1 else f'<td class="n">{value:.3g}</td>'
    return f'<td class="n">{value:,}</td>'
