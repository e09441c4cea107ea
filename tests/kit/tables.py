"""Tables, and a process that writes to them and dies at any point, of the journal or of the table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from slackwater.operators.payload import Payload, Staged
from slackwater.spark.sinks.result_rows import ResultColumns
from slackwater.spark.sinks.table_sink import TableSettings, TableSink
from slackwater.spark.storage.disk import Disk
from slackwater.spark.storage.storage_dir import StorageDir
from tests.kit.faults import Died, Fate, MortalFiles

#: Rows of a commit: few in the driver, or the files that Spark has written.
Commit = pa.Table | Sequence[pa.Table]


def pages_of(root: Path, fate: Fate | None = None) -> Any:
    """What a sink needs of the back end: the journal's folder."""
    files: Any = fs.LocalFileSystem() if fate is None else MortalFiles(fate)
    root.mkdir(parents=True, exist_ok=True)
    return SimpleNamespace(root=StorageDir(files, str(root), f"file://{root}"), disk=Disk(files, sync=False))


def payload(root: Path, commit_id: int, rows: Commit) -> Payload:
    """The rows as they come to a sink."""
    if isinstance(rows, pa.Table):
        return rows
    folder = root / "staged" / str(commit_id)
    folder.mkdir(parents=True, exist_ok=True)
    for n, part in enumerate(rows):
        pq.write_table(part, folder / f"part-{n}.parquet", use_deprecated_int96_timestamps=True)
    return Staged(f"staged/{commit_id}", sum(part.num_rows for part in rows))


@dataclass
class TableWorld:
    """A journal's folder, a table outside of it, and a clock that goes on by 4 seconds with each commit."""

    settings: TableSettings
    columns: ResultColumns
    root: Path
    commits: Sequence[Commit]
    mortal: Sequence[str] = ("put",)
    """Methods of the table at whose begin and end the process may die."""
    run: str = "run"
    now: float = 0.0
    done: int = 0
    """The first commit that the journal does not know to be done."""

    def sink(self, fate: Fate | None = None) -> TableSink:
        """A new process."""
        fate = fate or Fate()
        pages = pages_of(self.root, fate)
        table: Any = self.settings.table(self.run, pages, self.columns)
        for name in self.mortal:
            setattr(table, name, _with_points(getattr(table, name), fate))
        every = self.settings.every / 1e6
        return TableSink(table, self.run, pages, every, lambda: self.now)

    def live(self, fate: Fate) -> bool:
        """All commits that are not done; whether the process has come to its end."""
        try:
            sink = self.sink(fate)
            for commit_id in range(self.done, len(self.commits)):
                self.now += 4
                sink.write(payload(self.root, commit_id, self.commits[commit_id]), commit_id)
                fate.step()
                self.done = commit_id + 1
            sink.flush()
        except Died:
            return False
        return True


def _with_points(act: Callable[..., Any], fate: Fate) -> Callable[..., Any]:
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        fate.step()
        result = act(*args, **kwargs)
        fate.step()
        return result

    return wrapped
