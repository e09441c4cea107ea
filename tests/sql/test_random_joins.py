"""Random streams through joins and sub-queries that are written in SQL: rows equal those of the definition.

The engine's joins have tests of their own. These catch a condition or a column that goes to the wrong side, a
window behind the wrong relation, and a mistake in SQL's rules for nulls.
"""

from __future__ import annotations

import tempfile
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.plan.analyse import Analysis
from slackwater.sql.scope import Scope
from slackwater.windows.spec import WindowSpec
from tests.kit.joins import Lived, Row, alive, join, rows_of
from tests.kit.oracle import recompute
from tests.kit.several_streams import COUNT, EVENTS, Came, Kind, World
from tests.kit.sql import select
from tests.kit.streams import Stream, bounded_streams
from tests.kit.streams_of_samples import CODES, streams

SCOPE = Scope(frozenset("abc"), tables=frozenset({"codes"}), analysis=Analysis(streams()))


def of(rows: pl.DataFrame, name: str, range: int) -> list[Lived]:
    """Rows that say whose columns they have."""
    return [(t, e, {f"{name}.{c}": v for c, v in row.items()}) for t, e, row in alive(rows, range)]


def stored(range: int = 10**9) -> list[Lived]:
    """A stored relation is there at all times."""
    return [(-(10**6), range, {f"d.{c}": v for c, v in row.items()}) for row in CODES.to_dicts()]


def shown(lived: list[Lived], **columns: str) -> list[Row]:
    """Some columns under the names of the results."""
    return [dict(zip(columns, row.values(), strict=True)) for row in rows_of(lived, *columns.values())]


def same(*names: str) -> Any:
    """SQL's equality: a null equals nothing."""
    one, other = names

    def meets(a: Row, b: Row) -> bool:
        both = {**a, **b}
        return both.get(one) is not None and both.get(one) == both.get(other)

    return meets


def not_apart(one: str, other: str) -> Any:
    """Whether two values are not known to differ."""

    def meets(a: Row, b: Row) -> bool:
        both = {**a, **b}
        return both.get(one) is None or both.get(other) is None or both.get(one) == both.get(other)

    return meets


def kind(text: str, wanted: Any, *keys: str) -> Kind:
    return Kind(select(text, SCOPE).query, wanted, keys)


def listed(came: Came) -> list[Row]:
    pairs = join(of(came["a"], "x", 8), of(came["b"], "y", 5), same("x.g", "y.g"), "inner")
    kept = [row for row in pairs if row[2]["x.i"] is not None and row[2]["x.i"] > 0]
    return shown(kept, g="x.g", i="y.i", h="x.h")


def outer(how: str, x: int = 8, y: int = 5) -> Any:
    def wanted(came: Came) -> list[Row]:
        lived = join(of(came["a"], "x", x), of(came["b"], "y", y), same("x.g", "y.g"), how)
        for _, _, row in lived:
            row["g"] = row["x.g"] if row.get("x.g") is not None else row.get("y.g")
        return shown(lived, g="g", x_i="x.i", y_i="y.i")

    return wanted


def three(came: Came) -> list[Row]:
    pairs = join(of(came["a"], "x", 9), of(came["b"], "y", 6), same("x.g", "y.g"), "inner")
    made = join(pairs, of(came["c"], "z", 12), same("z.h", "y.h"), "left")
    return shown(made, x_i="x.i", y_i="y.i", z_i="z.i")


def asked(how: str, meets: Any, other: str = "b") -> Any:
    def wanted(came: Came) -> list[Row]:
        return shown(join(of(came["a"], "x", 8), of(came[other], "y", 5), meets, how), g="x.g", i="x.i")

    return wanted


def asked_twice(came: Came) -> list[Row]:
    first = join(of(came["a"], "x", 8), of(came["b"], "y", 5), same("x.g", "y.g"), "semi")
    # What stays of a join is alive as its rows were.
    made = join(first, of(came["c"], "y", 5), not_apart("x.h", "y.h"), "anti")
    return shown(made, g="x.g", i="x.i")


def with_codes(how: str, meets: Any, **columns: str) -> Any:
    def wanted(came: Came) -> list[Row]:
        return shown(join(of(came["a"], "x", 1), stored(), meets, how), **columns)

    return wanted


def counted(came: Came) -> list[Row]:
    pairs = join(of(came["a"], "x", 8), of(came["b"], "y", 5), same("x.g", "y.g"), "inner")
    made = [{"t": t, "g": row["x.g"], "i": row["y.i"]} for t, _, row in pairs]
    frame = pl.DataFrame(made, schema={"t": pl.Int64, "g": pl.String, "i": pl.Int64})
    return recompute(frame, WindowSpec(6, 3), ["g"], COUNT)


