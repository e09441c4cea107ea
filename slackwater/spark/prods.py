"""Prods as a user writes them, read against the query that they are for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import polars as pl

from slackwater.errors import QueryError
from slackwater.estimates.early import Early
from slackwater.estimates.fit_to_type import is_number
from slackwater.operators.element import Prod
from slackwater.plan.condition import matching_groups
from slackwater.plan.nodes import QueryNode, WindowNode, first_query, has_map, stream_of
from slackwater.progress.time import TimeDomain
from slackwater.windows.sideline import Sideline


def check_settings(plan: QueryNode, early: object, sideline: object) -> None:
    """Refuse settings of a start that are none, or that make no sense for the query."""
    if early is not None:
        if not isinstance(early, Early):
            raise QueryError(f"early={early!r}: write early=sw.early(…), as in early=sw.early(at=0.75)")
        check_early(plan, early)
    if sideline is not None:
        if not isinstance(sideline, Sideline):
            raise QueryError(f"sideline={sideline!r}: write sideline=sw.sideline(…), as in sw.sideline(ratio=4)")
        check_sideline(plan)


def check_early(plan: QueryNode, early: Early) -> None:
    """Refuse early answers where there can be none."""
    if not isinstance(plan, WindowNode):
        raise QueryError("early=: a window for each row is answered when the row is; give the window a slide")
    early.offset(plan.kernel.spec, stream_of(plan).domain)
    if early.accuracy is None:
        return
    if first_query(plan) is not plan:
        raise QueryError(
            f"early(accuracy={early.accuracy!r}): nothing is estimated of aggregates over aggregates; "
            "write when to prod instead, as in early(at=0.75)"
        )
    if not any(is_number(a.type) for a in plan.kernel.aggregates):
        raise QueryError(
            f"early(accuracy={early.accuracy!r}): none of {', '.join(a.name for a in plan.kernel.aggregates)} "
            "is a number; add one that is, as in n='count(*)', or write when to prod, as in early(at=0.75)"
        )


def check_sideline(plan: QueryNode) -> None:
    """Refuse a sideline where no page could wait on it."""
    if not isinstance(plan, WindowNode):
        raise QueryError("sideline=: a window for each row is never prodded; give the window a slide")
    if not has_map(plan):
        raise QueryError(
            "sideline=: pages wait behind an expensive operator; this query has no map(), leave it out"
        )


def read_prod(plan: QueryNode, until: object, where: str | None) -> Prod:
    """The prod, in ticks."""
    if not isinstance(plan, WindowNode):
        raise QueryError("prod(): a window for each row is answered when the row is; give the window a slide")
    if where is not None:
        check_condition(plan, where)
    return Prod(None if until is None else _tick(stream_of(plan).domain, until), None, where)


def check_condition(plan: WindowNode, where: str) -> None:
    """Refuse a condition on anything but the group columns."""
    keys = plan.kernel.keys
    groups = pl.DataFrame(plan.schema.empty_table()).select(keys) if keys else pl.DataFrame()
    try:
        matching_groups(groups.clear(1), where)  # some things are found out only on a row
    except QueryError as error:
        raise QueryError(
            f"prod(where={where!r}): {error}; write a plain condition on the group columns "
            f"({', '.join(keys) if keys else 'this query has none'}), as in where=\"carrier = 'AA'\""
        ) from None


def _tick(domain: TimeDomain, until: object) -> int:
    if domain is TimeDomain.TIMESTAMP:
        try:
            moment = datetime.fromisoformat(until) if isinstance(until, str) else until
        except ValueError:
            moment = None
        if not isinstance(moment, datetime):
            raise QueryError(f"prod(until={until!r}): write a datetime, or text as in until='2013-01-14 06:00'")
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
        return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    if isinstance(until, (int, Decimal)) and not isinstance(until, bool):
        return domain.span(until, "until")
    raise QueryError(f"prod(until={until!r}): write a number, like the times of the stream")
