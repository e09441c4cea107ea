"""The examples of docs/sql.md and of examples/: each is read, and those of the page run in one session."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import slackwater as sw
from slackwater.progress.policies import POLICIES
from slackwater.sql import statements as S
from slackwater.sql.parse import parse
from slackwater.sql.scope import Scope

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "sql.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```sql\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
EXAMPLES = sorted((ROOT / "examples").glob("*.sql"))


def test_the_page_can_be_read_as_one_script() -> None:
    statements = parse("\n".join(BLOCKS), Scope()).statements
    kinds = {type(statement) for statement in statements}
    assert {
        S.SelectStatement,
        S.Insert,
        S.CreateStream,
        S.CreateTable,
        S.CreateView,
        S.Explain,
        S.Show,
        S.ProdStatement,
        S.Stop,
    } <= kinds


def test_the_page_names_every_policy_and_its_words() -> None:
    for policy in POLICIES:
        assert f"| `{policy.make.__name__}` | `DISORDER {' '.join(policy.words)}" in PAGE
    shown = re.findall(r"`(DISORDER [A-Z][^`]*)`", PAGE)
    for words in [w for w in shown if "…" not in w]:
        parse(f"CREATE STREAM x FROM 'rate' TIME timestamp SOURCE s {words}", Scope())


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.name)
def test_an_example_can_be_read(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert f"slackwater run examples/{file.name}" in text
    statements = parse(text, Scope()).statements
    assert any(isinstance(s, (S.SelectStatement, S.Insert)) for s in statements)
    (stream,) = [s for s in statements if isinstance(s, S.CreateStream)]
    assert (file.parent / dict(stream.options)["path"]).exists()


@pytest.mark.spark
def test_all_examples_of_the_page_run_in_one_session(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "slackwater" / "data").mkdir(parents=True)
    (tmp_path / "incoming").mkdir()
    # All rows that the page's stream and its table take; the rest of the year would be read in vain for each query.
    asked = (pl.col("departed") < datetime(2013, 1, 2, tzinfo=UTC)) | (pl.col("delay_min") > 600)
    flights = pl.read_parquet(ROOT / "slackwater" / "data" / "flights.parquet").filter(asked)
    flights.write_parquet(tmp_path / "slackwater" / "data" / "flights.parquet")
    with sw.Session(spark) as session:
        interpreter = session._interpreter
        interpreter.folder = tmp_path
        runs, told = {}, list[str | pa.Table]()
        for statement in interpreter.parse("\n".join(BLOCKS)):
            answer = interpreter.execute(statement)
            if isinstance(statement, S.SelectStatement):
                runs[answer.to_sql()] = answer.start()
            elif isinstance(answer, (str, pa.Table)):
                told.append(answer)
        assert [query for query, run in runs.items() if not run.results().num_rows] == []
        assert len(runs) == 37 and len(told) == 7
        assert list((tmp_path / "out" / "delays").glob("*.parquet"))
