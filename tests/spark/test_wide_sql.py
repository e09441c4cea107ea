"""The text of the wide job; that it gives the right partials is tested on Spark (test_wide_fold.py)."""

from __future__ import annotations

from slackwater.aggregates.sum import Sum
from slackwater.columns import PANE, TIME
from slackwater.spark.backend.fold import SPREAD
from slackwater.spark.backend.wide_sql import KERNEL, Part, WideSql
from slackwater.windows.kernel import Group, PaneKernel
from slackwater.windows.spec import WindowSpec


def sql_of(pane: int) -> WideSql:
    kernels = [PaneKernel(WindowSpec(pane, pane), (Group(g, f"lower({g}) -- {{g}}"),), ()) for g in ("a", "b")]
    parts = [Part(k, k.groups, {k.keys[0]: "__k0"}, {"v": "__a0"}) for k in kernels]
    written = dict.fromkeys(sql for part in parts for sql in part.given().values())
    inputs = {sql: f"__x{n}" for n, sql in enumerate(written)}
    return WideSql(parts, {"__k0": "string"}, {"__a0": "double"}, {Sum("__a0"): ("__w0",)}, inputs)


def test_the_pane_is_the_last_key_of_the_hash_table() -> None:
    for pane, keys in ((10, f"__k0, {PANE}"), (1, f"__k0, {KERNEL}, {PANE}")):
        text = sql_of(pane).job("rows", range(2), None, False, (TIME,), None)
        assert text.endswith(f"GROUP BY {keys}")


def test_names_nothing_that_a_user_wrote() -> None:
    for places in (range(1), range(1, 2), range(2)):
        text = sql_of(10).job("rows", places, 0, True, (TIME,), (True, False))
        assert "lower" not in text and "--" not in text and "{" not in text


def test_panes_are_spread_only_as_far_as_they_fit_into_64_bits() -> None:
    for pane in (10, 2 * SPREAD, 2 * SPREAD + 2, 10**9):
        sql = sql_of(pane)
        assert sql.spread == (SPREAD if pane > 2 * SPREAD + 1 else 1)
        last = (2**63 - 1) // pane
        assert (last * 2 + 1) * sql.spread < 2**63
