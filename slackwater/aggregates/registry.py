"""All aggregate functions. To add one, write its file and name its class here."""

from __future__ import annotations

from slackwater.aggregates.aggregate import AggregateFunction
from slackwater.aggregates.avg import Avg
from slackwater.aggregates.bits import BitsOf
from slackwater.aggregates.count import CountIf, CountOf
from slackwater.aggregates.distinct import ApproxDistinct
from slackwater.aggregates.first_last import FirstOf, LastOf, MaxBy, MinBy
from slackwater.aggregates.kept import CollectList, CollectSet, ListAgg, Mode, OfSpark, Settling
from slackwater.aggregates.min_max import BoolAnd, BoolOr, MaxOf, MinOf
from slackwater.aggregates.percentile import ApproxPercentile
from slackwater.aggregates.spread import Spread
from slackwater.aggregates.sum import SumOf

#: In the order in which messages name them.
AGGREGATES: tuple[type[AggregateFunction], ...] = (
    CountOf,
    CountIf,
    SumOf,
    Avg,
    MinOf,
    MaxOf,
    Spread,
    FirstOf,
    LastOf,
    MinBy,
    MaxBy,
    BoolAnd,
    BoolOr,
    BitsOf,
    ApproxDistinct,
    ApproxPercentile,
    Settling,
    Mode,
    CollectList,
    CollectSet,
    ListAgg,
    OfSpark,
)
#: By everything that a user may call them. Programs may add their own.
BY_FUNCTION: dict[str, type[AggregateFunction]] = {
    name: kind for kind in AGGREGATES for name in (*kind.functions, *kind.aliases)
}


def known() -> str:
    """The names of all aggregates, for messages."""
    return ", ".join(name for name, kind in BY_FUNCTION.items() if name in kind.functions)
