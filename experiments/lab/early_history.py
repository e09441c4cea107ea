"""What a stream's windows had seen when they were prodded and what became of them, without an engine around it.

`Estimates` answers and learns from such a history as it does within a query, some hundred times faster than a query
runs. Beside its intervals stands a plain one: the last errors of what is seen over the mean completeness.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from experiments.lab.early_streams import Case
from slackwater.aggregates.avg import Avg
from slackwater.aggregates.count import CountOf
from slackwater.aggregates.min_max import MaxOf
from slackwater.aggregates.sum import SumOf
from slackwater.columns import ROWS, WINDOW
from slackwater.estimates.accuracy import accuracy
from slackwater.estimates.early import Early
from slackwater.estimates.estimates import Estimates
from slackwater.progress.time import TimeDomain
from slackwater.windows.closed import Closed
from slackwater.windows.kernel import Group, PaneKernel
from slackwater.windows.runs import starts
from slackwater.windows.spec import WindowSpec

COLUMNS = ("n", "total", "mean", "top")
#: The plain interval is made of so many errors, and given from so many on.
LAST, FIRST = 100, 20
#: The best interval's ends are looked for among these quantiles.
_LOW, _HIGH = np.linspace(0, 0.12, 25), np.linspace(0.4, 1, 121)
#: A group's standard error is that of runs of at least so many windows.
RUN = 12


@dataclass
class History:
    """Windows of a case, prodded when a share of their last slide is left."""

    spec: WindowSpec
    pages: pl.DataFrame
    """Rows by the end of their page and by window."""
    seen: pl.DataFrame
    final: pl.DataFrame
    prodded: dict[int, int]
    closed: dict[int, int]
    """When each window was prodded, and when it became final."""


def history(case: Case, at: float = 0.5) -> History:
    """Follow a case through its windows; each is closed when a row beyond its end and the slack has come."""
    domain = TimeDomain.TIMESTAMP
    spec = WindowSpec.of(domain, case.range, case.slide, None)
    slack = domain.span(case.slack, "slack")
    rows = case.rows.with_columns(page=pl.Series(-(-case.arrived // case.page) * case.page))
    if "g" not in rows.columns:
        rows = rows.with_columns(g=pl.lit(0, pl.Int64))
    by_page = rows.group_by("page").agg(pl.col("t").max()).sort("page")
    pages, upto = by_page["page"].to_numpy(), np.maximum.accumulate(by_page["t"].to_numpy())
    last = pl.col("t") // spec.slide
    overlap = -(-spec.range // spec.slide)
    of_windows = pl.concat(
        rows.with_columns((last - k).alias(WINDOW)).filter(pl.col("t") < pl.col(WINDOW) * spec.slide + spec.range)
        for k in range(overlap)
    )
    ends = pl.col(WINDOW) * spec.slide + spec.range
    prod = ends - spec.slide + int(at * spec.slide)
    windows = of_windows.select(pl.col(WINDOW).unique().sort()).to_series().to_numpy()
    end = windows * spec.slide + spec.range
    places = np.searchsorted(upto, end + slack)
    closes = np.append(pages, pages[-1] + 1)[places]
    seen = _values(of_windows.filter(pl.col("page") <= prod))
    known = set(seen[WINDOW].unique().to_list())
    return History(
        spec,
        of_windows.group_by("page", WINDOW).agg(pl.len().alias("rows")).sort("page", WINDOW),
        seen,
        _values(of_windows),
        {w: e for w, e in zip(windows.tolist(), (end - spec.slide + int(at * spec.slide)).tolist(), strict=True)
         if w in known and e <= pages[-1]},
        dict(zip(windows.tolist(), closes.tolist(), strict=True)),
    )  # fmt: skip


def _values(rows: pl.DataFrame) -> pl.DataFrame:
    n = pl.len().cast(pl.Int64)
    v = pl.col("v")
    made = [n.alias(ROWS), n.alias("n"), v.sum().alias("total"), v.mean().alias("mean"), v.max().alias("top")]
    return rows.group_by(WINDOW, "g").agg(made).sort(WINDOW, "g")


def answer(past: History, settings: Early | None = None) -> pl.DataFrame:
    """Early answers of all windows, in the order in which they were given, with their final values."""
    estimates = Estimates(_kernel(past.spec), settings or Early())
    pages, seen, final = (
        _slices(f, by) for f, by in ((past.pages, "page"), (past.seen, WINDOW), (past.final, WINDOW))
    )
    events = [(at, 0, p) for at, p in ((p, p) for p in pages)]
    closed: dict[int, list[int]] = {}
    for w, at in past.closed.items():
        closed.setdefault(at, []).append(w)
    events += [(at, 1, at) for at in closed]
    events += [(at, 2, w) for w, at in past.prodded.items()]
    given = []
    for at, what, which in sorted(events):
        if what == 0:
            rows = pages[which]
            ends = rows[WINDOW].to_numpy() * past.spec.slide + past.spec.range
            estimates.page(at, ends - 1, rows["rows"].to_numpy())
        elif what == 1:
            estimates.final(pl.concat(final[w] for w in closed[at]), at)
            estimates.closed(Closed(emitted_through=max(closed[at])))
        else:
            given.append(estimates.early(seen[which], at))
    finals = past.final.select(WINDOW, "g", *(pl.col(c).alias(f"{c}_final") for c in COLUMNS))
    closes = pl.DataFrame({WINDOW: list(past.closed), "closed": list(past.closed.values())})
    prodded = pl.DataFrame({WINDOW: list(past.prodded), "prodded": list(past.prodded.values())})
    return pl.concat(given).join(finals, on=[WINDOW, "g"]).join(closes, on=WINDOW).join(prodded, on=WINDOW)


def _kernel(spec: WindowSpec) -> PaneKernel:
    number = pa.float64()
    aggregates = (
        CountOf("n", "count(*)", "*", pa.int64()),
        SumOf("total", "sum(v)", "v", number),
        Avg("mean", "avg(v)", "v", number),
        MaxOf("top", "max(v)", "v", number),
    )
    return PaneKernel(spec, (Group("g", "g"),), aggregates)


def _slices(frame: pl.DataFrame, by: str) -> dict[int, pl.DataFrame]:
    values = frame[by].to_numpy()
    begins = starts(values)
    ends = [*begins[1:].tolist(), len(values)]
    return {int(values[b]): frame[b:e] for b, e in zip(begins.tolist(), ends, strict=True)}


# --- the plain interval, and scores


def plain(answers: pl.DataFrame, column: str, coverage: float = 0.9) -> pl.DataFrame:
    """The plain interval of each answer, group by group: of the last hundred errors that were known by then.

    That of a maximum begins with what is seen, and leaves all of its share outside above.
    """
    ends = [
        1 - coverage if column == "top" else (1 - coverage) / 2,
        coverage if column == "top" else (1 + coverage) / 2,
    ]
    parts = []
    for group in answers.partition_by("g", maintain_order=True):
        seen, final = (group[f"{column}_{part}"].to_numpy().astype(float) for part in ("seen", "final"))
        order = np.argsort(group["closed"].to_numpy(), kind="stable")
        known = np.searchsorted(group["closed"].to_numpy()[order], group["prodded"].to_numpy(), side="right")
        places = known[:, None] - 1 - np.arange(LAST)
        past = order[places.clip(min=0)]
        there = (places >= 0).astype(float)
        share = np.ones(len(seen))
        with np.errstate(divide="ignore", invalid="ignore"):
            if column in ("n", "total"):
                share = (seen[past] * there).sum(axis=1) / (final[past] * there).sum(axis=1)
            errors = np.where(there > 0, final[past] - seen[past] / share[:, None], np.nan)
        errors[known < FIRST] = np.nan
        errors.sort(axis=1)
        count = np.minimum(known, LAST)
        low, high = (_quantile(errors, count, q) for q in ends)
        center = seen / share
        low = np.where(np.isnan(low), np.nan, seen) if column == "top" else center + low
        parts.append(group.with_columns(plain=center, plain_low=low, plain_high=center + high))
    return pl.concat(parts)


def _quantile(ordered: Any, count: Any, share: float) -> Any:
    """Of each row's first values, which increase, as `np.quantile` takes it."""
    place = np.maximum(count - 1, 0) * share
    below = np.floor(place).astype(int)
    rows = np.arange(len(ordered))
    one, two = ordered[rows, below], ordered[rows, np.minimum(below + 1, np.maximum(count - 1, 0))]
    return one + (place - below) * (two - one)


