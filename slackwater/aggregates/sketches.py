"""Sketches in polars columns: united from lists, read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import polars as pl


def over_lists(x: pl.Expr, unite: Callable[[Iterable[bytes | None]], bytes]) -> pl.Expr:
    """One sketch of each list of sketches."""
    return x.map_batches(
        lambda s: pl.Series([unite(v) for v in s.to_list()], dtype=pl.Binary), return_dtype=pl.Binary
    )


def of_sketches(x: pl.Expr, read: Callable[[bytes | None], Any], kind: Any) -> pl.Expr:
    """The value read from each sketch."""
    return x.map_batches(lambda s: pl.Series([read(v) for v in s], dtype=kind), return_dtype=kind)
