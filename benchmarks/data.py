"""The stream that is measured: Parquet files of timestamp, key and value, a few seconds out of order."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import polars as pl
from cases import KEYS

SCHEMA = "ts timestamp, key bigint, v double"
_START = int(datetime(2024, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000
_DISORDER_SECONDS = 5


def generate(folder: Path, files: int, rows: int, seconds: int, seed: int) -> list[Path]:
    """Write files of one row group, each of which moves time on by some seconds; gives them in order."""
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
            }
        )
        path = folder / f"part-{n:04d}.parquet"
        frame.write_parquet(path, compression="snappy", row_group_size=rows)
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
