"""Skew bounds that are learned from the stream itself, as a disorder policy: S1 section 6."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from slackwater.calls import called
from slackwater.errors import JournalError, QueryError
from slackwater.figures import Figures
from slackwater.progress.arrival import Arrival
from slackwater.progress.disorder import SourceHeartbeats, Tracker
from slackwater.progress.idle import read_idle, with_idle
from slackwater.progress.learned.estimator import NEVER, PARTS, Settings, SkewEstimator
from slackwater.progress.learned.lags import Lags
from slackwater.progress.ring import Ring
from slackwater.progress.silence import DEFAULT_TIMEOUT, SilenceTracker, read_timeout
from slackwater.progress.source_beats import SourceBeats
from slackwater.progress.source_numbers import LARGEST, Ints, whole
from slackwater.progress.time import MIN_TICK, Span, TimeDomain, microseconds

#: The most sources for which the skew between every two is estimated. More are grouped.
SOURCES = 32
#: How many groups, unless the user says otherwise. With a unit of a second the last begins at 48 days.
GROUPS = 24
#: The most units in tmax: an estimator keeps n² × tmax numbers.
MOST_UNITS = 100


@dataclass(frozen=True)
class Learned:
    """The settings of `learned`; lengths of time in microseconds."""

    window: int | None
    timed: bool
    alpha: float
    tmax: int
    unit: int
    timeout: int | None
    adaptive: bool
    groups: int | None
    initial: Span | None
    idle: Span | None = None

    needs: ClassVar[frozenset[str]] = frozenset()
    needs_sources: ClassVar[bool] = False

    def tracker(self, domain: TimeDomain) -> Tracker:
        """A fresh tracker; reads `initial` in the stream's domain."""
        initial = None if self.initial is None else domain.span(self.initial, "initial")
        if initial is not None and not 0 <= initial <= LARGEST:
            raise QueryError(f"initial={self.initial!r} must be 0 or more, and no longer than a clock will see")
        settings = Settings(
            tmax=-(-self.tmax // self.unit),
            window=NEVER if self.window is None else self.window,
            timed=self.timed,
            alpha=round(self.alpha * PARTS),
            adaptive=self.adaptive,
            initial=initial,
        )
        own = LearnedTracker(settings, self.unit, self.timeout, self.groups, domain)
        return with_idle(own, "learned", self.idle, domain)

    def describe(self) -> str:
        """The policy as the user would write it."""
        show = TimeDomain.TIMESTAMP.show_span
        window = repr(show(self.window)) if self.timed and self.window is not None else self.window
        parts = [f"window={window}", f"alpha={self.alpha}"]
        parts += [f"tmax={show(self.tmax)!r}", f"unit={show(self.unit)!r}"]
        parts.append("timeout=None" if self.timeout is None else f"timeout={show(self.timeout)!r}")
        parts += ["adaptive=True"] if self.adaptive else []
        parts += [] if self.groups is None else [f"groups={self.groups}"]
        parts += [] if self.initial is None else [f"initial={self.initial!r}"]
        parts += [] if self.idle is None else [f"idle={self.idle!r}"]
        return f"learned({', '.join(parts)})"


@called()
def learned(
    window: int | str | timedelta | None = "10 minutes",
    alpha: float = 0.5,
    tmax: str | timedelta = "10 seconds",
    unit: str | timedelta = "1 second",
    timeout: str | timedelta | None = DEFAULT_TIMEOUT,
    adaptive: bool = False,
    groups: int | None = None,
    initial: Span | None = None,
    idle: Span | None = None,
) -> Learned:
    """A wait as long as the disorder seen lately: how far sources run apart, and how far out of order each is.

    It is S1 section 6. When τ arrives from source i at instant c, source j is promised to be past τ − δ_ij[t] at
    c + t. The δ are the largest skew seen (Figure 4): raised at once when exceeded, lowered when they were not
    reached for a window W. Each source has its own heartbeat, so one that is slow delays only itself. One that
    falls silent is carried along by what the others promise of it.

    The first page sets the clock. Rows that arrive after it with older times are late. This happens once. `initial`
    starts from a guess instead.

    Up to 32 sources have estimates of their own. When there are more (or with `groups`) they are grouped by
    how far they lag (section 5.2), and skew is estimated between groups.

    >>> t = learned(window=None).tracker(TimeDomain.SEQUENCE)
    >>> def page(lowest, highest):
    ...     t.arrive(Arrival(rows=2, missing=0, lowest=lowest, highest=highest, at=0))
    ...     return t.heartbeat
    >>> page(3, 50), page(41, 60), page(70, 90)       # 41 came behind 50: δ = 10
    (Heartbeat(tick=50), Heartbeat(tick=50), Heartbeat(tick=80))

    Args:
        window: W, how long an estimate must not be reached before it is lowered: a length of wall-clock time, or a
            number of tuples. Pages are large, so time is mostly the better measure. None: never (section 6.1).
        alpha: weight of the old estimate when it is lowered; 0 forgets it, 1 never lowers. Kept to a millionth.
        tmax: how far ahead promises are made. Those for later are the stronger ones.
        unit: the unit of the clock that t counts, at most 100 of them in `tmax`.
        timeout: after so long a silence of *all* sources, what was seen is taken to be all (section 3.4). Learned
            bounds always need one; None leaves the last windows open until something comes.
        adaptive: let W itself move ('adaptive adaptivity').
        groups: group the sources from the start, into this many groups; 1 for one heartbeat for all.
        initial: what every estimate starts from, a stretch of the stream's own time. By default each source is
            taken to be sorted, and two of them as far apart as they are when first seen. Figure 4 has 0.
        idle: time goes on with the clock while the stream is silent, at most so far behind it, as in `bounded`.
    """
    timed = not isinstance(window, int) and window is not None
    if timed and microseconds(window) <= 0:  # type: ignore[arg-type]
        raise QueryError(f"window={window!r} must be positive, as in window='10 minutes'")
    length = microseconds(window) if timed else None if window is None else whole(window, "window")  # type: ignore[arg-type]
    if isinstance(alpha, bool) or not isinstance(alpha, Real) or not 0 <= alpha <= 1:
        raise QueryError(f"alpha={alpha!r} is no weight; write a number from 0 to 1, as in alpha=0.5")
    step, ahead = microseconds(unit), microseconds(tmax)
    if step <= 0:
        raise QueryError(f"unit={unit!r} must be positive, as in unit='1 second'")
    if not 0 <= ahead <= MOST_UNITS * step:
        raise QueryError(
            f"tmax={tmax!r} must lie between 0 and {MOST_UNITS} times unit={unit!r}; write a longer unit"
        )
    if adaptive and window is None:
        raise QueryError("adaptive=True moves the window, but window=None; write one, as in window='10 minutes'")
    if groups is not None:
        groups = whole(groups, "groups", least=1)
        if groups > 64:
            raise QueryError(f"groups={groups} is more than doublings of a lag there are; write 64 or less")
    after = read_timeout(timeout) or None
    idle = read_idle("learned", idle)
    return Learned(length, timed, float(alpha), ahead, step, after, adaptive, groups, initial, idle)


class LearnedTracker(SilenceTracker):
    """Estimates skew between streams, each a source or a group of them, and keeps a heartbeat for every source.

    It is what holds time back: a source's heartbeat stays as far behind the others as the source has been.
    """

    STATE = (*SilenceTracker.STATE, "_estimator", "_lags", "_beats", "_ring", "_grouped", "_has_sources")

    def __init__(
        self, settings: Settings, unit: int, timeout: int | None, groups: int | None, domain: TimeDomain
    ) -> None:
        super().__init__(timeout)
        self._settings, self._unit, self._domain = settings, unit, domain
        self._grouped = groups is not None
        self._lags = Lags(
            unit if domain is TimeDomain.TIMESTAMP else 1, groups or GROUPS, settings.window, settings.timed
        )
        self._beats = SourceBeats()
        self._estimator = SkewEstimator(settings)
        self._ring = self._new_ring(0)
        if self._grouped:
            self._make_room(self._lags.classes)
        self._has_sources = False

    def by_source(self) -> SourceHeartbeats | None:
        """Of each source; of one that nobody has seen nothing is promised."""
        if not self._has_sources:
            return None
        return SourceHeartbeats(self._lags.names, self._beats.beats.copy(), MIN_TICK)

    def arrive(self, arrival: Arrival) -> None:
        """Measure the page against what was seen before, then promise what its largest times allow."""
        at = max(arrival.at, self._ring.now)
        if arrival.rows:
            self._last_arrival = max(self._last_arrival, at)
        if arrival.lowest is None or arrival.highest is None:
            return
        self._ring.advance(at)
        self._settle()
        names, (rows, lowest, highest) = self._page(arrival)
        sources = self._lags.meet(names)
        before, self._highest = self._highest, max(self._highest, int(highest.max()))
        moves = self._lags.measure(sources, rows, lowest, highest, before, self._highest, at)
        if self._grouped:
            self._estimator.moved(*moves)
        self._arrange()
        streams = sources
        joining = self._lags.joining(sources) if self._grouped else sources[:0]
        self._beats.join(self._lags.place, joining, self._ring.highest())
        if self._grouped:
            streams, rows, lowest, highest = _together(self._lags.place[sources], rows, lowest, highest)
        now = at // self._unit
        self._ring.promise_ahead(self._estimator.arrive(streams, rows, lowest, highest, now, at))
        self._settle()

    def _page(self, arrival: Arrival) -> tuple[list[str], list[Ints]]:
        """Names, and rows, lowest and highest; a stream without sources is one."""
        came = arrival.sources
        if came is None:
            return [""], [np.array([v], dtype=np.int64) for v in (arrival.timed, arrival.lowest, arrival.highest)]
        self._has_sources = True
        columns = [came.rows, came.lowest, came.highest]
        some = came.rows > 0
        if some.all():
            return came.names, columns
        return [n for n, any_ in zip(came.names, some, strict=True) if any_], [c[some] for c in columns]

    def _arrange(self) -> None:
        """Give a stream of its own to each source, or group them when they have become too many."""
        if self._grouped:
            return
        sources = len(self._lags)
        if sources <= SOURCES:
            self._make_room(sources)
            return
        self._grouped = True
        # What was promised for later is forgotten; what is promised from now on is no weaker.
        self._estimator = self._estimator.grouped(self._lags.place[: len(self._estimator)], self._lags.classes)
        self._ring = self._new_ring(self._lags.classes, self._ring.now)

    def _make_room(self, streams: int) -> None:
        added = streams - len(self._estimator)
        if added:
            self._estimator.add(added)
            old, self._ring = self._ring, self._new_ring(streams)
            beats = np.pad(old.beats, (0, added), constant_values=MIN_TICK)
            self._ring.restore({**old.state(), "beats": beats})

    def _new_ring(self, streams: int, now: int = MIN_TICK) -> Ring:
        ring = Ring(streams, self._settings.tmax * self._unit, self._unit)
        ring.now = now
        return ring

    def _settle(self) -> None:
        """Raise the sources' heartbeats to those of their streams; a source that moved on keeps what it had."""
        sources = len(self._lags)
        if sources:
            self._beats.follow(self._lags.place if self._grouped else np.arange(sources), self._ring.beats)
            self._raise(int(self._beats.beats.min()))

    def tick(self, now: int) -> None:
        """Let promises fall due; after a silence of `timeout`, promise all that was seen."""
        self._ring.advance(now)
        if self._timeout is not None and len(self._lags) and now >= self._last_arrival + self._timeout:
            self._ring.raise_all(self._highest)
            np.maximum(self._beats.beats, self._highest, out=self._beats.beats)
        self._settle()

    def wake_at(self) -> int | None:
        """When a promise falls due, or the silence will have lasted for `timeout`."""
        if not len(self._lags):
            return None
        due = self._ring.next_due()
        if self._timeout is None or int(self._beats.beats.min()) >= self._highest:
            return due
        silent = self._last_arrival + self._timeout
        return silent if due is None else min(due, silent)

    def _kept_with(self) -> dict[str, Any]:
        settings = self._settings
        kind = {"timed": settings.timed, "adaptive": settings.adaptive, "groups": self._lags.classes}
        return {"unit": self._unit, "tmax": settings.tmax, **kind}

    def state(self) -> dict[str, Any]:
        """Estimates, lags, heartbeats now and to come."""
        return {**super().state(), "kept_with": self._kept_with()}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from an earlier `state()`; the length of W, alpha and the timeout may be others than before."""
        if state["kept_with"] != self._kept_with():
            raise JournalError(
                f"the kept estimates are for {state['kept_with']}, here it is {self._kept_with()}; "
                "continue with the unit, tmax, kind of window and groups that they were kept with"
            )
        self._ring = self._new_ring(len(state["ring.beats"]))
        super().restore(state)

    def metrics(self) -> Figures:
        """How many sources, W as it stands, and how far behind the others each source or group is taken to be."""
        estimator = self._estimator
        seen = estimator.tuples > 0
        skew = [
            self._domain.show_span(s) if s else "0" for s in estimator.delta[:, :, 0].max(0, initial=0).tolist()
        ]
        if self._grouped:
            members = np.bincount(self._lags.place, minlength=len(estimator))
            estimates = {f"group {g} of {members[g]}": skew[g] for g in np.flatnonzero(members).tolist()}
        else:
            estimates = {name or "stream": s for name, s in zip(self._lags.names, skew, strict=True)}
        moving = estimator.window[seen][:, seen]
        found: dict[str, Any] = {"sources": len(self._lags), "estimates": estimates, "exceeded": estimator.exceeded}
        if moving.size and self._settings.window < NEVER:
            ends = [int(moving.min()), int(moving.max())]
            clock = TimeDomain.TIMESTAMP if self._settings.timed else TimeDomain.SEQUENCE
            found["window"] = " to ".join(dict.fromkeys(map(clock.show_span, ends)))
        return found


def _together(place: Ints, rows: Ints, lowest: Ints, highest: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """The same statistics for groups of sources: those that have some."""
    groups = np.unique(place)
    at = np.searchsorted(groups, place)
    total = np.zeros(len(groups), dtype=np.int64)
    least = np.full(len(groups), np.iinfo(np.int64).max)
    most = np.full(len(groups), MIN_TICK, dtype=np.int64)
    np.add.at(total, at, rows)
    np.minimum.at(least, at, lowest)
    np.maximum.at(most, at, highest)
    return groups, total, least, most
