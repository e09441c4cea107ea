"""Twenty thousand random texts: each gives a plan that says what was written, or an error with its place.

Good texts from a grammar catch what is refused by mistake, and what does not survive being written back. Damaged
ones catch tracebacks from inside, hangs, and texts that are accepted though a part of them is not in the plan.
Noise catches what stumbles before the first word.
"""

from __future__ import annotations

import re
import time
from collections import Counter

import pytest

from slackwater.errors import SqlError
from slackwater.plan.analyse import Analysis
from slackwater.plan.node import describe
from slackwater.sql import statements as S
from slackwater.sql.parse import parse
from slackwater.sql.source import SqlText
from slackwater.sql.write import to_sql
from tests.kit.sql import SCOPE, TYPES, select
from tests.kit.sql_grammar import Grammar

SEEDS = [*range(5), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(5, 20))]
GOOD, DAMAGED, NOISE = 40, 860, 100
#: No text is worked on longer than this, in seconds; most take a millisecond.
LONGEST = 2.0


def plans(text: str, analysis: Analysis) -> list[str]:
    """The plans of all queries in a text; an error that is not at a place fails the test."""
    found = []
    for statement in parse(text, SCOPE).statements:
        queries = [statement] if isinstance(statement, S.SelectStatement) else []
        queries += [statement.select] if isinstance(statement, (S.Insert, S.CreateView)) else []
        for query in queries:
            query.locations.check(query.query, analysis)
            found.append(describe(analysis.of(query.query).node))
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_a_good_text_has_a_plan_and_survives_being_written_back(seed: int) -> None:
    grammar, analysis = Grammar(seed), Analysis(TYPES)
    for _ in range(GOOD):
        text = grammar.query()
        query = select(text)
        (plan,) = plans(text, analysis)
        written = to_sql(query.query, SCOPE, query.early, query.sideline)
        again = select(written)
        assert (again.query, again.early) == (query.query, query.early), (text, written)
        assert plans(written, analysis) == [plan]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_damaged_text_ends_in_a_plan_or_an_error_with_a_place(seed: int) -> None:
    grammar, analysis = Grammar(seed), Analysis(TYPES)
    ends = Counter[str]()
    for text in [grammar.damaged() for _ in range(DAMAGED)] + [grammar.noise() for _ in range(NOISE)]:
        began = time.perf_counter()
        try:
            plans(text, analysis)
            assert_all_is_said(text)
            ends["plan"] += 1
        except SqlError as error:
            assert 1 <= error.line <= text.count("\n") + 1, text
            shown = text.split("\n")[error.line - 1]
            assert 1 <= error.column <= len(shown) + 1, (text, str(error))
            ends["error"] += 1
        assert time.perf_counter() - began < LONGEST, text
    assert ends["error"] > 0.5 * DAMAGED


def assert_all_is_said(text: str) -> None:
    """Every word of an accepted query is in its nodes: nothing was passed over."""
    for statement in parse(text, SCOPE).statements:
        if (
            isinstance(statement, S.SelectStatement) and ";" not in text and "EXISTS" not in text
        ):  # what it lists is nothing
            written = to_sql(statement.query, SCOPE, statement.early, statement.sideline)
            joined = {"*", "in", "not"} if re.search(r"JOIN|\. \*|IN \( SELECT", text) else set[str]()
            if "( SELECT" in text:  # a comparison with a sub-query is a join, its sides perhaps swapped
                joined |= {"and", "<", "<=", ">", ">="}
            if "SELECT DISTINCT" in text:  # written as GROUP BY
                joined |= {"distinct"}
            # An alias of a relation that nothing uses is not written.
            joined |= {alias.lower() for alias in re.findall(r"(?i)(?:FROM \w+|[])]) (gate|all)\b", text)}
            missing = words(text) - words(written) - SAID_OTHERWISE - joined
            assert not missing, (text, written, missing)


#: Words that are written back in another form, and names of relations.
SAID_OTHERWISE = frozenset(
    [
        "=",
        ";",
        "(",
        ")",
        ",",
        "as",
        "on",
        "v",
        "with",
        "select",
        "from",
        "having",
        "dratio",
        "tuples",
        "window",
        "window_end",
    ]
)
SAID_OTHERWISE |= frozenset(
    ["where", "hour", "hours", "sec", "seconds", "second", "minutes", "min", "emit", "early", "range", "%", "table"]
)
SAID_OTHERWISE |= frozenset(["descriptor", "hop", "tumble", "w", "match_condition", "interval", "group", "by"])
SAID_OTHERWISE |= frozenset([".", "x", "y", "z", "c", "inner", "outer", "using"])
SPAN = re.compile(r"\d+ ?([a-z]+)?")


def words(text: str) -> set[str]:
    """All words, but lengths of time with their units."""
    return {t.text.lower() for t in SqlText(text).tokens if not SPAN.fullmatch(t.text)}
