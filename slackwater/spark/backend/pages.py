"""Pages on Spark, as the stores of operators work on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from slackwater.operators.page import Page
from slackwater.operators.pages import Pages
from slackwater.operators.stores import Stores
from slackwater.spark.backend.backend import SparkBackend
from slackwater.spark.backend.work import PageJobs


class SparkPages(Pages):
    """Arrivals of pages, over Spark's back end."""

    def __init__(self, spark: SparkBackend, stores: Callable[[SparkPages], Stores] | None = None) -> None:
        self.spark = spark
        super().__init__(spark, None if stores is None else lambda pages: stores(self))

    def works(self, page: Page) -> Iterator[PageJobs]:
        """What runs on a page, mostly one; a second one is to do the same again (`Pages.attempts`).

        What each learns of the arrival is noted at its end.
        """
        for known in self.attempts(page):
            work = self.spark.work(known)
            yield work
            if work.arrival is not known.arrival:
                self.learn(page, work.arrival)
