"""`CREATE STREAM` and `CREATE TABLE`: where rows come from, what their time is, and how late they may come."""

from __future__ import annotations

from typing import Any

from slackwater.aggregates.user_text import closing_bracket
from slackwater.errors import SqlError
from slackwater.progress.policies import POLICIES
from slackwater.progress.time_kinds import internal, latent
from slackwater.sql.cursor import Cursor
from slackwater.sql.expression import read_expression
from slackwater.sql.policies import read_policy
from slackwater.sql.statements import CreateStream, CreateTable
from slackwater.sql.values import read_length

#: Formats that are folders of files. The second kind has the columns in its files.
FILE_FORMATS = ("avro", "csv", "json", "orc", "parquet", "text", "xml")
_SELF_DESCRIBING = ("avro", "orc", "parquet")
_CLAUSES = ("OPTIONS", "WHERE", "TIME", "SOURCE", "DISORDER", "REPLAY", "TRIGGER", "AHEAD", "HISTORY", "PRODS")
#: Kinds of time other than a column.
_KINDS = {"INTERNAL": internal, "LATENT": latent}
_TABLE_CLAUSES = ("OPTIONS", "WHERE")
_EXAMPLES = " or ".join(f"DISORDER {p.example}" for p in POLICIES[:2])


def read_create_stream(cursor: Cursor) -> CreateStream:
    """Read what follows CREATE STREAM."""
    prods = cursor.accept("OF", "PRODS")
    stream = CreateStream(**_clauses(cursor, "stream", _CLAUSES), prods=prods)
    _check(cursor, stream)
    return stream


def read_create_table(cursor: Cursor) -> CreateTable:
    """Read what follows CREATE TABLE."""
    table = CreateTable(**_clauses(cursor, "table", _TABLE_CLAUSES))
    _must_have_path(cursor, "table", table)
    return table


def _clauses(cursor: Cursor, what: str, clauses: tuple[str, ...]) -> dict[str, Any]:
    """The fields of a statement: a name, columns, a format, and what the clauses say."""
    begin = cursor.at
    fields: dict[str, Any] = {
        "name": cursor.name(f"a name for the {what}"),
        "columns": read_columns(cursor) if cursor.sees_symbol("(") else None,
    }
    cursor.expect("FROM")
    fields["format"] = cursor.text("a format that Spark reads, as in 'parquet',").lower()
    spans = {"FROM": cursor.span(begin)}
    while cursor.word in clauses:
        start, word = cursor.at, cursor.word
        if word in spans:
            raise cursor.error(f"{word} is written twice; leave one of them out")
        cursor.at += 1
        _clause(cursor, word, fields)
        spans[word] = cursor.span(start)
    if cursor.token is not None and not cursor.sees_symbol(";"):
        cursor.expected(f"one of {', '.join(clauses)} or the end of the statement", clauses)
    return {**fields, "spans": spans}


def _clause(cursor: Cursor, word: str, fields: dict[str, Any]) -> None:
    if word == "OPTIONS":
        fields["options"] = _options(cursor)
    elif word == "DISORDER":
        fields["disorder"] = read_policy(cursor, _CLAUSES)
    elif (
        word == "TIME"
        and cursor.word in _KINDS
        and (cursor.raw_at(1) in ("", ";") or cursor.word_at(1) in _CLAUSES)
    ):
        fields["time"] = _KINDS[cursor.source.word(cursor.next())]()
    elif word == "TRIGGER":
        cursor.accept("EVERY")
        fields["trigger"] = read_length(cursor, "how often to read, as in TRIGGER 5 SECONDS")
    elif word == "PRODS":
        cursor.expect("WHEN")
        fields["prods_when"] = read_expression(cursor, "when a row is a prod", _CLAUSES).text
    elif word == "AHEAD":
        what = "how far ahead of the clock rows may be, as in AHEAD 5 MINUTES or AHEAD NEVER"
        fields["ahead"] = "never" if cursor.accept("NEVER") else read_length(cursor, what)
    elif word in ("REPLAY", "HISTORY"):
        if word == "HISTORY":
            fields["history"] = cursor.name("the name of a table, as in HISTORY archive BY received,")
        cursor.expect("BY")
        fields["arrival"] = read_expression(cursor, "the column of arrival", (*_CLAUSES, "PAGE", "SEAM")).text
        if word == "HISTORY" and cursor.accept("SEAM"):
            what = "the column that says where the history ends"
            fields["seam"] = read_expression(cursor, what, (*_CLAUSES, "PAGE")).text
        if cursor.accept("PAGE"):
            fields["page"] = read_length(cursor, "how much arrives at once, as in PAGE 10 SECONDS")
    else:
        what = {"TIME": "the column of time", "SOURCE": "the column of a row's source"}.get(word, "a condition")
        fields[word.lower()] = read_expression(cursor, what, _CLAUSES).text


