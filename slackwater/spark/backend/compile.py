"""Steps become Spark's: each adds to the plan of a page's rows; nothing runs here.

A row that a filter drops still moves time. So while the arrival of a page is not known, filters only mark rows
(KEEP), and the job that does the page's work brings the statistics of all of them along (189 ms a page, against 259
for a job of its own). Whether filters mark or drop is decided here and nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from slackwater.columns import PANE, PUNCTUATION, ROW_ORDER, TIME, WINDOW
from slackwater.plan.function import checked
from slackwater.plan.step import Step
from slackwater.plan.steps import (
    Credible,
    Explode,
    InWindows,
    JoinTable,
    Map,
    Over,
    Select,
    Slice,
    Sort,
    Stamp,
    Where,
)
from slackwater.spark.storage.types import spark_schema
from slackwater.windows.results import WINDOW_END, WINDOW_START
from slackwater.windows.spec import floor_division

#: Hidden column that says whether the filters so far have let a row pass.
KEEP = "__keep"
_SIMPLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_HOW = {"semi": "left_semi", "anti": "left_anti"}
_MAPPED = "__mapped"


@lru_cache(maxsize=4096)
def column(sql: str) -> Column:
    """An expression. The same texts come with every page, so they are read once."""
    return F.expr(sql)


@lru_cache(maxsize=4096)
def named(sql: str, name: str) -> Column:
    """The column under a name."""
    return column(sql).alias(name)


@dataclass(frozen=True)
class CompiledRows:
    """The rows of a page after some steps, lazily."""

    frame: DataFrame
    marked: bool = False
    """Whether filters have only marked the rows (KEEP)."""

    def passed(self) -> DataFrame:
        """The rows that the filters have let pass."""
        return self.frame.where(KEEP).drop(KEEP) if self.marked else self.frame


@dataclass(frozen=True)
class Compiler:
    """What steps need to know of the page that they are for."""

    hidden: Sequence[str]
    """Hidden columns of every row, which all steps keep."""
    mark: bool
    """Whether filters mark rows: the arrival is not known yet."""
    table: Callable[[JoinTable], DataFrame]

    def all(self, rows: DataFrame, steps: Sequence[Step]) -> CompiledRows:
        """The rows after all steps."""
        compiled = CompiledRows(rows)
        for step in steps:
            compiled = self.step(compiled, step)
        return compiled

    def step(self, before: CompiledRows, step: Step) -> CompiledRows:
        """The rows after one more step."""
        return _STEPS[type(step)](self, before, step)

    def where(self, before: CompiledRows, step: Where) -> CompiledRows:
        """Drop rows, or mark them."""
        if not self.mark:
            return CompiledRows(before.passed().where(column(step.condition)))
        keep = f"coalesce(({step.condition}), false)"
        if before.marked:
            keep = f"CASE WHEN {KEEP} THEN {keep} ELSE false END"
        return CompiledRows(before.frame.withColumn(KEEP, column(keep)), True)

    def select(self, before: CompiledRows, step: Select) -> CompiledRows:
        """Expressions are not evaluated for rows that a filter has dropped."""
        columns = [named(_guarded(sql, before.marked), name) for name, sql in step.columns]
        hidden = [*self.hidden, *([KEEP] if before.marked else [])]
        return CompiledRows(before.frame.select(*columns, *hidden), before.marked)

    def over(self, before: CompiledRows, step: Over) -> CompiledRows:
        """Rows that a filter has dropped are compared with none."""
        return self.select(CompiledRows(before.passed()), step)

    def sort(self, before: CompiledRows, step: Sort) -> CompiledRows:
        """In the order of windows, then in that of the step."""
        rows, order = before.passed(), [_ordered(*key) for key in step.order]
        windows = [F.col(WINDOW_START), F.col(WINDOW_END)]
        if step.limit is not None:
            place = F.row_number().over(Window.partitionBy(*windows).orderBy(*order))
            rows = rows.withColumn(ROW_ORDER, place).where(F.col(ROW_ORDER) <= step.limit).drop(ROW_ORDER)
        return CompiledRows(rows.orderBy(*windows, *order))

    def stamp(self, before: CompiledRows, step: Stamp) -> CompiledRows:
        """Another time."""
        return CompiledRows(before.frame.withColumn(TIME, F.expr(stamp_sql(step.at))), before.marked)

    def credible(self, before: CompiledRows, step: Credible) -> CompiledRows:
        """No time, and no punctuation, for rows beyond the limit."""
        believed = f"{TIME} IS NULL OR {TIME} <= {_not_in_code(step.limit)}"
        hidden = {c: F.expr(f"CASE WHEN {believed} THEN {c} END") for c in (TIME, PUNCTUATION) if c in self.hidden}
        return CompiledRows(before.frame.withColumns(hidden), before.marked)

    def slice(self, before: CompiledRows, step: Slice) -> CompiledRows:
        """The rows that were dealt to it, by a hash of all that can have one."""
        rows = before.passed()
        columns = [f"`{f.name}`" for f in rows.schema.fields if "map<" not in f.dataType.simpleString()]
        dealt = f"pmod(xxhash64({', '.join([*columns, str(step.level)])}), {step.OF})"
        inside = f"{dealt} >= {_not_in_code(step.first)} AND {dealt} < {_not_in_code(step.last)}"
        return self.where(CompiledRows(rows), Where(inside))

    def join(self, before: CompiledRows, step: JoinTable) -> CompiledRows:
        """Rows without a partner go, so the arrival must be known before."""
        assert not self.mark, "the arrival of a page is measured before it is joined with a table"
        stored = self.table(step).select(*(named(sql, name) for name, sql in step.stored))
        condition = column("true" if step.condition is None else step.condition)
        pairs = before.passed().join(stored, condition, _HOW.get(step.how, step.how))
        return CompiledRows(pairs.select(*(named(sql, name) for name, sql in step.columns), *self.hidden))

    def explode(self, before: CompiledRows, step: Explode) -> CompiledRows:
        """One row to many, so the arrival must be known before."""
        assert not self.mark, "the arrival of a page is measured before its rows are exploded"
        return CompiledRows(before.passed().select("*", column(step.call).alias(*step.names)))

    def windows(self, before: CompiledRows, step: InWindows) -> CompiledRows:
        """One row to as many as there are windows, with another time."""
        assert not self.mark, "the arrival of a page is measured before its rows get the times of windows"
        spec, others = step.spec, [name for name in self.hidden if name != TIME]
        first, last = spec.windows_sql(PANE)
        start, end = spec.bounds_sql(WINDOW)
        pane = floor_division(f"({TIME} - {spec.offset}L)", spec.pane)
        rows = before.passed().select("*", named(pane, PANE))
        several = spec.panes_per_window > spec.panes_per_slide
        rows = rows.select("*", named(f"explode_outer(sequence({first}, {last}))" if several else first, WINDOW))
        visible = [f"`{name}`" for name in rows.columns if name not in (*self.hidden, PANE, WINDOW)]
        bounds = [named(step.bound.format(at), name) for at, name in ((start, WINDOW_START), (end, WINDOW_END))]
        return CompiledRows(rows.select(*visible, *bounds, named(f"{end} - 1L", TIME), *others))


_STEPS: dict[type[Step], Callable[..., CompiledRows]] = {
    Where: Compiler.where,
    Select: Compiler.select,
    Stamp: Compiler.stamp,
    Credible: Compiler.credible,
    Over: Compiler.over,
    Sort: Compiler.sort,
    JoinTable: Compiler.join,
    Explode: Compiler.explode,
    Slice: Compiler.slice,
    InWindows: Compiler.windows,
}


def _ordered(sql: str, descending: bool, nulls_last: bool) -> Column:
    key = column(sql)
    if descending:
        return key.desc_nulls_last() if nulls_last else key.desc_nulls_first()
    return key.asc_nulls_last() if nulls_last else key.asc_nulls_first()


def stamp_sql(at: int) -> str:
    """A time that is the same for all rows that have one, in Spark SQL."""
    return f"CASE WHEN {TIME} IS NOT NULL THEN {_not_in_code(at)} END"


def _not_in_code(number: int) -> str:
    """A number in Spark SQL that is no part of Spark's generated code (D2).

    A plain number would be written into the code, which Spark then compiles for each page. Of an array the code has
    only a reference, as long as the place in it is not known before the job runs.
    """
    return f"get(array({number}L), spark_partition_id() * 0)"


def _guarded(sql: str, marked: bool) -> str:
    return sql if not marked or _SIMPLE.match(sql.strip("`")) else f"CASE WHEN {KEEP} THEN {sql} END"


def mapped(rows: DataFrame, step: Map, hidden: Sequence[str]) -> DataFrame:
    """The rows as a Python function makes them, in Spark's Python workers, with what is hidden."""
    visible = [F.col(f"`{c}`") for c in rows.columns if c not in hidden]
    results = rows.select(_arrow_function(step)(F.struct(*visible)).alias(_MAPPED), *hidden)
    return results.select(*(F.col(f"{_MAPPED}.`{n}`").alias(n) for n in step.schema.names), *hidden)


@lru_cache(maxsize=64)
def _arrow_function(step: Map) -> Callable[[Column], Column]:
    """An Arrow UDF on whole rows (mapInArrow would want pandas): from a column of structs to one of structs."""
    function, batch = checked(step.function, step.schema), pa.RecordBatch.from_struct_array

    def run(rows: pa.Array) -> pa.Array:
        return function(batch(rows)).to_struct_array()

    # Spark goes by the annotations, which are text here.
    run.__annotations__ = {"rows": pa.Array, "return": pa.Array}
    udf: Callable[[Column], Column] = F.arrow_udf(run, spark_schema(step.schema))  # type: ignore[attr-defined]
    return udf
