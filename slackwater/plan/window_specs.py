"""The windows that a user wrote, as arithmetic: over the rows of streams, and over results of windows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from slackwater.columns import TIME
from slackwater.errors import QueryError
from slackwater.plan import logical as L
from slackwater.plan.node import PlanNode, streams_of
from slackwater.plan.steps import Where
from slackwater.plan.unite import AnalysedPlan
from slackwater.plan.window_kinds import GapNode
from slackwater.progress.bounds.punctuated import Punctuated
from slackwater.windows.fill import Fill
from slackwater.windows.per_row.rolling import RollingSpec, window_spec
from slackwater.windows.sessions import SessionSpec
from slackwater.windows.spec import CumulateSpec, WindowSpec
from slackwater.windows.totals import EndlessSpec


def spec_of(node: PlanNode, window: L.Window) -> WindowSpec | RollingSpec:
    """The windows of rows of streams."""
    if window.range == L.UNBOUNDED:
        return _endless(window)
    if window.gap is not None:
        lengths = (window.range, window.slide, window.offset, window.rows)
        if any(length is not None for length in lengths):
            raise QueryError(
                f"gap={window.gap!r}: sessions have a gap and no other length; leave range, slide and offset out"
            )
        return SessionSpec.of_gap(node.domain, window.gap)
    if window.step is not None:
        if window.range is None or window.slide is not None or window.rows is not None:
            raise QueryError(
                f"step={window.step!r}: windows that grow have a size and a step, as in "
                "cumulate('1 hour', step='10 minutes')"
            )
        return CumulateSpec.of_steps(node.domain, window.step, window.range, window.offset)
    return window_spec(node.domain, window.range, window.slide, window.offset, window.rows)


def _endless(window: L.Window) -> EndlessSpec:
    if replace(window, range=None, forget=None) != L.Window():
        raise QueryError(
            "range unbounded: totals since the beginning have no window; keep RANGE UNBOUNDED and FORGET only, or "
            "write a length, as in [RANGE 10 MINUTES, SLIDE 10 MINUTES]"
        )
    return EndlessSpec()


def fill_of(node: PlanNode, window: L.Window, spec: WindowSpec | RollingSpec) -> Fill | None:
    """What windows without rows say."""
    if window.fill == L.NO_FILL:
        if window.forget is not None:
            raise QueryError(
                f"forget={window.forget!r} says how long groups are known for fill= or for totals; write fill=0 "
                "too, or totals(forget=…)"
            )
        return None
    if isinstance(spec, (RollingSpec, SessionSpec)):
        raise QueryError("fill=: sessions and windows for each row are never empty; write window(…, fill=0)")
    policies = [stream.disorder for stream in streams_of(node)]
    if any(isinstance(policy, Punctuated) and policy.since is not None for policy in policies):
        raise QueryError(
            "fill=: windows without rows are filled in the order of time, and punctuated(since=…) lets later ones "
            "end first; leave fill= or since= out"
        )
    return Fill.read(window.fill, window.forget, node.domain, spec.slide)


def outer_spec(node: PlanNode, window: L.Window) -> WindowSpec:
    """The windows of a query over results."""
    if window.wattr is not None:
        raise QueryError(
            f"window on={window.wattr!r}: the time of a result is the end of its window; leave out on="
        )
    if window.disorder is not None:
        raise QueryError(
            f"disorder={window.disorder.describe()}: results come when their windows close; write the policy in "
            "the first window(…) or at the stream"
        )
    spec = spec_of(node, window)
    if isinstance(spec, EndlessSpec):
        raise QueryError(
            "totals over results: totals are of the rows of streams; give the results a window, as in "
            "window('10 minutes') or [RANGE 10 MINUTES, SLIDE 10 MINUTES]"
        )
    if isinstance(spec, RollingSpec):
        raise QueryError(
            "rolling() over results: a window for each row is made over the rows of a stream; windows over results "
            f"need a slide, as in window({window.range or '10 minutes'!r}) or [RANGE 10 MINUTES, SLIDE 10 MINUTES]"
        )
    return spec if window.offset is not None else _aligned(node, spec)


def _aligned(node: PlanNode, spec: WindowSpec) -> WindowSpec:
    """Windows that end where those below them end, if these lie in step with them."""
    ends = {((below.offset + below.first_end) % below.slide, below.slide) for below in _nearest(node)}
    if len(ends) != 1:
        return spec
    ((end, slide),) = ends
    return spec if spec.slide % slide else replace(spec, offset=(end - spec.first_end) % slide)


def _nearest(node: PlanNode) -> Iterator[WindowSpec]:
    """The windows whose results a node gives."""
    aggregate = node.as_aggregate()
    window = None if aggregate is None else aggregate.as_window()
    if window is not None:
        yield window.kernel.spec
    elif aggregate is None:
        for below in node.inputs:
            yield from _nearest(below)


def with_gaps(rows: AnalysedPlan, spec: WindowSpec | RollingSpec) -> tuple[AnalysedPlan, WindowSpec | RollingSpec]:
    """The rows without those that lie between windows."""
    if isinstance(spec, RollingSpec) or spec.slide <= spec.range:
        return rows, spec
    node, slide = rows.node, spec.slide
    inside = Where(f"{TIME} IS NULL OR (({TIME} - {spec.offset}) % {slide} + {slide}) % {slide} < {spec.range}")
    return AnalysedPlan(GapNode((node,), inside, node.schema, node.early_schema), rows.relation), spec
