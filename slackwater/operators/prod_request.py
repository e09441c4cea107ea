"""Prods as a user writes them, read against the query that they are for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import polars as pl

from slackwater.aggregates.types import is_number
from slackwater.errors import QueryError
from slackwater.estimates.early import Early
from slackwater.operators.backend import Backend
from slackwater.operators.prod import Prod
from slackwater.operators.prod_stream import ProdRow, distinct_specs
from slackwater.plan.condition import check_condition_text
from slackwater.plan.node import PlanNode, aggregates_of, answering, expensive_nodes, first_aggregates, walk
from slackwater.plan.nodes import AggregateNode, WindowNode
from slackwater.plan.query_windows import answering_window
from slackwater.plan.request import ProdRequest
from slackwater.progress.time import TimeDomain
from slackwater.windows.results import KIND
from slackwater.windows.sideline import Sideline


def check_settings(
    plan: PlanNode, early: object, sideline: object, late: object = None, ordered: bool = False
) -> None:
    """Refuse settings of a start that are none, or that make no sense for the query."""
    if any(not answer.ends for answer in plan.answers()) and (not isinstance(early, Early) or early.every is None):
        raise QueryError(
            "totals without a window answer only when they are asked; write how often, as in "
            "start(early=sw.early(every='10 seconds')) or EMIT EVERY 10 SECONDS, or give the query a window"
        )
    if late is not None:
        check_late(plan)
    if early is not None:
        if not isinstance(early, Early):
            raise QueryError(f"early={early!r}: write early=sw.early(…), as in early=sw.early(at=0.75)")
        check_early(plan, early)
    if sideline is not None:
        if not isinstance(sideline, Sideline):
            raise QueryError(f"sideline={sideline!r}: write sideline=sw.sideline(…), as in sw.sideline(ratio=4)")
        check_sideline(plan)
    top = answering_window(plan)
    if top is not None and top.corrections is not None and (ordered or sideline is not None):
        word, why = "sideline=", "windows that it lets end first are answered in another order"
        if ordered:
            word, why = "ordered=True", "a corrected row comes after rows of later windows"
        raise QueryError(f"corrections= with {word}: {why}; leave one of them out")


def check_late(plan: PlanNode) -> None:
    """Refuse a sink for late rows where there are none, or where they have several shapes."""
    joins = [node for node in walk(plan) if node.pairs_rows]
    distinct = [node for node in walk(plan) if node.drops_duplicates]
    firsts = [first.inputs[0] for _, first in first_aggregates(plan) if first is not None]
    if distinct and (joins or len({node.schema for node in (*distinct, *firsts)}) > 1):
        raise QueryError(
            "late=: rows that are late for drop_duplicates and those late behind it have other columns; put "
            "select(…) before drop_duplicates, and joins into a query of their own, or leave late= out"
        )
    if joins and (len(joins) > 1 or joins[0].by_count or aggregates_of(plan)):
        raise QueryError(
            "late=: of joins, only one of two streams with windows of time gives its late rows, without windows "
            "before or behind it; others count them, in metrics()['joins']; leave it out"
        )
    orders = [node for node in walk(plan) if node.orders_rows]
    if len(orders) + len(joins) > 1 or (orders and distinct):
        raise QueryError(
            "late=: an ordered union beside another one, a join or drop_duplicates counts its late rows; leave "
            "it out"
        )
    if joins or orders or (distinct and not firsts):
        return
    if not any(answer.ends for answer in plan.answers()):
        raise QueryError("late=: no row is too late for a query without windows; leave it out")
    if len({id(first) for _, first in first_aggregates(plan)}) > 1:
        raise QueryError(
            "late=: this query has several windows over streams, each with late rows of its own; start them as "
            "queries of their own with late=, or put the union before the window"
        )


def check_early(plan: PlanNode, early: Early) -> None:
    """Refuse early answers where there can be none."""
    by_end = [word for word in ("accuracy", "measure", "season", "at") if getattr(early, word) is not None]
    for top in prodded_windows(plan, "early="):
        window = top.as_window()
        if by_end and (window is None or not top.ends_known or plan.gives_pairs):
            reason = (
                "results of several windows meet in a join"
                if plan.gives_pairs
                else "a window for each row ends with its row"
                if window is None
                else window.unknown_end
            )
            raise QueryError(
                f"early({by_end[0]}=…): {reason}; write when to ask instead, as in early(every='10 seconds')"
            )
        if by_end and window is not None:
            _check_window(window, early)


def _check_window(top: WindowNode, early: Early) -> None:
    early.offset(top.kernel.spec, top.domain)
    if early.season is not None and top.domain is not TimeDomain.TIMESTAMP:
        raise QueryError(
            "early(season=…): windows that do not go by timestamps have no season; leave it out, or declare the "
            "stream with time= a timestamp"
        )
    _check_season(top, early)
    over = "windows that grow or have gaps between them"
    if early.measure is not None and not top.kernel.spec.alike:
        raise QueryError(
            f"early(measure=…): early answers of aggregates over {over} are not compared with their final ones; "
            "leave measure= out"
        )
    if early.accuracy is None:
        return
    if not top.kernel.spec.alike:
        raise QueryError(
            f"early(accuracy={early.accuracy!r}): nothing is estimated of aggregates over {over}; "
            "write when to prod instead, as in early(at=0.75)"
        )
    if early.measure is None and not any(is_number(a.type) for a in top.kernel.aggregates):
        raise QueryError(
            f"early(accuracy={early.accuracy!r}): none of {', '.join(a.name for a in top.kernel.aggregates)} "
            "is a number; add one that is, as in n='count(*)', give a measure=, or write when to prod, as in "
            "early(at=0.75)"
        )


def _check_season(top: WindowNode, early: Early) -> None:
    """Refuse a season that is over before windows have shown it."""
    slide, show = top.kernel.spec.slide, TimeDomain.TIMESTAMP.show_span
    if early.season is not None and early.season < 2 * slide:
        raise QueryError(
            f"early(season={show(early.season)!r}) is shorter than two slides of {show(slide)!r}, so windows do "
            f"not show it; write a season of {show(2 * slide)!r} or more, or leave it out"
        )


def check_sideline(plan: PlanNode) -> None:
    """Refuse a sideline where no page could wait on it."""
    if len(plan.answers()) > 1:
        raise QueryError(
            "sideline=: this query gives the results of several windows; start each as a query of its own, or put "
            "the union before the window"
        )
    if answering(plan) is None:
        raise QueryError(
            "sideline=: a query without windows is never prodded, so nothing is set aside; leave it out, or give "
            "it a window"
        )
    if answering_window(plan) is None:
        raise QueryError("sideline=: a window for each row is never prodded; give the window a slide")
    if not all(node.ends_known for node in aggregates_of(plan)):
        why = next(node.unknown_end for node in aggregates_of(plan) if not node.ends_known)
        raise QueryError(f"sideline=: {why}, so no page can wait for it; leave it out")
    if any(window.fill is not None for node in aggregates_of(plan) if (window := node.as_window()) is not None):
        raise QueryError(
            "sideline=: windows without rows are filled in the order of time, and a sideline lets later ones end "
            "first; leave fill= or sideline= out"
        )
    if not expensive_nodes(plan):
        raise QueryError(
            "sideline=: pages wait before an expensive operator; this query has no map(), no join with a table and "
            "no where(), leave it out"
        )


def read_prod(plan: PlanNode, asked: ProdRequest, backend: Backend) -> Prod:
    """The prod, in ticks; `backend` tries its condition."""
    tops = prodded_windows(plan, "prod()")
    domain = tops[0].domain
    if asked.at is not None and asked.until is not None:
        raise QueryError(
            f"prod(until={asked.until!r}, at={asked.at!r}): until= is for windows that end by a time, at= for "
            "windows that contain one; write one of them"
        )
    until = None if asked.until is None else _tick(domain, asked.until, "until")
    if not all(top.ends for top in tops) and (asked.until is not None or asked.at is not None):
        raise QueryError("prod(until=…, at=…): totals without a window have no time; leave until= and at= out")
    row = ProdRow(until, None if asked.at is None else _tick(domain, asked.at, "at"), asked.where)
    check_asked(plan, row, backend, "prod()")
    return row.of(plan)


def prodded_windows(plan: PlanNode, what: str) -> list[AggregateNode]:
    """The windows that early answers are about."""
    tops = plan.prodded()
    if not tops:
        raise QueryError(f"{what}: rows of a query without windows are never early; give it a window")
    if plan.gives_pairs and KIND in (name.lower() for name in plan.schema.names):
        raise QueryError(
            f"{what}: early rows of a join have a column {KIND!r} of their own; give your column {KIND!r} another "
            "name"
        )
    return tops


def check_asked(plan: PlanNode, asked: ProdRow, backend: Backend, what: str) -> None:
    """Refuse a prod that the query cannot answer."""
    tops = prodded_windows(plan, what)
    if plan.gives_pairs and (asked.where is not None or asked.at is not None):
        raise QueryError(
            f"{what}: a query that ends with a join of results answers for all open windows, or for those that "
            "end by a time; leave where= and at= out, or write until="
        )
    if asked.where is not None:
        if plan.compares_rows:
            raise QueryError(
                f"prod(where={asked.where!r}): this query compares the groups of a window with one another, so it "
                "needs all of them; leave where= out"
            )
        for top in tops:
            check_condition(top, asked.where, backend)
    if asked.at is not None:
        if not all(top.ends_known for top in tops):
            raise QueryError(f"{what}: sessions have no fixed bounds; leave at= out, or write until=")
        if len(distinct_specs(tops)) != 1:
            raise QueryError(f"{what}: at= is for windows that all have the same range and slide; write until=")


def check_condition(plan: AggregateNode, where: str, backend: Backend) -> None:
    """Refuse a condition on anything but the group columns."""
    keys = plan.kernel.keys
    groups = pl.DataFrame(plan.schema.empty_table()).select(keys) if keys else pl.DataFrame()
    try:
        check_condition_text(where)
        backend.matching(groups.clear(1), where)  # some mistakes show only on a row
    except QueryError as error:
        raise QueryError(
            f"prod(where={where!r}): {error}; write a plain condition on the group columns "
            f"({', '.join(keys) if keys else 'this query has none'}), as in where=\"carrier = 'AA'\""
        ) from None


def _tick(domain: TimeDomain, written: object, name: str) -> int:
    if domain is TimeDomain.TIMESTAMP:
        try:
            moment = datetime.fromisoformat(written) if isinstance(written, str) else written
        except ValueError:
            moment = None
        if not isinstance(moment, datetime):
            raise QueryError(f"prod({name}={written!r}): write a datetime, or text as in {name}='2013-01-14 06:00'")
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
        return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    if isinstance(written, (int, Decimal)) and not isinstance(written, bool):
        return domain.span(written, name)
    raise QueryError(f"prod({name}={written!r}): write a number, like the times of the stream")
