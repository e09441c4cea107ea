"""Windows in SQL: S4's and S5's brackets, Flink's table functions, and Spark's `window(…)`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from slackwater.errors import QueryError
from slackwater.plan import logical as L
from slackwater.progress.disorder import Disorder
from slackwater.progress.drop_ratio.drop_ratio import drop_ratio
from slackwater.progress.policies import best_effort
from slackwater.progress.time import Span as Length
from slackwater.sql.cursor import Cursor
from slackwater.sql.expression import Expression, read_expression
from slackwater.sql.policies import policy_sql, read_policy
from slackwater.sql.source import Span, SqlText
from slackwater.sql.values import read_count, read_span, share_text, span_sql

_NOT_YET = ("PARTITION", "PARTITION BY")
#: Words behind a number of rows.
_ROWS = ("TUPLES", "TUPLE", "ROWS", "ROW")
#: The name of the time of a result in Spark and in Flink.
_RESULT_TIMES = ("window", "session_window", "window_time")
#: Flink's table functions.
TABLE_FUNCTIONS = ("TUMBLE", "HOP", "CUMULATE", "SESSION")
#: The words behind WINDOW in ksqlDB.
KSQL_WINDOWS = ("TUMBLING", "HOPPING", "SESSION")
#: Ours for rows without duplicates.
DROP_DUPLICATES = "DROP_DUPLICATES"
#: Spark's functions, which are also the names of their structs.
SPARK_WINDOWS = ("WINDOW", "SESSION_WINDOW")


@dataclass(frozen=True)
class WindowClause:
    """A window and where it was written."""

    window: L.Window
    span: Span
    partition: tuple[Expression, ...] | None = None
    """The columns of Flink's PARTITION BY, which the groups must be; None where any groups will do."""


def read_bracket(cursor: Cursor) -> WindowClause:
    """`[RANGE 10 MINUTES, SLIDE 2 MINUTES, …]`; an equals sign may follow each word."""
    begin = cursor.at
    cursor.expect_symbol("[")
    settings = dict[str, Any]()
    while True:
        _setting(cursor, settings)
        if cursor.accept_symbol("]"):
            return WindowClause(L.Window(**settings), cursor.span(begin))
        if not cursor.accept_symbol(","):
            cursor.expected("',' or ']'")


def _setting(cursor: Cursor, settings: dict[str, Any]) -> None:
    begin = cursor.at
    if cursor.word in _NOT_YET:
        raise cursor.error(
            f"windows with {cursor.word} are not supported yet; write [RANGE 10 MINUTES, SLIDE 2 MINUTES]"
        )
    if cursor.sees("SIZE"):
        raise cursor.error("the length of a window is its RANGE here; write [RANGE 1 HOUR, SLIDE 1 HOUR]")
    word = "WATTR" if _windowing_attribute(cursor) else cursor.choice(_SETTINGS)
    if word not in ("DISORDER", "NOW"):
        cursor.accept_symbol("=")
    key, read = _SETTINGS[word]
    if word == "RANGE" and cursor.word_at(1) in _ROWS:
        key, value = "rows", read_count(cursor, "how many tuples, as in RANGE 100 TUPLES")
        cursor.at += 1
    elif word == "SLIDE" and cursor.word_at(1) in _ROWS:
        value = read_count(cursor, "how many tuples, as in SLIDE 10 TUPLES")
        cursor.at += 1
        if "rows" not in settings:
            wrong = "windows of time slide by time; write RANGE 100 TUPLES before SLIDE 10 TUPLES"
            raise cursor.error(wrong, cursor.since(begin))
    else:
        value = read(cursor)
    if key in settings:
        twice = "a window has one length" if key in ("range", "rows") else f"{word} is there twice"
        raise cursor.error(f"{twice}; leave one of them out", cursor.since(begin))
    settings[key] = value


def _windowing_attribute(cursor: Cursor) -> bool:
    """S5's long word for WATTR, which is three tokens."""
    if not (cursor.sees("WINDOWING") and cursor.raw_at(1) == "-" and cursor.word_at(2) == "ATTRIBUTE"):
        return False
    cursor.at += 3
    return True


