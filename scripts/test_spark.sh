#!/usr/bin/env bash
# Run the tests with another version of Spark: its own virtual environment under .venvs, then pytest.
#   scripts/test_spark.sh 4.1.4                      all tests
#   scripts/test_spark.sh 4.1.4 tests/spark -k spill  what is given goes to pytest
set -eu
cd "$(dirname "$0")/.."

version=${1:-}
if [ -z "$version" ]; then
    echo "test_spark: give a version of Spark, as in make test-spark VERSION=4.1.4" >&2
    exit 1
fi
shift

venv=.venvs/spark-$version
if [ ! -x "$venv/bin/pytest" ]; then
    echo "test_spark: making $venv (Spark is fetched, about 450 MB)"
    "${PYTHON:-python3}" -m venv --clear "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --editable '.[dev]' "pyspark==$version"
fi
# Older versions of PySpark leave sockets open until they are collected; ours are still errors under make test.
exec "$venv/bin/pytest" -W default::ResourceWarning -W default::pytest.PytestUnraisableExceptionWarning "$@"
