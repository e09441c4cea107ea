"""Queries that count a stream of times in process, with a journal in a folder."""

from __future__ import annotations

from pathlib import Path

import polars as pl
from pyarrow import fs

from slackwater.engine.build import add_query
from slackwater.engine.executor import Executor
from slackwater.operators.page import Page
from slackwater.operators.payload import Payload
from slackwater.progress.clock import ManualClock
from slackwater.spark.storage.journal_files import FileJournal
from slackwater.testing import ListSink, arrow_page, arrow_plan
from slackwater.testing.script import ArrowPages

PLAN = arrow_plan(pl.DataFrame({"t": [1]}), range=10, slide=10, n="count(*)")


class Broken(ListSink):
    """Takes nothing."""

    def write(self, payload: Payload, commit_id: int) -> None:
        raise OSError("broken")


def executor(folder: Path, **sinks: ListSink) -> Executor:
    made = Executor(ManualClock(), FileJournal(fs.LocalFileSystem(), str(folder), sync=False), pages=ArrowPages())
    for name, sink in sinks.items():
        add_query(made, name, PLAN, sink)
    return made


def page(number: int, *times: int) -> Page:
    return arrow_page(pl.DataFrame({"t": times}), number, 0, "t")
