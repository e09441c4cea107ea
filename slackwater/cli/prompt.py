"""The prompt: statements are carried out when their semicolon comes; what was typed is remembered."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from slackwater.cli.follow import to_the_end
from slackwater.cli.job import print_answer
from slackwater.cli.show import say, show, tell_mistake
from slackwater.errors import SlackwaterError
from slackwater.spark.api.session import Session
from slackwater.sql import statements as S
from slackwater.sql.source import SqlText

_HISTORY = ".slackwater_history"
_KEPT_LINES = 2000
_LEAVE = ("exit", "quit", r"\q")
_FIRST, _NEXT = "slackwater> ", "        ... "


def prompt(session: Session, read: Callable[[str], str] = input, history: Path | None = None) -> None:
    """Read and carry out statements until the user leaves."""
    say("statements end with a semicolon; exit, or Ctrl-D, ends the session")
    with _remembered(Path.home() / _HISTORY if history is None else history):
        while (text := _statement(read)) is not None:
            try:
                _carry_out(session, text)
            except SlackwaterError as error:
                tell_mistake(error)
            except KeyboardInterrupt:
                say("interrupted")


@contextlib.contextmanager
def _remembered(history: Path) -> Iterator[None]:
    """Lines typed inside can be called up again, also in a later session, if Python has readline."""
    try:
        import readline
    except ImportError:
        yield
        return
    with contextlib.suppress(OSError):  # the first time there is none
        readline.read_history_file(history)
    readline.set_history_length(_KEPT_LINES)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # nobody should leave with an error for the sake of a history
            readline.write_history_file(history)


def _statement(read: Callable[[str], str]) -> str | None:
    """Lines up to a semicolon; None when the user leaves."""
    lines: list[str] = []
    while True:
        try:
            line = read(_NEXT if lines else _FIRST)
        except EOFError:
            return None
        except KeyboardInterrupt:
            lines = []
            continue
        if not lines and line.strip().rstrip(";").lower() in _LEAVE:
            return None
        lines += [line] if line.strip() or lines else []
        if is_complete("\n".join(lines)):
            return "\n".join(lines)


def is_complete(text: str) -> bool:
    """Whether the last statement of a text has its semicolon; one inside quotes or a comment is none.

    >>> is_complete("SELECT 1;"), is_complete("SELECT ';"), is_complete("SELECT 1 -- ;")
    (True, False, False)
    """
    try:
        tokens = SqlText(text).tokens
    except SlackwaterError:
        return False
    return bool(tokens) and tokens[-1].text == ";" and text[tokens[-1].start] == ";"


def _carry_out(session: Session, text: str) -> None:
    for statement in session._interpreter.parse(text):
        if isinstance(statement, S.SelectStatement):
            _answer(session, statement)
        elif isinstance(statement, S.RunQueries):
            to_the_end(lambda run=statement: session._interpreter.execute(run))  # type: ignore[misc]
        else:
            print_answer(session._interpreter.execute(statement))


def _answer(session: Session, select: S.SelectStatement) -> None:
    """Run a query over all there is, and show what it says."""
    run = session._interpreter.start(select)
    try:
        to_the_end(session.run_available)
        show(run.results())
    finally:
        run.stop()
