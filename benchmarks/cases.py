"""What is measured: the cases, and the figure that the design asks of each."""

from __future__ import annotations

from dataclasses import dataclass

KEYS = 1_000
RANGE_SECONDS = 600
SLACK = "10 seconds"

#: Batches at the start of a run that are not counted: code is compiled, the stream learns its shape.
COLD = 3


@dataclass(frozen=True)
class Case:
    """One query over one cut of the data."""

    name: str
    windows_per_row: int
    files: int
    files_per_page: int = 1
    small: bool = False
    target: float | None = None
    """Large pages: at least this many times native's rows/s. Small pages: at most this share of native's time."""

    @property
    def slide_seconds(self) -> int:
        """Windows of RANGE_SECONDS that begin this far apart put each row into `windows_per_row` of them."""
        return RANGE_SECONDS // self.windows_per_row

    def held(self, ratio: float) -> bool | None:
        """Whether a ratio meets the target; None where there is none."""
        if self.target is None:
            return None
        return ratio <= self.target if self.small else ratio >= self.target


FULL = (
    Case("1 M rows, tumbling", 1, 12, target=1.2),
    Case("1 M rows, RANGE/SLIDE 5", 5, 12, target=2.5),
    Case("1 M rows, RANGE/SLIDE 20", 20, 12, target=6.0),
    # Native needs minutes for more.
    Case("1 M rows, RANGE/SLIDE 60", 60, 7),
    Case("4 M rows, RANGE/SLIDE 5", 5, 24, files_per_page=4, target=3.0),
    Case("1,000 rows, RANGE/SLIDE 5", 5, 60, small=True, target=0.75),
)

QUICK = (
    Case("1 M rows, tumbling", 1, 3, target=1.2),
    Case("1 M rows, RANGE/SLIDE 5", 5, 3, target=2.5),
    Case("1 M rows, RANGE/SLIDE 20", 20, 3, target=6.0),
    Case("1,000 rows, RANGE/SLIDE 5", 5, 20, small=True, target=0.75),
)