def _dratio(cursor: Cursor) -> Disorder:
    """A share of nothing is S4's best effort, which has a policy of its own."""
    begin = cursor.at
    share = share_text(cursor, "a share, as in DRATIO 1%")
    if float(share.rstrip("%")) == 0:
        return best_effort()
    try:
        return drop_ratio(share)
    except QueryError as error:
        raise cursor.error(str(error), cursor.since(begin)) from None


def _length(word: str) -> Callable[[Cursor], Length]:
    return lambda cursor: read_span(cursor, f"a length, as in {word} 10 MINUTES")


#: The words of a bracket: the field of a window that each sets, and its reader.
_SETTINGS: dict[str, tuple[str, Callable[[Cursor], Any]]] = {
    "RANGE": ("range", lambda cursor: L.UNBOUNDED if cursor.accept("UNBOUNDED") else _length("RANGE")(cursor)),
    "ROWS": ("rows", lambda cursor: read_count(cursor, "how many rows, as in ROWS 100")),
    "NOW": ("range", lambda cursor: L.NOW),
    "SLIDE": ("slide", _length("SLIDE")),
    "STEP": ("step", _length("STEP")),
    "SESSION": ("gap", _length("SESSION")),
    "OFFSET": ("offset", _length("OFFSET")),
    "WATTR": ("wattr", lambda cursor: read_expression(cursor, "the attribute that windows go by").text),
    "DRATIO": ("disorder", _dratio),
    "DISORDER": ("disorder", lambda cursor: read_policy(cursor, ())),
    "FILL": ("fill", lambda cursor: 0 if cursor.accept_symbol("0") else _FILLS[cursor.choice(("NULL", "LAST"))]),
    "FORGET": ("forget", _length("FORGET")),
}
#: The words behind FILL.
_FILLS: dict[str, int | str | None] = {"0": 0, "NULL": None, "LAST": "last"}


def window_sql(window: L.Window) -> str:
    """The words between the brackets.

    >>> window_sql(L.Window("1 hour", slide="10 minutes"))
    'RANGE 1 hour, SLIDE 10 minutes'
    """
    if window.range == L.NOW:
        return "NOW"
    words = [word for word in _SETTINGS if word not in ("NOW", "DRATIO")]
    values = {word: getattr(window, _SETTINGS[word][0]) for word in words}
    write: dict[str, Callable[[Any], str]] = {"ROWS": str, "WATTR": str, "DISORDER": policy_sql, "FILL": str}
    fills = {value: word for word, value in _FILLS.items()}
    values["FILL"] = None if window.fill == L.NO_FILL else fills[window.fill]
    if window.range == L.UNBOUNDED:
        write["RANGE"] = str.upper
    if window.rows is not None:
        write["SLIDE"] = lambda rows: f"{rows} ROWS"
    return ", ".join(f"{word} {write.get(word, span_sql)(v)}" for word, v in values.items() if v is not None)


def read_table_function(cursor: Cursor, function: str, begin: int) -> WindowClause:
    """Read what follows the table in `TUMBLE(TABLE s, DESCRIPTOR(ts), size)`, `HOP(…, slide, size)` and others."""
    partition = list[Expression]()
    if function == "SESSION" and cursor.accept("PARTITION BY"):
        partition.append(read_expression(cursor, "a column to partition by"))
        while cursor.word_at(1) != "DESCRIPTOR" and cursor.accept_symbol(","):
            partition.append(read_expression(cursor, "a column to partition by"))
    cursor.expect_symbol(",")
    descriptor = cursor.sees("DESCRIPTOR") and cursor.raw_at(1) == "("
    cursor.at += 2 if descriptor else 0
    time = read_expression(cursor, "the time column")
    if not descriptor and time.column is None:
        raise cursor.source.error(time.span, "expected DESCRIPTOR(…) with the time column")
    column = time.text
    wattr = None if column.lower() in _RESULT_TIMES else column
    if descriptor:
        cursor.expect_symbol(")")
    cursor.expect_symbol(",")
    first = read_span(cursor, "a length, as in INTERVAL '10' MINUTES")
    if function == "SESSION":
        cursor.expect_symbol(")")
        return WindowClause(L.Window(gap=first, wattr=wattr), cursor.span(begin), tuple(partition))
    window = L.Window(first, first, wattr=wattr)
    if function in ("HOP", "CUMULATE"):
        cursor.expect_symbol(",")
        window = replace(window, range=read_span(cursor, "the size of a window, as in INTERVAL '10' MINUTES"))
    if function == "CUMULATE":
        window = replace(window, slide=None, step=first)
    if cursor.accept_symbol(","):
        window = replace(window, offset=read_span(cursor, "an offset, as in INTERVAL '1' MINUTE"))
    cursor.expect_symbol(")")
    return WindowClause(window, cursor.span(begin))