def winkler(low: Any, high: Any, final: Any, outside: float = 0.05) -> Any:
    """Width, and for each miss its distance over the share outside on its side (Winkler 1972); less is better.

    >>> winkler(np.array([1.0, 1.0]), np.array([4.0, 4.0]), np.array([2.0, 5.0])).round(6)
    array([ 3., 23.])
    """
    miss = np.maximum(low - final, 0) + np.maximum(final - high, 0)
    return high - low + miss / outside


@dataclass(frozen=True)
class Judged:
    """How good the intervals of one value are; ratios are to those of the plain interval."""

    intervals: int
    coverage: float
    error_of_coverage: float
    """The standard error of the coverage, from runs of windows, for neighbours err together."""
    width: float
    score: float
    against_plain: float
    error_against_plain: float
    windows: int
    seen: float
    corrected: float
    """S5's accuracy of what was seen and of the estimates, over all windows and groups."""


def judge(answers: pl.DataFrame, column: str) -> Judged:
    """Compare with the plain interval, wherever both are there."""
    both = _both(answers, column)
    low, high, final, said, plain_low, plain_high, simple = (
        both[c].cast(pl.Float64).to_numpy()
        for c in (f"{column}_low", f"{column}_high", f"{column}_final", column, "plain_low", "plain_high", "plain")
    )
    outside = 0.1 if column == "top" else 0.05
    inside = (low <= final) & (final <= high)
    score = winkler(low, high, final, outside).mean()
    return Judged(
        len(both),
        float(inside.mean()),
        _error(inside, 20),
        float((high - low).mean()),
        float(score),
        float(score / winkler(plain_low, plain_high, final, outside).mean()),
        float(np.abs(said - final).mean() / max(np.abs(simple - final).mean(), 1e-12)),
        len(answers),
        *(_accuracy(answers, column, early) for early in (f"{column}_seen", column)),
    )


