"""The Structured Streaming queries of a session: one for each live stream that running queries read."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Set

from slackwater.engine.loop import Loop
from slackwater.spark.api.catalogue import Declaration
from slackwater.spark.backend.backend import SparkBackend
from slackwater.spark.ingest.interrupts import Interrupts
from slackwater.spark.ingest.streams import Ingest
from slackwater.spark.storage.storage_dir import StorageDir

#: A batch that is nearly done may end by itself before the session stops under it.
_GRACE_SECONDS = 1.0


class Readers:
    """Starts and stops the reading of streams."""

    def __init__(self, loop: Loop, pages: SparkBackend, place: StorageDir) -> None:
        self._loop = loop
        self._pages = pages
        self._checkpoints = place.child("checkpoints")
        self._ingests: Mapping[str, Ingest] = {}
        """Replaced, never changed: the executor's thread stops streams, the user's starts them."""
        self._changing = threading.Lock()
        self._stopping: tuple[threading.Thread, ...] = ()
        """Replaced, never changed, too."""

    def read(self, declared: Declaration, columns: set[str], spooling: bool, available_now: bool) -> None:
        """Read a stream with these columns, from its checkpoint on."""
        name = declared.node.name
        with self._changing:
            ingest = self._ingests.get(name)
            if ingest is None:
                checkpoint, loop, trigger = self._checkpoints.child(name), self._loop, declared.trigger
                frame, first = declared.frame, declared.first_page
                ingest = Ingest(declared.node, frame, loop, self._pages, checkpoint, trigger, first)
                self._ingests = {**self._ingests, name: ingest}
        self.join()  # two readers of one checkpoint are refused by Spark
        ingest.spooling |= spooling
        if not ingest.active or available_now or not columns <= ingest.columns:
            ingest.start(columns, available_now)

    def reads(self, stream: str) -> bool:
        """Whether a stream is being read."""
        ingest = self._ingests.get(stream)
        return ingest is not None and ingest.active

    def has_read(self, stream: str) -> bool:
        """Whether a stream is being read, or was."""
        return stream in self._ingests

    def stop_without(self, stream: str, columns: Set[str]) -> bool:
        """Stop a stream that is read without some of these columns; whether that was so."""
        ingest = self._ingests.get(stream)
        if ingest is None or not ingest.active or columns <= ingest.columns:
            return False
        ingest.stop()
        return True

    def wait(self, stream: str, interrupts: Interrupts) -> None:
        """Wait until what there is of a stream has been read, or the user wants no more; its error is raised."""
        ingest = self._ingests.get(stream)
        if ingest is not None and not ingest.wait(lambda: interrupts.wished):
            self.stop({stream})

    def failed(self) -> dict[str, Exception]:
        """Streams whose reading has ended with an error."""
        errors = {name: ingest.error() for name, ingest in self._ingests.items()}
        return {name: error for name, error in errors.items() if error is not None}

    def stop(self, streams: Set[str]) -> None:
        """Stop reading some streams after the batch under way; from inside a sink's function, without waiting."""
        gone = self._take_out(streams)
        if self._loop.inside:
            self._apart([ingest.stop for ingest in gone])
        else:
            for ingest in gone:
                ingest.stop()

    def _take_out(self, streams: Set[str]) -> list[Ingest]:
        with self._changing:
            gone = [ingest for name, ingest in self._ingests.items() if name in streams]
            self._ingests = {name: ingest for name, ingest in self._ingests.items() if name not in streams}
        return gone

    def stop_all_but(self, wanted: Set[str]) -> None:
        """Stop reading the streams that nobody wants any more."""
        self.stop(self._ingests.keys() - wanted)

    def stop_all(self) -> None:
        """Stop all; a batch that takes long is cut short by the end of the loop, and comes again."""
        self._apart([ingest.stop for ingest in self._take_out(self._ingests.keys())])
        self.join(_GRACE_SECONDS)

    def join(self, seconds: float | None = None) -> None:
        """Wait for what is being stopped."""
        until = None if seconds is None else time.monotonic() + seconds
        for thread in self._stopping:
            thread.join(None if until is None else max(0.0, until - time.monotonic()))

    def _apart(self, stops: list[Callable[[], None]]) -> None:
        threads = [threading.Thread(target=stop, name="slackwater-stop", daemon=True) for stop in stops]
        for thread in threads:
            thread.start()
        with self._changing:
            self._stopping = (*(thread for thread in self._stopping if thread.is_alive()), *threads)