def read_ksql_window(cursor: Cursor) -> WindowClause:
    """Read `TUMBLING (SIZE 1 HOUR)`, `HOPPING (SIZE 1 HOUR, ADVANCE BY 10 MINUTES)` or `SESSION (5 MINUTES)`."""
    begin, kind = cursor.at, cursor.choice(KSQL_WINDOWS)
    cursor.expect_symbol("(")
    if kind != "SESSION":
        cursor.expect("SIZE")
    size = read_span(cursor, "a length, as in 10 MINUTES")
    slide = size
    if kind == "HOPPING":
        cursor.expect_symbol(",")
        cursor.expect("ADVANCE", "BY")
        slide = read_span(cursor, "how often a window begins, as in ADVANCE BY 10 MINUTES")
    if cursor.sees_symbol(","):
        cursor.at += 1
        raise cursor.error(
            "how long a window waits is the stream's disorder policy; write DISORDER BOUNDED 10 MINUTES in its "
            "declaration, or RANGE 1 HOUR, SLIDE 1 HOUR, DISORDER BOUNDED 10 MINUTES in brackets"
        )
    cursor.expect_symbol(")")
    window = L.Window(gap=size) if kind == "SESSION" else L.Window(size, slide)
    return WindowClause(window, cursor.span(begin))


def read_keys(cursor: Cursor) -> tuple[tuple[str, ...], Length]:
    """Read what follows the table in `DROP_DUPLICATES(TABLE s, DESCRIPTOR(id), INTERVAL '10' MINUTES)`."""
    cursor.expect_symbol(",")
    cursor.expect("DESCRIPTOR")
    cursor.expect_symbol("(")
    keys = cursor.listed(lambda: cursor.name("a column that duplicates have in common"))
    cursor.expect_symbol(")")
    cursor.expect_symbol(",")
    within = read_span(cursor, "how far duplicates may be apart, as in INTERVAL '10' MINUTES")
    cursor.expect_symbol(")")
    return tuple(keys), within


def spark_window(expression: Expression) -> WindowClause | None:
    """The window of Spark's `window(ts, '10 minutes', '2 minutes')` or `session_window(ts, '5 minutes')`.

    None for another expression.
    """
    cursor = Cursor(expression.source, expression.tokens)
    function = cursor.word
    if function not in SPARK_WINDOWS or cursor.raw_at(1) != "(":
        return None
    cursor.at = begin = 2
    read_expression(cursor, "the time column")
    column = expression.part(begin, cursor.at).text
    wattr = None if column.lower() in _RESULT_TIMES else column
    lengths = list[Length]()
    if cursor.accept_symbol(","):
        lengths = cursor.listed(lambda: read_span(cursor, "a length, as in '10 minutes'"))
    cursor.expect_symbol(")")
    sessions = function == "SESSION_WINDOW"
    if cursor.token is not None or not 1 <= len(lengths) <= (1 if sessions else 3):
        forms = (
            "session_window(time, gap)"
            if sessions
            else "window(time, length), with a slide and a start if you like,"
        )
        raise expression.source.error(expression.span, f"write {forms} by itself")
    if sessions:
        return WindowClause(L.Window(gap=lengths[0], wattr=wattr), expression.span)
    size, slide, offset = lengths[0], (lengths[1:] or lengths)[0], lengths[2:]
    return WindowClause(L.Window(size, slide, offset[0] if offset else None, wattr=wattr), expression.span)


def two_windows(source: SqlText, second: WindowClause) -> QueryError:
    """The error for a second window over the same rows."""
    return source.error(
        second.span, "these rows have a window already; leave one out, or put the other query into FROM"
    )
