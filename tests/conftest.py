"""One Spark session for all tests that need one; with several workers, all of them run in one."""

from __future__ import annotations

import os

# Frames of tests are tiny: handing them between threads takes longer than the work. Set before polars is loaded.
os.environ.setdefault("POLARS_MAX_THREADS", "1")

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from pyspark.sql import SparkSession
from xdist.scheduler import LoadScopeScheduling

from slackwater.spark.embedded import embedded

# How long an example takes says more about the machine than about the code.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")

_HERE = Path(__file__).parent
#: Files with tests that need Spark.
_SPARK = {str(p.relative_to(_HERE.parent)) for p in _HERE.rglob("test_*.py") if "mark.spark" in p.read_text()}


def _needs_spark(nodeid: str) -> bool:
    return nodeid.partition("::")[0] in _SPARK


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spark's tests first: they take longest."""
    items.sort(key=lambda item: not _needs_spark(item.nodeid))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """With several workers one of them has all tests that need Spark, so that it is started once."""

    class OneSpark(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return "spark" if _needs_spark(nodeid) else nodeid

    return OneSpark(config, log)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = embedded("local[2]")
    yield session
    session.stop()
