"""What prompts and notebooks print: texts as they are, figures and results as tables."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from html import escape
from typing import Any

import polars as pl
import pyarrow as pa

from slackwater.errors import did_you_mean

#: Where an empty table of results says why it is empty.
WHY_EMPTY = b"slackwater.why_empty"
#: At most this many entries of a figure are named, and as many rows of results are shown.
_ENTRIES, _ROWS = 4, 20


class ShownText(str):
    """A text that prints as it is, and a picture if it is one."""

    def __repr__(self) -> str:
        return str(self)

    def _repr_svg_(self) -> str | None:
        return str(self) if self.startswith("<svg") else None


class FigureTable(dict[str, Any]):
    """Figures by name, which print as a table: of those that have many entries the first ones are named."""

    def __missing__(self, name: str) -> Any:
        raise KeyError(f"there is no figure {name!r}{did_you_mean(name, self)}; there are {', '.join(self)}")

    def __repr__(self) -> str:
        width = max((len(name) for name in self), default=0)
        return "\n".join(f"{name:{width}}  {_brief(value)}" for name, value in self.items())

    def _repr_html_(self) -> str:
        return html_table(("figure", "value"), ((name, _brief(value)) for name, value in self.items()))


def _brief(value: object) -> str:
    if isinstance(value, Mapping) and value and not any(isinstance(v, (Mapping, list)) for v in value.values()):
        entries = [f"{name} {_brief(entry)}" for name, entry in value.items()]
    elif isinstance(value, Mapping):
        entries = [str(name) for name in value]
    elif isinstance(value, (list, tuple)):
        return f"{len(value)} entries" if value else "none"
    else:
        return f"{value:,.6g}" if isinstance(value, float) else f"{value:,}" if type(value) is int else str(value)
    more = f", and {len(entries) - _ENTRIES} more" if len(entries) > _ENTRIES else ""
    return (", ".join(entries[:_ENTRIES]) or "none") + more


def html_table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A table for a notebook."""
    names = "".join(f"<th>{escape(name)}</th>" for name in head)
    cells = "".join("<tr>" + "".join(f"<td>{escape(str(c))}</td>" for c in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{names}</tr></thead><tbody>{cells}</tbody></table>"


def table_text(table: pa.Table, rows: int) -> str:
    """The first rows of a table for the prompt."""
    times = [f.name for f in table.schema if pa.types.is_timestamp(f.type)]
    frame = pl.DataFrame(table.slice(0, rows)).with_columns(pl.col(times).dt.replace_time_zone(None))
    with pl.Config(
        tbl_hide_column_data_types=True, tbl_hide_dataframe_shape=True, tbl_cols=-1, tbl_rows=-1, tbl_width_chars=-1
    ):
        return str(frame) if table.num_rows <= rows else f"{frame}\nthe first {rows} of {table.num_rows:,} rows"


def explained_if_empty(table: pa.Table, why: Callable[[], str]) -> pa.Table:
    """A table of results that says why it is empty, if it is, where a notebook shows it."""
    _show_in_ipython()
    if table.num_rows:
        return table
    return table.replace_schema_metadata({**(table.schema.metadata or {}), WHY_EMPTY: why().encode()})


def results_as_text(table: pa.Table) -> str | None:
    """Results as IPython prints them; None for a table that is not ours."""
    ours = table.schema.metadata or {}
    if WHY_EMPTY in ours:
        return str(ours[WHY_EMPTY], "utf-8")
    return table_text(table, _ROWS) if any(key.startswith(b"slackwater.") for key in ours) else None


def _show_in_ipython() -> None:
    """Have IPython print tables of results as such, where it runs; other tables of Arrow stay as they are."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is None:
        return
    formatters = shell.display_formatter.formatters
    formatters["text/plain"].for_type(
        pa.Table, lambda table, printer, _: printer.text(results_as_text(table) or repr(table))
    )
    formatters["text/html"].for_type(pa.Table, _results_as_html)


def _results_as_html(table: pa.Table) -> str | None:
    text = results_as_text(table)
    return None if text is None else f"<pre>{escape(text)}</pre>"
