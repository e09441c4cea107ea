"""Histories of live streams: replays on a clock that follows their rows, after which the streams are live.

A query over such streams has a play of its own, as a replay has. At the end of the history, the clock of the play
jumps to the time of the wall clock, and the live streams are read. The jump does not count as a silence.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from slackwater.engine.build import source_label
from slackwater.events import event
from slackwater.spark.api.plays import Play
from slackwater.spark.ingest.interrupts import Interrupts
from slackwater.spark.ingest.replay import replayer

if TYPE_CHECKING:
    from slackwater.spark.api.running import Running


class Histories:
    """Plays histories: each in its own thread, or in the thread of `run_available`."""

    def __init__(self, running: Running) -> None:
        self._running = running
        self._one = threading.Lock()
        """Only one thread at a time plays a history."""
        self._begun: set[Play] = set()
        """The plays that run in the background."""

    def over(self, play: Play) -> bool:
        """Whether all pages of the history have been consumed, here or before a restart."""
        executor = self._running.loop.executor
        for replay in self._running.replays(play):
            taken = executor.consumed(source_label(replay.node.name))
            if replay.last is not None and replay.last >= 0 and (taken is None or taken < replay.last):
                return False
        return True

    def begin(self, play: Play) -> None:
        """Play a history in the background, then read its streams."""
        if not play.done and play not in self._begun:
            self._begun.add(play)
            play.begun = True
            threading.Thread(target=self._work, args=[play], name="slackwater-history", daemon=True).start()

    def _work(self, play: Play) -> None:
        running = self._running
        try:
            self.finish(play, Interrupts(lambda: False, None))
            running.read()
        except Exception as error:
            if running.loop.works:
                for replay in running.replays(play):
                    running.stream_failed(replay.node.name, error)

    def finish(
        self, play: Play, interrupts: Interrupts, progress: Callable[[dict[str, Any]], None] | None = None
    ) -> None:
        """Play a history to its end, or wait until another thread has done so."""
        running, loop = self._running, self._running.loop
        with self._one:
            if play.done:
                return
            play.begun = play.playing = True
            try:
                if not self.over(play):
                    player = replayer(loop, play.clock, running.pages, None, interrupts)
                    player.run(running.replays(play), on_page=progress)
            finally:
                play.playing = False
            if not interrupts.wished:
                self.go_live(play)

    def go_live(self, play: Play) -> None:
        """From now on, the clock of a play is the wall clock."""
        loop, now = self._running.loop, self._running.clock.now()

        def switch() -> None:
            before = play.clock.now()
            play.clock.set(now)
            play.clock.go(1.0)
            for node in loop.executor.graph:
                if node.clock is play.clock:
                    node.operator.resume(now, before)

        loop.interrupt(switch)
        play.done = True
        event("history.over", play=play.number)
