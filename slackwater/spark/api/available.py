"""All there is now: live streams up to what they have, then replays to their end, each on its own clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from slackwater.engine.build import source_label
from slackwater.errors import RunError
from slackwater.spark.api.plays import Play
from slackwater.spark.api.run import Run
from slackwater.spark.api.running import Running
from slackwater.spark.ingest.replay import check_speed, replayer

#: Called after each replayed page.
Progress = Callable[[dict[str, Any]], None]

_INTERRUPTED = "the page under way was finished and committed. Call run_available() again to go on"


def run_available(running: Running, drain: bool, progress: Progress | None, speed: float | None) -> None:
    """Process all there is now, then raise the error of a query that has failed meanwhile."""
    if not running.runs:
        raise RunError("no query has been started; start one first, as in run = query.start()")
    runs = [run for run in running.runs.values() if run.active]
    if not runs:
        raise RunError("no query is running: all have been stopped or have failed; start one first")
    check_speed(speed, replay=any(run._play is not None for run in runs))
    running.check_complete()
    with running.interrupts.heard(_INTERRUPTED), _told(running):
        for play in [p for p in running.plays.all if p.live and any(run._play is p for run in runs)]:
            running.histories.finish(play, running.interrupts, progress)
        if running.live_streams() and not running.interrupts.wished:
            _run_live(running, drain)
        for play in [p for p in running.plays.all if not p.live and any(run._play is p for run in runs)]:
            if not running.interrupts.wished:
                _run_play(running, play, drain, progress, speed)
        _tell_errors(runs)


def _tell_errors(runs: Sequence[Run]) -> None:
    for run in runs:
        run.flush()
        if (error := run.exception()) is not None:
            raise error


def _run_live(running: Running, drain: bool) -> None:
    for name in running.read(available_now=True):
        try:
            running.readers.wait(name, running.interrupts)
        except Exception as error:
            running.readers.stop({name})
            running.stream_failed(name, error)
    loop, interrupts = running.loop, running.interrupts
    interrupts.await_end(loop.post(lambda: None))
    if drain and not interrupts.wished:
        sources = [source_label(name) for name in running.live_streams()]
        interrupts.await_end(loop.post(lambda: loop.executor.drain(sources, for_good=False)))


def _run_play(running: Running, play: Play, drain: bool, progress: Progress | None, speed: float | None) -> None:
    loop, streams = running.loop, running.replays(play)
    if not play.done:
        play.begun = play.playing = True
        try:
            player = replayer(loop, play.clock, running.pages, speed, running.interrupts)
            player.run(streams, running.controls.replays(play), progress)
        finally:
            play.playing = False
        if running.interrupts.wished:
            return
        play.done = True
    if drain:
        sources = [source_label(replay.node.name) for replay in streams]
        running.interrupts.await_end(loop.post(lambda: loop.executor.drain(sources)))


@contextmanager
def _told(running: Running) -> Iterator[None]:
    """Note that work is under way. An error of the executor's thread becomes a `RunError`, wherever it comes up."""
    running.is_working_off = True
    try:
        yield
    except Exception as error:
        cause = running.loop.error
        if cause is None:
            raise
        raise RunError(f"the session has failed: {type(cause).__name__}: {cause}") from error
    finally:
        running.is_working_off = False
