"""The queries that S4 and S5 print or tell, with rows and the answers that they give."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import polars as pl

from tests.kit.sql import SENSORS, SERVICES, TRAFFIC

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
WORDS = pl.DataFrame({"ts": [NOON], "word": [""], "SomeText": [""]})


@dataclass(frozen=True)
class Printed:
    """A query, where it is printed, the stream that it reads, and what it answers, window after window."""

    where: str
    text: str
    stream: str
    sample: pl.DataFrame
    rows: list[tuple[Any, ...]]
    """The first of each is seconds after noon, or a number; columns that are left out are null."""
    answers: list[Any]


QUERIES = [
    Printed(
        "S4 section 1, Q1",
        "SELECT MAX(value)\nFROM Sensors [RANGE 30 seconds]",
        "Sensors",
        SENSORS,
        [(0, 5.0), (10, 9.0), (35, 3.0), (45, 4.0)],
        [5.0, 9.0, 9.0, 4.0],
    ),
    Printed(
        "S4 section 4, Q2",
        "SELECT AVG(serviceTime)\n      FROM Services [RANGE 100 tuples,\n                    WATTR orderID]",
        "Services",
        SERVICES,
        [(1, 4.0), (2, 6.0), (3, 2.0)],
        [4.0, 5.0, 4.0],
    ),
    Printed(
        "S4 section 4, Q3",
        "SELECT AVG(serviceTime)\n      FROM Services [RANGE 100 tuples,\n"
        "                    WATTR orderID,\n                    DRATIO 1%]",
        "Services",
        SERVICES,
        [(1, 4.0), (2, 6.0), (3, 2.0)],
        [4.0, 5.0, 4.0],
    ),
    Printed(
        "S4 section 5, the first experiment's DRATIO",
        "SELECT AVG(serviceTime) FROM Services [RANGE 100 tuples, WATTR orderID, DRATIO 0%]",
        "Services",
        SERVICES,
        [(1, 4.0), (2, 6.0), (3, 2.0)],
        [4.0, 5.0, 4.0],
    ),
    Printed(
        "S5 section 1.1, the windowing attribute by its long name (as told)",
        "SELECT AVG(serviceTime) FROM Services WINDOW [RANGE=2, SLIDE=2, WINDOWING-ATTRIBUTE=orderID]",
        "Services",
        SERVICES,
        [(0, 4.0), (1, 6.0), (2, 2.0)],
        [5.0, 2.0],
    ),
    Printed(
        "S5 figure 1.2, Q1-1 (as told)",
        "SELECT AVG(speed) FROM S WINDOW [RANGE 5 min, SLIDE 1 min]",
        "S",
        TRAFFIC,
        [(0, 1, 30.0), (30, 1, 50.0)],
        [40.0] * 5,
    ),
    Printed(
        "S5 figure 1.2, Q1-2 (as told)",
        "SELECT AVG(speed) FROM S WINDOW [RANGE 2 min, SLIDE 2 min]",
        "S",
        TRAFFIC,
        [(0, 1, 30.0), (30, 1, 50.0), (130, 1, 20.0)],
        [40.0, 20.0],
    ),
    Printed(
        "S5 figures 2.3 and 2.5, Q2-1 and Q2-2 (as told)",
        "SELECT SUM(volume) FROM S WINDOW [RANGE 60 seconds, SLIDE 20 seconds]",
        "S",
        TRAFFIC,
        [(0, 1, 0.0, 10), (25, 1, 0.0, 5)],
        [10, 15, 15, 5],
    ),
    Printed(
        "S5 figure 3.1, Q3-1 (as told)",
        "SELECT SUM(volume) FROM S WINDOW [RANGE=50 seconds, SLIDE=50 seconds]",
        "S",
        TRAFFIC,
        [(11, 1, 45.0, 40), (23, 2, 46.0, 20), (32, 3, 44.0, 30)],
        [90],
    ),
    Printed(
        "S5 section 3.1, Q3-2",
        "Select Sum(volume) from S Window [RANGE=50, SLIDE=50] Group by sensor_id",
        "S",
        TRAFFIC.with_columns(ts=pl.lit(0)),
        [(11, 1, 45.0, 40), (23, 2, 46.0, 20), (32, 1, 44.0, 30)],
        [20, 70],
    ),
    Printed(
        "S5 figure 3.4, Q3-3 (as told)",
        "SELECT MAX(volume) FROM S WINDOW [RANGE 30 seconds, SLIDE 10 seconds]",
        "S",
        TRAFFIC,
        [(101, 1, 0.0, 55), (112, 2, 0.0, 52), (125, 2, 0.0, 45)],
        [55, 55, 55, 52, 45],
    ),
    Printed(
        "S5 section 3.3, Q3-4 (as told)",
        Q3_4,
        "S",
        TRAFFIC,
        [(0, 1, 0.0, 10), (5, 2, 0.0, 12), (10, 1, 0.0, 5)],
        [15, 15, 15],
    ),
    Printed(
        "S5 section 4.3.1, Q4-1",
        "Select Sum(volume) from S Window[Range 10min, Slide 2min]",
        "S",
        TRAFFIC,
        [(0, 1, 0.0, 10), (130, 1, 0.0, 5)],
        [10, 15, 15, 15, 15, 5],
    ),
    Printed(
        "S5 section 4.3.1",
        "Select Max(speed) from S\n\nWindow[Range=30 Second, Slide=10 Second]",
        "S",
        TRAFFIC,
        [(0, 1, 30.0), (15, 1, 20.0)],
        [30.0, 30.0, 30.0, 20.0],
    ),
    Printed(
        "S5 section 4.3.2, Q4-2",
        "Select Max(counter) from S\n\nWindow [Range=5 Second, Slide=1 Second]",
        "S",
        TRAFFIC,
        [(0, 1, 0.0, 0, 7), (2, 1, 0.0, 0, 9)],
        [7, 7, 9, 9, 9, 9, 9],
    ),
    Printed(
        "S5 section 4.3.2, words (position(… IN …) in the place of foundIn)",
        "Select count(word) from WordStream\nwhere position(word IN SomeText) > 0\n"
        "Window[Range=5 min, Slide=1 min]",
        "WordStream",
        WORDS,
        [(0, "ant", "an anthill"), (1, "bee", "an anthill"), (2, "ape", "drapes and apes")],
        [2] * 5,
    ),
    *(
        Printed(
            "S5 section 4.4",
            f"Select {function}(value) from S\nWindow [Range 30 Second, Slide 10 Second]",
            "S",
            TRAFFIC,
            [(0, 1, 0.0, 0, 0, 4), (1, 1, 0.0, 0, 0, 8)],
            [wanted] * 3,
        )
        for function, wanted in (("Average", 6.0), ("Max", 8), ("Sum", 12), ("Count", 2))
    ),
    Printed(
        "S5 section 4.4.4, Q4-3 (as told)",
        Q4_3,
        "S",
        WEATHER,
        [(0, 70.0), (400, 90.0), (700, 85.0), (1000, 60.0), (3700, 95.0)],
        [2, 1],
    ),
    Printed(
        "S5 section 4.4.4, Q4-4 (as told)",
        "SELECT MAX(price) - MIN(price) FROM S WINDOW [RANGE 5 min, SLIDE 5 min] WHERE symbol = 'IBM'",
        "S",
        STOCKS,
        [(0, "IBM", 100.0), (60, "IBM", 104.0), (61, "SUN", 1.0), (400, "IBM", 90.0)],
        [4.0, 0.0],
    ),
]
