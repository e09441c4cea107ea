"""A process that dies at the n-th thing it does to the outside, and comes back with what it left there."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import polars as pl
import pyarrow as pa
from pyarrow import fs

from slackwater.engine.build import source_label
from slackwater.operators.payload import Payload
from slackwater.plan.node import PlanNode, streams_of
from slackwater.spark.storage.journal_files import FileJournal
from slackwater.testing import ListSink, Script, arrow_page


class Died(BaseException):
    """The process is gone; no handler of the engine may notice."""


@dataclass
class Fate:
    """Counts what is done to files and sinks; the process dies at one of these points, or never."""

    at: int | None = None
    count: int = 0
    witness: Callable[[], None] = lambda: None
    """Called at each point."""

    def step(self) -> None:
        self.count += 1
        self.witness()
        if self.count == self.at:
            raise Died


class _HalfWritten:
    """An output stream that may be left half written."""

    def __init__(self, stream: Any, fate: Fate) -> None:
        self._stream, self._fate = stream, fate

    def __enter__(self) -> _HalfWritten:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self._stream.close()

    def write(self, data: bytes) -> None:
        self._stream.write(data[: len(data) // 2])
        self._fate.step()
        self._stream.write(data[len(data) // 2 :])


class MortalFiles:
    """A file system, by default the local one, with points of death before, in the middle of, and after each act.

    A move is a copy and a deletion, as on an object store, and death may come between the two; what a rename can
    leave is among what that leaves.
    """

    def __init__(self, fate: Fate, files: fs.FileSystem | None = None) -> None:
        self._fate = fate
        self._files = files or fs.LocalFileSystem()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._files, name)

    def open_output_stream(self, path: str) -> _HalfWritten:
        self._fate.step()
        return _HalfWritten(self._files.open_output_stream(path), self._fate)

    def move(self, src: str, dest: str) -> None:
        self._fate.step()
        self._files.copy_file(src, dest)
        self._fate.step()
        self._files.delete_file(src)
        self._fate.step()

    def delete_file(self, path: str) -> None:
        self._fate.step()
        self._files.delete_file(path)
        self._fate.step()


class MortalSink(ListSink):
    """Outlives the process; a commit id that comes again must bring the same rows."""

    def __init__(self) -> None:
        super().__init__()
        self.fate = Fate()
        self.rewritten = 0

    def write(self, payload: Payload, commit_id: int) -> None:
        self.fate.step()
        if commit_id in self.commits:
            assert isinstance(payload, pa.Table)
            assert self.commits[commit_id].equals(payload), f"commit {commit_id} came again with other rows"
            self.rewritten += 1
        super().write(payload, commit_id)
        self.fate.step()

    def copied(self) -> MortalSink:
        """A sink that has been given the same."""
        made = copy.copy(self)
        made.commits = dict(self.commits)
        return made


@dataclass
class World:
    """What is outside of the process: the journal's folder, two sinks, and a source that knows what is safe."""

    plan: PlanNode
    pages: Sequence[pl.DataFrame]
    folder: Path
    commit_every: int = 64
    sink: MortalSink = field(default_factory=MortalSink)
    late: MortalSink = field(default_factory=MortalSink)
    pace: int = 1
    """Ticks of the clock from page to page."""
    safe: int = -1
    """Number of the last page that was acknowledged."""
    files: fs.FileSystem | None = None
    """Where the journal is, if not on this machine."""

    def deaths(self, copies: Path) -> list[World]:
        """Live to the end; the worlds that a death at each point would have left, in folders of this one.

        A life up to a point is the same whether it dies there or not: so it need not be lived again for each.
        """
        left: list[World] = []
        assert self.live(Fate(witness=lambda: left.append(self._copied(copies / str(len(left)))))) is not None
        return left

    def _copied(self, folder: Path) -> World:
        if self.folder.exists():
            shutil.copytree(self.folder, folder)
        made = copy.copy(self)
        made.folder, made.sink, made.late = folder, self.sink.copied(), self.late.copied()
        return made

    def start(self, fate: Fate) -> Script:
        self.sink.fate = self.late.fate = fate
        journal = FileJournal(MortalFiles(fate, self.files), str(self.folder))
        return Script(self.plan, journal, self.sink, self.late, commit_every=self.commit_every)

    def live(self, fate: Fate, again: int = 0) -> Script | None:
        """One life, from the first page that is not safe or some pages before it; None if it ended early."""
        try:
            return self.read(fate, again).drain()
        except Died:
            return None

    def outlive(self, deaths: Sequence[int], again: int = 0) -> Script:
        """Lives that end after so many steps each, then one that goes on to the end."""
        for death in deaths:
            self.live(Fate(death), again)
        script = self.live(Fate(), again)
        assert script is not None
        return script

    def read(self, fate: Fate, again: int = 0) -> Script:
        """All pages from the first that is not safe, or some before it."""
        script = self.start(fate)
        for number in range(max(self.safe + 1 - again, 0), len(self.pages)):
            self._give(script, number)
        return script

    def _give(self, script: Script, number: int) -> None:
        script.clock.set(number * self.pace)
        (stream,) = streams_of(self.plan)
        now = number * self.pace
        page = arrow_page(self.pages[number], number, now, stream.time, stream.source, stream.punctuation)
        ticket = script.executor.admit(source_label("s"), page)

        def acknowledge() -> None:
            self.safe = max(self.safe, number)

        if ticket.done:
            acknowledge()
        ticket.on_done = acknowledge
        script.executor.run_until_idle()
        assert ticket.done
