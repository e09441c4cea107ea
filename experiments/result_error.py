"""`result_error` beside `drop_ratio` and the fixed bound that hindsight chooses: results within 1 %, and the wait.

    PYTHONPATH=. .venv/bin/python experiments/result_error.py                # some minutes
    PYTHONPATH=. .venv/bin/python experiments/result_error.py --seeds 61 --error 0.05

No Spark. The streams are those of experiments/ablation.py, with values, and the real sets. Each window has count,
sum and avg. With `--groups 8` the rows of generated streams are in eight groups. Windows that end in the last tenth
of a stream are left out: its end cuts their rows.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import polars as pl

import slackwater as sw
from benchmarks.progress import FLIGHTS, SECOND, real
from experiments.ablation import generated, line
from experiments.lab.trial import Case, Paged, TrialOutcome, fixed, run
from experiments.streams import real as real_sets
from slackwater.progress.disorder import Disorder
from slackwater.progress.source_numbers import Floats, Ints
from slackwater.progress.time import TimeDomain
from slackwater.progress.window_losses import ResultParts, WindowLosses
from slackwater.windows.spec import WindowSpec

#: A count, a sum, and their quotient: count(*), sum(x), avg(x).
VALUES = ((0,), (1,), (1, 0))
WANTED = 0.95


@dataclass(frozen=True, eq=False)
class Valued(Case):
    """A case whose pages say what they add to results."""

    parts: list[ResultParts]

    @staticmethod
    def with_values(paged: Paged, spec: WindowSpec, values: Floats, groups: Ints) -> Valued:
        """Count the windows, and add up values by window and group, once for all policies."""
        plain, parts = Case.of(paged, spec), []
        for k in range(len(paged)):
            page = slice(paged.begins[k], paged.begins[k + 1])
            first, last = spec.windows_of((paged.times[page] - spec.offset) // spec.pane)
            covering = last - first + 1
            rows = np.arange(len(first)).repeat(covering)
            windows = np.arange(len(rows)) + (first + covering - covering.cumsum()).repeat(covering)
            keys = np.stack([windows * spec.slide + spec.offset + spec.first_end - 1, groups[page][rows]])
            keys, places = np.unique(keys, axis=1, return_inverse=True)
            sums = [np.bincount(places.ravel(), w, keys.shape[1]) for w in (None, values[page][rows])]
            parts.append(ResultParts(keys[0], keys[1], np.stack(sums, axis=1).astype(np.float64), VALUES))
        return Valued(paged, spec, plain.reports, parts)

    def report(self, k: int, heartbeat: int) -> WindowLosses:
        """The report of a page, with what it adds to results."""
        return replace(super().report(k, heartbeat), results=lambda: self.parts[k])


def within(outcome: TrialOutcome, error: float) -> float:
    """The share of results whose values are all within the error of what all rows give."""
    case = outcome.case
    assert isinstance(case, Valued)
    pages = np.arange(len(case.parts)).repeat([len(p.last_ticks) for p in case.parts])
    ticks, groups, numbers = (
        np.concatenate([getattr(p, name) for p in case.parts]) for name in ("last_ticks", "groups", "numbers")
    )
    _, places = np.unique(np.stack([ticks, groups]), axis=1, return_inverse=True)
    places = places.ravel()
    results = int(places.max()) + 1
    kept = ticks > outcome.heartbeats[pages]
    final, there = (
        np.stack([np.bincount(places, numbers[:, c] * some, results) for c in (0, 1)])
        for some in (np.ones(len(ticks)), kept)
    )
    final, there = (np.stack([n, s, s / np.where(n > 0, n, np.nan)]) for n, s in (final, there))
    good = (np.abs(there - final) <= (error + 1e-9) * np.abs(final)).all(0)
    ends = np.zeros(results, np.int64)
    ends[places] = ticks
    ats = case.paged.ats
    judged = (ends >= ats[0]) & (ends < ats[-1] - (ats[-1] - ats[0]) // 10)
    return float(good[judged].mean())


def hindsight(case: Case, error: float) -> TrialOutcome:
    """What the shortest fixed bound makes of a case with which enough results are within the error."""
    low, high = 0, int(case.paged.times.max() - case.paged.times.min())
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if within(fixed(case, middle), error) >= WANTED else (middle + 1, high)
    return fixed(case, low)


def streams(options: argparse.Namespace) -> Iterator[tuple[str, Valued]]:
    """All streams with values; those of the real sets where they have some."""
    for seed in options.seeds:
        for stream in generated(options.seconds, seed):
            rows, rng = stream.load(), np.random.default_rng(seed)
            values = rng.normal(100, 30, len(rows))
            groups = rng.integers(0, options.groups, len(rows))
            yield stream.name, _case(rows, stream.page, stream.windows[0], values, groups)
    sets = {each.name: each for each in real_sets(options.data)}
    for stream in real(options.data):
        rows = sets[stream.name].rows().head(FLIGHTS)
        values = rows["value"].to_numpy().astype(np.float64)
        yield stream.name, _case(rows, stream.page, stream.windows[0], values, np.zeros(len(rows), np.int64))


def _case(rows: pl.DataFrame, page: int, window: tuple[int, int], values: Floats, groups: Ints) -> Valued:
    paged = Paged.cut(rows["arrival"].to_numpy(), rows["time"].to_numpy(), page)
    return Valued.with_values(paged, WindowSpec(*window), values, groups)


def played(policy: Disorder, case: Case) -> tuple[TrialOutcome, float]:
    """What a policy makes of a case, and milliseconds a page."""
    begin = process_time()
    outcome = run(policy.tracker(TimeDomain.TIMESTAMP), case)
    return outcome, (process_time() - begin) * 1_000 / len(case.paged)


def wait(outcome: TrialOutcome) -> float:
    """The mean wait of a window, in seconds."""
    return float(outcome.waits().mean()) / SECOND


def main() -> None:
    """Read the options, run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600, help="length of the generated streams")
    parser.add_argument("--seeds", type=int, nargs="+", default=[51, 52], help="of the generated streams")
    parser.add_argument("--groups", type=int, default=1, help="groups of the generated streams")
    parser.add_argument("--error", type=float, default=0.01, help="the error of results")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="the folder of the real streams")
    parser.add_argument("--only", nargs="+", help="names of streams")
    options = parser.parse_args()
    found: dict[str, list[list[float]]] = {}
    for name, case in streams(options):
        if options.only and name not in options.only:
            continue
        best = hindsight(case, options.error)
        least = max(wait(best), 0.1)
        ours, taken = played(sw.result_error(options.error), case)
        rows, _ = played(sw.drop_ratio(options.error), case)
        figures: list[Any] = [within(each, options.error) for each in (ours, rows, best)]
        figures += [least, wait(ours) / least, wait(rows) / least, ours.share, taken]
        found.setdefault(name, []).append(figures)
    heads = [
        "within",
        "drop_ratio",
        "hindsight",
        "hindsight's wait, s",
        "wait",
        "drop_ratio's",
        "lost",
        "ms a page",
    ]
    line("stream", *heads)
    line(*["---"] * (len(heads) + 1))
    for name, several in found.items():
        w, dw, hw, least, ours, rows, lost, taken = np.mean(several, axis=0)
        line(
            name, f"{w:.1%}", f"{dw:.1%}", f"{hw:.1%}", f"{least:,.1f}", f"{ours:.2f}", f"{rows:.2f}",
            f"{lost:.2%}", f"{taken:.2f}",
        )  # fmt: skip
    means = np.mean([np.mean(several, axis=0) for several in found.values()], axis=0)
    kept = sum(np.mean(several, axis=0)[0] >= WANTED for several in found.values())
    geometric = np.exp(np.mean([np.log(np.mean(several, axis=0)[4:6]) for several in found.values()], axis=0))
    line("(all)", f"{means[0]:.1%}, {kept} of {len(found)}", f"{means[1]:.1%}", *[""] * 2, *geometric.round(2))


if __name__ == "__main__":
    main()
