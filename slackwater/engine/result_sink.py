"""The sink of a query's results."""

from __future__ import annotations

from slackwater.operators.label import Label
from slackwater.operators.recent_answers import RecentAnswers
from slackwater.operators.sink import Output, Sink
from slackwater.plan.node import PlanNode, early_schema_of
from slackwater.plan.query_windows import answering_window
from slackwater.plan.result_keys import result_keys
from slackwater.progress.clock import Clock


def result_sink(query: str, plan: PlanNode, output: Output, clock: Clock) -> Sink:
    """The sink, with what it has to know of the results of the plan."""
    top = answering_window(plan)
    recent = None if top is None or not top.ends else RecentAnswers(top.kernel.keys)
    corrections = None if top is None else top.corrections
    keys = None if corrections is None else result_keys(plan)
    settles = corrections is not None and bool(corrections.filters)
    takes_early = not plan.gives_pairs or early_schema_of(plan) is not None
    return Sink(Label(query, "sink"), output, clock, recent, takes_early, keys, settles)