def _both(answers: pl.DataFrame, column: str) -> pl.DataFrame:
    """The answers with an interval and a plain one, in the order in which they were given."""
    there = pl.col("plain_low").is_not_nan() & pl.col(f"{column}_low").is_not_null()
    return plain(answers, column).filter(there).sort("prodded")


def _error(inside: Any, runs: int) -> float:
    """The standard error of a share: from means of runs of windows, for neighbours err together."""
    means = np.array([run.mean() for run in np.array_split(inside, runs)])
    return float(means.std(ddof=1) / np.sqrt(runs))


def best(answers: pl.DataFrame, column: str, at_most: float = 0.9) -> float:
    """The score, for the same answers as `judge`, of one who knows how the rest of each group is distributed.

    It is the best possible score of counts and sums where the rest does not depend on what is seen: where rows come
    independently of each other, at a rate that stays. No more than a share of a group's values may be held: where
    few rows are missing, whole numbers as ends hold more, and intervals that do score better.
    """
    scores = []
    for group in _both(answers, column).partition_by("g"):
        seen, final = (group[f"{column}_{part}"].cast(pl.Float64).to_numpy() for part in ("seen", "final"))
        scores.append(np.full(len(seen), best_of(final - seen, at_most)))
    return float(np.concatenate(scores).mean())


def best_of(rests: Any, at_most: float) -> float:
    """The least mean score of intervals that hold at most a share of these values: one, or two by turns.

    >>> best_of(np.arange(100.0), 0.9), best_of(np.arange(5.0).repeat([60, 30, 6, 3, 1]), 1.0)
    (95.0, 3.0)
    >>> round(best_of(np.arange(5.0).repeat([60, 30, 6, 3, 1]), 0.93), 2)
    3.5

    Where one value is so frequent that each of them holds more, the best of all counts.

    >>> best_of(np.zeros(10), 0.9), best_of(np.arange(2.0).repeat([95, 5]), 0.9)
    (0.0, 1.0)
    """
    rests, n = np.sort(rests), len(rests)
    low, high = (np.unique(np.quantile(rests, shares, method="inverted_cdf")) for shares in (_LOW, _HIGH))
    below, upto = np.searchsorted(rests, low, side="left"), np.searchsorted(rests, high, side="right")
    sums = np.concatenate([[0.0], np.cumsum(rests)])
    short, over = low * below - sums[below], sums[n] - sums[upto] - high * (n - upto)
    scores = (high - low[:, None] + (over + short[:, None]) / n / 0.05).ravel()
    shares = ((upto - below[:, None]) / n).ravel()
    less, more = shares <= at_most, shares > at_most
    if less[np.argmin(scores)] or not less.any():
        return float(scores.min())
    part = (at_most - shares[less, None]) / (shares[more] - shares[less, None])
    return float((scores[less, None] * (1 - part) + scores[more] * part).min())


def _accuracy(answers: pl.DataFrame, column: str, early: str) -> float:
    said, final = (answers[c].cast(pl.Float64).to_numpy() for c in (early, f"{column}_final"))
    return float(accuracy(said, final).mean())


def held(answers: pl.DataFrame, column: str) -> pl.DataFrame:
    """By group: the number of intervals, the share of them that held the final value, and its standard error."""
    known = answers.filter(pl.col(f"{column}_low").is_not_null()).sort("prodded")
    inside = pl.col(f"{column}_final").is_between(pl.col(f"{column}_low"), pl.col(f"{column}_high"))
    lines = []
    for (name,), group in known.with_columns(inside=inside).partition_by("g", as_dict=True).items():
        found = group["inside"].to_numpy()
        runs = min(20, len(found) // RUN)
        error = _error(found, runs) if runs > 1 else None
        lines.append({"g": name, "windows": len(found), "held": float(found.mean()), "error": error})
    types = {"windows": pl.UInt32, "held": pl.Float64, "error": pl.Float64}
    return pl.DataFrame(lines, {"g": answers.schema["g"], **types}).sort("g")
