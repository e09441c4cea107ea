"""A plan over another windowing attribute than the stream's time (S4's WATTR): the same rows as another stream."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from zlib import crc32

from slackwater.columns import PLAIN_NAME
from slackwater.errors import QueryError
from slackwater.plan.nodes import (
    JoinNode,
    MapNode,
    PlanNode,
    SelectNode,
    StoredNode,
    StreamNode,
    UnionNode,
    WhereNode,
)
from slackwater.plan.unite import check_domains


def over_attribute(node: PlanNode, written: str, of: Callable[[StreamNode, str], StreamNode]) -> PlanNode:
    """The same filters, projections and unions over other streams.

    `of` gives the stream that stands for another, by the attribute in terms of that stream's own columns: what it
    is before the projections that have given it its name.
    """
    if isinstance(node, StreamNode):
        return of(node, written)
    if isinstance(node, MapNode):
        raise QueryError(
            f"wattr={written!r}: rows have their place in time before map(); write the window's attribute as a "
            "column of the stream, or before the map"
        )
    if isinstance(node, JoinNode):
        raise QueryError(
            f"wattr={written!r}: rows of a join go by the time of the later one; leave the attribute out, as in "
            "WINDOW [RANGE 1 HOUR, SLIDE 1 HOUR], or declare the streams with it as their time"
        )
    if isinstance(node, (SelectNode, StoredNode)):
        named = {name.lower(): sql for name, sql in node.columns}
        written = named.get(written.strip().strip("`").lower(), written)
        bare = written.strip("`")
        written = bare if PLAIN_NAME.match(bare) else written  # so that the stream's own time is known again
    assert isinstance(node, (WhereNode, SelectNode, StoredNode, UnionNode))
    made = replace(node, inputs=tuple(over_attribute(below, written, of) for below in node.inputs))
    if isinstance(made, UnionNode):
        check_domains(made.inputs, f"wattr={written!r}")
    return made


def apart(stream: str, written: str, settings: str) -> str:
    """A name for the second stream, the same in every session that asks for the same.

    >>> apart("services", "orderID", "CAST(orderID AS BIGINT) bounded(5)")
    'services.orderID.d03f96f8'
    """
    return f"{stream}.{re.sub(r'[^A-Za-z0-9_]+', '_', written)}.{crc32(settings.encode()):08x}"
