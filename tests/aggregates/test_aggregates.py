"""Aggregates as a user writes them: what is read, what is refused and how, and which partials are shared."""

from __future__ import annotations

import re
from decimal import Decimal

import polars as pl
import pyarrow as pa
import pytest

from slackwater.aggregates.avg import Avg
from slackwater.aggregates.count import Count
from slackwater.aggregates.distinct import ApproxDistinct
from slackwater.aggregates.kept import call_over
from slackwater.aggregates.parse import parse_aggregate
from slackwater.aggregates.partial import Partial
from slackwater.aggregates.percentile import ApproxPercentile, Quantiles
from slackwater.aggregates.registry import known
from slackwater.aggregates.spread import Moments, Spread
from slackwater.aggregates.sum import CheckedSum, DoubleSum, Sum
from slackwater.errors import QueryError
from slackwater.plan.nodes import WindowNode
from slackwater.testing import Script, arrow_page, arrow_plan
from slackwater.testing.kept_aggregates import kept_type
from slackwater.testing.pages import ArrowPages
from slackwater.windows.kernel import PaneKernel
from slackwater.windows.spec import WindowSpec
from tests.kit.sql import plan
from tests.kit.streams import SAMPLE, frame


def parse(text: str) -> object:
    return parse_aggregate("v", text, lambda sql: pa.float64(), aggregate_type=_of_the_kit)


def _of_the_kit(call: str) -> pa.DataType:
    kind = kept_type(call, lambda sql: pa.float64())
    if kind is None:
        raise QueryError(f"{call} is no aggregate of the kit")
    return kind


def refused(text: str) -> str:
    with pytest.raises(QueryError) as error:
        parse(text)
    message = str(error.value)
    assert message.startswith(f"v={text!r}"), "the message begins with what was written"
    return message


@pytest.mark.parametrize("text", ["approx_top_k(x)", "my_function(x)", "if(x, 1, 2)", "abs(x)"])
def test_an_unknown_aggregate_is_named_beside_the_known_ones(text: str) -> None:
    message = refused(text)
    assert f"unknown aggregate {text.split('(')[0]!r}" in message
    assert known() in message


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("first(DISTINCT x)", "first takes no DISTINCT; leave it out"),
        ("approx_count_distinct(DISTINCT x)", "approx_count_distinct takes no DISTINCT; leave it out"),
        ("sum(DISTINCT *)", "only count takes a star"),
    ],
)
def test_distinct_is_refused_where_it_says_nothing(text: str, wrong: str) -> None:
    assert wrong in refused(text)


@pytest.mark.parametrize(
    "text",
    [
        "sum(max(x))",
        "max(sum(x) + 1)",
        "avg(approx_count_distinct(x))",
        "max(std(x))",
        "sum(mean(x))",
        "std(max(x))",
        "mean(1 + mean(x))",
        "approx_percentile(avg(x), 0.5)",
    ],
)
def test_an_aggregate_inside_an_aggregate_is_refused(text: str) -> None:
    assert "an aggregate inside an aggregate; aggregate a plain expression" in refused(text)


@pytest.mark.parametrize(
    "text",
    [
        "x",
        "sum(x) + 1",
        "-sum(x)",
        "(sum(x))",
        "sum(x) AS y",
        "sum(x) OVER ()",
        "'x'",
        "1",
    ],
)
def test_what_is_no_aggregate_call_is_refused(text: str) -> None:
    message = refused(text)
    assert "is not an aggregate call" in message
    assert "v='sum(x)'" in message


@pytest.mark.parametrize(
    "text", ["sum(x", "sum(x))", "", "  ", "sum(x), sum(y)", "sum('x)", "sum()", "sum(x) sum(y)"]
)
def test_what_cannot_be_read_is_refused(text: str) -> None:
    assert "is not an expression" in refused(text)


@pytest.mark.parametrize("share", ["1.5", "-0.1", "95"])
def test_a_share_outside_of_zero_and_one_is_refused(share: str) -> None:
    assert f"the share {float(share)} is not between 0 and 1" in refused(f"approx_percentile(x, {share})")


@pytest.mark.parametrize(
    "text", ["approx_percentile(x)", "approx_percentile(x, y)", "percentile_approx(x, array(0.1))"]
)
def test_a_percentile_wants_its_share_as_a_number(text: str) -> None:
    assert "give the share as a number, as in approx_percentile(x, 0.95)" in refused(text)


@pytest.mark.parametrize("function", ["sum", "avg", "min", "max", "first", "stddev", "approx_count_distinct"])
def test_only_count_takes_a_star(function: str) -> None:
    assert f"only count takes a star; write {function}(column)" in refused(f"{function}(*)")


