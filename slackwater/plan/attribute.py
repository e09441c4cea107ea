"""A plan over another windowing attribute than the stream's time (S4's WATTR): the same rows as another stream."""

from __future__ import annotations

import re
from dataclasses import replace
from zlib import crc32

from slackwater.errors import QueryError
from slackwater.plan.nodes import MapNode, PlanNode, ResultsNode, SelectNode, StreamNode, WhereNode


def attribute(node: PlanNode, written: str) -> str:
    """What an attribute is in terms of the stream's own columns, where a projection has given it its name."""
    while not isinstance(node, (StreamNode, ResultsNode)):
        if isinstance(node, MapNode):
            raise QueryError(
                f"wattr={written!r}: rows have their place in time before map(); write the window's attribute as a "
                "column of the stream, or before the map"
            )
        if isinstance(node, SelectNode):
            named = {name.lower(): sql for name, sql in node.columns}
            written = named.get(written.strip().strip("`").lower(), written)
        node = node.inputs[0]
    return written


def on_stream(node: PlanNode, stream: StreamNode) -> PlanNode:
    """The same filters and projections over another stream."""
    if isinstance(node, (StreamNode, ResultsNode)):
        return stream
    assert isinstance(node, (WhereNode, SelectNode))
    return replace(node, inputs=(on_stream(node.inputs[0], stream),))


def apart(stream: str, written: str, settings: str) -> str:
    """A name for the second stream, the same in every session that asks for the same.

    >>> apart("services", "orderID", "CAST(orderID AS BIGINT) bounded(5)")
    'services.orderID.d03f96f8'
    """
    return f"{stream}.{re.sub(r'[^A-Za-z0-9_]+', '_', written)}.{crc32(settings.encode()):08x}"