def both(a: Any, b: Any) -> Any:
    return lambda left, right: a(left, right) and b(left, right)


AX, BY = "a [RANGE 8] AS x", "b AS y [RANGE 5]"
KINDS = [
    kind(f"SELECT x.g, y.i, x.h FROM {AX}, {BY} WHERE x.g = y.g AND x.i > 0", listed),
    *(
        kind(f"SELECT g, x.i, y.i FROM {AX} {how.upper()} JOIN {BY} USING (g)", outer(how))
        for how in ("inner", "left", "right", "full")
    ),
    kind("SELECT g, x.i, y.i FROM a [NOW] x LEFT JOIN b [NOW] y USING (g)", outer("left", 1, 1)),
    kind(
        "SELECT x.i, y.i, z.i FROM a x [RANGE 9] JOIN b y [RANGE 6] ON x.g = y.g "
        "LEFT JOIN c z [RANGE 12] ON z.h = y.h",
        three,
    ),
    kind(f"SELECT g, i FROM {AX} WHERE x.g IN (SELECT g FROM {BY})", asked("semi", same("x.g", "y.g"))),
    kind(f"SELECT g, i FROM {AX} WHERE h NOT IN (SELECT h FROM {BY})", asked("anti", not_apart("x.h", "y.h"))),
    kind(
        f"SELECT g, i FROM {AX} WHERE EXISTS (SELECT 1 FROM {BY} WHERE g = x.g AND y.h = x.h)",
        asked("semi", both(same("x.g", "y.g"), same("x.h", "y.h"))),
    ),
    kind(
        f"SELECT x.g, x.i FROM {AX} WHERE NOT EXISTS (SELECT * FROM {BY} WHERE x.h = y.h)",
        asked("anti", same("x.h", "y.h")),
    ),
    # The relation of the sub-query has the name of the other one.
    kind(
        "SELECT g, i FROM a [RANGE 8] WHERE NOT EXISTS (SELECT * FROM a [RANGE 5] WHERE a.h = 1 AND a.i > 0)",
        asked("anti", lambda x, y: y["y.h"] == 1 and y["y.i"] is not None and y["y.i"] > 0, "a"),
    ),
    kind(
        f"SELECT g, i FROM {AX} WHERE g IN (SELECT g FROM {BY}) AND h NOT IN (SELECT h FROM c [RANGE 5])",
        asked_twice,
    ),
    kind(
        "SELECT x.g, d.i, x.i AS own FROM a x LEFT JOIN codes d ON d.g = x.g",
        with_codes("left", same("x.g", "d.g"), g="x.g", i="d.i", own="x.i"),
    ),
    kind(
        "SELECT g, i FROM a WHERE h IN (SELECT i FROM codes)",
        with_codes("semi", same("x.h", "d.i"), g="x.g", i="x.i"),
    ),
    kind(
        "SELECT g, i FROM a WHERE g NOT IN (SELECT g FROM codes WHERE i > 5)",
        with_codes(
            "anti",
            both(not_apart("x.g", "d.g"), lambda x, d: d["d.i"] is not None and d["d.i"] > 5),
            g="x.g",
            i="x.i",
        ),
    ),
    kind(
        "SELECT x.g, count(*) AS n, sum(y.i) AS whole FROM a [RANGE 8] AS x JOIN b AS y [RANGE 5] ON x.g = y.g "
        "WINDOW [RANGE 6, SLIDE 3] GROUP BY x.g",
        counted,
        "window_start",
        "g",
    ),
]


@settings(max_examples=60)
@given(
    streams=st.fixed_dictionaries({name: bounded_streams(most=14) for name in "abc"}),
    first=st.integers(0, 40),
    events=st.lists(EVENTS, max_size=25),
)
def test_joins_of_random_streams_equal_their_definition(
    streams: dict[str, Stream], first: int, events: list[tuple[str, int]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = World(folder, streams, None, KINDS)
        world.play([("add", first), *events])
    world.check()


@pytest.mark.parametrize("which", range(len(KINDS)))
@settings(max_examples=12)
@given(streams=st.fixed_dictionaries({name: bounded_streams(most=14) for name in "abc"}))
def test_each_kind_of_join_equals_its_definition(which: int, streams: dict[str, Stream]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = World(folder, streams, None, KINDS)
        world.play([("add", which)])
    world.check()
