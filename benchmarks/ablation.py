"""What each mechanism of `drop_ratio` pays: the policy with one of them switched off, beside the whole policy.

No Spark. The streams are those of benchmarks/progress.py, with outages, and its figures: share lost in all and in
the worst stretch, and the wait. A mechanism pays if without it windows wait longer, or more cases lose more than p.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from rich.console import Console
from rich.table import Table

import slackwater as sw
from benchmarks.progress import SECOND, P, Stream, held_out, real, synthetic
from experiments.lab import arrivals as make
from experiments.lab.trial import Case, Paged, TrialOutcome, run
from slackwater.progress import credible_time
from slackwater.progress.drop_ratio import budget, loss_curve, required_slack, tracker
from slackwater.progress.drop_ratio.budget import RemainingBudget
from slackwater.progress.drop_ratio.evidence import Evidence
from slackwater.progress.drop_ratio.lateness import Lateness
from slackwater.progress.drop_ratio.loss_curve import LossCurve
from slackwater.progress.drop_ratio.required_slack import RequiredSlack
from slackwater.progress.time import TimeDomain
from slackwater.windows.spec import WindowSpec

#: An attribute of a class or module, and what stands in its place while the mechanism is off.
Change = tuple[Any, str, Any]


_changed, _budget, _slack = Lateness.changed, Evidence._budget, LossCurve.slack


def _even(self: Evidence, query: RequiredSlack) -> RemainingBudget:
    """As many pairs to come as in the last stretch, whatever the gaps."""
    rest = _budget(self, query)
    return replace(rest, to_come=np.maximum(budget.AHEAD, 1 - self._observed()) * rest.pairs)


#: By mechanism: what is changed to switch it off.
MECHANISMS: dict[str, list[Change]] = {
    "trend": [(LossCurve, "_trend", lambda self, slack: 1.0)],
    "end of an alarm": [(Lateness, "over", lambda self, *_: False)],
    "change for the better": [(Lateness, "changed", lambda self, cells: (_changed(self, cells)[0], 0))],
    "change for the worse": [(Lateness, "changed", lambda self, cells: (0, _changed(self, cells)[1]))],
    "young stream": [(loss_curve, "stands_for", lambda values, pairs, spans: np.ones(len(values)))],
    "losses in bursts": [(LossCurve, "_dispersion", lambda self, slack: 1.0)],
    "reserve for chance": [(budget, "RESERVE", 0.0)],
    "planned part": [(budget, "PLANNED", 1.0)],
    "gaps to come": [(Evidence, "_budget", _even)],
    "budget": [(LossCurve, "slack", lambda self, share, rest: _slack(self, share))],
    "lateness of rows": [(required_slack, "CLOSINGS", 1e-9)],
    "reports": [(required_slack, "CLOSINGS", 1e9)],
    "few rows at a start": [(tracker, "ENOUGH", 0.0)],
    "silence": [(credible_time.CredibleTime, "_went_on", lambda self, highest, at: False)],
    "watched silence": [(credible_time.Silence, "held_back", lambda self, times: 0.0)],
}


@contextmanager
def without(mechanism: str | None) -> Iterator[None]:
    """Switch a mechanism off for a while; None switches nothing off."""
    with ExitStack() as stack:
        for owner, name, value in MECHANISMS[mechanism] if mechanism else []:
            stack.enter_context(patch.object(owner, name, value))
        yield


def outages(seconds: float, seed: int) -> Iterator[Stream]:
    """A stream that is cut off again and again, and what came late to it comes at once."""
    delay = make.outages(make.exponential(1), 100, 6)
    load = lambda: make.arrivals(delay, seconds=seconds, seed=seed)  # noqa: E731
    yield Stream("outages", "changing", load, SECOND, ((10 * SECOND, 10 * SECOND),))


def cases(streams: list[Stream]) -> Iterator[tuple[str, Case]]:
    """Every stream with the first of its windows."""
    for stream in streams:
        rows = stream.load()
        paged = Paged.cut(rows["arrival"].to_numpy(), rows["time"].to_numpy(), stream.page)
        yield stream.name, Case.of(paged, WindowSpec(*stream.windows[0]))


def outcome(case: Case, mechanism: str | None) -> TrialOutcome:
    """What the policy makes of a case without a mechanism."""
    with without(mechanism):
        return run(sw.drop_ratio(P).tracker(TimeDomain.TIMESTAMP), case)


def line(names: list[str], whole: list[TrialOutcome], part: list[TrialOutcome]) -> list[str]:
    """The figures of one mechanism; waits are means over kinds of streams, divided by those of the whole policy."""
    waits: dict[str, list[float]] = {}
    for name, all_, some in zip(names, whole, part, strict=True):
        waits.setdefault(name, []).append(float(some.waits().mean()) / max(float(all_.waits().mean()), SECOND / 10))
    by_kind = {name: float(np.mean(ratios)) for name, ratios in waits.items()}
    worst = [outcome.worst() for outcome in part]
    longest = max(by_kind, key=lambda name: by_kind[name])
    shortest = min(by_kind, key=lambda name: by_kind[name])
    broken = max(zip(worst, names, strict=True))
    show: Callable[[str], str] = lambda name: f"{by_kind[name]:.2f} {name}"  # noqa: E731
    return [
        f"{np.mean([outcome.share for outcome in part]):.2%}",
        f"{sum(share > P for share in worst)} of {len(worst)}",
        f"{np.mean(worst):.2%}",
        f"{broken[0]:.2%} {broken[1]}",
        f"{np.mean([*by_kind.values()]):.3f}",
        show(longest),
        show(shortest),
    ]


def main() -> None:
    """Read the options, run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="length of the generated streams")
    parser.add_argument("--seeds", type=int, nargs="+", default=[31, 32], help="of the generated streams")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="the folder of the real streams")
    parser.add_argument("--only", nargs="+", default=list(MECHANISMS), help="the mechanisms to switch off")
    options = parser.parse_args()
    kinds = [synthetic, outages, held_out]
    streams = [s for seed in options.seeds for kind in kinds for s in kind(options.seconds, seed)]
    streams = [stream for stream in streams if stream.name != "three populations"]
    names, all_ = zip(*cases([*streams, *real(options.data)]), strict=True)
    console = Console(width=200)
    table = Table(title=f"drop_ratio({P}) without a mechanism: {len(all_)} cases")
    for head in ("without", "lost", "cases beyond p", "worst stretch", "at most", "wait", "longest", "shortest"):
        table.add_column(head)
    whole = [outcome(case, None) for case in all_]
    table.add_row("(nothing)", *line(list(names), whole, whole))
    for mechanism in options.only:
        figures = line(list(names), whole, [outcome(case, mechanism) for case in all_])
        table.add_row(mechanism, *figures)
        print(mechanism, *figures, sep=" | ", flush=True)
    console.print(table)


if __name__ == "__main__":
    main()
