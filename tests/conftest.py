"""One Spark session for all tests that need one."""

from __future__ import annotations

import os

# Frames of tests are tiny: handing them between threads takes longer than the work. Set before polars is loaded.
os.environ.setdefault("POLARS_MAX_THREADS", "1")

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from slackwater.spark.embedded import embedded


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = embedded("local[2]")
    yield session
    session.stop()
