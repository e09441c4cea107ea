"""What queries of the campaign are, and what each must have given in the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from slackwater.plan import logical as L
from tests.engine.test_random_joins import KINDS as JOINS
from tests.engine.test_random_joins import NEAR
from tests.engine.test_random_unions import KINDS as UNIONS
from tests.kit.several_streams import Came, Kind, over
from tests.kit.streams_of_samples import A, B, union, where, windows

Row = dict[str, Any]


def _each_row(range: int) -> Kind:
    """A window for each row."""
    query = L.Aggregate((A,), L.Window(range), (("g", "g"),), (("n", "count(*)"), ("whole", "sum(i)")))

    def wanted(came: Came) -> list[Row]:
        rows = [row for row in came["a"].to_dicts() if row["t"] is not None]
        made = []
        for row in rows:
            inside = [r for r in rows if row["t"] - range < r["t"] <= row["t"] and r["g"] == row["g"]]
            whole = [r["i"] for r in inside if r["i"] is not None]
            total = sum(whole) if whole else None
            made.append({"g": row["g"], "n": len(inside), "whole": total, "window_end": row["t"]})
        return made

    return Kind(query, wanted, ())


def _sessions(gap: int) -> Kind:
    """Rows of a group with less than a gap between them."""
    query = L.Aggregate((B,), L.Window(gap=gap), (("g", "g"),), (("n", "count(*)"),))

    def wanted(came: Came) -> list[Row]:
        made: list[Row] = []
        rows = sorted((r["t"], repr(r["g"]), r["g"]) for r in came["b"].to_dicts() if r["t"] is not None)
        last: dict[str, Row] = {}
        for t, key, g in rows:
            if key in last and t <= last[key]["window_end"]:
                last[key].update(n=last[key]["n"] + 1, window_end=t + gap)
            else:
                made.append({"g": g, "n": 1, "window_start": t, "window_end": t + gap})
                last[key] = made[-1]
        return made

    return Kind(query, wanted, ())


def _filtered(condition: str) -> Kind:
    return Kind(where(A, condition), lambda came: came["a"].filter(pl.sql_expr(condition)).to_dicts(), ())


#: Nothing of their streams comes late.
PUNCTUAL: list[Kind] = [
    over(A, lambda came: came["a"], (7, 3), "g"),
    over(A, lambda came: came["a"], (10, 10), "g", "h"),
    over(B, lambda came: came["b"], (12, 8)),
    _filtered("h >= 1"),
    _each_row(6),
    _sessions(4),
    *UNIONS,
    *JOINS,
    *NEAR,
]


@dataclass(frozen=True)
class Counted:
    """Tumbling windows that list the numbers of their rows: each row is in one of them, or late."""

    query: L.Logical
    streams: Sequence[str]
    length: int

    def check(self, rows: Sequence[Row], late: Sequence[Row], came: Came, whole: bool) -> None:
        """Compare what was given with what has come."""
        expected = {r["i"]: r["t"] for s in self.streams for r in came[s].to_dicts()}
        final = [r for r in rows if r["kind"] == "final"]
        seen = Counter(i for r in final for i in r["ids"]) + Counter(r["i"] for r in late)
        assert max(seen.values(), default=1) == 1, f"twice: {[i for i, n in seen.items() if n > 1]}"
        assert seen.keys() <= expected.keys(), f"from nowhere: {seen.keys() - expected.keys()}"
        assert not whole or seen.keys() == expected.keys(), f"lost: {sorted(expected.keys() - seen.keys())}"
        for r in final:
            assert r["n"] == len(r["ids"]) and r["window_end"] == r["window_start"] + self.length, r
            assert all(r["window_start"] <= expected[i] < r["window_end"] for i in r["ids"]), r


def _counted(rows: L.Logical, streams: Sequence[str], length: int, *groups: str) -> Counted:
    return Counted(windows(rows, length, length, *groups, n="count(*)", ids="collect_list(i)"), streams, length)


#: Their streams may be as late as they like.
LATE = [
    _counted(A, "a", 10),
    _counted(B, "b", 7, "g"),
    _counted(union(A, B), "ab", 10, "g"),
    _counted(union(A, B), "ab", 5),
]

#: Other forms of a query over windows that go on with what the journal keeps: aggregates by their new names.
CHANGES: list[Callable[[L.Aggregate], L.Aggregate]] = [
    lambda q: L.Aggregate(q.inputs, q.window, q.groups, q.aggregates),
    lambda q: L.Aggregate(q.inputs, q.window, q.groups, (*((f"{n}_2", a) for n, a in q.aggregates),)),
    lambda q: L.Aggregate(q.inputs, q.window, q.groups, (*q.aggregates, ("more", "count(g)"))),
]


def as_before(row: Row) -> Row:
    """A result by the names that its query had at first."""
    return {n.removesuffix("_2"): v for n, v in row.items() if n != "more"}
