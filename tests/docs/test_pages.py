"""The programs of the site's first pages run from top to bottom, and print what the pages say.

SLACKWATER_PAGES=1 writes what they print into the pages.
"""

from __future__ import annotations

import os

import pytest
from pyspark.sql import SparkSession

from tests.kit import doc_pages as pages

PAGES = [
    "../README.md",
    "index.md",
    "coming-from.md",
    "tutorial.md",
    "top-n.md",
    "as-of.md",
    "changing-tables.md",
    "session-windows.md",
    "sinks.md",
    "drop-duplicates.md",
    "distinct-users.md",
    "fill-gaps.md",
    "late-corrections.md",
    "latest-row.md",
    "running-totals.md",
]


@pytest.mark.spark
@pytest.mark.parametrize("page", PAGES)
def test_a_page_prints_what_it_says(page: str, spark: SparkSession) -> None:
    kept = {key: spark.conf.get(key) for key in ("spark.sql.session.timeZone", "spark.sql.shuffle.partitions")}
    try:
        ran = list(pages.run(page))
    finally:
        for key, value in kept.items():
            spark.conf.set(key, value)
    if os.environ.get("SLACKWATER_PAGES"):
        pages.rewrite(page, ran)
        return
    assert [block.shown for block in ran if block.shown is not None]
    for block in ran:
        assert block.shown is None or block.printed == block.shown, block.code
