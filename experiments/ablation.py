"""What each mechanism of `drop_ratio` pays: the policy with one of them switched off, beside the whole policy.

    PYTHONPATH=. .venv/bin/python experiments/ablation.py              # some minutes
    PYTHONPATH=. .venv/bin/python experiments/ablation.py --whole      # only the policy itself, by kind of stream

No Spark. The streams are those of benchmarks/progress.py, streams whose rows come in backlogs, starts, rare late
rows, and the real sets. It prints tables as Markdown: whether at most p was lost in all and in every stretch, the
wait in parts of that of the fixed bound that hindsight chooses, and processor time.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import process_time
from typing import Any
from unittest.mock import patch

import numpy as np
import polars as pl

import slackwater as sw
from benchmarks.progress import SECOND, Stream, held_out, real, synthetic
from experiments.lab import arrivals as make
from experiments.lab import backlogs
from experiments.lab.trial import Case, Paged, fixed, hindsight, run
from slackwater.progress import credible_time
from slackwater.progress.drop_ratio import loss_curve, query_losses, tracker
from slackwater.progress.drop_ratio.loss_curve import LossCurve
from slackwater.progress.drop_ratio.query_losses import QueryLosses
from slackwater.progress.drop_ratio.tracker import DropRatioTracker
from slackwater.progress.time import TimeDomain
from slackwater.windows.spec import WindowSpec

#: An attribute of a class or module, and what stands in its place while the mechanism is off.
Change = tuple[Any, str, Any]

_changed = DropRatioTracker._changed
_leapt = property(lambda self: True, lambda self, leapt: None)

#: By mechanism: what is changed to switch it off.
MECHANISMS: dict[str, list[Change]] = {
    "budget of a stretch and in all": [(QueryLosses, "budget", lambda self, *_: 1.0)],
    "budget in all": [(QueryLosses, "left_in_all", lambda self, p, to_come: np.inf * to_come)],
    "reserve for chance": [(query_losses, "RESERVE", 0.0)],
    "planned part": [(query_losses, "PLANNED", 1.0)],
    "losses in clusters": [(LossCurve, "dispersion", lambda self, slack: 1.0)],
    "learned stretch": [(tracker, "BACKLOGS", 0.0)],
    "change for the worse": [(DropRatioTracker, "_changed", lambda self, n: (0, _changed(self, n)[1]))],
    "change that can be afforded": [(DropRatioTracker, "_affordable", lambda self, *_: False)],
    "change for the better": [(DropRatioTracker, "_changed", lambda self, n: (_changed(self, n)[0], 0))],
    "young stream": [(loss_curve, "stands_for", lambda values, pairs, spans: np.ones(len(values)))],
    "few rows at a start": [(tracker, "ENOUGH", 0.0)],
    "clocks ahead": [(credible_time.CredibleTime, "leapt", _leapt)],
    "jumps": [(credible_time, "JUMP", 1e12)],
    "silence": [(credible_time.CredibleTime, "_went_on", lambda self, highest, at: False)],
    "watched silence": [(credible_time.Silence, "held_back", lambda self, times: 0.0)],
}


@contextmanager
def without(mechanism: str | None) -> Iterator[None]:
    """Switch a mechanism off for a while; None switches nothing off."""
    with ExitStack() as stack:
        for owner, name, value in MECHANISMS[mechanism] if mechanism else []:
            stack.enter_context(patch.object(owner, name, value, create=True))
        yield


def stream(name: str, kind: str, load: Callable[[], pl.DataFrame], page: int, window: int) -> Stream:
    """A stream with one window; pages and windows in seconds."""
    return Stream(name, kind, load, page * SECOND, ((window * SECOND, window * SECOND),))


def generated(seconds: float, seed: int) -> Iterator[Stream]:
    """All generated kinds: as in benchmarks/progress.py, outages, backlogs, starts, and rare late rows."""
    yield from synthetic(seconds, seed)
    yield from (s for s in held_out(seconds, seed) if s.name != "three populations")
    outages = make.outages(make.exponential(1), 100, 6)
    yield stream("outages", "changing", lambda: make.arrivals(outages, seconds=seconds, seed=seed), 1, 10)
    for name, rows in backlogs.KINDS.items():
        load = lambda f=rows: f(20 * seconds, np.random.default_rng(seed))  # noqa: E731
        yield stream(name, "backlogs", load, 4, 20)
    yield stream("joining clocks", "start", lambda: backlogs.joining(seed), 1, 5)
    for far, rate in ((60, 10), (600, 50)):
        delay = make.mixed(make.none(), make.uniform(far), 0.003)
        load = lambda d=delay, r=rate: make.arrivals(d, seconds=1_000, rate=r, seed=seed)  # noqa: E731
        yield stream(f"rare, {far} s", "rare", load, 1, 5)


@dataclass(frozen=True)
class Score:
    """What the policy made of one stream, at one share."""

    name: str
    lost: float
    """In parts of p."""
    worst: float
    """In the worst stretch of 1,000 pages, in parts of p."""
    wait: float
    """Seconds."""
    best: float
    """The wait of the fixed bound that hindsight chooses; seconds, at least 0.1."""
    milliseconds: float
    """Of processor time for a page."""


def score(name: str, case: Case, p: float, best: float) -> Score:
    """Run the policy on a case."""
    policy = sw.drop_ratio(p).tracker(TimeDomain.TIMESTAMP)
    begin = process_time()
    outcome = run(policy, case)
    taken = (process_time() - begin) * 1_000 / len(case.paged)
    wait = float(outcome.waits().mean()) / SECOND
    return Score(name, outcome.share / p, outcome.worst(1_000) / p, wait, best, taken)


def cases(streams: Sequence[Stream]) -> Iterator[tuple[str, Case]]:
    """Every stream with the first of its windows."""
    for one in streams:
        rows = one.load()
        paged = Paged.cut(rows["arrival"].to_numpy(), rows["time"].to_numpy(), one.page)
        yield one.name, Case.of(paged, WindowSpec(*one.windows[0]))


def by_kind(scores: list[Score], value: Callable[[Score], float]) -> dict[str, float]:
    """The mean of a figure for each kind of stream."""
    names = dict.fromkeys(s.name for s in scores)
    return {name: float(np.mean([value(s) for s in scores if s.name == name])) for name in names}


def ablated(whole: list[Score], part: list[Score]) -> list[str]:
    """The figures of the policy without a mechanism; waits in parts of those of the whole policy."""
    pairs = {id(some): all_.wait for all_, some in zip(whole, part, strict=True)}
    waits = by_kind(part, lambda s: s.wait / max(pairs[id(s)], 0.1))
    longest, shortest = max(waits, key=lambda n: waits[n]), min(waits, key=lambda n: waits[n])
    beyond = max(part, key=lambda s: s.lost)
    return [
        f"{np.mean([s.lost for s in part]):.2f}",
        f"{sum(s.lost > 1 for s in part)} of {len(part)}",
        f"{beyond.lost:.2f} {beyond.name}",
        f"{sum(s.worst > 1 for s in part)}",
        f"{np.mean([*waits.values()]):.3f}",
        f"{waits[longest]:.2f} {longest}",
        f"{waits[shortest]:.2f} {shortest}",
        f"{np.mean([s.milliseconds for s in part]):.2f}",
    ]


def line(*cells: object) -> None:
    """A line of a Markdown table."""
    print("|", " | ".join(str(cell) for cell in cells), "|", flush=True)


def main() -> None:
    """Read the options, run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600, help="length of the generated streams")
    parser.add_argument("--seeds", type=int, nargs="+", default=[51], help="of the generated streams")
    parser.add_argument(
        "--p", type=float, nargs="+", default=[0.001, 0.01, 0.05], help="the shares that may be lost"
    )
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="the folder of the real streams")
    parser.add_argument("--only", nargs="+", default=list(MECHANISMS), help="the mechanisms to switch off")
    parser.add_argument("--whole", action="store_true", help="only the policy itself, by kind of stream and share")
    options = parser.parse_args()
    streams = [*(s for seed in options.seeds for s in generated(options.seconds, seed)), *real(options.data)]
    tried = []
    for name, case in cases(streams):
        for p in options.p:
            best = float(fixed(case, hindsight(case, p)).waits().mean()) / SECOND
            tried.append((name, case, p, max(best, 0.1)))
    whole = [score(*each) for each in tried]
    if options.whole:
        line("stream", "p", "lost, of p", "worst 1,000 pages, of p", "wait, s", "to hindsight")
        line(*["---"] * 6)
        for name, p in dict.fromkeys((name, p) for name, _, p, _ in tried):
            mine = [s for s, each in zip(whole, tried, strict=True) if (each[0], each[2]) == (name, p)]
            lost, worst = max(s.lost for s in mine), max(s.worst for s in mine)
            wait, ratio = np.mean([s.wait for s in mine]), np.mean([s.wait / s.best for s in mine])
            line(name, f"{p:.1%}", f"{lost:.2f}", f"{worst:.2f}", f"{wait:,.1f}", f"{ratio:.2f}")
        return
    heads = [
        "lost, of p",
        "more than p in all",
        "at most",
        "in 1,000 pages",
        "wait",
        "longest",
        "shortest",
        "ms a page",
    ]
    line("without", *heads)
    line(*["---"] * (len(heads) + 1))
    line("(nothing)", *ablated(whole, whole))
    for mechanism in options.only:
        with without(mechanism):
            line(mechanism, *ablated(whole, [score(*each) for each in tried]))


if __name__ == "__main__":
    main()
