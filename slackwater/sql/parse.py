"""SQL text to statements. Nothing is carried out; only functions are imported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from slackwater.choices import SETTINGS
from slackwater.errors import QueryError, did_you_mean
from slackwater.estimates.early import Early, early
from slackwater.plan.explain import Format
from slackwater.progress.time import microseconds
from slackwater.sql import statements as S
from slackwater.sql.create_stream import read_create_stream, read_create_table
from slackwater.sql.cursor import Cursor
from slackwater.sql.end_clauses import end_clause
from slackwater.sql.expression import read_expression
from slackwater.sql.functions import read_create_function
from slackwater.sql.policies import read_policy
from slackwater.sql.scope import Scope
from slackwater.sql.select import SelectReader
from slackwater.sql.sink import read_sink
from slackwater.sql.source import SqlText
from slackwater.sql.source_locations import SourceLocations
from slackwater.sql.values import read_count, read_length, read_share, read_span, sees_share
from slackwater.windows.sideline import sideline

_FORMATS: dict[str, Format] = {"TEXT": "text", "MERMAID": "mermaid", "SVG": "svg"}
_CREATED = ("STREAM", "BOUNDS", "TABLE", "VIEW", "FUNCTION")
_SETTINGS = ("journal", "strategy", "max_wait", "heartbeat_scope")


@dataclass(frozen=True)
class ParsedText:
    """The statements of a text, and the names that are known after it."""

    statements: list[S.Statement] = field(default_factory=list)
    scope: Scope = field(default_factory=Scope)


def parse(text: str, scope: Scope) -> ParsedText:
    """Read all statements, separated by semicolons. Later ones may use names that earlier ones define.

    >>> parsed = parse("SELECT a, b + 1 AS c FROM s WHERE b > 0", Scope(frozenset({"s"})))
    >>> parsed.statements[0].query.columns
    ((None, 'a'), ('c', 'b + 1'))
    """
    if not isinstance(text, str):
        raise QueryError(f"sql({text!r}): write SQL as text")
    source = SqlText(text)
    reader = _Statements(Cursor(source, source.tokens), scope)
    statements = []
    try:
        while reader.more():
            statements.append(reader.statement())
    except RecursionError:
        raise reader.cursor.error("this is nested too deeply") from None
    if not statements:
        raise reader.cursor.error("there is no statement; write for example SELECT … FROM …")
    return ParsedText(statements, reader.scope)


class _Statements:
    """Reads statement after statement."""

    def __init__(self, cursor: Cursor, scope: Scope) -> None:
        self.cursor = cursor
        self.scope = scope
        self._readers: dict[str, Callable[[], S.Statement]] = {
            "SELECT": self._select,
            "WITH": self._select,
            "INSERT": self._insert,
            "CREATE": self._create,
            "EXPLAIN": self._explain,
            "SHOW": self._show,
            "PROD": self._prod,
            "STOP": lambda: S.Stop(self._query_name()),
            "FORGET": lambda: S.Forget(self._query_name()),
            "RUN": self._run,
            "SET": self._set,
        }

    def more(self) -> bool:
        """Skip semicolons. Whether there is another statement."""
        while self.cursor.accept_symbol(";"):
            pass
        return self.cursor.token is not None

    def statement(self) -> S.Statement:
        """The next statement, up to its semicolon or the end."""
        word, begin = "SELECT" if self.cursor.sees_query() else self.cursor.word, self.cursor.at
        if word not in self._readers:
            self.cursor.expected(
                f"a statement ({', '.join(w for w in self._readers if w != 'WITH')})", self._readers
            )
        if word not in ("SELECT", "WITH"):
            self.cursor.at += 1
        statement = self._readers[word]()
        if self.cursor.token is not None and not self.cursor.sees_symbol(";"):
            self.cursor.expected("';' or the end of the statement")
        span = self.cursor.span(begin)
        return replace(statement, script=self.cursor.source, span=span)

    # --- queries

    def _select(self) -> S.SelectStatement:
        locations, start = SourceLocations(self.cursor.source), self.cursor.at
        query = SelectReader(self.cursor, self.scope, locations).read()
        while (clause := end_clause(self.cursor)) is not None:
            self.cursor.expect(*clause.words)
            query = clause.read(self.cursor, query)
        emit, aside, corrections = None, None, None
        while self.cursor.word in ("EMIT", "SIDELINE", "CORRECTIONS"):
            with self.cursor.located():
                if self.cursor.accept("CORRECTIONS"):
                    if corrections is not None:
                        raise QueryError("CORRECTIONS is written twice; leave one of them out")
                    corrections = read_span(self.cursor, "for how long, as in CORRECTIONS 1 DAY")
                elif self.cursor.accept("EMIT"):
                    if emit is not None:
                        raise QueryError("EMIT is written twice; leave one of them out")
                    emit = self._emit()
                else:
                    self.cursor.expect("SIDELINE", "RATIO")
                    aside = sideline(read_count(self.cursor, "a whole number, as in SIDELINE RATIO 4"))
        source, tokens = self.cursor.source, self.cursor.since(start)
        return S.SelectStatement(
            query,
            emit,
            aside,
            corrections,
            locations,
            lambda scope: _Statements(Cursor(source, tokens), scope)._select(),
        )

    def _emit(self) -> Early | None:
        cursor, settings = self.cursor, dict[str, object]()
        if cursor.accept("ON"):
            cursor.expect("WINDOW", "CLOSE")
            return None  # a window is answered when it closes anyway
        if cursor.accept("FINAL"):
            return None
        if cursor.sees("CHANGES"):
            raise cursor.error(
                "each window is answered once, when it closes; for answers before that write EMIT EARLY EVERY 10 "
                "SECONDS, for totals without a window EMIT EVERY 10 SECONDS, or leave EMIT out"
            )
        if not cursor.sees("EVERY") and not cursor.accept("EARLY"):
            cursor.expected("EARLY, EVERY, ON WINDOW CLOSE or FINAL", ("EARLY", "EVERY", "FINAL"))
        while cursor.word in ("AT", "EVERY", "ACCURACY", "COVERAGE", "SEASON"):
            word = cursor.source.word(cursor.next())
            if word.lower() in settings:
                raise QueryError(f"{word} is written twice; leave one of them out")
            if word in ("EVERY", "SEASON"):
                value: object = read_length(cursor, "how often" if word == "EVERY" else "how long a season is")
            elif word == "AT" and not sees_share(cursor):
                value = read_span(cursor, "a share of the slide, as in AT 75%, or a time, as in AT 90 SECONDS")
            else:
                value = read_share(cursor, f"a share, as in {word} 90%")
            settings[word.lower()] = value
        if not settings.keys() & {"at", "every", "accuracy"}:
            cursor.expected("AT 75%, EVERY 5 SECONDS or ACCURACY 98%", ("AT", "EVERY", "ACCURACY"))
        return early(**settings)  # type: ignore[arg-type]

    def _insert(self) -> S.Insert:
        cursor = self.cursor
        cursor.expect("INTO")
        sinks, late = tuple(cursor.listed(self._sink)), None
        if cursor.accept("LATE"):
            cursor.accept("INTO")
            late = read_sink(cursor, "a folder for late rows")
        ordered = cursor.accept("ORDERED")
        name = cursor.name("a name for the query") if cursor.accept("AS") else None
        ordered = cursor.accept("ORDERED") or ordered
        return S.Insert(self._query(), sinks, late, name, ordered)

    def _sink(self) -> str | S.SinkFunction | S.SinkCall | None:
        memory = self.cursor.accept("MEMORY")
        return None if memory else read_sink(self.cursor, "a folder, MEMORY or FUNCTION 'module:function',")

    def _query(self) -> S.SelectStatement:
        if not self.cursor.sees_query():
            self.cursor.expected("SELECT", ("SELECT", "WITH"))
        return self._select()

    # --- definitions

    def _create(self) -> S.Statement:
        cursor = self.cursor
        replaces = cursor.accept("OR", "REPLACE")
        if replaces and not cursor.sees("VIEW"):
            cursor.expected("VIEW; only views can be replaced", ("VIEW",))
        match cursor.choice(_CREATED, "STREAM, BOUNDS, TABLE, VIEW or FUNCTION"):
            case "STREAM":
                stream = read_create_stream(cursor)
                self.scope = self.scope.with_stream(stream.name)
                return stream
            case "BOUNDS":
                names = None
                if cursor.accept("ON"):
                    names = tuple(cursor.listed(lambda: cursor.name("the name of a stream")))
                return S.CreateBounds(read_policy(cursor, ()), names)
            case "TABLE":
                table = read_create_table(cursor)
                self.scope = self.scope.with_table(table.name)
                return table
            case "FUNCTION":
                function = read_create_function(cursor)
                self.scope = self.scope.with_function(function.name, function.function)
                return function
        name = cursor.name("a name for the view")
        cursor.expect("AS")
        select = self._query()
        if select.early is not None or select.sideline is not None:
            raise cursor.error("a view says what to compute; write EMIT where the query starts")
        if select.corrections is not None:
            raise cursor.error("a view says what to compute; write CORRECTIONS where the query starts")
        self.scope = self.scope.with_view(name, select.query)
        return S.CreateView(name, select, replaces)

    # --- acts

    def _explain(self) -> S.Explain:
        format = (
            _FORMATS[self.cursor.choice(_FORMATS, "TEXT, MERMAID or SVG")]
            if self.cursor.accept("FORMAT")
            else "text"
        )
        if self.cursor.sees_query():
            return S.Explain(self._select(), None, format)
        return S.Explain(None, self._query_name(), format)

    def _show(self) -> S.Show:
        word = self.cursor.choice(("STREAMS", "TABLES", "QUERIES", "VIEWS", "RESULTS", "STATE"))
        if word not in ("RESULTS", "STATE"):
            return S.Show(word.lower())
        self.cursor.expect("OF")
        return S.Show(word.lower(), self._query_name())

    def _query_name(self) -> str:
        return self.cursor.name("the name of a query")

    def _prod(self) -> S.ProdStatement:
        cursor, name = self.cursor, self._query_name()
        until = self._time() if cursor.accept("UNTIL") else None
        at = self._time() if until is None and cursor.accept("AT") else None
        where = read_expression(cursor, "a condition on the groups").text if cursor.accept("WHERE") else None
        return S.ProdStatement(name, until, where, at)

    def _time(self) -> str | int:
        cursor = self.cursor
        return (
            cursor.text("a time") if cursor.is_text else read_count(cursor, "a time in quotes, or a whole number")
        )

    def _run(self) -> S.RunQueries:
        cursor = self.cursor
        if cursor.accept("CONTINUOUSLY"):
            return S.RunQueries(continuously=True)
        drain, speed = True, None
        while cursor.word in ("WITHOUT", "SPEED"):
            if cursor.accept("SPEED"):
                speed = read_share(cursor, "seconds of the replay for a real second, as in SPEED 60")
            else:
                cursor.expect("WITHOUT", "DRAIN")
                drain = False
        if cursor.word:
            cursor.expected("CONTINUOUSLY, WITHOUT DRAIN or SPEED 60", ("CONTINUOUSLY", "WITHOUT", "SPEED"))
        return S.RunQueries(drain=drain, speed=speed)

    def _set(self) -> S.SetSession:
        cursor = self.cursor
        name = cursor.choice(_SETTINGS)
        cursor.expect_symbol("=")
        with cursor.located(what="max_wait: " if name == "max_wait" else ""):
            value = cursor.text(f"the {name}")
            choices = SETTINGS.get(name)
            if choices is not None and value not in choices:
                hint = did_you_mean(value, choices)
                raise QueryError(
                    f"there is no {choices.kind} {value!r}{hint}; there are {', '.join(sorted(choices))}"
                )
            if name == "max_wait":
                microseconds(value)
        return S.SetSession(name, value)
