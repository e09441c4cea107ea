"""Queries over several streams of the same columns, for in-process pages: `a`, `b`, `c`, each with its policy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from slackwater.plan import logical as L
from slackwater.plan.analyse import analyse
from slackwater.plan.cross_stream import with_bounds
from slackwater.plan.node import PlanNode
from slackwater.plan.nodes import StreamNode
from slackwater.progress.bounds.bounded import bounded
from slackwater.progress.disorder import Disorder
from slackwater.progress.time import Span, TimeDomain
from slackwater.progress.time_kinds import UNSTAMPED, is_stamped
from slackwater.testing.types import SampleRelation, SampleTypes
from tests.kit.streams import SAMPLE

A, B, C = L.Scan("a"), L.Scan("b"), L.Scan("c")
#: A stored relation, with a null.
CODES = pl.DataFrame({"g": ["a", "a", "b", None], "i": [1, 50, None, 7]})
COUNTS = {"n": "count(*)", "whole": "sum(i)"}


def union(*inputs: L.Logical) -> L.Union:
    return L.Union(inputs)


def where(rows: L.Logical, condition: str) -> L.Where:
    return L.Where((rows,), condition)


def select(rows: L.Logical, **columns: str) -> L.Select:
    return L.Select((rows,), tuple(columns.items()))


def windows(
    rows: L.Logical,
    range: Span,
    slide: Span | None,
    *groups: str,
    disorder: Disorder | None = None,
    **aggregates: str,
) -> L.Aggregate:
    window = L.Window(range, slide, disorder=disorder)
    return L.Aggregate((rows,), window, tuple((g, g) for g in groups), tuple((aggregates or COUNTS).items()))


def streams(
    policies: Mapping[str, Disorder] | None = None,
    source: str | None = None,
    domain: TimeDomain = TimeDomain.SEQUENCE,
    bounds: Disorder | None = None,
) -> SampleTypes:
    """The three streams; those without a policy are sorted. `bounds` are between those that they name."""
    relation = SampleRelation(SAMPLE)
    columns = tuple((name, str(kind)) for name, kind in SAMPLE.schema.items())
    nodes: dict[str, StreamNode] = {}
    for name in ("a", "b", "c"):
        policy = (policies or {}).get(name, bounded(0))
        punctuation = getattr(policy, "column", None)
        time = UNSTAMPED if is_stamped(policy) else "t"
        nodes[name] = StreamNode(name, columns, time, time, domain, policy, source, punctuation, relation.schema)
    if bounds is not None:
        nodes |= with_bounds(nodes, bounds, None)
    return SampleTypes({name: (node, relation) for name, node in nodes.items()}, {"codes": CODES})


def plan(query: L.Logical, policies: Mapping[str, Disorder] | None = None, **more: Any) -> PlanNode:
    """The plan of a query over them."""
    return analyse(query, streams(policies, **more))