def test_a_percentile_takes_no_star() -> None:
    assert "only count takes a star; write approx_percentile(column, 0.5)" in refused("approx_percentile(*, 0.5)")


@pytest.mark.parametrize(
    "text", ["count(x, y)", "min(x, y)", "std(x, y)", "std()", "approx_count_distinct(x, 0.05)"]
)
def test_an_aggregate_takes_one_expression(text: str) -> None:
    assert "takes one expression, as in " in refused(text)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("mean(x)", Avg),
        ("SUM( x )", type(parse("sum(x)"))),
        ("count()", type(parse("count(*)"))),
        ("first_value(x)", type(parse("first(x)"))),
        ("any_value(x)", type(parse("first(x)"))),
        ("last_value(x)", type(parse("last(x)"))),
        ("approx_distinct(x)", ApproxDistinct),
        ("percentile_approx(x, 0.5)", ApproxPercentile),
        ("approx_quantile(x, 0.5)", ApproxPercentile),
        ("std(x)", Spread),
        ("var_samp(x)", Spread),
        ("stddev_samp(x)", Spread),
    ],
)
def test_other_names_of_an_aggregate_are_known(text: str, kind: type) -> None:
    assert type(parse(text)) is kind


def test_an_argument_may_be_any_expression() -> None:
    aggregate = parse_aggregate("v", "sum(CASE WHEN x > 0 THEN x * 2 ELSE 0 END)", lambda sql: pa.float64())
    assert re.sub(r"\s+", " ", aggregate.argument) == "CASE WHEN x > 0 THEN x * 2 ELSE 0 END"
    script = Script(arrow_plan(SAMPLE, 10, 10, v="sum(CASE WHEN x > 0 THEN x * 2 ELSE 0 END)"))
    script.page(frame([[1, "a", 0, 2.0], [1, "a", 0, -3.0], [1, "a", 0, 4.0]])).drain()
    assert script.results[0]["v"] == 12.0


# --- partials


def kernel(**texts: str) -> PaneKernel:
    parsed = tuple(parse_aggregate(n, t, lambda sql: pa.float64()) for n, t in texts.items())
    return PaneKernel(WindowSpec(10, 10), (), parsed)


def test_equal_partials_of_several_aggregates_are_kept_once() -> None:
    made = kernel(a="avg(x)", b="sum(x)", c="count(x)", d="stddev(x)", e="var_pop(x)", f="sum(y)")
    assert list(made.columns) == [Sum("x"), Count("x"), Moments("x"), Sum("y")]


def test_percentiles_of_one_expression_share_a_sketch() -> None:
    shares = kernel(a="approx_percentile(x, 0.1)", b="approx_percentile(x, 0.5)", c="percentile_approx(x, 0.9)")
    assert list(shares.columns) == [Quantiles("x")]


def test_expressions_that_are_written_alike_are_one() -> None:
    assert len(kernel(a="sum(x + 1)", b="sum( x + 1 )", c="SUM(x + 1)").columns) == 1


def test_a_shared_partial_is_computed_once_for_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Partial] = []
    original = Sum.lift

    def counting(self: Sum, argument: pl.Expr, kind: pl.DataType) -> tuple[pl.Expr, ...]:
        made.append(self)
        return original(self, argument, kind)

    monkeypatch.setattr(Sum, "lift", counting)
    plan = arrow_plan(SAMPLE, 10, 10, a="avg(x)", b="sum(x)", c="avg(x)")
    folded = ArrowPages().fold(arrow_page(frame([[1, "a", 0, 2.0]]), 0, 0, "t"), plan.kernel)
    assert made == [Sum("x")]
    assert len(folded.partials.columns) == 2 + 2  # the pane, its rows, a sum and a count


def test_the_average_of_decimals_is_exact_and_rounds_half_up() -> None:
    average = parse_aggregate("v", "avg(x)", lambda sql: pa.decimal128(14, 6))
    sums = pl.DataFrame(
        {"s": [Decimal("0.01"), Decimal("10.00"), None], "n": [3, 8, 0]},
        schema={"s": pl.Decimal(20, 2), "n": pl.Int64},
    )
    values = sums.select(average.value("s", "n"))["s"].to_list()
    assert values == [Decimal("0.003333"), Decimal("1.250000"), None]
    half = pl.DataFrame({"s": [Decimal("0.000005")], "n": [10]}, schema={"s": pl.Decimal(20, 6), "n": pl.Int64})
    assert half.select(average.value("s", "n"))["s"].to_list() == [Decimal("0.000001")]


