"""What the papers claim without a figure in a table, and what an experiment's figures say of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Found = dict[str, Any]


@dataclass(frozen=True)
class Claim:
    """A sentence of a paper, and how to read ours from what was found: words, and whether it holds."""

    says: str
    ours: Callable[[Found], tuple[str, bool | None]]


def _levels(found: Found) -> dict[str, dict[str, Any]]:
    """By plan and level."""
    return {f"{row['plan']}/{row['heartbeats']}": row for row in found["plans"]}


def _query_is_slower(found: Found) -> tuple[str, bool | None]:
    rows = _levels(found)
    said, holds = [], True
    for plan in dict.fromkeys(row["plan"] for row in found["plans"]):
        query, operator = (rows[f"{plan}/{level}"]["mean latency"] for level in ("query level", "operator level"))
        said.append(f"{query:.0f} against {operator:.0f} ticks")
        holds &= query > operator
    return "mean latency: " + "; ".join(said), holds


def _operator_needs_more(found: Found) -> tuple[str, bool | None]:
    rows = _levels(found)
    plan = found["plans"][0]["plan"]
    most = {level: rows[f"{plan}/{level}"]["most rows that waited"] for level in ("query level", "operator level")}
    query, operator = most["query level"], most["operator level"]
    return f"where rows multiply, {operator} rows waited against {query}", operator > query


def _memory_aware(found: Found) -> tuple[str, bool | None]:
    rows, holds, said = _levels(found), True, []
    for plan in dict.fromkeys(row["plan"] for row in found["plans"]):
        mine, operator = rows[f"{plan}/memory-aware"], rows[f"{plan}/operator level"]
        said.append(f"{mine['most rows that waited']} against {operator['most rows that waited']} rows")
        holds &= mine["most rows that waited"] <= operator["most rows that waited"]
    return "most rows that waited, memory-aware against operator level: " + "; ".join(said), holds


def _closure(found: Found) -> tuple[str, bool | None]:
    shares = [row["B* / B"] for row in found["indirect"]]
    return f"lag by B* is {min(shares):.2f} to {max(shares):.2f} times that by B", max(shares) <= 1


def _units(found: Found) -> tuple[str, bool | None]:
    rows = found["units"]
    worst = max(row["later by, s"] / row["unit, s"] for row in rows)
    said = f"{rows[0]['cells']} cells become {rows[-1]['cells']}; at most {worst:.2f} units later"
    return said, worst <= 1


def _groups(found: Found) -> tuple[str, bool | None]:
    lags = [row["lag, s"] for row in found["groups"]]
    return f"lag {lags[0]:.1f} s in one group, {lags[-1]:.1f} s with 64", lags[0] >= lags[-1]


def _buffer(found: Found) -> tuple[str, bool | None]:
    last = {row["method"]: row for row in found["figure 3"]}
    ours, rival = last["mean and distance (S4)"], last["max delay"]
    rows, dropped = (f"{ours[of]:,.1f} against {rival[of]:,.1f}" for of in ("buffer", "dropped"))
    return f"{rows} rows in the buffer; {dropped} dropped", abs(
        ours["buffer"] / rival["buffer"] - 1
    ) < 0.1 and ours["dropped"] < rival["dropped"]


def _dratio(found: Found) -> tuple[str, bool | None]:
    worst = {
        method: max(row["most"] / row["asked"] for row in found["figure 4"] if row["method"] == method)
        for method in ("S4", "drop_ratio")
    }
    said = f"at most {worst['S4']:.2f} times DRATIO (drop_ratio: {worst['drop_ratio']:.2f} times)"
    return said, worst["S4"] <= 1


def _insertion(found: Found) -> tuple[str, bool | None]:
    mine = [row["ns"] for row in found["insertion"] if row["buffer"] == "circular array (S4)"]
    return f"{', '.join(f'{ns:,.0f}' for ns in mine)} ns a row as the backlog grows", max(mine) < 3 * min(mine)


def _on_demand(found: Found) -> tuple[str, bool | None]:
    of = {row["line"]: row for row in found["virtual"]}
    a, c, d = of["A none"], of["C on demand"], of["D latent"]
    above, times = c["mean_ms"] - d["mean_ms"], a["mean_ms"] / c["mean_ms"]
    return f"C is {above:.3f} ms above D; A is {times:,.0f} times C", above < 0.1 and times > 1_000


#: By the file of an experiment's figures.
CLAIMS: dict[str, list[Claim]] = {
    "heartbeats_in_plans.json": [
        Claim("Query-level heartbeats are slower than operator-level ones (7.2).", _query_is_slower),
        Claim("Operator-level heartbeats may need more memory (7.3).", _operator_needs_more),
        Claim("Memory-aware heartbeats do not (7.3, 7.4).", _memory_aware),
    ],
    "skew_bounds.json": [
        Claim("Indirect guarantees (B*) make heartbeats better, never worse (3.2).", _closure),
        Claim("A coarser clock needs fewer cells and is at most one unit later (5.1).", _units),
        Claim("Fewer groups of sources cost less and make heartbeats later (5.2).", _groups),
    ],
    "on_demand.json": [
        Claim("On demand is within 0.1 ms of the optimum, and orders of magnitude below none (6).", _on_demand)
    ],
    "disorder.json": [
        Claim(
            "With DRATIO 0 the buffer becomes that of the max-delay method, with fewer drops (Figure 3).", _buffer
        ),
        Claim("For each DRATIO no more is dropped than it allows (Figure 4).", _dratio),
        Claim("Insertion into the circular array costs the same whatever waits.", _insertion),
    ],
}
