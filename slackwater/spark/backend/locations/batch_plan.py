"""The steps between a source and the stream that a user declares, to be taken again over other rows of the source.

They are Spark's own, resolved when they were written, so they keep their meaning in every session. Only steps that
work on each row by itself are taken again, and that give the same whenever they are: nothing random, no clock, no
other table.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession

from slackwater.events import decision

_BY_ROW = {"Project", "Filter", "SubqueryAlias", "View", "Generate"}
#: What Spark calls expressions that are not the same tomorrow, and those that look at other rows.
_NOT_BY_ROW = ("CURRENT_LIKE", "PLAN_EXPRESSION")
#: Functions of the user, of which nobody knows what they look at.
_OF_THE_USER = ("PYTHON_UDF", "SCALA_UDF")
_LOGICAL = "org.apache.spark.sql.catalyst.plans.logical"


@dataclass(frozen=True)
class Steps:
    """A source as Spark knows it, and what is done to each of its rows."""

    source: Any
    """The leaf of the stream's plan."""
    above: tuple[Any, ...]
    """Nodes of that plan, the lowest first."""

    def over(self, rows: DataFrame, spark: SparkSession) -> DataFrame:
        """The same steps over rows with the columns of the source, in another session."""
        jvm: Any = spark.sparkContext._jvm
        alias = getattr(jvm, "org.apache.spark.sql.catalyst.expressions.Alias")
        none, nothing = getattr(jvm, "scala.Option").empty(), _seq(jvm, ())
        plan: Any = rows._jdf.queryExecution().analyzed()
        # Steps name a column by its number in the source, so each new one gets the number of the one it stands for.
        given, wanted = plan.output(), self.source.output()
        columns = []
        for n in range(wanted.size()):
            column = wanted.apply(n)
            columns.append(alias(given.apply(n), column.name(), column.exprId(), column.qualifier(), none, nothing))
        plan = getattr(jvm, f"{_LOGICAL}.Project")(_seq(jvm, columns), plan)
        for step in self.above:
            plan = step.withNewChildren(_seq(jvm, [plan]))
        made = getattr(jvm, "org.apache.spark.sql.classic.Dataset").ofRows(spark._jsparkSession, plan)
        return DataFrame(made, spark)


def steps_of(stream: DataFrame) -> Steps | None:
    """The steps of a declared stream; None if they cannot be taken again."""
    try:
        return _steps(stream)
    except (Py4JError, AttributeError, TypeError) as error:
        decision("stream.steps_unknown", error=error)
        return None


def same_at_any_time(rows: DataFrame) -> bool:
    """Whether the same rows come out whenever they are made, as far as their source and Spark's own words go."""
    try:
        return _is_same(rows, (*_NOT_BY_ROW, *_OF_THE_USER))
    except (Py4JError, AttributeError, TypeError) as error:
        decision("rows.not_repeatable", error=error)
        return False


def _is_same(rows: DataFrame, but: Iterable[str]) -> bool:
    """Whether nothing is random, and nothing has one of Spark's patterns."""
    jvm: Any = rows.sparkSession.sparkContext._jvm
    patterns = getattr(jvm, "org.apache.spark.sql.catalyst.trees.TreePattern")
    plan: Any = rows._jdf.queryExecution().analyzed()
    return plan.deterministic() and not any(plan.containsPattern(getattr(patterns, name)()) for name in but)


def _steps(stream: DataFrame) -> Steps | None:
    if not _is_same(stream, _NOT_BY_ROW):
        return None
    plan: Any = stream._jdf.queryExecution().analyzed()
    above: list[Any] = []
    while plan.children().size():
        if plan.children().size() > 1 or plan.getClass().getSimpleName() not in _BY_ROW:
            return None
        above.insert(0, plan)
        plan = plan.children().head()
    return Steps(plan, tuple(above))


def _seq(jvm: Any, items: Iterable[Any]) -> Any:
    """A sequence of Scala."""
    made = getattr(jvm, "java.util.ArrayList")()
    for item in items:
        made.add(item)
    return getattr(jvm, "scala.jdk.javaapi.CollectionConverters").asScala(made).toSeq()
