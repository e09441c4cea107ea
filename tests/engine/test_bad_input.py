"""Whatever a user writes and whatever rows come: an error of ours before the start, or a row that is counted."""

from __future__ import annotations

import inspect
import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import slackwater as sw
from slackwater.errors import SlackwaterError
from slackwater.progress.time import TimeDomain
from slackwater.testing import Script, StreamSpec

EXAMPLES = {"short": 150, "long": 5_000}
SIZES = ["short", pytest.param("long", marks=pytest.mark.long)]
QUIET = settings(deadline=None, suppress_health_check=list(HealthCheck))

JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.integers(-3, 70),
    st.floats(),
    st.text(max_size=12),
    st.sampled_from(
        ["1 second", "0 seconds", "-5 minutes", "1 month", "1%", "0.5", "never", "10 parsecs", "1e400 days"]
    ),
    st.timedeltas(),
    st.datetimes(),
    st.just(object()),
    st.lists(st.integers(-2, 9), max_size=3),
    st.dictionaries(st.text(max_size=3), st.integers(-2, 9), max_size=2),
    st.dictionaries(st.tuples(st.text(max_size=2), st.text(max_size=2)), st.integers(-2, 9), max_size=2),
    st.binary(max_size=4),
)
#: What gives settings that a user writes.
MAKERS = [
    *(sw.bounded, sw.drop_ratio, sw.learned, sw.skew, sw.sensors, sw.punctuated, sw.early, sw.sideline),
    *(sw.chain, sw.fifo, sw.papers.periodic, sw.papers.max_delay, sw.result_error),
]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: maker.__name__)
def test_settings_are_made_or_refused(maker: Any, size: str) -> None:
    """A setting that was made runs: its tracker is made, and it can be shown."""
    parameters = [p.name for p in inspect.signature(maker).parameters.values() if p.kind is not p.VAR_KEYWORD]

    @settings(QUIET, max_examples=EXAMPLES[size] // 4)
    @given(given=st.dictionaries(st.sampled_from([*parameters, "nothing"]), JUNK, max_size=3))
    def check(given: dict[str, Any]) -> None:
        try:
            made = maker(**given)
            for domain in (TimeDomain.TIMESTAMP, TimeDomain.SEQUENCE):
                if hasattr(made, "tracker"):
                    made.tracker(domain)
                    made.describe()
        except SlackwaterError as error:
            assert str(error)

    check()


#: Types of columns, and values that such columns may hold.
TIMES = st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1), st.integers(-50, 200))
KINDS: dict[str, st.SearchStrategy[Any]] = {
    "BIGINT": st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)),
    "INT": st.one_of(st.none(), st.integers(-(2**31), 2**31 - 1)),
    "DOUBLE": st.one_of(st.none(), st.floats(), st.sampled_from([math.inf, -math.inf, math.nan, -0.0])),
    "STRING": st.one_of(st.none(), st.text(max_size=6)),
    "BOOLEAN": st.one_of(st.none(), st.booleans()),
    "TIMESTAMP": st.one_of(st.none(), st.datetimes(timezones=st.just(UTC))),
    "DATE": st.one_of(st.none(), st.dates()),
}
ARROW = {
    **{
        "BIGINT": pa.int64(),
        "INT": pa.int32(),
        "DOUBLE": pa.float64(),
        "STRING": pa.string(),
        "BOOLEAN": pa.bool_(),
    },
    **{"TIMESTAMP": pa.timestamp("us", "UTC"), "DATE": pa.date32()},
}
NAMES = st.one_of(
    st.text(min_size=1, max_size=8),
    st.sampled_from(
        [
            "select",
            "group",
            "window_start",
            "kind",
            "__time",
            "a.b",
            "a b",
            "A",
            "a",
            "n",
            "*",
            "`",
            "^x$",
            "é",
            "count",
        ]
    ),
)


@pytest.mark.parametrize("size", SIZES)
def test_names_types_and_rows(size: str) -> None:
    """Of the rows that come each is in an answer, late, or without a time that can be believed."""

    @settings(QUIET, max_examples=EXAMPLES[size])
    @given(data=st.data())
    def check(data: st.DataObject) -> None:
        time, key = data.draw(NAMES), data.draw(NAMES)
        kind, by = (
            data.draw(st.sampled_from(["BIGINT", "TIMESTAMP", "DOUBLE", "STRING"])),
            data.draw(st.sampled_from([*KINDS])),
        )
        schema = pa.schema([(time, ARROW[kind]), (key, ARROW[by])])
        length = data.draw(st.sampled_from(["10", "10 SECONDS", "1 DAY"]))
        slack = data.draw(st.sampled_from([0, 30, "20 seconds"]))
        text = f"SELECT `{key}`, COUNT(*) AS total FROM s [RANGE {length}, SLIDE {length}] GROUP BY `{key}`"
        try:
            run = Script.from_sql(text, {"s": StreamSpec(schema, sw.bounded(slack), time)})
        except SlackwaterError as error:
            assert str(error)
            return
        values = KINDS[kind] if kind != "BIGINT" else TIMES
        sent = 0
        for _ in range(data.draw(st.integers(1, 3))):
            rows = data.draw(st.lists(st.tuples(values, KINDS[by]), min_size=1, max_size=6))
            table = pa.table(
                [pa.array([row[n] for row in rows], schema.field(n).type) for n in range(2)], schema=schema
            )
            run.page(table)
            sent += len(rows)
        run.drain()
        source, window = run.metrics()["source:s"], run.metrics()["q/window"]
        assert source["rows"] == sent
        answered = sum(row["total"] for row in run.results)
        assert answered + window["late_rows"] + source["missing_time"] + source["far_ahead"] == sent

    check()


def test_the_clock_and_the_calendar_end_somewhere() -> None:
    """Times at the ends of what Python and Arrow can say."""
    ends = [datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC) - timedelta(days=1)]
    text = "SELECT COUNT(*) AS total FROM s [RANGE 1 DAY, SLIDE 1 DAY]"
    run = Script.from_sql(text, {"s": StreamSpec("t TIMESTAMP", sw.bounded("1 day"), "t")})
    run.page([{"t": end} for end in ends]).drain()
    source = run.metrics()["source:s"]
    late = run.metrics()["q/window"]["late_rows"]
    assert sum(row["total"] for row in run.results) + late + source["missing_time"] + source["far_ahead"] == 2


def test_names_that_arrow_cannot_take_are_refused() -> None:
    """Found by random names: a NUL in a name gave a panic in Arrow, in the middle of a stream."""
    for name, match in (("a\0b", "no NUL character"), ("a`b", "no backtick"), ("*", "no column may be called")):
        schema = pa.schema([("t", pa.int64()), (name, pa.string())])
        with pytest.raises(sw.QueryError, match=match):
            Script.from_sql(
                "SELECT COUNT(*) AS n FROM s [RANGE 1, SLIDE 1]", {"s": StreamSpec(schema, sw.bounded(0))}
            )
    with pytest.raises(sw.QueryError, match=r"write the names, as in sources="):
        sw.skew({}, sources=False)  # type: ignore[arg-type]
