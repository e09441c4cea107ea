"""Calibration: a sample of a page goes through each prefix of the plan, to see what operators do to rows alone.

Filters and projections only extend a page; the work is done later, by what stands behind them. What each of them
adds to it, and what it leaves, is not seen in its runs. So now and then some rows of a page that waits at its
source are taken through the operators one by one. They go nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from slackwater.engine.graph import Graph, Node
from slackwater.operators.operator import LATE
from slackwater.operators.page import Page
from slackwater.operators.payload import Staged
from slackwater.operators.prod import Prod
from slackwater.progress.punctuation import Punctuation

#: Rows of a sample.
SAMPLE = 1_000
#: All samples but the first ones take at most this share of the time.
SHARE = 0.01


@dataclass(frozen=True)
class Sampled:
    """What an operator did to a sample."""

    seconds: float
    """That it adds to the work on a page, for each row that the sample had at the source."""
    growth: float | None
    """Bytes out for each byte in; None where nothing came in."""
    width: float | None
    """Bytes a row that came in."""


class Calibration:
    """Keeps what samples have shown, by operator."""

    def __init__(self, graph: Graph, stopwatch: Callable[[], float]) -> None:
        self.of: dict[str, Sampled] = {}
        self._graph = graph
        self._stopwatch = stopwatch
        self._spent = self._worked = 0.0

    def forget_others(self) -> None:
        """Operators have come or gone; what comes back under an old label may be something else."""
        self.of = {label: seen for label, seen in self.of.items() if label in self._graph}

    def worked(self, seconds: float) -> None:
        """So much time has gone into work."""
        self._worked += seconds

    def look(self, source: Node) -> None:
        """A page is about to leave its source: take a sample, if there is need of one and it is cheap enough."""
        behind = self._extending(source)
        new = any(node.label not in self.of for node in behind)
        if not behind or not (new or self._spent <= SHARE * self._worked):
            return
        waiting: Any = source.inputs[0].peek() if len(source.inputs[0]) else None
        if waiting is None or isinstance(waiting, (Punctuation, Prod)):
            return
        started = self._stopwatch()
        try:
            self._through(source, waiting.sample(SAMPLE))
        except Exception:
            # A condition that fails on these rows fails when they are worked on; then somebody is told.
            for node in behind:
                self.of.setdefault(node.label, Sampled(0.0, None, None))
        self._spent += self._stopwatch() - started

    def _through(self, source: Node, page: Page) -> None:
        seconds, rows, size = self._weighed(page)
        ways, whole = [(source, page, seconds, rows, size)], max(1, rows)
        for node, given, before, count, taken in ways:
            for reader in self._readers(node):
                if not reader.operator.extends:
                    continue
                made = reader.operator.extended(given)
                seconds, left, size = self._weighed(made)
                growth, width = (size / taken, taken / count) if taken and count else (None, None)
                self.of[reader.label] = Sampled(max(0.0, seconds - before) / whole, growth, width)
                ways.append((reader, made, seconds, left, size))

    def _weighed(self, page: Page) -> tuple[float, int, int]:
        """Seconds, rows and bytes; the second time counts, in which nothing has to be compiled."""
        for _ in range(2):
            started = self._stopwatch()
            payload = page.payload()
            seconds = self._stopwatch() - started
        assert not isinstance(payload, Staged), "a sample is small"
        return seconds, payload.num_rows, payload.nbytes

    def _extending(self, source: Node) -> list[Node]:
        """The operators that a sample can go through."""
        found = [source]
        for node in found:
            found += [r for r in self._readers(node) if r.operator.extends and r not in found]
        return found[1:]

    def _readers(self, node: Node) -> list[Node]:
        arcs = [arc for port, arcs in node.outputs.items() if port != LATE for arc in arcs]
        return list({arc.to.label: arc.to for arc in arcs}.values())
