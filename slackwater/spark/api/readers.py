"""The Structured Streaming queries of a session: one for each live stream that running queries read."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Set

from slackwater.engine.loop import Loop
from slackwater.spark.api.catalogue import Declared
from slackwater.spark.api.interrupts import Interrupts
from slackwater.spark.ingest.streams import Ingest
from slackwater.spark.pages.pages import SparkPages
from slackwater.spark.storage.place import Place

#: A batch that is nearly done may end by itself before the session stops under it.
_GRACE_SECONDS = 1.0


class Readers:
    """Starts and stops the reading of streams."""

    def __init__(self, loop: Loop, pages: SparkPages, place: Place) -> None:
        self._loop = loop
        self._pages = pages
        self._checkpoints = place.child("checkpoints")
        self._ingests: dict[str, Ingest] = {}
        self._stopping: list[threading.Thread] = []

    def read(self, declared: Declared, columns: set[str], spooling: bool, available_now: bool) -> None:
        """Have a stream read with these columns, from where its checkpoint stands."""
        name = declared.node.name
        if name not in self._ingests:
            checkpoint = self._checkpoints.child(name)
            self._ingests[name] = Ingest(
                declared.node, declared.frame, self._loop, self._pages, checkpoint, declared.trigger
            )
        self.join()  # two readers of one checkpoint are refused by Spark
        ingest = self._ingests[name]
        ingest.spooling |= spooling
        if not ingest.active or available_now or not columns <= ingest.columns:
            ingest.start(columns, available_now)

    def reads(self, stream: str) -> bool:
        """Whether a stream is being read."""
        return stream in self._ingests and self._ingests[stream].active

    def has_read(self, stream: str) -> bool:
        """Whether a stream is being read, or was."""
        return stream in self._ingests

    def stop_without(self, stream: str, columns: Set[str]) -> bool:
        """Stop a stream that is read without some of these columns; whether that was so."""
        if not self.reads(stream) or columns <= self._ingests[stream].columns:
            return False
        self._ingests[stream].stop()
        return True

    def wait(self, stream: str, interrupts: Interrupts) -> None:
        """Wait until what there is of a stream has been read, or the user wants no more; its error is raised."""
        if stream in self._ingests and not self._ingests[stream].wait(lambda: interrupts.wished):
            self.stop({stream})

    def failed(self) -> dict[str, Exception]:
        """Streams whose reading has ended with an error."""
        errors = {name: ingest.error() for name, ingest in list(self._ingests.items())}
        return {name: error for name, error in errors.items() if error is not None}

    def stop(self, streams: Set[str]) -> None:
        """Stop reading some streams after the batch under way; from inside a sink's function, without waiting."""
        gone = [self._ingests.pop(name) for name in list(self._ingests) if name in streams]
        if self._loop.inside:
            self._apart([ingest.stop for ingest in gone])
        else:
            for ingest in gone:
                ingest.stop()

    def stop_all_but(self, wanted: Set[str]) -> None:
        """Stop reading the streams that nobody wants any more."""
        self.stop(self._ingests.keys() - wanted)

    def stop_all(self) -> None:
        """Stop all; a batch that takes long is cut short by the end of the loop, and comes again."""
        gone, self._ingests = list(self._ingests.values()), {}
        self._apart([ingest.stop for ingest in gone])
        self.join(_GRACE_SECONDS)

    def join(self, seconds: float | None = None) -> None:
        """Wait for what is being stopped."""
        until = None if seconds is None else time.monotonic() + seconds
        for thread in list(self._stopping):
            thread.join(None if until is None else max(0.0, until - time.monotonic()))

    def _apart(self, stops: list[Callable[[], None]]) -> None:
        for stop in stops:
            thread = threading.Thread(target=stop, name="slackwater-stop", daemon=True)
            thread.start()
            self._stopping.append(thread)
