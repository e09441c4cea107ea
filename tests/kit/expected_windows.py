"""A recomputation of a query's windows, row by row: the oracle of a random day."""

from __future__ import annotations

from dataclasses import dataclass, field

#: Before all time.
NEVER = -(10**9)


@dataclass
class Expected:
    """Counts the rows of windows of some length, one each 5 ticks, and closes them as time passes."""

    length: int
    beat: int = NEVER
    open: dict[int, int] = field(default_factory=dict)
    closed: dict[int, int] = field(default_factory=dict)

    def page(self, ticks: list[int], beat: int) -> None:
        for tick in ticks:
            first = (tick - self.length) // 5 * 5 + 5
            for start in range(first, tick + 1, 5):
                if start + self.length - 1 > self.beat:
                    self.open[start] = self.open.get(start, 0) + 1
        self.pass_to(beat)

    def pass_to(self, beat: int) -> None:
        self.beat = max(self.beat, beat)
        for start in [s for s in self.open if s + self.length - 1 <= self.beat]:
            self.closed[start] = self.open.pop(start)
