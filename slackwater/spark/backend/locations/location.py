"""What all kinds of references have in common.

A page by reference is durable as soon as a small note of it is: nothing is copied. A kind of source says how the
rows of a batch are found (`Finder`), what the note holds (`RowLocation`), and how they are read again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, Self

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from slackwater.errors import RowsGoneError


class RowLocation(Protocol):
    """Some rows of one source, which stay where they are."""

    @property
    def kind(self) -> str:
        """Its name in the registry, and in notes."""

    @property
    def bytes(self) -> int | None:
        """Bytes of the rows at their source, if known."""

    @property
    def pieces(self) -> int:
        """In how many parts they can be read, each worth a job of its own."""

    @property
    def scanned(self) -> bool:
        """Whether they are files, which Spark can scan in one task on request."""

    def alike(self, other: Self) -> bool:
        """Whether others can be read together with them."""

    def together(self, others: Sequence[Self]) -> Self:
        """These, then others that are alike."""

    def cut(self, parts: int) -> Sequence[Self]:
        """The same rows in at most `parts` parts, about equal ones."""

    def read(self, stream: Callable[[], DataFrame], reader: SparkSession, spark: SparkSession) -> DataFrame:
        """The rows in a session of ours, read by the settings of the user's; `stream` gives what was declared."""

    def fault(self, error: Exception) -> str | None:
        """What to say of an error that came up while they were read; None if it has nothing to do with them."""

    def saved(self) -> dict[str, Any]:
        """As JSON values."""


class Finder(Protocol):
    """Finds where the rows of a stream's batches lie."""

    def of(self, batch: DataFrame) -> RowLocation | None:
        """The rows of a batch; None if it is not known to be just these."""


@contextmanager
def source_errors_explained(reference: RowLocation | None) -> Iterator[None]:
    """Inside, rows are read by reference: errors about them are explained in our words."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        said = None if reference is None else reference.fault(error)
        if said is None:
            raise
        raise RowsGoneError(said) from error
