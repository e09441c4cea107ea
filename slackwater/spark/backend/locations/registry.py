"""Every kind of reference. A new kind is a file and a line here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from slackwater.spark.backend.locations.files import Files, FilesOfBatches
from slackwater.spark.backend.locations.kafka import Offsets, OffsetsOfBatches
from slackwater.spark.backend.locations.location import Finder, RowLocation


@dataclass(frozen=True)
class LocationKind:
    """How a kind of reference comes about."""

    finder: Callable[[DataFrame], Finder]
    """Looks at a declared stream."""
    load: Callable[[dict[str, Any]], RowLocation]
    """From what `saved` gave."""


KINDS = {
    Files.kind: LocationKind(FilesOfBatches, Files.load),
    Offsets.kind: LocationKind(OffsetsOfBatches, Offsets.load),
}


class Direct:
    """Finds where the rows of a stream's batches lie, so that they are read there instead of being handed over."""

    def __init__(self, stream: DataFrame) -> None:
        self._finders = [kind.finder(stream) for kind in KINDS.values()]

    def of(self, batch: DataFrame) -> RowLocation | None:
        """The rows of a batch by reference; None if they must be taken as they are handed over."""
        return next((found for finder in self._finders if (found := finder.of(batch)) is not None), None)
