"""A cluster on the loopback, and a driver of it: in a run of their own, for one process has one Spark."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.kit.cluster import Cluster, can_isolate
from tests.kit.cluster_job import cluster_session, write_files


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    assert can_isolate(), "these tests make mount namespaces: run them as root, on Linux"
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        write_files(made.shared)
        # The driver's own temporary folder is one that no worker sees.
        os.environ["TMPDIR"] = tempfile.tempdir = str(made.private)
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="session")
def spark(cluster: Cluster) -> Iterator[SparkSession]:
    session = cluster_session(cluster.master)
    yield session
    session.stop()
