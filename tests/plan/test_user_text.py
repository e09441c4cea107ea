"""Expressions reach Spark in the user's own words, also when aggregates are taken out of them."""

from __future__ import annotations

import pyarrow as pa

from slackwater.aggregates.parse import parse_aggregate
from slackwater.aggregates.user_text import arguments, replace_calls, replace_columns
from slackwater.plan.post_aggregate import Split, split


def test_what_the_parser_would_rewrite_stays() -> None:
    text = "max(parse_json(word)::INT) / 2 -- half"
    assert split(text, {}) == Split("`__post0` / 2 -- half", (("__post0", "max(parse_json(word)::INT)"),))
    call = "approx_percentile(parse_json(Word), 0.5)"
    assert parse_aggregate("p", call, lambda sql: pa.float64()).argument == "parse_json(Word)"


def test_equal_calls_are_one_however_they_are_written() -> None:
    known: dict[str, str] = {}
    first = split("SUM( a )/count(*)", known)
    second = split("sum(a) + count( * )", known)
    assert first == Split("`__post0`/`__post1`", (("__post0", "SUM( a )"), ("__post1", "count(*)")))
    assert second == Split("`__post0` + `__post1`", ())


def test_texts_in_quotes_and_fields_of_structs_are_no_columns() -> None:
    by = {"n": "`n_seen`", "a.b": "`a.b_seen`"}
    assert (
        replace_columns("concat('n', x.n, N, `a.b`, \"n\")", by) == "concat('n', x.n, `n_seen`, `a.b_seen`, \"n\")"
    )


def test_calls_are_found_behind_strings_brackets_and_letters_of_any_kind() -> None:
    found: list[str] = []

    def note(call: str) -> str:
        found.append(call)
        return "_"

    text = "concat('sum(x)', ä, sum(a[0] + ')')) + count(`b(c`)"
    assert replace_calls(text, lambda tree: tree.key in ("sum", "count"), note) == "concat('sum(x)', ä, _) + _"
    assert found == ["sum(a[0] + ')')", "count(`b(c`)"]
    assert arguments("f(array(1, 2)[0], 3)") == ["array(1, 2)[0]", "3"]
