"""Corrected answers of a query with HAVING: the new and the previous answer of each group become one row."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
import pyarrow as pa

from slackwater.windows.frames import frame_of
from slackwater.windows.results import CORRECTED, KIND, REPLACES, WITHDRAWN


def corrected_rows(rows: pa.Table, keys: Sequence[str]) -> pa.Table:
    """One row for each window and group.

    `rows` has only answers that meet HAVING: the new ones (`corrected`) and the previous ones (`withdrawn`). If a
    group has both, the new one replaces the previous one. If it has only the new one, that one replaces nothing. If
    it has only the previous one, that one stays as `withdrawn`.

    >>> rows = pa.table({
    ...     "g": ["a", "b", "a", "c"], "kind": ["corrected", "corrected", "withdrawn", "withdrawn"],
    ...     "replaces": [4, 4, 4, 4]})
    >>> frame_of(corrected_rows(rows, ["g"])).rows()
    [('a', 'corrected', 4), ('b', 'corrected', None), ('c', 'withdrawn', 4)]
    """
    if not {CORRECTED, WITHDRAWN} & set(rows[KIND].unique().to_pylist()):
        return rows
    frame = frame_of(rows.select([*keys, KIND])).with_row_index("__at")
    now, before = (frame.filter(pl.col(KIND) == kind) for kind in (CORRECTED, WITHDRAWN))
    new = now.join(before, on=list(keys), how="anti", nulls_equal=True)["__at"]
    gone = before.join(now, on=list(keys), how="semi", nulls_equal=True)["__at"]
    at = pl.Series("__at", range(rows.num_rows), pl.UInt32)
    place = rows.schema.get_field_index(REPLACES)
    replaced = pl.select(pl.when(~at.is_in(new.implode())).then(pl.Series(rows[REPLACES]))).to_series()
    marked = rows.set_column(place, rows.schema.field(place), replaced.to_arrow())
    return marked.filter((~at.is_in(gone.implode())).to_arrow())
