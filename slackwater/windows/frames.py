"""Tables that come from Spark, files or a journal, as polars frames."""

from __future__ import annotations

import polars as pl
import pyarrow as pa


def frame_of(table: pa.Table) -> pl.DataFrame:
    """A table as polars has it; nothing is copied, as `pl.DataFrame` would a table of many pieces."""
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame
