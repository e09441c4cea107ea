"""A random mix of Chain and FIFO (S2 sections 4.2 and 8), which the paper suspects to serve memory and latency."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from slackwater.calls import called
from slackwater.errors import QueryError
from slackwater.scheduling.chain import Chain
from slackwater.scheduling.fifo import Fifo
from slackwater.scheduling.strategy import STRATEGIES, Ready


class RandomMix(Chain):
    """For each choice a coin is thrown: FIFO's operator, or Chain's.

    >>> ready = [Ready("old", oldest=1), Ready("new", oldest=2, depth=1)]
    >>> mix = RandomMix(share=0.5, seed=1)
    >>> sorted({mix.first(ready).label for _ in range(20)})
    ['old']
    """

    def __init__(self, share: float, seed: int, commit_every: int = 64) -> None:
        super().__init__(commit_every)
        self.name = f"random mix, {100 * share:g} % fifo"
        self._share = share
        self._random = Random(seed)
        self._fifo = Fifo(commit_every)
        self._by_age = False
        """Whether the last choice was FIFO's."""

    def first(self, ready: Sequence[Ready]) -> Ready:
        """FIFO's with the given probability, else Chain's."""
        self._by_age = self._random.random() < self._share
        return self._fifo.first(ready) if self._by_age else super().first(ready)

    def because(self, picked: Ready, ready: Sequence[Ready]) -> str:
        """As the strategy that chose it."""
        return self._fifo.because(picked, ready) if self._by_age else super().because(picked, ready)


@called()
def random_mix(fifo: float = 0.5, seed: int = 1) -> RandomMix:
    """Chain for memory, and at random FIFO for latency; to compare. For `Session(strategy=…)`.

    `sw.chain(max_wait=…)` bounds the wait of each page instead.

    Args:
        fifo: the share of choices that are FIFO's, between 0 and 1.
        seed: the same seed makes the same choices.
    """
    if not 0 < fifo < 1:
        raise QueryError(f"random_mix(fifo={fifo!r}) must lie between 0 and 1, as in fifo=0.5")
    return RandomMix(fifo, seed)


STRATEGIES["random_mix"] = random_mix
