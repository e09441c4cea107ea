"""The condition of a prod: which groups it asks for (S5 section 3.2). The back end answers it."""

from __future__ import annotations

import sqlglot
from sqlglot import exp

from slackwater.aggregates.parse import is_aggregate
from slackwater.errors import QueryError
from slackwater.plan.spark_sql import SparkSQL

#: Expressions over more than one row, and those that give other columns.
_OF_SEVERAL_ROWS = (exp.Query, exp.Window, exp.RowNumber, exp.UDTF, exp.Star, exp.Alias)


def check_condition_text(where: object) -> None:
    """Refuse a condition whose answer for one group depends on other groups: on which windows happen to be open.

    >>> check_condition_text("max(n) = 1")
    Traceback (most recent call last):
    ...
    slackwater.errors.QueryError: MAX(n) cannot be used here
    """
    try:
        parsed = sqlglot.parse(where, dialect=SparkSQL) if isinstance(where, str) else []
    except sqlglot.errors.SqlglotError:
        return  # the back end reports it
    if len(parsed) != 1 or parsed[0] is None:
        raise QueryError("that is no condition")
    for node in parsed[0].walk():
        if is_aggregate(node) or isinstance(node, _OF_SEVERAL_ROWS):
            raise QueryError(f"{node.sql('spark')} cannot be used here")
