"""Clauses of other systems' SQL that are refused here, each with what to write instead."""

from __future__ import annotations

from slackwater.sql.cursor import Cursor

_LIMIT = "write LIMIT 3, after ORDER BY over the results of a window"
#: Clauses after a relation or at the end of a query, by their first words.
CLAUSES: dict[tuple[str, ...], str] = {
    ("SORT BY",): "a stream has no end, so it cannot be sorted; sort the rows in the sink",
    ("MATCH_RECOGNIZE",): "patterns of rows are not supported; join the stream with itself, or search in the sink",
    ("PIVOT",): "write an aggregate for each column, as in sum(x) FILTER (WHERE k = 'a') AS a",
    ("UNPIVOT",): "write LATERAL VIEW stack(2, 'a', a, 'b', b) t AS name, value",
    ("TABLESAMPLE",): "write WHERE pmod(hash(id), 10) = 0 for a tenth of the rows",
    ("FETCH", "FIRST"): f"FETCH FIRST: {_LIMIT}",
    ("FETCH", "NEXT"): f"FETCH NEXT: {_LIMIT}",
    ("OFFSET",): "write QUALIFY row_number() OVER (PARTITION BY window_start ORDER BY n) BETWEEN 3 AND 5",
    ("WITH", "TOTALS"): "write GROUP BY GROUPING SETS ((a), ()), or ROLLUP (a)",
    ("WITHIN",): (
        "write into ON how far apart rows may be, as in ON x.k = y.k AND y.t BETWEEN x.t - INTERVAL 1 HOUR AND "
        "x.t + INTERVAL 1 HOUR"
    ),
    ("PARTITION BY",): "each group has its own results anyway; write GROUP BY",
}
#: Flink's functions in GROUP BY, before it had table functions.
_OLD_WINDOWS = {
    "TUMBLE": "window(ts, INTERVAL '1' HOUR)",
    "HOP": "window(ts, INTERVAL '1' HOUR, INTERVAL '10' MINUTES), the size first",
    "SESSION": "session_window(ts, INTERVAL '10' MINUTES)",
}


def refuse_clause(cursor: Cursor) -> None:
    """Refuse a clause of another system, if one comes next."""
    for words, instead in CLAUSES.items():
        if cursor.sees(*words):
            raise cursor.error(instead if instead.startswith(words[0]) else f"{' '.join(words)}: {instead}")


def sees_clause(cursor: Cursor) -> bool:
    """Whether such a clause comes next, which is no alias of the relation before it."""
    followed = cursor.raw_at(1) == "(" or cursor.sees("FETCH")
    return followed and any(cursor.sees(*words) for words in CLAUSES)


def refuse_old_window(cursor: Cursor) -> None:
    """Refuse `GROUP BY TUMBLE(ts, …)`."""
    instead = _OLD_WINDOWS.get(cursor.word)
    if instead is not None and cursor.raw_at(1) == "(":
        raise cursor.error(
            f"GROUP BY {cursor.word}(…): write {instead}; results have window_start and window_end, instead of "
            f"{cursor.word}_START and {cursor.word}_END"
        )


def refuse_before_columns(cursor: Cursor) -> None:
    """Refuse `SELECT TOP 3 …` and `SELECT STREAM …`."""
    if cursor.word == "TOP" and cursor.raw_at(1).isdecimal():
        raise cursor.error(f"TOP: {_LIMIT}")
    if cursor.word == "STREAM" and cursor.word_at(1) not in ("", "FROM", "AS"):
        raise cursor.error("SELECT STREAM: every query here is over streams; leave STREAM out")