def _must_have_path(cursor: Cursor, what: str, table: CreateTable) -> None:
    if table.format in FILE_FORMATS and not any(key.lower() == "path" for key, _ in table.options):
        wrong = f"a {table.format} {what} reads a folder; add OPTIONS (path = 'incoming')"
        raise _error(cursor, table, "OPTIONS", wrong)


def _error(cursor: Cursor, table: CreateTable, clause: str, wrong: str) -> SqlError:
    """An error at a clause, or at FROM if there is no such clause."""
    return cursor.source.error(table.spans.get(clause, table.spans["FROM"]), wrong)


def _check(cursor: Cursor, stream: CreateStream) -> None:
    """Refuse clauses that contradict each other, and missing ones."""
    if stream.time == "":
        cursor.expected("TIME and the column of time, as in TIME sent", _CLAUSES)
    if stream.prods:
        for word in ("DISORDER", "SOURCE", "AHEAD", "PRODS"):
            if word in stream.spans:
                wrong = f"a stream of prods moves no time and has no sources; leave out {word}"
                raise _error(cursor, stream, word, wrong)
    elif not isinstance(stream.time, str):
        if stream.disorder is not None:
            wrong = "rows that are stamped as they come are not out of order; leave out DISORDER"
            raise _error(cursor, stream, "DISORDER", wrong)
    elif stream.disorder is None:
        cursor.expected(f"how late rows may come, as in {_EXAMPLES}", _CLAUSES)
    replay = stream.is_static
    if "REPLAY" in stream.spans and stream.history is not None:
        wrong = "a stream is replayed as a whole, or read live after its history; leave out REPLAY or HISTORY"
        raise _error(cursor, stream, "HISTORY", wrong)
    if stream.history is not None and stream.prods:
        raise _error(cursor, stream, "HISTORY", "a stream of prods has no history; leave it out")
    if replay and stream.trigger is not None:
        wrong = "a replay has no trigger; leave it out, or write REPLAY BY … PAGE … to set its steps"
        raise _error(cursor, stream, "TRIGGER", wrong)
    _must_have_path(cursor, "stream", stream)
    if stream.format not in FILE_FORMATS or stream.columns is not None or stream.format == "text":
        return
    if not (replay and stream.format in _SELF_DESCRIBING):
        wrong = (
            "files that are still to come cannot say their columns; write them behind the stream's name, as in "
            "calls (carrier STRING, sent TIMESTAMP)"
        )
        raise _error(cursor, stream, "FROM", wrong)


def _options(cursor: Cursor) -> tuple[tuple[str, str], ...]:
    """`(key = value, 'key' 'value')`; a key may have dots in it."""

    def pair() -> tuple[str, str]:
        key = cursor.text("a key") if cursor.is_text else cursor.name("a key")
        while cursor.accept_symbol("."):
            key += "." + cursor.name("the rest of the key")
        cursor.accept_symbol("=")
        return key, _option(cursor)

    cursor.expect_symbol("(")
    if cursor.accept_symbol(")"):
        return ()
    pairs = cursor.listed(pair)
    cursor.expect_symbol(")")
    return tuple(pairs)


def _option(cursor: Cursor) -> str:
    if cursor.is_text:
        return cursor.next().text
    if cursor.word in ("TRUE", "FALSE"):
        return cursor.source.word(cursor.next()).lower()
    if not cursor.raw_at(0).replace(".", "", 1).isdecimal():
        cursor.expected("a text in quotes, a number, TRUE or FALSE")
    return cursor.source.raw(cursor.next())


def read_columns(cursor: Cursor) -> str:
    """`(name TYPE, …)` as text, for Spark to read."""
    begin = cursor.at
    cursor.expect_symbol("(")
    closing = closing_bracket(cursor.tokens, begin)
    if closing is None:
        raise cursor.error("'(' is never closed", [cursor.tokens[begin]])
    if closing < begin + 3:
        cursor.expected("columns with their types, as in (carrier STRING, sent TIMESTAMP)")
    cursor.at = closing + 1
    return cursor.source.text[cursor.tokens[begin].end + 1 : cursor.tokens[closing].start].strip()
