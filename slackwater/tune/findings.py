"""What is odd about the rows, in plain words: corrupt times, wrong clocks, sources apart, pauses, bad hours."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from slackwater.columns import ROWS, SOURCE
from slackwater.progress.source_numbers import Ints
from slackwater.progress.time import TimeDomain
from slackwater.tune.arrival_pages import INDEX, ArrivalPages
from slackwater.tune.durations import DAY, MINUTE, SECOND, say
from slackwater.tune.hindsight import hindsight, needed, written
from slackwater.tune.outcome import HOUR, PolicyOutcome
from slackwater.tune.rows import AHEAD, FIRST, HIGH, LAST, LEAST, LOW, Extent

#: A time is corrupt when it is off by a day, and by this many times the distance between nine of ten rows.
FAR, LEAST_FAR = 50, DAY
#: Sources differ when they are this many deviations apart, and half as far as the rows of one source.
DEVIATIONS, PART = 6 * 1.4826, 0.5
#: Sources with fewer rows are not judged. At most this many are named.
ENOUGH, NAMED = 20, 4
#: A source is slow, and its clock is right, when half of its rows are off by this many times its quickest rows.
SLOWER = 3
#: A pause is this many times as long as nine of ten distances between pages, and would have had this many rows.
PAUSE, MISSED = 4, 20
#: Where more than this part of the sources has stopped, sources come and go.
COME_AND_GO = 0.2
#: A delay is shorter without something when it is at most this part of it.
SHORTER = 0.7


@dataclass(frozen=True)
class Finding:
    """One finding: of what kind, in words, and its figures."""

    kind: str
    text: str
    figures: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Findings:
    """All that findings are made of."""

    pages: ArrivalPages
    extent: Extent
    delays: dict[str, int]
    """Quantiles of arrival minus time, over all rows."""
    by_source: pl.DataFrame | None
    source: str | None
    target: float
    fixed: PolicyOutcome
    """The outcome of the fixed delay for the target."""

    def without(self, kept: pl.Expr, what: str) -> str:
        """How much shorter the delay would be with some rows only; empty where it would not."""
        now, then = hindsight(self.pages, self.target), hindsight(self.pages.only(kept), self.target)
        if now == 0 or then > SHORTER * now:
            return ""
        return f" Without {what} a delay of {say(then)} instead of {say(now)} would do for {self.target:.1%}."


def findings(seen: Findings) -> list[Finding]:
    """All that was found, the gravest first."""
    found = [*_missing(seen), *_corrupt(seen), *_time_zone(seen), *_apart(seen)]
    if not any(f.kind in ("corrupt", "ahead") for f in found):
        found += _early(seen)
    return [*found, *_silent(seen), *_pauses(seen), *_bad_hours(seen), *_in_order(seen)]


def _show(tick: int) -> str:
    return TimeDomain.TIMESTAMP.show(tick).partition(".")[0]


def _rows(count: int) -> str:
    return f"{count:,} row{'s' if count != 1 else ''}"


def _carry(count: int, share: float | None = None) -> str:
    return f"{_rows(count)}{'' if share is None else f' ({share:.2%})'} carr{'y' if count != 1 else 'ies'}"


def _missing(seen: Findings) -> Iterator[Finding]:
    missing = seen.extent.rows - seen.extent.timed
    if missing:
        share = missing / seen.extent.rows
        text = (
            f"{_rows(missing)} ({share:.2%}) had no time or no arrival that could be read. No window counts them."
        )
        yield Finding("missing", text, {"rows": missing})


def limits(delays: dict[str, int]) -> tuple[int, int]:
    """The least and the largest delay that a row with a sound time can have."""
    low, high = delays["q0.05"], delays["q0.95"]
    far = max(FAR * (high - low), LEAST_FAR)
    return low - far, high + far


def sound(pages: ArrivalPages, delays: dict[str, int]) -> pl.Expr:
    """Which cells have sound times."""
    least, most = limits(delays)
    at = pl.Series(pages.ats).gather(pages.cells[INDEX])
    kept = (at - pages.cells[LOW] >= least) & (at - pages.page - pages.cells[HIGH] <= most)
    return pl.lit(kept)


def without_corrupt(seen: Findings, found: list[Finding]) -> tuple[int, int] | None:
    """If times far ahead were found: how far ahead of arrival a time may be, and the delay that then does."""
    if not any(f.kind == "corrupt" and f.figures["ahead"] for f in found):
        return None
    ahead = max(0, -limits(seen.delays)[0])
    return written(ahead), written(hindsight(seen.pages.only(sound(seen.pages, seen.delays)), seen.target))


def _corrupt(seen: Findings) -> Iterator[Finding]:
    least, most = limits(seen.delays)
    cells, at = seen.pages.cells, pl.Series(seen.pages.ats).gather(seen.pages.cells[INDEX])
    ahead, behind = cells.filter(at - cells[LOW] < least), cells.filter(at - seen.pages.page - cells[HIGH] > most)
    if ahead.height:
        rows, furthest = int(ahead[ROWS].sum()), ahead[HIGH].max()
        assert isinstance(furthest, int)
        text = (
            f"{_carry(rows)} a time far ahead of arrival, up to {_show(furthest)}. A watermark jumps there and "
            "takes all that follows for late: filter them out before it."
        )
        text += seen.without(sound(seen.pages, seen.delays), "them")
        yield Finding("corrupt", text, {"rows": rows, "ahead": True, "furthest": _show(furthest)})
    if behind.height:
        rows, furthest = int(behind[ROWS].sum()), behind[LOW].min()
        assert isinstance(furthest, int)
        text = f"{_carry(rows)} a time far behind arrival, down to {_show(furthest)}."
        yield Finding("corrupt", text, {"rows": rows, "ahead": False, "furthest": _show(furthest)})


def _time_zone(seen: Findings) -> Iterator[Finding]:
    middle, spread = seen.delays["q0.5"], seen.delays["q0.75"] - seen.delays["q0.25"]
    steps = round(middle / (30 * MINUTE))
    if steps and abs(middle - steps * 30 * MINUTE) <= max(2 * MINUTE, 2 * spread) and spread <= 5 * MINUTE:
        side = "behind" if middle > 0 else "ahead of"
        text = (
            f"Times are {say(abs(steps) * 30 * MINUTE)} {side} arrivals, in nearly all rows: that looks like "
            "another time zone. It does not change what is lost, but the waits below are off by as much."
        )
        yield Finding("time zone", text, {"offset_seconds": steps * 30 * 60})


def _apart(seen: Findings) -> Iterator[Finding]:
    """Sources whose clock, or whose way in, differs from that of the rest."""
    by = _judged(seen)
    if by is None or by.height < 2:
        return
    names = np.array(by[SOURCE].to_list(), dtype=object)
    least, middle, most = (by[q].to_numpy() for q in ("q0.05", "q0.5", "q0.95"))
    within = float(np.median(most - least))
    offset, slower = least - _rest(least), middle - _rest(middle)
    clocks = np.abs(offset) > max(DEVIATIONS * _deviation(least), PART * within, SECOND / 1_000)
    # A clock that is off moves all rows of its source by as much; a slow way moves some of them far more.
    clocks &= slower < SLOWER * np.abs(offset)
    for kind, far in (("ahead", clocks & (offset < 0)), ("behind", clocks & (offset > 0))):
        why = {
            "ahead": "Its times push the watermark, so rows of all others are late",
            "behind": "Its clock is slow, or its rows take longer; all windows wait for it",
        }[kind]
        yield from _named(seen, kind, names[far], offset[far], f"runs {{}} {kind}{_OF[kind]} the rest. {why}.")
    slow = ~clocks & (slower > max(DEVIATIONS * _deviation(middle), within))
    yield from _named(
        seen, "slow", names[slow], slower[slow], "is slow: half of its rows take {} longer than usual."
    )


_OF = {"ahead": " of", "behind": ""}


def _rest(values: Ints) -> float:
    return float(np.median(values))


def _deviation(values: Ints) -> float:
    return float(np.median(np.abs(values - np.median(values))))


def _named(seen: Findings, kind: str, names: Any, offsets: Any, text: str) -> Iterator[Finding]:
    order = np.argsort(-np.abs(offsets), kind="stable")
    for place, k in enumerate(order.tolist()):
        name, offset = names[k], float(offsets[k])
        if place >= NAMED:
            yield Finding(kind, f"So are {len(order) - NAMED} more by {seen.source}.", {"more": len(order) - NAMED})
            return
        without = seen.without(pl.col(SOURCE) != name, "it")
        words = f"{seen.source} {name} {text.format(say(abs(offset)))}{without}"
        yield Finding(kind, words, {"source": name, "offset_seconds": offset / 1e6})


def _judged(seen: Findings) -> pl.DataFrame | None:
    return None if seen.by_source is None else seen.by_source.filter(pl.col(ROWS) >= ENOUGH).sort(SOURCE)


def _early(seen: Findings) -> Iterator[Finding]:
    """Rows whose time is ahead of their arrival."""
    least, rows = seen.delays[LEAST], seen.delays[AHEAD]
    if least < -SECOND:
        share = rows / max(1, seen.extent.timed)
        text = (
            f"{_carry(rows, share)} a time ahead of arrival, by {say(-least)} at most: they push a watermark ahead "
            "of the rest."
        )
        yield Finding("early", text, {"rows": rows, "most_seconds": -least / 1e6})


def _silent(seen: Findings) -> Iterator[Finding]:
    """Sources that stopped well before the end."""
    by = _judged(seen)
    if by is None:
        return
    span = seen.extent.last - seen.extent.first
    usual = (pl.col(LAST) - pl.col(FIRST)) / pl.col(ROWS)
    gone = by.filter((seen.extent.last - pl.col(LAST) > span // 5) & (seen.extent.last - pl.col(LAST) > 20 * usual))
    if gone.height and gone.height <= COME_AND_GO * by.height:
        named = ", ".join(gone[SOURCE].to_list()[:NAMED]) + (" and others" if gone.height > NAMED else "")
        last = int(gone[LAST][0])
        verb, since = ("has", f" since {_show(last)}") if gone.height == 1 else ("have", "")
        yield Finding("silent", f"{seen.source} {named} {verb} been silent{since}.", {"sources": gone.height})


def _pauses(seen: Findings) -> Iterator[Finding]:
    apart = np.diff(seen.pages.numbers) * seen.pages.page
    if len(apart) < 10:
        return
    least = PAUSE * max(int(np.quantile(apart, 0.9)), seen.pages.page)
    least = max(least, MISSED * int(apart.sum()) // int(seen.pages.rows.sum()))
    pauses = apart[apart >= least]
    if len(pauses):
        longest = int(apart.argmax())
        lasts = f"{say(int(apart[longest]))} from {_show(int(seen.pages.ats[longest]))} on"
        many = f"{len(pauses):,} pauses of {say(least)} or more, the longest of {lasts}"
        text = (
            f"{many if len(pauses) > 1 else f'A pause of {lasts}'}. Windows before a pause stay open until rows "
            "come again; timeout= closes them."
        )
        yield Finding("pause", text, {"pauses": len(pauses), "longest_seconds": int(apart[longest]) / 1e6})


def _bad_hours(seen: Findings) -> Iterator[Finding]:
    """Whether the loss of a fixed delay comes all at once."""
    hours, lost = seen.fixed.lost_by_hour()
    total, span = int(lost.sum()), int(hours[-1] - hours[0]) + 1
    if total < 20 or span < 24:
        return
    order = np.argsort(-lost, kind="stable")
    half = int(np.searchsorted(np.cumsum(lost[order]), total / 2)) + 1
    if half <= span / 20:
        worst = int(order[0])
        text = (
            f"Half of the rows that a fixed delay loses fall into {half:,} of {span:,} hours; the worst "
            f"begins {_show(int(hours[worst]) * HOUR)} with {_rows(int(lost[worst]))}."
        )
        yield Finding("bad hours", text, {"hours": half, "of": span, "worst_rows": int(lost[worst])})


def _in_order(seen: Findings) -> Iterator[Finding]:
    delays, _ = needed(seen.pages)
    if not delays.any():
        yield Finding("in order", "No row arrives after its window has ended: a delay of 0 seconds loses nothing.")
