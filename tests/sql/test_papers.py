"""Every query that S4 and S5 print runs as printed; those that S5 only tells or draws are written as it tells them.

Each runs in this process, over rows whose answer is known.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pytest

from slackwater.progress.bounds.bounded import bounded
from slackwater.testing import Script
from slackwater.testing.types import SampleTypes
from tests.kit.sql import SENSORS, SERVICES, TRAFFIC, plan, stream

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
Q3_4 = """SELECT MAX(total) FROM (
            SELECT sensor_id, SUM(volume) AS total FROM S WINDOW [RANGE=60 seconds, SLIDE=20 seconds]
            GROUP BY sensor_id
          ) WINDOW [RANGE=20 seconds, SLIDE=20 seconds]"""
Q4_3 = """SELECT COUNT(*) FROM (
            SELECT MAX(Temperature) AS hottest FROM S WINDOW [RANGE 5 min, SLIDE 5 min] HAVING hottest > 80
          ) WINDOW [RANGE 1 hour, SLIDE 1 hour]"""
WEATHER = pl.DataFrame({"ts": [NOON], "Temperature": [1.0]})
STOCKS = pl.DataFrame({"ts": [NOON], "symbol": [""], "price": [1.0]})
WORDS = pl.DataFrame({"ts": [NOON], "word": [""]})


def rows(sample: pl.DataFrame, *values: tuple[Any, ...]) -> pl.DataFrame:
    """Rows of a stream; the first of each is seconds after noon, or a number."""
    stamp = sample.schema[sample.columns[0]] == pl.Datetime
    filled = [
        [NOON + timedelta(seconds=v[0]) if stamp else v[0], *v[1:], *[None] * (len(sample.columns) - len(v))]
        for v in values
    ]
    return pl.DataFrame(filled, schema=sample.schema, orient="row")


def answers(text: str, name: str, sample: pl.DataFrame, *values: tuple[Any, ...], time: str = "ts") -> list[Any]:
    """The last column that the query itself gives, window after window."""
    slack = "0 seconds" if sample.schema[time] == pl.Datetime else 0
    made = plan(text, SampleTypes({name: stream(name, sample, time, bounded(slack))}))
    script = Script(made)
    script.page(rows(sample, *values))
    script.drain()
    final = [r for r in script.results if r["kind"] == "final"]
    value = list(final[0])[list(final[0]).index("window_start") - 1]
    return [r[value] for r in sorted(final, key=lambda r: (r["window_end"], str(r)))]


@pytest.mark.parametrize(
    ("where", "text", "name", "sample", "values", "wanted"),
    [
        (
            "S4 section 1, Q1",
            "SELECT MAX(value)\nFROM Sensors [RANGE 30 seconds]",
            "Sensors",
            SENSORS,
            [(0, 5.0), (10, 9.0), (35, 3.0), (45, 4.0)],
            [5.0, 9.0, 9.0, 4.0],
        ),
        (
            "S4 section 4, Q2",
            "SELECT AVG(serviceTime)\n      FROM Services [RANGE 100 tuples,\n                    WATTR orderID]",
            "Services",
            SERVICES,
            [(1, 4.0), (2, 6.0), (3, 2.0)],
            [4.0, 5.0, 4.0],
        ),
        (
            "S4 section 4, Q3",
            "SELECT AVG(serviceTime)\n      FROM Services [RANGE 100 tuples,\n"
            "                    WATTR orderID,\n                    DRATIO 1%]",
            "Services",
            SERVICES,
            [(1, 4.0), (2, 6.0), (3, 2.0)],
            [4.0, 5.0, 4.0],
        ),
        (
            "S5 figure 1.2, Q1-1 (as told)",
            "SELECT AVG(speed) FROM S WINDOW [RANGE 5 min, SLIDE 1 min]",
            "S",
            TRAFFIC,
            [(0, 1, 30.0), (30, 1, 50.0)],
            [40.0] * 5,
        ),
        (
            "S5 figure 1.2, Q1-2 (as told)",
            "SELECT AVG(speed) FROM S WINDOW [RANGE 2 min, SLIDE 2 min]",
            "S",
            TRAFFIC,
            [(0, 1, 30.0), (30, 1, 50.0), (130, 1, 20.0)],
            [40.0, 20.0],
        ),
        (
            "S5 figures 2.3 and 2.5, Q2-1 and Q2-2 (as told)",
            "SELECT SUM(volume) FROM S WINDOW [RANGE 60 seconds, SLIDE 20 seconds]",
            "S",
            TRAFFIC,
            [(0, 1, 0.0, 10), (25, 1, 0.0, 5)],
            [10, 15, 15, 5],
        ),
        (
            "S5 figure 3.1, Q3-1 (as told)",
            "SELECT SUM(volume) FROM S WINDOW [RANGE=50 seconds, SLIDE=50 seconds]",
            "S",
            TRAFFIC,
            [(11, 1, 45.0, 40), (23, 2, 46.0, 20), (32, 3, 44.0, 30)],
            [90],
        ),
        (
            "S5 section 3.1, Q3-2",
            "Select Sum(volume) from S Window [RANGE=50, SLIDE=50] Group by sensor_id",
            "S",
            TRAFFIC.with_columns(ts=pl.lit(0)),
            [(11, 1, 45.0, 40), (23, 2, 46.0, 20), (32, 1, 44.0, 30)],
            [20, 70],
        ),
        (
            "S5 figure 3.4, Q3-3 (as told)",
            "SELECT MAX(volume) FROM S WINDOW [RANGE 30 seconds, SLIDE 10 seconds]",
            "S",
            TRAFFIC,
            [(101, 1, 0.0, 55), (112, 2, 0.0, 52), (125, 2, 0.0, 45)],
            [55, 55, 55, 52, 45],
        ),
        (
            "S5 section 3.3, Q3-4 (as told)",
            Q3_4,
            "S",
            TRAFFIC,
            [(0, 1, 0.0, 10), (5, 2, 0.0, 12), (10, 1, 0.0, 5)],
            [15, 15, 15],
        ),
        (
            "S5 section 4.3.1, Q4-1",
            "Select Sum(volume) from S Window[Range 10min, Slide 2min]",
            "S",
            TRAFFIC,
            [(0, 1, 0.0, 10), (130, 1, 0.0, 5)],
            [10, 15, 15, 15, 15, 5],
        ),
        (
            "S5 section 4.3.1",
            "Select Max(speed) from S\n\nWindow[Range=30 Second, Slide=10 Second]",
            "S",
            TRAFFIC,
            [(0, 1, 30.0), (15, 1, 20.0)],
            [30.0, 30.0, 30.0, 20.0],
        ),
        (
            "S5 section 4.3.2, Q4-2",
            "Select Max(counter) from S\n\nWindow [Range=5 Second, Slide=1 Second]",
            "S",
            TRAFFIC,
            [(0, 1, 0.0, 0, 7), (2, 1, 0.0, 0, 9)],
            [7, 7, 9, 9, 9, 9, 9],
        ),
        (
            "S5 section 4.3.2, words (the function in Spark's order)",
            "Select count(word) from WordStream\nwhere starts_with(word, 'a')\nWindow[Range=5 min, Slide=1 min]",
            "WordStream",
            WORDS,
            [(0, "ant"), (1, "bee"), (2, "ape")],
            [2] * 5,
        ),
        *(
            (
                "S5 section 4.4",
                f"Select {function}(value) from S\nWindow [Range 30 Second, Slide 10 Second]",
                "S",
                TRAFFIC,
                [(0, 1, 0.0, 0, 0, 4), (1, 1, 0.0, 0, 0, 8)],
                [wanted] * 3,
            )
            for function, wanted in (("Avg", 6.0), ("Max", 8), ("Sum", 12), ("Count", 2))
        ),
        (
            "S5 section 4.4.4, Q4-3 (as told)",
            Q4_3,
            "S",
            WEATHER,
            [(0, 70.0), (400, 90.0), (700, 85.0), (1000, 60.0), (3700, 95.0)],
            [2, 1],
        ),
        (
            "S5 section 4.4.4, Q4-4 (as told)",
            "SELECT MAX(price) - MIN(price) FROM S WINDOW [RANGE 5 min, SLIDE 5 min] WHERE symbol = 'IBM'",
            "S",
            STOCKS,
            [(0, "IBM", 100.0), (60, "IBM", 104.0), (61, "SUN", 1.0), (400, "IBM", 90.0)],
            [4.0, 0.0],
        ),
    ],
)
def test_a_printed_query_runs(
    where: str, text: str, name: str, sample: pl.DataFrame, values: list[tuple[Any, ...]], wanted: list[Any]
) -> None:
    time = sample.columns[0]
    assert answers(text, name, sample, *values, time=time) == pytest.approx(wanted), where
