"""Steps are values: they compare, and a journal gives them back as they were."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from slackwater.plan.step import Step
from slackwater.plan.steps import JoinTable, Map, ResultsAsRows, Select, Where, step_from_json

COLUMNS = (("a", "x + 1"), ("b", "`b`"))
STEPS = [
    Where("x > 1"),
    Select(COLUMNS),
    Select(COLUMNS, (*COLUMNS, ("a_seen", "`a_seen`"))),
    ResultsAsRows(COLUMNS, COLUMNS, "b"),
    JoinTable("codes", "left", "k = c", (("c", "`code`"),), COLUMNS, "k = code", "relations/1"),
]


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.kind)
def test_a_journal_gives_a_step_back(step: Step) -> None:
    again = step_from_json(json.loads(json.dumps(step.to_json())))
    assert again == step and hash(again) == hash(step) and again.describe() == step.describe()


def test_steps_of_other_fields_or_kinds_differ() -> None:
    assert len(set(STEPS)) == len(STEPS)
    assert Where("x > 1") != Where("x > 2")


def test_a_map_equals_nothing_but_itself() -> None:
    schema = pa.schema([("d", pa.float64())])
    first, second = (Map(lambda rows: rows, (("d", "double"),), schema) for _ in range(2))
    assert first != second and first == first and len({first, second}) == 2


def test_an_early_page_gets_the_columns_of_early_results() -> None:
    step = Select((("n", "`n`"),), (("n", "`n`"), ("n_seen", "`n_seen`")))
    assert step.on(early=False) == Select((("n", "`n`"),))
    assert step.on(early=True).columns == step.early
