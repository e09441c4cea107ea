"""The answer of a back-test: findings, what each policy would have cost, and the lines to copy."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from slackwater.columns import backticked
from slackwater.progress.policies import in_python
from slackwater.progress.time import TimeDomain
from slackwater.tune.durations import write
from slackwater.tune.engines import believed, sql_lines
from slackwater.tune.findings import Finding
from slackwater.tune.outcome import Figures


@dataclass(frozen=True)
class PolicyTrial:
    """A policy and what it would have cost."""

    policy: str
    """As the user would write it, behind `sw.`."""
    target: float | None
    """The share that it was to keep to, if it was given one."""
    by_source: bool
    """Whether the query groups by the source."""
    figures: Figures

    def keeps(self, target: float) -> bool:
        """Whether it lost no more than this share."""
        return self.figures.lost_share <= target

    @property
    def missed(self) -> bool:
        """Whether it lost more than its target, in all or in its worst stretch."""
        return self.target is not None and max(self.figures.lost_share, self.figures.worst_share) > self.target


@dataclass(frozen=True)
class Fixed:
    """The fixed delay for a share that may be lost; what it costs is that of `bounded(delay)`."""

    target: float
    exact: int
    """The smallest that would have done, in microseconds."""
    delay: int
    """The delay rounded up to a length that a person writes; the figures are those of this one."""
    figures: Figures
    lost_per_hour: float
    """Rows, on average."""
    worst_hour_rows: int
    worst_hour: str

    @property
    def native(self) -> str:
        """The delay, for `withWatermark`."""
        return write(self.delay)


@dataclass(frozen=True)
class Timeline:
    """The stream in equal parts of its time: rows, and how far behind arrival each heartbeat is."""

    at: list[int]
    rows: list[int]
    lags: dict[str, list[float | None]]
    """Seconds of lag, by policy."""
    lost: dict[str, list[int]]
    """Lost rows, by policy."""


@dataclass(frozen=True, repr=False)
class Report:
    """The findings of `tune`; print it, or ask it for `json()` or `html()`."""

    time: str
    arrival: str
    source: str | None
    rows: int
    first: int
    last: int
    """First and last arrival."""
    window: tuple[int, int]
    """RANGE and SLIDE, in microseconds."""
    page: int
    pages: int
    chosen: tuple[str, ...]
    """What nobody wrote and was chosen: "windows", "page"."""
    target: float
    """The share that the lines to copy keep to."""
    findings: tuple[Finding, ...]
    filtered: tuple[int, int] | None
    """If rows carry times far ahead: how far ahead of arrival a time may be, and the delay that then does."""
    row_by_row: tuple[float, float] | None
    """What the delay loses where each row moves the watermark: to windows that have ended, and of all late rows."""
    fixed: tuple[Fixed, ...]
    tried: tuple[PolicyTrial, ...]
    lateness: tuple[tuple[float, float, int], ...]
    """From, to (in seconds) and rows; rows that are not late from 0 to 0."""
    curve: tuple[tuple[float, float, float], ...]
    """Fixed delays in seconds, the share lost, the mean wait in seconds."""
    timeline: Timeline

    def fixed_for(self, target: float) -> Fixed:
        """The fixed delay for a target."""
        return next(f for f in self.fixed if f.target == target)

    @property
    def best(self) -> PolicyTrial:
        """Of the policies that kept to the target the one with the shortest mean wait; one that adapts, if any did.

        A fixed delay was fitted to these very rows, so it is taken only where nothing else kept to the target.
        """
        ours = [t for t in self.tried if not t.policy.startswith("rival: ")]
        kept = [t for t in ours if t.keeps(self.target)]
        fitting = [t for t in kept if t.target in (None, self.target)]
        adapting = [t for t in fitting if not t.policy.startswith("bounded(")]
        return min(adapting or kept or ours, key=lambda t: t.figures.wait_mean)

    @property
    def lines(self) -> dict[str, str]:
        """The lines to copy, by engine (see `ENGINES`)."""
        time = backticked(self.time)
        source = "" if self.source is None else f", source={backticked(self.source)!r}"
        own = f's.stream("rows", df, time={time!r}{source}, disorder={in_python(self.best.policy)})'
        delay, kept = self.fixed_for(self.target).delay, ""
        if self.filtered is not None:
            ahead, delay = self.filtered
            kept = f'.where("{believed(self.time, self.arrival, ahead)}")'
        native = f'df{kept}.withWatermark("{time}", "{write(delay)}")'
        return {"slackwater": own, "native": native, **sql_lines(self.time, self.window, delay)}

    @property
    def lost(self) -> dict[str, float]:
        """The share that each engine would have lost with its line, as far as it is known."""
        known = {
            "slackwater": self.best.figures.lost_share,
            "native": self.fixed_for(self.target).figures.lost_share,
        }
        if self.row_by_row is not None:
            ended, behind = self.row_by_row
            known |= {"flink": ended, "ksqldb": ended, "risingwave": behind}
        return known

    def as_dict(self) -> dict[str, Any]:
        """As JSON values; times in seconds, instants as text."""
        show = TimeDomain.TIMESTAMP.show
        return {
            "rows": self.rows,
            "time": self.time,
            "arrival": self.arrival,
            "source": self.source,
            "first_arrival": show(self.first),
            "last_arrival": show(self.last),
            "windows": {"range_seconds": self.window[0] / 1e6, "slide_seconds": self.window[1] / 1e6},
            "page_seconds": self.page / 1e6,
            "pages": self.pages,
            "chosen": list(self.chosen),
            "findings": [asdict(f) for f in self.findings],
            "fixed": [
                {
                    "target": f.target,
                    "exact_seconds": f.exact / 1e6,
                    "delay_seconds": f.delay / 1e6,
                    "delay": f.native,
                    "lost_rows_per_hour": f.lost_per_hour,
                    "worst_hour_lost_rows": f.worst_hour_rows,
                    "worst_hour": f.worst_hour,
                    **f.figures.as_dict(),
                }
                for f in self.fixed
            ],
            "policies": [
                {"policy": t.policy, "target": t.target, "by_source": t.by_source, **t.figures.as_dict()}
                for t in self.tried
            ],
            "lateness": [{"from_seconds": a, "to_seconds": b, "rows": n} for a, b, n in self.lateness],
            "curve": [{"delay_seconds": d, "lost_share": s, "wait_mean": w} for d, s, w in self.curve],
            "recommended": {"target": self.target, "policy": self.best.policy, "by_source": self.best.by_source},
            "lines": self.lines,
            "lost_by_line": self.lost,
        }

    def json(self) -> str:
        """The report as text."""
        return json.dumps(self.as_dict(), indent=2, ensure_ascii=False)

    def html(self, path: str | Path | None = None) -> str:
        """A page with plots that needs nothing else; written to a file if one is named."""
        from slackwater.tune.html import page

        text = page(self)
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    def _repr_html_(self) -> str:
        """For notebooks."""
        from slackwater.tune.html import body

        return body(self)

    def __repr__(self) -> str:
        return f"<Report of {self.rows:,} rows: {self.lines['slackwater']}; print it to see all>"

    def __str__(self) -> str:
        from slackwater.tune.show import as_text

        return as_text(self)
