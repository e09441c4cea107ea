"""The prodder of a query, and what it and the topmost window know of each other."""

from __future__ import annotations

from slackwater.engine.settings import QuerySettings
from slackwater.estimates.early import Early
from slackwater.estimates.prod_timing import ProdTiming
from slackwater.operators.label import Label
from slackwater.operators.prodder import Prodder
from slackwater.plan.node import PlanNode
from slackwater.plan.ways import answering_window, ways_of


def prodder_of(name: str, plan: PlanNode, settings: QuerySettings) -> tuple[ProdTiming | None, Prodder | None]:
    """The prodder of a query of this name; none if its answers cannot be asked for."""
    top = answering_window(plan)
    if top is None:
        return None, None
    # It is there also without early=: a restart may add or leave that out.
    wanted = settings.early or Early()
    # The aggregate learns how accurate early answers were, the prodder prods by it.
    timing = ProdTiming(wanted.offset(top.kernel.spec, top.domain), top.kernel.spec.last_part, wanted.accuracy)
    # Of several ways to the topmost window, the one that holds a row longest.
    specs = max(ways_of(plan), key=lambda way: sum(spec.range for spec in way))
    label = Label(name, "prodder")
    return timing, Prodder(label, name, specs[::-1], top.domain, timing, wanted, at_end=not top.ends)
