"""Spark with its connector for Kafka, and a broker: in a run of their own, for one Java has one set of jars."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from slackwater.spark.storage.embedded import embedded
from tests.kit.kafka import Broker, Kafka, with_connector


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    made = Broker(tmp_path_factory.mktemp("kafka"))
    yield made
    made.stop()


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    with_connector()
    session = embedded("local[2]")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def kafka(spark: SparkSession, broker: Broker) -> Iterator[Kafka]:
    made = Kafka(spark, broker)
    yield made
    made.close()
