"""A plan, or a running query with its figures, as text or as a picture: mermaid or SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from slackwater.errors import QueryError, did_you_mean
from slackwater.plan.boxes import Box, boxes_of_plan
from slackwater.plan.mermaid import mermaid
from slackwater.plan.node import PlanNode, describe
from slackwater.plan.svg import svg

Format = Literal["text", "mermaid", "svg"]
#: The scope of heartbeats in which an operator follows its own inputs.
_PLAIN = "operator level"
#: At most this many of the last choices are shown.
_SHOWN = 8


def explain(
    operators: Mapping[str, Mapping[str, Any]],
    query: str,
    format: Format = "text",
    strategy: str = "",
    choices: Sequence[Mapping[str, Any]] = (),
) -> str:
    """Each operator of a query: its label, what it does, its figures (as in `run.metrics()["operators"]`).

    As text also what the strategy chose last.
    """
    _check(format)
    boxes = [Box(label, _lines(figures), tuple(figures["feeds"])) for label, figures in operators.items()]
    if format != "text":
        return _drawn(boxes, format)
    lines = []
    for box, figures in zip(boxes, operators.values(), strict=True):
        others = [name for name in figures["queries"] if name != query]
        shared = f" (shared with {', '.join(others)})" if others else ""
        reads = f"reads {', '.join(box.feeds)}; " if box.feeds else ""
        about = figures["about"].splitlines()
        figured = box.lines[len(about) :]
        lines += [f"{box.label}{shared}", *(f"    {part}" for part in about), f"    {reads}{'; '.join(figured)}"]
    if strategy:
        lines.append(f"strategy {strategy}")
        lines += [f"    run {c['run']}: {c['chose']} of {c['ready']} ready; {c['why']}" for c in choices[-_SHOWN:]]
    return "\n".join(lines)


def explain_plan(plan: PlanNode, format: Format = "text") -> str:
    """A description of what a query will do, before it runs."""
    _check(format)
    return describe(plan) if format == "text" else _drawn(boxes_of_plan(plan), format)


def _drawn(boxes: list[Box], format: Format) -> str:
    return mermaid(boxes) if format == "mermaid" else svg(boxes)


def _check(format: str) -> None:
    formats = get_args(Format)
    if format not in formats:
        hint = did_you_mean(str(format), formats)
        raise QueryError(f"format={format!r}: there is no such format{hint}; write one of {', '.join(formats)}")


def _lines(figures: Mapping[str, Any]) -> tuple[str, ...]:
    """What an operator does, how far time has come, what waits and what it costs."""
    time = f"heartbeat {figures['heartbeat']}"
    if figures["registers"]:
        time += f", inputs at {', '.join(figures['registers'])}"
    sizes = f"{figures['queued_rows']} rows, {_size(figures['queued_bytes'])}"
    waits = f"{figures['queued']} waiting ({sizes})" if figures["queued"] else ""
    inside = f"{rows} rows wait in it for time" if (rows := figures["waiting_for_time"]) else ""
    by = f"{figures['level']}: goes by {', '.join(figures['label'])}" if _says_more(figures) else ""
    held = f"{figures['held']} pages held back" if figures["held"] else ""
    runs = f"{figures['runs']} runs in {figures['run_seconds']:.3f} s" if figures["runs"] else ""
    cost = f"{figures['cost'] * 1e6:.2f} µs a row" if figures["cost"] else ""
    chain = _chain(figures) if figures["chain"] else ""
    return (
        *figures["about"].splitlines(),
        *(part for part in (time, by, waits, inside, held, runs, cost, chain) if part),
    )


def _size(size: float) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.3g} {unit}" if unit != "bytes" else f"{size} bytes"
        size /= 1024
    return f"{size:.3g} GiB"


def _chain(figures: Mapping[str, Any]) -> str:
    """The operators that run together as a chain, and how much memory the chain frees (S2)."""
    freed = f"{figures['slope']:.3g} {figures['unit']} a second"
    return f"{figures['strategy']}: runs with {', '.join(figures['chain'])}, which free {freed}"


def _says_more(figures: Mapping[str, Any]) -> bool:
    """Whether an operator may follow other streams than those of its inputs."""
    return bool(figures["label"]) and figures["level"] != _PLAIN
