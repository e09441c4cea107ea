"""How Spark pages begin: rows that a source hands over, files that it names, rows that were saved."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame

from slackwater.columns import NO_SOURCE, PUNCTUATION, SOURCE, TIME, UNTIL
from slackwater.operators.payload import Staged
from slackwater.operators.prod import Prod
from slackwater.plan.nodes import StreamNode
from slackwater.progress.arrival import Arrival
from slackwater.spark.pages.expressions import column, named
from slackwater.spark.pages.files import Files
from slackwater.spark.pages.one_task import can_scan_in_one
from slackwater.spark.pages.origin import Origin
from slackwater.spark.pages.shape import Shape
from slackwater.spark.pages.spark_page import SparkPage

if TYPE_CHECKING:
    from slackwater.spark.pages.pages import SparkPages


def arrived(
    frame: DataFrame,
    node: StreamNode,
    number: int,
    at: int,
    shape: Shape,
    pages: SparkPages,
    columns: Sequence[str] = ("*",),
    size: int | None = None,
) -> SparkPage:
    """A page as it comes from a source, with some of its columns."""
    hidden = _hidden(node)
    timed = _timed(frame, columns, hidden)
    return SparkPage(None, Origin(timed, number, at, shape, pages, tuple(hidden), size=size))


def by_reference(
    files: Files, node: StreamNode, number: int, at: int, folder: str, pages: SparkPages, columns: Sequence[str]
) -> SparkPage:
    """A page of files; `folder` is where a note of it will lie, which makes it durable."""
    return load(
        pages,
        {
            "number": number,
            "folder": folder,
            "stream": node.name,
            "files": files.saved(),
            "columns": list(columns),
            "hidden": _hidden(node),
            "needs": [],
            "at": at,
            "bytes": files.bytes,
        },
    )


def known(
    frame: DataFrame,
    number: int,
    hidden: Mapping[str, str],
    arrival: Arrival,
    shape: Shape,
    pages: SparkPages,
    prod: Prod | None = None,
    saved: dict[str, Any] | None = None,
) -> SparkPage:
    """A page of which all is known that a job could tell."""
    made = {name: named(sql, name) for name, sql in hidden.items()}
    timed = frame.select(*(f"`{c}`" for c in frame.columns if c not in made), *made.values()) if made else frame
    names = tuple(c for c in (TIME, UNTIL, SOURCE, PUNCTUATION) if c in timed.columns)
    origin = Origin(timed, number, arrival.at, shape, pages, names, arrival=arrival, prod=prod, saved=saved)
    return SparkPage(None, origin)


def staged(
    payload: Staged, number: int, at: int, hidden: Mapping[str, str], prod: Prod | None, pages: SparkPages
) -> SparkPage:
    """A page over files that were written for it; they are safe from the beginning."""
    place = pages.root.child(payload.location)
    saved = pages.note(place, number, Arrival(payload.rows, 0, None, None, at), hidden, prod, None)
    return load(pages, {**saved, "staged": payload.rows})


def load(pages: SparkPages, saved: dict[str, Any]) -> SparkPage:
    """A page from what `save` gave, or from the files that a note of it names."""
    if "files" in saved:
        return _of_files(pages, saved)
    frame = pages.spark.read.parquet(pages.root.child(saved["folder"]).address)
    prod = None if saved["prod"] is None else Prod.load(saved["prod"])
    arrival = Arrival.load(saved["arrival"])
    return known(frame, saved["number"], saved["hidden"], arrival, Shape(), pages, prod, saved)


def _of_files(pages: SparkPages, saved: dict[str, Any]) -> SparkPage:
    files, hidden = Files.load(saved["files"]), saved["hidden"]
    reader = pages.reader(saved["stream"])

    def rows(some: Files = files) -> DataFrame:
        return _timed(some.read(reader, pages.spark), saved["columns"], hidden)

    def parts(count: int) -> list[Callable[[], DataFrame]]:
        return [partial(rows, part) for part in files.cut(count)]

    shape = pages.shape(saved["stream"])
    origin = Origin(rows, saved["number"], saved["at"], shape, pages, tuple(hidden), saved=saved)
    origin.scanned, origin.files, origin.parts = can_scan_in_one(reader), len(files.paths), parts
    origin.needs = frozenset(saved["needs"])
    page = SparkPage(None, origin)
    return page.stamped(saved["stamp"]) if "stamp" in saved else page


def can_join(page: SparkPage, other: SparkPage) -> bool:
    """Whether two pages are files that are read in the same way, and not stamped at two instants."""
    first, second = page.saved, other.saved
    if first is None or second is None or "files" not in first or "files" not in second:
        return False
    alike = all(first.get(k) == second.get(k) for k in ("stream", "columns", "hidden", "stamp"))
    return alike and Files.load(first["files"]).alike(Files.load(second["files"]))


def joined(pages: Sequence[SparkPage]) -> SparkPage:
    """Pages of files that follow each other, as one page that stands where the last of them stood."""
    notes = [saved for page in pages if (saved := page.saved) is not None]
    first, *rest = (Files.load(saved["files"]) for saved in notes)
    whole, needs = first.together(rest), sorted(set().union(*(saved["needs"] for saved in notes)))
    note = {**notes[-1], "files": whole.saved(), "bytes": whole.bytes, "needs": needs}
    return load(pages[0].origin.pages, note)


def _hidden(node: StreamNode) -> dict[str, str]:
    """Spark SQL of the hidden columns of a stream's rows."""
    hidden = {TIME: node.time}
    if node.source is not None:
        hidden[SOURCE] = f"coalesce(CAST({node.source} AS STRING), '{NO_SOURCE}')"
    if node.punctuation is not None:
        hidden[PUNCTUATION] = node.punctuation
    return hidden


def _timed(frame: DataFrame, columns: Sequence[str], hidden: Mapping[str, str]) -> DataFrame:
    # One step: Spark analyses each for itself.
    return frame.select(*map(column, columns), *(named(sql, name) for name, sql in hidden.items()))
