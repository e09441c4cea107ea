"""Streams for SQL without Spark: what a text means, as nodes and as a plan."""

from __future__ import annotations

from datetime import UTC, datetime

import polars as pl
import pyarrow as pa

from slackwater.papers.disorder_control import disorder_control
from slackwater.plan import logical as L
from slackwater.plan.analyse import Analysis
from slackwater.plan.node import PlanNode, describe
from slackwater.plan.nodes import StreamNode
from slackwater.progress.disorder import Disorder
from slackwater.progress.time import TimeDomain
from slackwater.sql import statements as S
from slackwater.sql.parse import parse
from slackwater.sql.scope import MapFunction, Scope
from slackwater.testing.types import SampleRelation, SampleTypes
from tests.kit.streams import SAMPLE

_NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
TRIPS = pl.DataFrame(
    {"ts": [_NOON], "carrier": ["AA"], "dest": ["JFK"], "delay": [1.5], "seats": [100], "ok": [True]}
)
GATES = pl.DataFrame({"ts": [_NOON], "carrier": ["AA"], "gate": ["B2"], "minutes": [12]})
#: Stored relations: the first has a name in the session, the other is known to Spark.
CARRIERS = pl.DataFrame({"code": ["AA"], "name": ["American"], "seats": [50]})
AIRPORTS = pl.DataFrame({"dest": ["JFK"], "city": ["New York"]})
#: Of the papers: S4's sensors and services, S5's traffic.
SENSORS = pl.DataFrame({"ts": [_NOON], "value": [1.0]})
SERVICES = pl.DataFrame({"orderID": [1], "serviceTime": [2.0]})
TRAFFIC = pl.DataFrame(
    {"ts": [_NOON], "sensor_id": [1], "speed": [1.0], "volume": [1], "counter": [1], "value": [1]}
)


def twice(rows: pa.RecordBatch) -> pa.RecordBatch:
    """A function for CREATE FUNCTION."""
    return rows


def stream(
    name: str, sample: pl.DataFrame, time: str, disorder: Disorder | None = None, source: str | None = None
) -> tuple[StreamNode, SampleRelation]:
    """A declared stream of rows like these."""
    relation = SampleRelation(sample)
    domain = TimeDomain.TIMESTAMP if sample.schema[time] == pl.Datetime else TimeDomain.SEQUENCE
    columns = tuple((n, str(t)) for n, t in sample.schema.items())
    policy = disorder or disorder_control()
    return StreamNode(name, columns, time, time, domain, policy, source, None, relation.schema), relation


TYPES = SampleTypes(
    {
        "s": stream("s", SAMPLE, "t"),
        "trips": stream("trips", TRIPS, "ts", source="carrier"),
        "Sensors": stream("Sensors", SENSORS, "ts"),
        "Services": stream("Services", SERVICES, "orderID"),
        "traffic": stream("traffic", TRAFFIC, "ts"),
        "gates": stream("gates", GATES, "ts"),
    },
    {"carriers": CARRIERS, "airports": AIRPORTS},
)
SCOPE = Scope(
    frozenset(TYPES.streams),
    functions={"twice": MapFunction(twice, "x DOUBLE")},
    tables=frozenset({"carriers"}),
    analysis=Analysis(TYPES),
)


def select(text: str, scope: Scope = SCOPE) -> S.SelectStatement:
    """The query of a text of one statement."""
    (statement,) = parse(text, scope).statements
    assert isinstance(statement, S.SelectStatement)
    return statement


def logical(text: str) -> L.Logical:
    """Its nodes."""
    return select(text).query


def plan(text: str, types: SampleTypes = TYPES) -> PlanNode:
    """Its plan, checked step by step."""
    analysis = Analysis(types)
    scope = SCOPE if types is TYPES else Scope(frozenset(types.streams), analysis=analysis)
    found = select(text, scope)
    found.locations.check(found.query, analysis)
    return analysis.of(found.query).node


def described(text: str) -> str:
    """Its plan as text."""
    return describe(plan(text))
