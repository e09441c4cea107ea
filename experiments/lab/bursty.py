"""When pages come in S2's experiments (section 6): by chance, in bursts, or as in a trace. One seed, one stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.lab.simulation import Case, Comes

Instants = NDArray[np.float64]
#: Gives so many instants, in any unit of time.
Pattern = Callable[[np.random.Generator, int], Instants]


def poisson() -> Pattern:
    """Pages come by chance, one a unit of time on the average."""
    return lambda rng, pages: np.cumsum(rng.exponential(1, pages))


def on_off(between: float = 30, shortest: float = 5, shape: float = 1.4) -> Pattern:
    """S2's bursts: flows begin by chance and send a page a unit of time for as long as a Pareto draw says.

    The paper's figures are lost; with these a flow begins every 30 units and lasts for 17.5 on the average.
    """

    def draw(rng: np.random.Generator, pages: int) -> Instants:
        flows = max(8, int(2 * pages / (shortest * shape / (shape - 1))))
        begins = np.cumsum(rng.exponential(between, flows))
        lasts = shortest * (1 + rng.pareto(shape, flows))
        sent: Instants = np.sort(np.concatenate([b + np.arange(0, n) for b, n in zip(begins, lasts, strict=True)]))
        # Flows that have not begun yet by then are missing at the end: the first half is as it should be.
        kept: Instants = sent[sent <= begins[-1]][:pages]
        return kept

    return draw


def trace(instants: Sequence[float] | NDArray[Any]) -> Pattern:
    """Pages come as they did; of a longer trace a part that lies anywhere."""
    came = np.sort(np.asarray(instants, dtype=np.float64))

    def draw(rng: np.random.Generator, pages: int) -> Instants:
        first = int(rng.integers(0, max(1, len(came) - pages + 1)))
        return came[first : first + pages]

    return draw


def load(case: Case, pattern: Pattern, pages: int, share: float, seed: int, rows: int = 100) -> list[Comes]:
    """Pages for all streams of a case, so fast that the work on them takes this share of the time."""
    drawn = {s: pattern(np.random.default_rng([seed, n]), pages) for n, s in enumerate(case.streams)}
    time = sum(len(instants) * rows * case.work(stream) for stream, instants in drawn.items()) / share
    comes: list[Comes] = []
    for stream, instants in drawn.items():
        since = instants - instants[0]
        comes += [Comes(round(at), stream, rows) for at in since * time / max(since[-1], 1e-9)]
    return sorted(comes)


def most_work(case: Case, comes: Sequence[Comes]) -> float:
    """The most microseconds of work that ever wait, whatever the strategy, as long as it never rests."""
    work: Mapping[str, float] = {stream: case.work(stream) for stream in case.streams}
    backlog = most = 0.0
    last = 0
    for page in sorted(comes):
        backlog = max(0.0, backlog - (page.at - last)) + page.rows * work[page.stream]
        most, last = max(most, backlog), page.at
    return most
