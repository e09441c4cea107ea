"""The back-test as a whole: which policies are tried on the pages, and what the report says of them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import polars as pl

from slackwater.columns import BEFORE, ROWS
from slackwater.progress.bounds.bounded import Bounded, bounded
from slackwater.progress.disorder import Disorder
from slackwater.progress.drop_ratio.drop_ratio import DropRatio
from slackwater.progress.learned.learned import Learned, learned
from slackwater.progress.policies import POLICIES
from slackwater.progress.source_numbers import Ints
from slackwater.progress.time import MIN_TICK, TimeDomain, microseconds
from slackwater.tune.arrival_pages import ArrivalPages
from slackwater.tune.backtest import Playing, StreamWindows, play, playing
from slackwater.tune.by_source import SourceWindows
from slackwater.tune.durations import write
from slackwater.tune.findings import Finding, Findings, findings, sound, without_corrupt
from slackwater.tune.hindsight import curve, fixed, hindsight, written
from slackwater.tune.options import TuneOptions
from slackwater.tune.outcome import PolicyOutcome
from slackwater.tune.read import checked
from slackwater.tune.report import Fixed, PolicyTrial, Report, Timeline
from slackwater.tune.rivals import Rival
from slackwater.tune.rows import LATENESS, PAGE, STEP, Extent, TuneRows

#: Is told what is done, and how many steps of how many.
Progress = Callable[[str, int, int], None]
#: Parts of the timeline.
PARTS = 160


@dataclass(frozen=True)
class Candidate:
    """A policy to be tried."""

    policy: Disorder
    target: float | None = None
    by_source: bool = False

    @property
    def label(self) -> str:
        """For a person."""
        return short(self.policy) + (", by source" if self.by_source else "")


def short(policy: Disorder) -> str:
    """The policy as one would write it; settings that are those without are left out."""
    return "learned()" if policy == learned() else policy.describe()


def candidates(options: TuneOptions, delays: dict[float, int]) -> list[Candidate]:
    """For each target the fixed delay and the policies that keep to a share; then those that know no target."""
    tried = [
        candidate
        for target in options.targets
        for candidate in (
            Candidate(bounded(write(delays[target])), target),
            *(Candidate(p.make(target), target) for p in POLICIES if p.tried == "for each target"),
        )
    ]
    given: list[Disorder] = [bounded(write(microseconds(delay))) for delay in options.delays]
    once = [p.make() for p in POLICIES if p.tried == "once"]
    tried += [Candidate(Rival(rule, options.target), options.target) for rule in ("first hour", "adwin")]
    tried += [Candidate(policy) for policy in (Rival("quantile"), *given, *once, *options.policies)]
    if options.source is not None:
        tried += [
            Candidate(c.policy, c.target, by_source=True)
            for c in list(tried)
            if c.policy.needs_sources or isinstance(c.policy, (DropRatio, Learned))
        ]
    return tried


def cut(rows: TuneRows, options: TuneOptions) -> tuple[Extent, ArrivalPages]:
    """The rows in pages, as a replay would cut them."""
    extent = checked(rows, options.time, options.arrival)
    spec, page = options.spec(extent), options.page_length(extent)
    return extent, ArrivalPages.of(rows.cells(page, spec), rows.sketches(page), page, spec)


def look(
    rows: TuneRows, options: TuneOptions, extent: Extent, pages: ArrivalPages
) -> tuple[list[Finding], tuple[int, int] | None, ArrivalPages]:
    """What is odd about the rows, what to do about corrupt times (see `without_corrupt`), and pages without these.

    One such time would spoil every delay and plot.
    """
    delays = rows.delays(by_source=False).row(0, named=True)
    by_source = rows.delays(by_source=True) if options.source is not None else None
    ideal = fixed(pages, written(hindsight(pages, options.target)))
    seen = Findings(pages, extent, delays, by_source, options.source, options.target, ideal)
    found = findings(seen)
    if any(f.kind == "corrupt" for f in found):
        pages = pages.only(sound(pages, delays))
    return found, without_corrupt(seen, found), pages


def tune_rows(rows: TuneRows, options: TuneOptions, progress: Progress = lambda what, done, steps: None) -> Report:
    """Try all policies on the rows."""
    progress("reading", 0, 1)
    extent, pages = cut(rows, options)
    found, filtered, pages = look(rows, options, extent, pages)
    progress("reading", 1, 1)
    exact = {target: hindsight(pages, target) for target in options.targets}
    delays = {target: written(delay) for target, delay in exact.items()}
    outcomes = _try(candidates(options, delays), pages, progress)
    ahead, delay = (None, delays[options.target]) if filtered is None else filtered
    return Report(
        time=options.time,
        arrival=options.arrival,
        source=options.source,
        rows=extent.rows,
        first=extent.first,
        last=extent.last,
        window=(pages.spec.range, pages.spec.slide),
        page=pages.page,
        pages=len(pages),
        chosen=tuple(w for w, said in (("windows", options.windows), ("page", options.page)) if said is None),
        target=options.target,
        findings=tuple(found),
        filtered=filtered,
        row_by_row=rows.row_by_row(delay, ahead, pages.spec),
        fixed=tuple(_fixed(t, exact[t], delays[t], fixed(pages, delays[t])) for t in options.targets),
        tried=tuple(PolicyTrial(short(c.policy), c.target, c.by_source, o.figures()) for c, o in outcomes),
        lateness=_lateness(rows, pages),
        curve=tuple((delay / 1e6, share, wait) for delay, share, wait in curve(pages)),
        timeline=_timeline(pages, {c.label: o for c, o in outcomes if c.target == options.target}),
    )


def _try(tried: list[Candidate], pages: ArrivalPages, progress: Progress) -> list[tuple[Candidate, PolicyOutcome]]:
    """All at once, page by page."""
    what = f"{len(tried)} policies, {tried[0].label} to {tried[-1].label}"
    under_way = [_play(candidate, pages) for candidate in tried]
    # The table says whether a share allows only a few rows.
    with _quiet("slackwater.progress.drop_ratio"):
        for k in range(len(pages)):
            for one in under_way:
                if not isinstance(one, PolicyOutcome):
                    next(one)
            if (k + 1) % 16 == 0 or k + 1 == len(pages):
                progress(what, k + 1, len(pages))
    outcomes = [one if isinstance(one, PolicyOutcome) else play(one) for one in under_way]
    return list(zip(tried, outcomes, strict=True))


@contextmanager
def _quiet(name: str) -> Iterator[None]:
    """Inside, a logger writes no warnings."""
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _play(candidate: Candidate, pages: ArrivalPages) -> Playing | PolicyOutcome:
    """A policy that is to be played; the outcome at once where it is known by arithmetic."""
    delay = _delay(candidate.policy)
    if delay is not None:
        return fixed(pages, delay)
    return playing(candidate.policy, pages, SourceWindows if candidate.by_source else StreamWindows)


def _delay(policy: Disorder) -> int | None:
    """The delay of a policy that is nothing else."""
    if not isinstance(policy, Bounded) or policy.timeout is not None or policy.idle is not None:
        return None
    policy.tracker(TimeDomain.TIMESTAMP)  # refuses wrong settings
    return TimeDomain.TIMESTAMP.span(policy.slack, "bounded")


def _fixed(target: float, exact: int, delay: int, outcome: PolicyOutcome) -> Fixed:
    mean, most, hour = outcome.lost_per_hour()
    return Fixed(target, exact, delay, outcome.figures(), mean, most, TimeDomain.TIMESTAMP.show(hour))


def _lateness(rows: TuneRows, pages: ArrivalPages) -> tuple[tuple[float, float, int], ...]:
    """Rows by how much older they are than the largest time before their page, in steps that grow with it."""
    known = pages.before > MIN_TICK
    before = pl.DataFrame({PAGE: pages.numbers[known], BEFORE: pages.before[known]})
    found = rows.lateness(pages.page, before)
    punctual = int(found.filter(pl.col(LATENESS).is_null())[ROWS].sum())
    late = found.filter(pl.col(LATENESS).is_not_null()).sort(LATENESS)
    counted = dict(zip(late[LATENESS].to_list(), late[ROWS].to_list(), strict=True))
    steps = range(min(counted), max(counted) + 1) if counted else range(0)
    bars = [(2 ** (s * STEP) / 1e6, 2 ** ((s + 1) * STEP) / 1e6, counted.get(s, 0)) for s in steps]
    return ((0.0, 0.0, punctual), *bars)


def _timeline(pages: ArrivalPages, outcomes: dict[str, PolicyOutcome]) -> Timeline:
    ats = pages.ats
    length = max(1, -(-(int(ats[-1]) - int(ats[0]) + 1) // PARTS))
    part = (ats - ats[0]) // length
    n = int(part[-1]) + 1

    def total(values: Ints) -> list[int]:
        return [int(v) for v in np.bincount(part, values, n)]

    def lag(outcome: PolicyOutcome) -> list[float | None]:
        known = outcome.met > MIN_TICK
        sums, counts = (
            np.bincount(part[known], (ats - outcome.met)[known], n),
            np.bincount(part[known], minlength=n),
        )
        return [s / c / 1e6 if c else None for s, c in zip(sums.tolist(), counts.tolist(), strict=True)]

    return Timeline(
        [int(ats[0]) + k * length for k in range(n)],
        total(pages.rows),
        {label: lag(o) for label, o in outcomes.items()},
        {label: total(o.lost_rows) for label, o in outcomes.items()},
    )
