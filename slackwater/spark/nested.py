"""Results of a query as pages of another one: by Spark, so that every Spark SQL expression means the same there."""

from __future__ import annotations

from slackwater.operators.element import Payload, Staged
from slackwater.operators.page import Page
from slackwater.operators.results_as_rows import PageOf
from slackwater.plan.nodes import ResultsNode, StreamNode, stream_of
from slackwater.progress.time import TimeDomain
from slackwater.spark.page import SparkPage
from slackwater.spark.shape import Shape
from slackwater.spark.store import SparkPages
from slackwater.windows.results import WINDOW_END, row_columns


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


def _last_tick(domain: TimeDomain) -> str:
    """Spark SQL of the last tick of a result's window."""
    if domain is TimeDomain.TIMESTAMP:
        return f"unix_micros({WINDOW_END}) - 1L"
    if domain.scale is not None:
        return f"CAST({WINDOW_END} * {10**domain.scale}BD AS BIGINT) - 1L"
    return f"CAST({WINDOW_END} AS BIGINT) - 1L"
