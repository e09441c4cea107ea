"""SparkPages: makes pages on Spark, finds saved ones again, and spills what does not fit into the driver."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession

from slackwater.engine.build import source_label
from slackwater.operators.page import Page, ResultsOf
from slackwater.operators.pane_store import PaneStore, ResidentPanes
from slackwater.operators.payload import Payload
from slackwater.operators.prod import Prod
from slackwater.operators.record_store import RecordStore, ResidentRecords
from slackwater.progress.arrival import Arrival
from slackwater.progress.time import TimeDomain
from slackwater.spark.pages.shape import Shape
from slackwater.spark.pages.spark_page import SparkPage
from slackwater.spark.pages.spilled_panes import SpilledPanes
from slackwater.spark.pages.spilled_records import SpilledRecords
from slackwater.spark.pages.table_page import results_page, rows_page
from slackwater.spark.pages.wide_fold import WideFold
from slackwater.spark.storage.place import Place
from slackwater.windows.kernel import PaneKernel

#: Folder of the rows of replays, in the order of their arrival.
SORTED = "sorted"
#: Folder of the pages that are safe before they are taken; see `Spool`.
SPOOL = "spool"
#: So many sets of queries over the same rows are remembered.
_MOST_WIDE = 64


class SparkPages:
    """Saved pages, found again as Spark pages."""

    def __init__(self, spark: SparkSession, root: Place) -> None:
        self.spark = spark
        self.root = root
        self._shapes: dict[str, Shape] = {}
        self._wide: dict[tuple[PaneKernel, ...], WideFold] = {}
        self.jobs = 0
        self.spark_seconds = 0.0

    def spent(self, seconds: float) -> None:
        """Count a Spark job that was run for a page or a window."""
        self.jobs += 1
        self.spark_seconds += seconds

    def new(self, kind: str) -> Place:
        """A place for one page or one set of rows."""
        return self.root.child(f"{kind}/{uuid.uuid4().hex}")

    def note(
        self,
        place: Place,
        number: int,
        arrival: Arrival,
        hidden: Mapping[str, str],
        prod: Prod | None,
        size: int | None,
    ) -> dict[str, Any]:
        """What finds a page again that lies in a place, as JSON values; `hidden` is what its files lack."""
        return {
            "number": number,
            "folder": place.path.removeprefix(self.root.path + "/"),
            "arrival": arrival.saved(),
            "hidden": dict(hidden),
            "prod": None if prod is None else prod.saved(),
            "bytes": size,
        }

    def wide(self, kernels: tuple[PaneKernel, ...]) -> WideFold:
        """What folds pages for these kernels at once."""
        if kernels not in self._wide:
            if len(self._wide) >= _MOST_WIDE:
                self._wide.clear()
            self._wide[kernels] = WideFold(kernels)
        return self._wide[kernels]

    def of_results(self, payload: Payload, node: ResultsOf, number: int, at: int, prod: Prod | None) -> Page:
        """A page of window results."""
        shape = self._shapes.setdefault(repr(node.kernel.spec), Shape())
        return results_page(payload, node, number, at, prod, self, shape)

    def of_rows(self, payload: Payload, number: int, at: int) -> Page:
        """A page of rows that only a sink will take."""
        return rows_page(payload, number, at, self)

    def load(self, saved: dict[str, Any]) -> Any:
        """The page that `SparkPage.save` spoke of."""
        return SparkPage.load(self, saved)

    def drop(self, saved: dict[str, Any]) -> None:
        """Delete its rows."""
        self.root.child(saved["folder"]).delete()

    def sweep(
        self, queues: Mapping[str, Sequence[dict[str, Any]]], staged: Sequence[str], taken: Mapping[str, int]
    ) -> None:
        """Delete what a crash has left and nobody speaks of."""
        keep = {e["page"]["folder"] for entries in queues.values() for e in entries if "page" in e} | set(staged)
        left = [f"{kind}/{name}" for kind in ("pages", "staged", SORTED) for name in self.root.child(kind).names()]
        for stream in self.root.child(SPOOL).names():
            # What the spool holds behind the last page that was taken is still to come.
            last = taken.get(source_label(stream), -1)
            numbers = self.root.child(f"{SPOOL}/{stream}").names()
            left += [f"{SPOOL}/{stream}/{number}" for number in numbers if int(number) <= last]
        for name in left:
            if name not in keep:
                self.root.child(name).delete()

    def spill_panes(self, label: str, resident: ResidentPanes, domain: TimeDomain) -> PaneStore:
        """Panes as files."""
        return SpilledPanes(label, resident, domain, self)

    def spill_records(self, label: str, resident: ResidentRecords) -> RecordStore:
        """Rows as files."""
        return SpilledRecords(label, resident, self)
