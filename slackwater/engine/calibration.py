"""Calibration: a sample of a page goes through each prefix of the plan, to see what operators do to rows alone.

Filters and projections only extend a page; the work is done later, by what stands behind them. What each of them
adds to it, and what it leaves, is not seen in its runs. So now and then some rows of a page that waits at its
source are taken through the operators one by one. They go nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from slackwater.engine.graph import Graph, Node
from slackwater.events import decision
from slackwater.operators.operator import LATE
from slackwater.operators.page import DriverRows, Page
from slackwater.operators.payload import Staged
from slackwater.progress.arrival import Arrival

#: Rows of a sample.
SAMPLE = 1_000
#: If this many rows reach an operator, one sample is enough at the start.
ENOUGH = 100
#: All samples but the first ones take at most this share of the time.
SHARE = 0.01
#: The share of a job's time that may be chance.
CHANCE = 0.25
#: A sample counts so much of the one after it.
_FADE = 0.8
#: Where hardly any rows come by, it is tried so often at once.
_TRIES = 4


@dataclass
class SampleSums:
    """What an operator did to samples: sums, in which older ones count ever less."""

    seconds: float = 0.0
    """That it added to the work on them."""
    rows: float = 0.0
    """That they had at the source."""
    taken_rows: float = 0.0
    taken: float = 0.0
    """Bytes that came in."""
    left: float = 0.0
    """Bytes that went out."""
    times: int = 0

    def add(self, seconds: float, rows: int, taken_rows: int, taken: int, left: int) -> None:
        """Learn from a sample that has gone through."""
        old = (self.seconds, self.rows, self.taken_rows, self.taken, self.left)
        new = (seconds, rows, taken_rows, taken, left)
        sums = [_FADE * was + now for was, now in zip(old, new, strict=True)]
        self.seconds, self.rows, self.taken_rows, self.taken, self.left = sums
        self.times += 1

    @property
    def known(self) -> bool:
        """Whether enough rows have come by, or it has been tried often enough."""
        return self.taken_rows >= ENOUGH or self.times >= _TRIES

    @property
    def cost(self) -> float:
        """Seconds for each row at the source."""
        return self.seconds / self.rows if self.rows else 0.0

    @property
    def width(self) -> float | None:
        """Bytes a row that came in."""
        return self.taken / self.taken_rows if self.taken_rows else None

    @property
    def growth(self) -> float | None:
        """Bytes out for each byte in; None where nothing came in.

        If no row of a sample got through, we count half a row: later ones may get through.
        """
        return max(self.left / self.taken, 0.5 / self.taken_rows) if self.taken and self.taken_rows else None


class Calibration:
    """Keeps what samples have shown, by operator."""

    def __init__(self, graph: Graph, stopwatch: Callable[[], float]) -> None:
        self.of: dict[str, SampleSums] = {}
        self._graph = graph
        self._stopwatch = stopwatch
        self.job = 0.0
        """Seconds of a job on a sample that has nothing to do; the last one."""
        self._spent = self._worked = 0.0

    def forget_others(self) -> None:
        """Operators have come or gone; what comes back under an old label may be something else."""
        self.of = {label: seen for label, seen in self.of.items() if label in self._graph}

    def worked(self, seconds: float) -> None:
        """Add seconds of work."""
        self._worked += seconds

    def look(self, source: Node) -> None:
        """A page is about to leave its source: take a sample, if there is need of one and it is cheap enough."""
        behind = self._extending(source)
        new = not all(node.label in self.of and self.of[node.label].known for node in behind)
        if not behind or not (new or self._spent <= SHARE * self._worked):
            return
        waiting = source.inputs[0].peek() if len(source.inputs[0]) else None
        if not isinstance(waiting, Page):
            return
        started = self._stopwatch()
        try:
            self._through(source, waiting)
        except Exception as error:
            # A condition that fails on these rows fails again when the page is worked on, and fails its query.
            decision("sample.failed", operator=source.label, error=error)
            for node in behind:
                self.of.setdefault(node.label, SampleSums()).times += 1
        self._spent += self._stopwatch() - started

    def _through(self, source: Node, waiting: Page) -> None:
        pages = self._graph.pages
        table = pages.sample(waiting, SAMPLE)
        arrival = Arrival(table.num_rows, 0, None, None, waiting.at)
        page = Page(waiting.origin.part("sample"), DriverRows(table), at=waiting.at, arrival=arrival)
        pages.hold(page)
        pages.take(page)
        nothing, whole, size = self._weighed(page, True)
        self.job = nothing
        ways = [(source, page, nothing, whole, size)]
        for node, given, before, rows, taken in ways:
            for reader in self._readers(node) if rows else ():
                if reader.operator.extends:
                    made, seen = reader.operator.extended(given), self.of.setdefault(reader.label, SampleSums())
                    seconds, left_rows, left = self._weighed(made, not seen.times)
                    # A job with nothing to do takes time too, and none takes always the same.
                    chance = max(nothing, CHANCE * before)
                    seen.add(max(0.0, seconds - before - chance), whole, rows, taken, left)
                    ways.append((reader, made, seconds, left_rows, left))

    def _weighed(self, page: Page, new: bool) -> tuple[float, int, int]:
        """Seconds, rows and bytes; of something new the second time counts, in which nothing is compiled."""
        took = list[float]()
        for _ in range(1 + new):
            started = self._stopwatch()
            payload = self._graph.pages.payload(page)
            took.append(self._stopwatch() - started)
        assert not isinstance(payload, Staged), "a sample is small"
        return min(took), payload.num_rows, payload.nbytes

    def _extending(self, source: Node) -> list[Node]:
        """The operators that a sample can go through."""
        found = [source]
        for node in found:
            known = {each.label for each in found}
            found += [r for r in self._readers(node) if r.operator.extends and r.label not in known]
        return found[1:]

    def _readers(self, node: Node) -> list[Node]:
        arcs = [arc for port, arcs in node.outputs.items() if port != LATE for arc in arcs]
        return list({arc.to.label: arc.to for arc in arcs}.values())
