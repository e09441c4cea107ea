"""A SQL text as a job: its settings, its statements one after another, and a RUN at its end."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import typer

from slackwater.cli.follow import STATUS_EVERY, follow, interrupt, to_the_end
from slackwater.cli.quiet import quiet
from slackwater.cli.served import Watch
from slackwater.cli.show import overwrite, say, show, status
from slackwater.errors import QueryError
from slackwater.operators.prod_request import check_settings
from slackwater.scheduling.chain import chain
from slackwater.scheduling.heartbeats import HEARTBEATS
from slackwater.scheduling.strategy import STRATEGIES, Strategy
from slackwater.spark.api.interpreter import at
from slackwater.spark.api.run import Run
from slackwater.spark.api.session import Session
from slackwater.sql import statements as S
from slackwater.sql.parse import parse
from slackwater.sql.scope import Scope


@dataclass(frozen=True)
class Job:
    """The statements of a text, all of them read before the first is carried out."""

    statements: list[S.Statement]
    folder: Path
    """Where relative paths start."""
    settings: dict[str, str] = field(default_factory=dict)

    def session(self) -> Session:
        """The session that it runs in."""
        journal = self.settings.get("journal")
        place = journal if journal is None or "://" in journal else str(self.folder / journal)
        strategy = self.strategy()
        heartbeats = HEARTBEATS[self.settings.get("heartbeat_scope", "operator_level")]
        with quiet():
            session = Session(journal=place, strategy=strategy, heartbeat_scope=heartbeats())
        session._interpreter.folder = self.folder
        return session

    def strategy(self) -> Strategy:
        """The settings it runs by."""
        name, longest = self.settings.get("strategy", "fifo"), self.settings.get("max_wait")
        if longest is None:
            return STRATEGIES[name]()
        if name != "chain":
            raise QueryError(f"SET max_wait = {longest!r} goes with SET strategy = 'chain', not {name!r}")
        return chain(longest)


def read_file(file: Path) -> Job:
    """Read a file; relative paths in it start at its folder, and modules beside it are found."""
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise QueryError(f"cannot read {str(file)!r}: {getattr(error, 'strerror', error)}") from None
    return read_text(text, file.parent.absolute())


def read_text(text: str, folder: Path, given: Mapping[str, str] | None = None) -> Job:
    """Read a text whose relative paths start at the folder; it may add to the settings that are given."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    statements = parse(text, Scope()).statements
    settings, others = dict(given or {}), list[S.Statement]()
    for statement in statements:
        if not isinstance(statement, S.SetSession):
            others.append(statement)
        elif others:
            raise statement.error("SET comes before all other statements; move it to the top")
        else:
            settings[statement.name] = statement.value
    return Job(others, folder, settings)


def check_job(job: Job) -> None:
    """Print the plan of each query; Spark analyses them, and nothing starts."""
    if sys.stderr.isatty():
        overwrite("words and names are right; Spark starts, for the types of columns …")
    with job.session() as session:
        plans = []
        for statement in job.statements:
            if isinstance(statement, (S.SelectStatement, S.Insert)):
                plans.append(_checked(session, statement))
            elif isinstance(
                statement, (S.CreateStream, S.CreateBounds, S.CreateTable, S.CreateView, S.CreateFunction)
            ):
                session._interpreter.execute(statement)
        typer.echo("\n\n".join(plans))


def _checked(session: Session, statement: S.SelectStatement | S.Insert) -> str:
    select = statement.select if isinstance(statement, S.Insert) else statement
    late = statement.late if isinstance(statement, S.Insert) else None
    ordered = isinstance(statement, S.Insert) and statement.ordered
    query = session._interpreter.query(select)
    with at(statement):
        check_settings(query._plan, query.early, query.sideline, late, ordered)
    return query.describe()


def run_job(job: Job, watch: Watch | None = None) -> None:
    """Carry out the statements; what was started and not run is run at the end. Then, perhaps, wait for a user."""
    with job.session() as session:
        stay = None if watch is None else watch(session)
        runner = Runner(session, journaled="journal" in job.settings)
        for statement in job.statements:
            runner.execute(statement)
        runner.finish()
        if stay is not None and not runner.interrupted:
            stay()


class Runner:
    """Carries out the statements of a job, and tells how it goes."""

    def __init__(self, session: Session, journaled: bool) -> None:
        self._session = session
        self._journaled = journaled
        self._started: list[Run] = []
        self._shown: list[Run] = []
        self._ran = 0
        self.interrupted = False
        """Whether a user has ended a run that goes on."""
        self._began = time.perf_counter()

    def execute(self, statement: S.Statement) -> None:
        """Carry out one statement; text and tables that it gives are printed."""
        if isinstance(statement, S.SelectStatement):
            self._start(self._session._interpreter.start(statement, hold=True))
            self._shown.append(self._started[-1])
        elif isinstance(statement, S.Insert):
            self._warn_of_files(statement)
            self._start(self._session._interpreter.start(statement, hold=True))
        elif isinstance(statement, S.RunQueries):
            self._run(statement)
        else:
            print_answer(self._session._interpreter.execute(statement))

    def finish(self) -> None:
        """Run what has not been run, and print the results of SELECTs."""
        if self._ran < len(self._started):
            self._run(S.RunQueries())
        for run in self._shown:
            show(run.results())

    def _start(self, run: Run) -> None:
        self._started.append(run)
        if run.metrics()["heartbeat"] == "end":
            say(
                "the last run closed every window in this journal, so rows that come now are late; to go on from "
                "run to run, write RUN WITHOUT DRAIN and begin with a new journal"
            )

    def _warn_of_files(self, insert: S.Insert) -> None:
        folders = [sink for sink in insert.sinks if isinstance(sink, str) and "://" not in sink]
        for folder in [] if self._journaled else folders:
            held = len(list((self._session._interpreter.folder / folder).glob("*.parquet")))
            if held:
                say(f"{folder} holds {held} files of results already; new ones are added")

    def _run(self, run: S.RunQueries) -> None:
        self._ran = len(self._started)

        def work() -> None:
            self._session._interpreter.execute(run)

        every = 1.0 if sys.stderr.isatty() else STATUS_EVERY

        if run.continuously:
            say("running until Ctrl-C")
            self.interrupted = not follow(work, interrupt(), self._progress, every)
        else:
            to_the_end(work, self._progress, every)
        self._tell(f", {time.perf_counter() - self._began:.1f} s")

    def _progress(self) -> None:
        """How it goes: at a terminal one line that changes, elsewhere a line of each query now and then."""
        if not sys.stderr.isatty():
            self._tell()
            return
        figures = [run.metrics() for run in self._started]
        rows, waiting = sum(f.get("rows", 0) for f in figures), sum(f.get("queued_rows", 0) for f in figures)
        seconds = time.perf_counter() - self._began
        overwrite(f"{rows:,} rows, {waiting:,} wait, {rows / seconds:,.0f} rows a second, {seconds:.0f} s")

    def _tell(self, more: str = "") -> None:
        for run in self._started:
            name = f"{run.name}: " if len(self._started) > 1 else ""
            say(f"{name}{status(run.metrics())}{more}")


def print_answer(answer: Any) -> None:
    """Print text and tables; nothing else that a statement gives is for a reader."""
    if isinstance(answer, str):
        typer.echo(answer)
    elif isinstance(answer, pa.Table):
        show(answer)
