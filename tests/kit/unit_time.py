"""S2's model to the letter: tuples on progress charts, one unit of time after another, and all schedules there are.

An operator may be left in the middle and taken up again. A tuple keeps its size until its operator is done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from slackwater.scheduling.paths import PathWork, Plan
from slackwater.scheduling.strategy import Ready, Situation, Strategy, WaitingPages


@dataclass(frozen=True)
class Path:
    """A query: the units of time that each operator takes for a tuple that came in, and what is left behind it."""

    times: tuple[int, ...]
    sizes: tuple[float, ...]
    """The last is 0: it leaves."""

    def size(self, progress: int) -> float:
        """Of a tuple that so many units of time have been spent on."""
        done = sum(progress >= end for end in accumulate(self.times))
        return 1.0 if not done else self.sizes[done - 1]

    def operator(self, progress: int) -> int:
        """The operator that it waits for, or is in."""
        return sum(progress >= end for end in accumulate(self.times))

    @property
    def whole(self) -> int:
        """Time on the whole path."""
        return sum(self.times)


@dataclass(frozen=True)
class Tuple:
    """It came at some time, to some path."""

    at: int
    path: int


def plan_of(paths: Sequence[Path], whole: bool = False) -> Plan:
    """The same as an engine would measure it."""
    plan: dict[str, PathWork] = {}
    for n, path in enumerate(paths):
        before, size = f"{n}/source", 1.0
        plan[before] = PathWork((), 0.0)
        for m, (time, left) in enumerate(zip(path.times, path.sizes, strict=True)):
            plan[f"{n}/{m}"] = PathWork((before,), time / size, left / size, longest=time if whole else 1)
            before, size = f"{n}/{m}", left
    return plan


@dataclass(frozen=True)
class Played:
    """What a strategy has done: the memory at each instant, when each tuple left, and by what it went."""

    memory: list[float]
    left: dict[int, int]
    """By the tuple's place."""
    chosen: list[str]
    backlog: list[int]
    """Units of work that waited, at each instant."""


def play(
    strategy: Strategy, paths: Sequence[Path], tuples: Sequence[Tuple], until: int, whole: bool = False
) -> Played:
    """Let the strategy choose at each unit of time; or, if runs are `whole`, whenever an operator is done."""
    strategy.learn(plan_of(paths, whole))
    progress, left = dict[int, int](), dict[int, int]()
    memory, backlog, chosen = list[float](), list[int](), list[str]()
    running: tuple[int, int, int] | None = None
    for now in range(until):
        progress |= {n: 0 for n, t in enumerate(tuples) if t.at == now}
        memory.append(sum(paths[tuples[n].path].size(p) for n, p in progress.items()))
        backlog.append(sum(paths[tuples[n].path].whole - p for n, p in progress.items()))
        queues: dict[tuple[int, int], list[int]] = {}
        for n, done in progress.items():
            path = tuples[n].path
            queues.setdefault((path, paths[path].operator(done)), []).append(n)
        if not queues:
            continue
        if running is None:
            ready = [_ready(key, sorted(waiting), paths, tuples, now) for key, waiting in queues.items()]
            picked = strategy.pick(ready, Situation())
            assert isinstance(picked, Ready)
            chosen.append(picked.label)
            path, operator = (int(part) for part in picked.label.split("/"))
            # Only the oldest tuple of a queue is ever in the middle of an operator.
            running = path, operator, min(queues[path, operator])
        path, operator, n = running
        progress[n] += 1
        if not whole or paths[path].operator(progress[n]) != operator:
            running = None
        if progress[n] == paths[path].whole:
            del progress[n]
            left[n] = now + 1
    return Played(memory, left, chosen, backlog)


def _ready(
    key: tuple[int, int], waiting: Sequence[int], paths: Sequence[Path], tuples: Sequence[Tuple], now: int
) -> Ready:
    path, operator = key
    size = 1.0 if not operator else paths[path].sizes[operator - 1]
    waits = tuple(WaitingPages(n, now - tuples[n].at, size) for n in waiting)
    return Ready(f"{path}/{operator}", oldest=waiting[0], depth=operator, waiting=len(waiting), waits=waits)


def least_memory(paths: Sequence[Path], tuples: Sequence[Tuple], until: int) -> list[float]:
    """At each instant the least memory to which any schedule could have come, known by trying all of them."""
    states: set[tuple[tuple[int, int], ...]] = {()}
    least = []
    for now in range(until):
        came = [(t.path, 0) for t in tuples if t.at == now]
        states = {tuple(sorted([*state, *came])) for state in states}
        least.append(min(sum(paths[path].size(p) for path, p in state) for state in states))
        after = set[tuple[tuple[int, int], ...]]()
        for state in states:
            moves = {place: n for n, place in enumerate(state)}
            for (path, done), n in moves.items():
                rest = [*state[:n], *state[n + 1 :]]
                if done + 1 < paths[path].whole:
                    rest.append((path, done + 1))
                after.add(tuple(sorted(rest)))
            if not state:
                after.add(())
        states = after
    return least