def test_an_empty_text_is_a_value_and_minus_zero_is_zero() -> None:
    script = Script(
        arrow_plan(SAMPLE, 10, 10, texts="approx_count_distinct(s)", numbers="approx_count_distinct(x)")
    )
    script.page(frame([[1, "a", 0, 0.0, 1, ""], [2, "a", 0, -0.0, 1, "p"], [3, "a", 0, None, 1, None]])).drain()
    assert (script.results[0]["texts"], script.results[0]["numbers"]) == (2, 1)


# --- values that leave their type


LARGEST = Decimal("9" * 36 + ".99")
BIG = Decimal("9e35")


def script(values: list[Decimal | int | None], dtype: pl.DataType, pages: int = 1, **window: int) -> Script:
    """The sum and the average of `m`, from one row a tick."""
    rows = pl.DataFrame({"t": range(len(values)), "m": pl.Series(values, dtype=dtype)})
    window = window or {"range": 100, "slide": 100}
    run = Script(arrow_plan(rows, **window, total="sum(m)", mean="avg(m)", n="count(m)"))
    for part in rows.iter_slices(-(-len(values) // pages)):
        run.page(part)
    return run


def whole(run: Script) -> tuple[object, object]:
    """Of a window that has all rows."""
    row = max(run.drain().results, key=lambda r: r["n"])
    return row["total"], row["mean"]


WINDOWS: list[dict[str, int]] = [
    {"range": 100, "slide": 100},
    {"range": 40, "slide": 5},
    {"range": 100},
    {"rows": 100},
]
WIDE = pl.Decimal(38, 2)


@pytest.mark.parametrize("pages", [1, 3, 12])
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_the_average_of_bigints_does_not_wrap_and_their_sum_does(window: dict[str, int], pages: int) -> None:
    values = [1_700_000_000_000_000_000 + i for i in range(12)]
    total, mean = whole(script(values, pl.Int64(), pages, **window))
    assert mean == pytest.approx(1.7e18)
    assert total == (sum(values) + 2**63) % 2**64 - 2**63


def test_an_average_shares_the_sum_of_all_but_bigints() -> None:
    def of(kind: pa.DataType) -> list[Partial]:
        parsed = tuple(parse_aggregate(f, f"{f}(x)", lambda sql: kind) for f in ("sum", "avg", "count"))
        return list(PaneKernel(WindowSpec(10, 10), (), parsed).columns)

    for small in (pa.int8(), pa.int16(), pa.int32(), pa.float32(), pa.float64(), pa.decimal128(28, 2)):
        assert of(small) == [Sum("x"), Count("x")]
    assert of(pa.int64()) == [Sum("x"), DoubleSum("x"), Count("x")]
    assert of(pa.decimal128(29, 2)) == [CheckedSum("x"), Count("x")]


@pytest.mark.parametrize("pages", [1, 2, 3, 10])
@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("sign", [1, -1])
def test_a_sum_of_decimals_that_leaves_its_type_is_null(window: dict[str, int], pages: int, sign: int) -> None:
    # Four and six of them, taken modulo 2**128, would look like sums that fit.
    for many in (2, 4, 6, 10):
        assert whole(script([sign * BIG] * many, WIDE, pages, **window)) == (None, None)


@pytest.mark.parametrize("pages", [1, 2, 4])
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_a_sum_of_decimals_may_be_the_largest_of_its_type(window: dict[str, int], pages: int) -> None:
    unit = Decimal("0.01")
    total, mean = whole(script([Decimal("9" * 36 + ".98"), None, unit, Decimal(0)], WIDE, pages, **window))
    assert (total, mean) == (LARGEST, None)  # an average has four digits more behind the point
    assert whole(script([LARGEST, None, unit], WIDE, pages, **window)) == (None, None)
    assert whole(script([None, None], WIDE, pages, **window)) == (None, None)
    assert whole(script([None, Decimal(3), Decimal("-0.5")], WIDE, pages, **window)) == (
        Decimal("2.5"),
        Decimal("1.25"),
    )


def test_what_has_left_its_type_once_stays_away_and_moves_on_with_its_rows() -> None:
    run = script([BIG, BIG, -BIG, -BIG, Decimal(1), Decimal(2)], WIDE, 3, range=2, slide=2)
    assert [r["total"] for r in run.drain().results] == [None, None, 3]
    run = script([BIG, BIG, -BIG, Decimal(1), Decimal(2)], WIDE, 5, rows=2)
    assert [r["total"] for r in run.drain().results] == [BIG, None, 0, Decimal("-8" + "9" * 35), 3]
    many = pl.DataFrame({"t": [1, 1, 3], "m": pl.Series([BIG, BIG, -BIG], dtype=WIDE)})
    rolling = Script(arrow_plan(many, range=5, total="sum(m)")).page(many[:2]).page(many[2:]).drain()
    assert [r["total"] for r in rolling.results] == [None, None, None]
    panes = Script(arrow_plan(many, range=10, slide=5, total="sum(m)")).page(many[:2]).page(many[2:]).drain()
    assert [r["total"] for r in panes.results] == [None, None]


def test_an_early_average_that_does_not_fit_is_null_and_the_final_one_is_there() -> None:
    run = script([Decimal("5e32")], WIDE).prod()
    run.page(pl.DataFrame({"t": range(1, 10), "m": pl.Series([Decimal(0)] * 9, dtype=WIDE)})).drain()
    assert [(r["kind"], r["mean"], r.get("mean_seen")) for r in run.results] == [
        ("early", None, None),
        ("final", Decimal("5e31"), None),
    ]


def test_a_sum_over_results_passes_over_those_that_left_their_type() -> None:
    rows = pl.DataFrame({"t": [1, 2, 11, 21], "m": pl.Series([BIG, BIG, Decimal(3), Decimal(4)], dtype=WIDE)})
    inner = arrow_plan(rows, 10, 10, total="sum(m)")
    assert isinstance(inner, WindowNode)
    run = Script(arrow_plan(rows, 30, 30, over=inner, most="sum(total)", n="count(total)")).page(rows).drain()
    assert [(r["most"], r["n"]) for r in run.results] == [(Decimal(7), 2)]


@pytest.mark.parametrize(
    ("text", "like"),
    [
        ("sum(x) FILTER (WHERE y > 1)", "sum(CASE WHEN (y > 1) THEN x END)"),
        ("count(*) filter(where y)", "count(CASE WHEN (y) THEN 1 END)"),
        ("avg(x) IGNORE NULLS", "avg(CASE WHEN (x) IS NOT NULL THEN x END)"),
    ],
)
def test_a_filter_makes_the_argument_conditional(text: str, like: str) -> None:
    assert parse(text).partials() == parse(like).partials()  # type: ignore[attr-defined]


def test_first_and_last_come_from_one_row_if_their_filters_are_the_same() -> None:
    where = "FILTER (WHERE i > 0)"
    pages = arrow_plan(SAMPLE, 10, 10, a="first(x)", b="first(s)", c=f"last(x) {where}", d=f"last(s) {where}")
    script = Script(pages).page(
        frame([[1, "a", 0, 3.0, 0, "p"], [2, "a", 0, 2.0, 1, "q"], [3, "a", 0, 1.0, 0, "r"]])
    )
    (row,) = script.drain().results
    assert [row[name] for name in "abcd"] == [3.0, "p", 2.0, "q"]


def test_a_filter_must_be_a_condition_over_single_rows() -> None:
    with pytest.raises(QueryError, match="an aggregate inside an aggregate"):
        parse("sum(x) FILTER (WHERE max(x) > 1)")
    with pytest.raises(QueryError, match="takes no WITHIN GROUP"):
        parse("sum(x) WITHIN GROUP (ORDER BY x)")
    with pytest.raises(QueryError, match="bool_and takes conditions; x is a double"):
        parse("bool_and(x)")
    with pytest.raises(QueryError, match=r"min_by takes two expressions, as in min_by\(x, y\)"):
        parse("min_by(x)")


def test_what_is_kept_of_a_row_is_what_the_call_needs() -> None:
    columns, template = call_over("corr", ["a + b", "c"], False, None)
    assert (columns, template) == (("a + b", "c"), "corr({0}, {1})")
    columns, template = call_over("listagg", ["a", "'{,}'"], False, "ORDER BY b DESC NULLS LAST, a")
    assert template.format("x", "y") == "listagg(x, '{,}') WITHIN GROUP (ORDER BY y DESC NULLS LAST, x)"


def test_a_window_for_each_row_keeps_no_rows() -> None:
    with pytest.raises(QueryError, match=r"n='count\(DISTINCT i\)': it needs all rows of a window"):
        arrow_plan(SAMPLE, 10, n="count(DISTINCT i)")


def test_the_kit_names_what_only_spark_computes() -> None:
    with pytest.raises(QueryError, match=r"c='corr\(x, i\)': the kit does not compute corr\(x, i\); test it with"):
        arrow_plan(SAMPLE, 10, 10, c="corr(x, i)")


def test_sessions_keep_no_rows() -> None:
    with pytest.raises(QueryError, match=r"count\(DISTINCT seats\)': it needs all rows of a session"):
        plan("SELECT carrier, count(DISTINCT seats) AS n FROM trips [SESSION 5 MINUTES] GROUP BY carrier")
