"""Results of a query as pages of another one: by Spark, so that every Spark SQL expression means the same there."""

from __future__ import annotations

from typing import Any

from slackwater.operators.element import Payload, Staged
from slackwater.operators.page import Page
from slackwater.operators.results_as_rows import PageOf
from slackwater.plan.nodes import ResultsNode, StreamNode, stream_of
from slackwater.progress.time import TimeDomain
from slackwater.spark.page import SparkPage
from slackwater.spark.shape import Shape
from slackwater.spark.store import SparkPages
from slackwater.windows.results import WINDOW_END, row_columns

#: Figures that speak of the rows of the stream.
LATE_FIGURES = ("late_rows", "lost_pairs", "lost_share", "late_by_source", "lost_by_window")


def result_pages(pages: SparkPages) -> PageOf:
    """Makes Spark pages of results, whether these are in the driver or staged as files."""
    shapes: dict[str, Shape] = {}

    def page_of(payload: Payload, node: ResultsNode, number: int, at: int) -> Page:
        if isinstance(payload, Staged):
            rows = pages.spark.read.parquet(pages.root.child(payload.location).address)
        else:
            rows = pages.spark.createDataFrame(payload)
        kernel, stream = node.input.kernel, stream_of(node)
        source = None if kernel.source is None else f"`{kernel.source}`"
        ends = StreamNode(stream.name, (), _last_tick(stream.domain), "", stream.domain, stream.disorder, source)
        named = rows.select(*(f"`{c}`" for c in row_columns(kernel)))
        shape = shapes.setdefault(repr(kernel.spec), Shape())
        return SparkPage.arrive(named, ends, number, at, shape, pages)

    return page_of


def aggregate_figures(windows: list[dict[str, Any]]) -> dict[str, Any]:
    """The figures of a query's aggregates, the topmost first: its own, late rows as the first one saw them."""
    mine = [{k: v for k, v in w.items() if k not in ("queued", "queued_rows")} for w in windows]
    figures = dict(mine[0])
    if len(mine) > 1:
        figures.update({k: v for k, v in mine[-1].items() if k in LATE_FIGURES})
        figures["inner"] = [{k: v for k, v in m.items() if k not in LATE_FIGURES} for m in mine[1:]]
        refused = sum(m.get("prods_refused", 0) for m in mine)
        figures.update({"prods_refused": refused} if refused else {})
    return figures


def _last_tick(domain: TimeDomain) -> str:
    """Spark SQL of the last tick of a result's window."""
    if domain is TimeDomain.TIMESTAMP:
        return f"unix_micros({WINDOW_END}) - 1L"
    if domain.scale is not None:
        return f"CAST({WINDOW_END} * {10**domain.scale}BD AS BIGINT) - 1L"
    return f"CAST({WINDOW_END} AS BIGINT) - 1L"
