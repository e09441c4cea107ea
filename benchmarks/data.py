"""The streams that are measured: Parquet files of timestamp, key and value, a few seconds out of order."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import polars as pl

KEYS = 1_000
SCHEMA = "ts timestamp, key bigint, v double"
_START = int(datetime(2024, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000
_DISORDER_SECONDS = 5


@dataclass(frozen=True)
class Layout:
    """How a stream is cut into files."""

    name: str
    rows: int = 1_000_000
    seconds: int = 1_000
    seed: int = 1
    row_group: int | None = None
    """Rows of a row group; one group without it."""
    groups: Mapping[str, int] = field(default_factory=dict, hash=False)
    """Further columns to group by, with the number of their values."""

    @property
    def schema(self) -> str:
        """For Spark."""
        return ", ".join([SCHEMA, *(f"{column} bigint" for column in self.groups)])

    def make(self, folder: Path, files: int) -> list[Path]:
        """Write the first files; gives them in order."""
        return generate(
            folder / self.name, files, self.rows, self.seconds, self.seed, self.row_group, dict(self.groups)
        )


LARGE = Layout("large")
# Slower in time than the large ones, so that windows close during the run here too.
SMALL = Layout("small", rows=1_000, seconds=60, seed=2)
# What polars writes by default.
SPLIT = Layout("split", row_group=262_144)
GROUPED = Layout("grouped", groups={f"g{n}": n for n in (10, 100, 500, 1_000, 5_000)})


def generate(
    folder: Path,
    files: int,
    rows: int,
    seconds: int,
    seed: int,
    row_group: int | None = None,
    groups: Mapping[str, int] | None = None,
) -> list[Path]:
    """Write files, each of which moves time on by some seconds; gives them in order."""
    folder.mkdir(parents=True)
    random = np.random.default_rng(seed)
    made = []
    for n in range(files):
        due = (np.arange(rows) * (seconds * 1_000_000 / rows)).astype(np.int64) + n * seconds * 1_000_000
        late = random.integers(0, _DISORDER_SECONDS * 1_000_000, rows)
        frame = pl.DataFrame(
            {
                "ts": pl.Series(_START + due - late).cast(pl.Datetime("us", "UTC")),
                "key": random.integers(0, KEYS, rows),
                "v": random.normal(100.0, 15.0, rows),
                **{column: random.integers(0, values, rows) for column, values in (groups or {}).items()},
            }
        )
        path = folder / f"part-{n:04d}.parquet"
        frame.write_parquet(path, compression="snappy", row_group_size=row_group or rows)
        # Spark takes files in the order of their age.
        os.utime(path, (1_700_000_000 + n, 1_700_000_000 + n))
        made.append(path)
    return made


def offer(files: Sequence[Path], folder: Path) -> Path:
    """Put files into a folder that a stream reads, without copying them."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in files:
        os.link(file, folder / file.name)
    return folder
