"""Rows in their windows, and the join of rows of the same window."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from slackwater.errors import QueryError
from slackwater.plan import logical as L
from slackwater.plan.nodes import StepNode
from slackwater.plan.relation import Types
from slackwater.plan.steps import InWindows
from slackwater.plan.unite import AnalysedPlan
from slackwater.windows.per_row.rolling import RollingSpec
from slackwater.windows.results import WINDOW_END, WINDOW_START, bound_sql, time_type
from slackwater.windows.sessions import SessionSpec
from slackwater.windows.spec import CumulateSpec, WindowSpec

_BOUNDS = (WINDOW_START, WINDOW_END)


def in_windows(rows: AnalysedPlan, spec: WindowSpec | RollingSpec, window: L.Window, types: Types) -> AnalysedPlan:
    """The rows with the bounds of their windows."""
    if isinstance(spec, (RollingSpec, SessionSpec)):
        raise QueryError(
            "rows in windows: a row has a window of its own, or one that is not known before it closes; write "
            "window('10 minutes') or [RANGE 10 MINUTES, SLIDE 10 MINUTES]"
        )
    if window.disorder is not None:
        raise QueryError("rows in windows: disorder= is for aggregates; declare the stream with the policy")
    taken = [name for name in rows.relation.names if name.lower() in _BOUNDS]
    if taken:
        raise QueryError(f"rows in windows get a column {taken[0]!r}, and they have one; rename it with select(…)")
    domain, grows = rows.node.domain, isinstance(spec, CumulateSpec)
    bounds = pa.schema([(name, time_type(domain)) for name in _BOUNDS])
    step = InWindows(spec.range, spec.slide, spec.offset, grows, bound_sql(domain))
    node = StepNode((rows.node,), step, pa.schema([*rows.node.schema, *bounds]))
    return AnalysedPlan(node, rows.relation.cross_join(types.relation(bounds)))


def repeats(window: L.Window) -> bool:
    """Whether windows begin again and again, so that rows of two streams can be in the same one."""
    return window.slide is not None or window.step is not None


def of_same_windows(query: L.Join) -> tuple[L.Join, tuple[str, ...]]:
    """A join of rows in windows instead of one by windows, and the columns that are equal on both sides of it."""
    given = [window for window in query.windows if window is not None]
    if query.within is not None or not any(map(repeats, given)):
        return query, ()
    if len({replace(window, wattr=None) for window in given}) > 1:
        raise QueryError(
            "join() pairs rows of the same window, and the sides have different ones; write the same one on both "
            "sides, or how far rows may be apart, as in join(…, within='10 minutes')"
        )
    left, right = (
        side if window is None else L.InWindows((side,), window)
        for side, window in zip(query.inputs, query.windows, strict=True)
    )
    return replace(query, inputs=(left, right), windows=(None, None)), _BOUNDS
