"""The Spark of another process of this machine: a program in a process of its own needs no Java of its own."""

from __future__ import annotations

import os

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession


def lent(spark: SparkSession) -> dict[str, str]:
    """The environment in which a process can borrow this Spark."""
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    given = gateway.gateway_parameters
    return {
        **os.environ,
        "PYSPARK_GATEWAY_PORT": str(given.port),
        "PYSPARK_GATEWAY_SECRET": given.auth_token,
    }


def borrowed() -> SparkSession:
    """The session of the lender. What calls back from Java, as streams do, is not for borrowers."""
    gateway = launch_gateway()
    jvm = gateway.jvm
    java = jvm.SparkSession.getDefaultSession().get()
    context = jvm.JavaSparkContext(java.sparkContext())
    conf = SparkConf(_jconf=java.sparkContext().getConf())
    return SparkSession(SparkContext(gateway=gateway, jsc=context, conf=conf), java.cloneSession())
