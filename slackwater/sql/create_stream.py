"""`CREATE STREAM` and `CREATE TABLE`: where rows come from, what their time is, and how late they may come."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlglot import Token

from slackwater.progress.policies import POLICIES
from slackwater.progress.time_kinds import internal, latent
from slackwater.sql.cursor import Cursor
from slackwater.sql.expression import read_expression
from slackwater.sql.policies import read_policy
from slackwater.sql.source import span_of
from slackwater.sql.statements import CreateStream, CreateTable, StreamPlaces
from slackwater.sql.values import read_length

#: Formats that are folders of files; some of the files say themselves what columns they have.
FILE_FORMATS = ("avro", "csv", "json", "orc", "parquet", "text", "xml")
_SELF_DESCRIBING = ("avro", "orc", "parquet")
_CLAUSES = ("OPTIONS", "WHERE", "TIME", "SOURCE", "DISORDER", "REPLAY", "TRIGGER")
#: Kinds of time that are no column.
_KINDS = {"INTERNAL": internal, "LATENT": latent}
_TABLE_CLAUSES = ("OPTIONS", "WHERE")
_EXAMPLES = " or ".join(f"DISORDER {p.example}" for p in POLICIES[:2])


def read_create_stream(cursor: Cursor) -> CreateStream:
    """What stands behind CREATE STREAM."""
    prods = cursor.accept("OF", "PRODS")
    made, found = _source(cursor, "stream", _CLAUSES)
    _check(cursor, prods, made, found)
    return CreateStream(
        name=made.name,
        columns=made.columns,
        format=made.format,
        options=found.get("options", ()),
        where=found.get("where"),
        time=found["time"],
        source=found.get("source"),
        disorder=found.get("disorder"),
        arrival=found.get("arrival"),
        page=found.get("page"),
        trigger=found.get("trigger"),
        prods=prods,
        places=made.places,
    )


def read_create_table(cursor: Cursor) -> CreateTable:
    """What stands behind CREATE TABLE."""
    made, found = _source(cursor, "table", _TABLE_CLAUSES)
    _must_have_path(cursor, "table", made, found)
    return replace(made, options=found.get("options", ()), where=found.get("where"))


def _source(cursor: Cursor, what: str, clauses: tuple[str, ...]) -> tuple[CreateTable, dict[str, Any]]:
    """A name, columns and a format, which streams and tables have alike; and what the clauses behind them say."""
    begin = cursor.at
    name = cursor.name(f"a name for the {what}")
    columns = read_columns(cursor) if cursor.sees_symbol("(") else None
    cursor.expect("FROM")
    format = cursor.text("a format that Spark reads, as in 'parquet',").lower()
    found, spans = dict[str, Any](), {"FROM": span_of(cursor.tokens[begin : cursor.at])}
    while cursor.word in clauses:
        start, word = cursor.at, cursor.word
        if word in spans:
            raise cursor.error(f"{word} is written twice; leave one of them out")
        cursor.at += 1
        _clause(cursor, word, found)
        spans[word] = span_of(cursor.tokens[start : cursor.at])
    if cursor.token is not None and not cursor.sees_symbol(";"):
        cursor.expected(f"one of {', '.join(clauses)} or the end of the statement", clauses)
    return CreateTable(name, columns, format, (), None, StreamPlaces(cursor.source, spans)), found


def _clause(cursor: Cursor, word: str, found: dict[str, Any]) -> None:
    if word == "OPTIONS":
        found["options"] = _options(cursor)
    elif word == "DISORDER":
        found["disorder"] = read_policy(cursor, _CLAUSES)
    elif (
        word == "TIME"
        and cursor.word in _KINDS
        and (cursor.raw_at(1) in ("", ";") or cursor.word_at(1) in _CLAUSES)
    ):
        found["time"] = _KINDS[cursor.source.word(cursor.next())]()
    elif word == "TRIGGER":
        cursor.accept("EVERY")
        found["trigger"] = read_length(cursor, "how often to read, as in TRIGGER 5 SECONDS")
    elif word == "REPLAY":
        cursor.expect("BY")
        found["arrival"] = read_expression(cursor, "the column of arrival", (*_CLAUSES, "PAGE")).text
        if cursor.accept("PAGE"):
            found["page"] = read_length(cursor, "how much arrives at once, as in PAGE 10 SECONDS")
    else:
        what = {"TIME": "the column of time", "SOURCE": "the column of a row's source"}.get(word, "a condition")
        found[word.lower()] = read_expression(cursor, what, _CLAUSES).text


def _must_have_path(cursor: Cursor, what: str, made: CreateTable, found: dict[str, Any]) -> None:
    if made.format in FILE_FORMATS and not any(key.lower() == "path" for key, _ in found.get("options", ())):
        spans = made.places.clauses
        wrong = f"a {made.format} {what} reads a folder; add OPTIONS (path = 'incoming')"
        raise cursor.source.error(spans.get("OPTIONS", spans["FROM"]), wrong)


def _check(cursor: Cursor, prods: bool, made: CreateTable, found: dict[str, Any]) -> None:
    """Refuse a stream that cannot be, as far as the words go."""
    spans = made.places.clauses
    if "time" not in found:
        cursor.expected("TIME and the column of time, as in TIME sent", _CLAUSES)
    if prods:
        for word in ("DISORDER", "SOURCE"):
            if word in spans:
                wrong = f"a stream of prods moves no time and has no sources; leave out {word}"
                raise cursor.source.error(spans[word], wrong)
    elif not isinstance(found["time"], str):
        if "DISORDER" in spans:
            wrong = "rows that are stamped as they come are not out of order; leave out DISORDER"
            raise cursor.source.error(spans["DISORDER"], wrong)
    elif "disorder" not in found:
        cursor.expected(f"how late rows may come, as in {_EXAMPLES}", _CLAUSES)
    replay = "arrival" in found
    if replay and "trigger" in found:
        wrong = "a replay has no trigger; leave it out, or write REPLAY BY … PAGE … to set its steps"
        raise cursor.source.error(spans["TRIGGER"], wrong)
    _must_have_path(cursor, "stream", made, found)
    if made.format not in FILE_FORMATS or made.columns is not None or made.format == "text":
        return
    if not (replay and made.format in _SELF_DESCRIBING):
        wrong = (
            "files that are still to come cannot say their columns; write them behind the stream's name, as in "
            "calls (carrier STRING, sent TIMESTAMP)"
        )
        raise cursor.source.error(spans["FROM"], wrong)


def _options(cursor: Cursor) -> tuple[tuple[str, str], ...]:
    """`(key = value, 'key' 'value')`; a key may have dots in it."""
    pairs = list[tuple[str, str]]()
    cursor.expect_symbol("(")
    while not cursor.accept_symbol(")"):
        if pairs:
            cursor.expect_symbol(",")
        if cursor.is_text:
            key = cursor.text("a key")
        else:
            key = cursor.name("a key")
            while cursor.accept_symbol("."):
                key += "." + cursor.name("the rest of the key")
        cursor.accept_symbol("=")
        pairs.append((key, _option(cursor)))
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
    """`(name TYPE, …)`, in Spark's words; types are Spark's to read."""
    begin = cursor.at
    cursor.expect_symbol("(")
    depth, names = 1, 0
    inside = list[Token]()
    while depth:
        if cursor.token is None:
            raise cursor.error("'(' is never closed", [cursor.tokens[begin]])
        raw = cursor.raw_at(0)
        depth += (raw in ("(", "<")) - (raw in (")", ">"))
        names += depth == 1 and raw == ","
        inside.append(cursor.next())
    if len(inside) < 3 or names > len(inside):
        cursor.at = begin + 1
        cursor.expected("columns with their types, as in (carrier STRING, sent TIMESTAMP)")
    return cursor.source.text[inside[0].start : inside[-1].start].strip()
