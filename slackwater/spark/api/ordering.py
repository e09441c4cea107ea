"""The words of a query that put the results of each window in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import Column

from slackwater.calls import called
from slackwater.plan import logical as L
from slackwater.spark.api.column_sql import order_of

if TYPE_CHECKING:
    from slackwater.spark.api.query import Query


class ResultOrder:
    """What `Query` has for the results of windows."""

    if TYPE_CHECKING:
        _logical: L.Logical

        def _step(self, logical: L.Logical) -> Query: ...

    @called()
    def order_by(self, *columns: str | Column, ascending: bool = True) -> Query:
        """The results of each window in this order; `orderBy` and `sort` are the same.

        Args:
            columns: names, or Spark SQL expressions such as "revenue DESC", or Columns such as F.desc("revenue").
            ascending: False puts the largest first where a column does not say its direction.
        """
        return self._step(L.Sort((self._logical,), order_of("order_by", columns, not ascending)))

    orderBy = sort = order_by

    @called()
    def limit(self, n: int) -> Query:
        """The first results of each window: in the order of `order_by`, or else in that of their columns."""
        return self._step(self._logical.limited(n))

    @called()
    def top(self, n: int, by: str | Column | Sequence[str | Column]) -> Query:
        """The n results of each window with the largest values, the largest first.

        Among equal values the columns decide, so that a restart gives the same results. Early answers have the top
        of the early values. The window closes for all groups at once.
        """
        columns = (by,) if isinstance(by, (str, Column)) else tuple(by)
        return self.order_by(*columns, ascending=False).limit(n)
