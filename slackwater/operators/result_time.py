"""The heartbeat of a window's results, given the heartbeat of its rows."""

from __future__ import annotations

import numpy as np

from slackwater.operators.operator import Wanted
from slackwater.progress.disorder import SourceHeartbeats
from slackwater.progress.heartbeat import Heartbeat
from slackwater.progress.punctuation import Punctuation
from slackwater.windows.closed import ends_reached
from slackwater.windows.spec import WindowSpec


def result_time(spec: WindowSpec, time: Punctuation, by_source: bool) -> Punctuation:
    """The last tick of the last closed window, as a punctuation.

    So a window holds time back by up to a slide: the results of later windows are still to come. With `by_source`,
    each source closes its windows by its own heartbeat.
    """
    by = time.sources if by_source else None
    ticks = [time.heartbeat.tick, *(until for _, until in time.ranges)]
    reached = ends_reached(spec, np.array(ticks, dtype=np.int64)).tolist()
    if by is not None:
        beats = ends_reached(spec, np.array([*by.ticks, by.others], dtype=np.int64))
        by = SourceHeartbeats(by.names, beats[:-1], int(beats[-1]))
    ranges = []
    for (after, _), until in zip(time.ranges, reached[1:], strict=True):
        # Closed windows that begin after `after` have given their results.
        last_before = spec.bounds(spec.next_begin(after) - 1)[1] - 1
        ranges += [(last_before, until)] if last_before < until else []
    return Punctuation(Heartbeat(reached[0]), by, tuple(ranges))


def next_end(spec: WindowSpec, tick: int, panes: tuple[int, int] | None, every: bool) -> int | None:
    """The last tick of the next window that is open: of all windows (`every`), or of those that may have rows.

    `panes` are the first and the last pane with rows.
    """
    window = spec.last_closed(Heartbeat(tick)) + 1
    if every:
        return spec.bounds(window)[1] - 1
    if panes is None:
        return None
    window = max(window, spec.first_window(panes[0]))
    return spec.bounds(window)[1] - 1 if window <= spec.last_window(panes[1]) else None


def wanted_of_rows(spec: WindowSpec, wanted: Wanted, tick: int) -> int | None:
    """The heartbeat that the rows must reach, so that the results reach the tick that `wanted` asks for."""
    (reached,) = ends_reached(spec, np.array([tick], dtype=np.int64)).tolist()
    further = wanted(reached)
    return None if further is None else spec.last_tick_from(further)
