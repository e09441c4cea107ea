"""Early answers for the tests: a witness at each aggregate recomputes them from the rows that have come there."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import polars as pl

from slackwater.operators.operator import MAIN
from slackwater.operators.page import Page
from slackwater.operators.prod import Prod
from tests.kit.oracle import recompute
from tests.kit.streams import SAMPLE, assert_same_rows

SUM = pl.when(pl.col("i").count() > 0).then(pl.col("i").sum())
AGGREGATES = {"n": ("count(*)", pl.len().cast(pl.Int64)), "total": ("sum(i)", SUM)}
OVER_RESULTS = {
    "most": ("max(total)", pl.col("total").max()),
    "sums": ("sum(n)", pl.col("n").sum().cast(pl.Int64)),
    "results": ("count(*)", pl.len().cast(pl.Int64)),
}


class Witness:
    """Sees what an aggregate takes and gives, and recomputes what it must answer to a prod."""

    def __init__(self, aggregate: Any, keys: Sequence[str], below: Witness | None = None) -> None:
        self._spec, self._keys, self._below = aggregate._spec, keys, below
        self._aggregates = AGGREGATES if below is None else OVER_RESULTS
        self._inner, self._pages = aggregate._settings.inner, aggregate.pages
        self._rows, self._done = [SAMPLE.clear()], set[Any]()
        self._early: deque[pl.DataFrame] = deque()
        """Results of prods that are on their way to the aggregate above."""
        self._take, self._close, self._answer = aggregate.on_page, aggregate.on_punctuation, aggregate.on_prod
        aggregate.on_page, aggregate.on_punctuation, aggregate.on_prod = (
            self.on_page,
            self.on_punctuation,
            self.on_prod,
        )

    def _key(self, row: dict[str, Any]) -> Any:
        return (row["window_start"], *(row[k] for k in self._keys))

    def on_page(self, page: Page, emit: Any) -> None:
        if self._below is None:
            self._rows.append(self._pages.here.frame(page).select("t", "g", "h", "i"))
        self._take(page, emit)

    def on_punctuation(self, punctuation: Any, emit: Any) -> None:
        def spy(element: Any, port: str = MAIN) -> None:
            if isinstance(element, Page):
                self._done |= {self._key(row) for row in self._pages.payload(element).to_pylist()}
            emit(element, port)

        self._close(punctuation, spy)

    def on_prod(self, prod: Prod, emit: Any) -> None:
        given_out: list[dict[str, Any]] = []

        def spy(element: Any, port: str = MAIN) -> None:
            if isinstance(element, Page):
                given_out.extend(self._pages.payload(element).to_pylist())
            emit(element, port)

        rows = pl.concat(self._rows, how="diagonal") if self._below is None else self._below._early.popleft()
        results = recompute(rows, self._spec, self._keys, self._aggregates)
        columns = {"g": pl.String, "h": pl.Int64, "n": pl.Int64, "total": pl.Int64, "t": pl.Int64}
        as_rows = [{**{c: r.get(c) for c in columns}, "t": r["window_end"] - 1} for r in results]
        self._early.append(pl.DataFrame(as_rows, schema=columns))
        self._answer(prod, spy)
        if self._inner:
            return
        wanted = [
            row
            for row in results
            if self._key(row) not in self._done
            and (prod.until is None or row["window_end"] <= prod.until)
            and (prod.after is None or row["window_end"] > prod.after)
            and (prod.where is None or row["g"] == "a")
        ]
        seen = [{**row, **{name: row[f"{name}_seen"] for name in self._aggregates}} for row in given_out]
        assert_same_rows(seen, wanted, ["window_start", *self._keys])
