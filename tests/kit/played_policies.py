"""A policy played by the engine, on in-process pages: what a back-test must have foretold."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from slackwater.columns import SOURCE, TIME
from slackwater.progress.disorder import Disorder
from slackwater.progress.time import TimeDomain
from slackwater.testing import Script, arrow_plan
from slackwater.tune.arrival_pages import ArrivalPages
from slackwater.tune.outcome import PolicyOutcome
from slackwater.tune.rows import ARRIVAL, FrameRows
from slackwater.windows.spec import WindowSpec


@dataclass(frozen=True)
class Told:
    """What was lost, and when which window was answered: its end, and the instant of its answer."""

    late_rows: int
    lost_pairs: int
    all_pairs: int
    answers: list[tuple[int, int]]

    @staticmethod
    def foretold(outcome: PolicyOutcome) -> Told:
        """By a back-test; what is open at the end is answered there."""
        closed = np.minimum(outcome.closed, outcome.pages.ats[-1]).tolist()
        answers = sorted(zip(outcome.ends.tolist(), closed, strict=True))
        lost = int(outcome.lost_rows.sum()), int(outcome.lost.sum())
        return Told(*lost, int(outcome.pages.all_pairs.sum()), answers)


def stream(arrival: list[int], time: list[int | None], source: list[str] | None = None) -> pl.DataFrame:
    columns = {ARRIVAL: arrival, TIME: time}
    kinds = {ARRIVAL: pl.Int64, TIME: pl.Int64}
    if source is None:
        return pl.DataFrame(columns, schema=kinds)
    return pl.DataFrame({**columns, SOURCE: source}, schema={**kinds, SOURCE: pl.String})


def paged(rows: pl.DataFrame, page: int, spec: WindowSpec) -> ArrivalPages:
    reduced = FrameRows(rows.lazy(), SOURCE in rows.columns)
    return ArrivalPages.of(reduced.cells(page, spec), reduced.sketches(page), page, spec)


def played(rows: pl.DataFrame, policy: Disorder, page: int, spec: WindowSpec, by_source: bool = False) -> Told:
    """The same by the engine, cut into pages as a replay does."""
    names = {ARRIVAL: "arrival", TIME: "t", SOURCE: "source"}
    rows = rows.rename({k: v for k, v in names.items() if k in rows.columns})
    has_source = "source" in rows.columns
    time = "CASE WHEN arrival IS NOT NULL THEN t END"
    plan = arrow_plan(
        rows.head(1).fill_null(0),
        timedelta_text(spec.range),
        timedelta_text(spec.slide),
        timedelta_text(spec.offset),
        group_by=["source"] if by_source else [],
        time=time,
        domain=TimeDomain.TIMESTAMP,
        disorder=policy,
        source="source" if has_source else None,
        n="count(*)",
    )
    script = Script(plan)
    number = pl.col("arrival").floordiv(page)
    rows = rows.with_columns(number.fill_null(rows.select(number.min()).item()).alias("number"))
    for (cut,), part in rows.sort("number", maintain_order=True).group_by("number", maintain_order=True):
        assert isinstance(cut, int)
        script.until((cut + 1) * page)
        script.page(part.drop("number"), number=cut)
    script.drain()
    (window,) = [f for f in script.metrics().values() if "lost_pairs" in f]
    micros = [(_micros(row["window_end"]), _micros(row["emitted_at"])) for row in script.results]
    all_pairs = round(window["lost_pairs"] / window["lost_share"]) if window["lost_pairs"] else -1
    return Told(window["late_rows"], window["lost_pairs"], all_pairs, sorted(micros))


def timedelta_text(ticks: int) -> str:
    return f"{ticks} microseconds"


def _micros(instant: object) -> int:
    return int(np.datetime64(instant.replace(tzinfo=None), "us").astype(np.int64))  # type: ignore[attr-defined]
