"""Windows as SQL says them: S4's and S5's brackets, Flink's table functions, and Spark's `window(…)`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from slackwater.errors import QueryError
from slackwater.plan import logical as L
from slackwater.progress.disorder import Disorder
from slackwater.progress.drop_ratio.drop_ratio import drop_ratio
from slackwater.sql.cursor import Cursor
from slackwater.sql.expression import Expression, read_expression
from slackwater.sql.policies import read_policy
from slackwater.sql.source import Source, Span, span_of
from slackwater.sql.values import read_count, read_span, share_text

_WORDS = ("RANGE", "ROWS", "NOW", "SLIDE", "OFFSET", "WATTR", "DRATIO", "DISORDER")
_NOT_YET = ("UNBOUNDED", "PARTITION", "SESSION", "CUMULATE")
#: What Spark and Flink call the time of a result.
_RESULT_TIMES = ("window", "window_time")
#: Flink's table functions.
TABLE_FUNCTIONS = ("TUMBLE", "HOP")


@dataclass(frozen=True)
class WrittenWindow:
    """A window and where it was written."""

    window: L.Window
    span: Span


def read_bracket(cursor: Cursor) -> WrittenWindow:
    """`[RANGE 10 MINUTES, SLIDE 2 MINUTES, …]`; an equals sign may stand behind each word."""
    begin = cursor.at
    cursor.expect_symbol("[")
    found = dict[str, Any]()
    while True:
        _setting(cursor, found)
        if cursor.accept_symbol("]"):
            break
        if not cursor.accept_symbol(","):
            cursor.expected("',' or ']'")
    return WrittenWindow(L.Window(**found), span_of(cursor.tokens[begin : cursor.at]))


def _setting(cursor: Cursor, found: dict[str, Any]) -> None:
    word, begin = cursor.word, cursor.at
    if word in _NOT_YET:
        raise cursor.error(f"windows with {word} are not there yet; write [RANGE 10 MINUTES, SLIDE 2 MINUTES]")
    if word not in _WORDS:
        cursor.expected(f"one of {', '.join(_WORDS)}", _WORDS)
    cursor.at += 1
    if word not in ("DISORDER", "NOW"):
        cursor.accept_symbol("=")
    key, value = _read(cursor, word)
    if key in found:
        twice = "a window has one length" if key in ("range", "rows") else f"{word} is there twice"
        raise cursor.error(f"{twice}; leave one of them out", cursor.tokens[begin : cursor.at])
    found[key] = value


def _read(cursor: Cursor, word: str) -> tuple[str, Any]:
    if word == "ROWS":
        return "rows", read_count(cursor, "how many rows, as in ROWS 100")
    if word == "NOW":
        return "range", L.NOW
    if word == "RANGE" and cursor.word_at(1) in ("TUPLES", "TUPLE", "ROWS", "ROW"):
        rows = read_count(cursor, "how many tuples, as in RANGE 100 TUPLES")
        cursor.at += 1
        return "rows", rows
    if word == "WATTR":
        return "wattr", read_expression(cursor, "the attribute that windows go by").text
    if word == "DISORDER":
        return "disorder", read_policy(cursor, ())
    if word == "DRATIO":
        return "disorder", _dratio(cursor)
    return word.lower(), read_span(cursor, f"a length, as in {word} 10 MINUTES")


def _dratio(cursor: Cursor) -> Disorder:
    begin = cursor.at
    share = share_text(cursor, "a share, as in DRATIO 1%")
    try:
        return drop_ratio(share)
    except QueryError as error:
        hint = "; S4's best effort is DISORDER CONTROL 0%" if float(share.rstrip("%")) == 0 else ""
        raise cursor.error(f"{error}{hint}", cursor.tokens[begin : cursor.at]) from None


def read_table_function(cursor: Cursor, function: str, begin: int) -> WrittenWindow:
    """What stands behind the table in `TUMBLE(TABLE s, DESCRIPTOR(ts), size)` and `HOP(…, slide, size)`."""
    cursor.expect_symbol(",")
    cursor.expect("DESCRIPTOR")
    cursor.expect_symbol("(")
    column = read_expression(cursor, "the time column").text
    wattr = None if column.lower() in _RESULT_TIMES else column
    cursor.expect_symbol(")")
    cursor.expect_symbol(",")
    first = read_span(cursor, "a length, as in INTERVAL '10' MINUTES")
    window = L.Window(first, first, wattr=wattr)
    if function == "HOP":
        cursor.expect_symbol(",")
        window = replace(window, range=read_span(cursor, "the size of a window, as in INTERVAL '10' MINUTES"))
    if cursor.accept_symbol(","):
        window = replace(window, offset=read_span(cursor, "an offset, as in INTERVAL '1' MINUTE"))
    cursor.expect_symbol(")")
    return WrittenWindow(window, span_of(cursor.tokens[begin : cursor.at]))


def spark_window(expression: Expression) -> WrittenWindow | None:
    """The window of Spark's `window(ts, '10 minutes', '2 minutes', '1 minute')`; None for another expression."""
    cursor = Cursor(expression.source, expression.tokens)
    if cursor.sees("SESSION_WINDOW") and cursor.raw_at(1) == "(":
        raise cursor.error("session windows are not there yet; write window(ts, '10 minutes')")
    if not (cursor.accept("WINDOW") and cursor.accept_symbol("(")):
        return None
    begin = cursor.at
    read_expression(cursor, "the time column")
    column = expression.part(begin, cursor.at).text
    wattr = None if column.lower() in _RESULT_TIMES else column
    lengths = []
    while cursor.accept_symbol(","):
        lengths.append(read_span(cursor, "a length, as in '10 minutes'"))
    cursor.expect_symbol(")")
    if cursor.token is not None or not 1 <= len(lengths) <= 3:
        raise expression.source.error(
            expression.span, "write window(time, length), with a slide and a start if you like, by itself"
        )
    slide = lengths[1] if len(lengths) > 1 else lengths[0]
    offset = lengths[2] if len(lengths) > 2 else None
    return WrittenWindow(L.Window(lengths[0], slide, offset, wattr=wattr), expression.span)


def two_windows(source: Source, second: WrittenWindow) -> QueryError:
    """What is said of a second window over the same rows."""
    return source.error(
        second.span, "these rows have a window already; leave one out, or put the other query into FROM"
    )
