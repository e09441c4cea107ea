"""Explained plans: as text, as mermaid and as SVG, before and while a query runs."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import pytest

from slackwater.errors import QueryError
from slackwater.plan.boxes import Box, boxes_of_plan
from slackwater.plan.explain import explain, explain_plan
from slackwater.plan.svg import svg
from tests.kit.sql import described, plan

NESTED = """SELECT max(n) AS most FROM (
              SELECT carrier, count(*) AS n FROM trips [RANGE 1 HOUR, SLIDE 10 MINUTES] WHERE delay > 0
              GROUP BY carrier
            ) [RANGE 10 MINUTES, SLIDE 10 MINUTES]"""
SVG = "{http://www.w3.org/2000/svg}"


def figures(about: str, *feeds: str, **more: Any) -> dict[str, Any]:
    plain = {
        "queued": 0,
        "queued_rows": 0,
        "queued_bytes": 0,
        "waiting_for_time": 0,
        "runs": 0,
        "run_seconds": 0.0,
        "cost": 0.0,
        "registers": [],
    }
    plain |= {"level": "operator level", "label": ["source:s"], "held": 0, "strategy": "fifo", "chain": []}
    return {"about": about, "feeds": list(feeds), "queries": ["q"], "heartbeat": "12:00", **plain, **more}


OPERATORS = {
    "source:s": figures("stream s", queries=["q", "p"], runs=3, run_seconds=0.5),
    "q/window": figures(
        "window range 5\nagg n = count(*)",
        "source:s",
        registers=["11:59"],
        queued=2,
        queued_rows=70,
        queued_bytes=5120,
    ),
    "q/sink": figures("sink", "q/window", cost=2.5e-6),
}


def test_a_running_query_shows_time_and_figures_of_each_operator() -> None:
    assert explain(OPERATORS, "q").splitlines() == [
        "source:s (shared with p)",
        "    stream s",
        "    heartbeat 12:00; 3 runs in 0.500 s",
        "q/window",
        "    window range 5",
        "    agg n = count(*)",
        "    reads source:s; heartbeat 12:00, inputs at 11:59; 2 waiting (70 rows, 5 KiB)",
        "q/sink",
        "    sink",
        "    reads q/window; heartbeat 12:00; 2.50 µs a row",
    ]


def test_a_running_query_shows_the_chain_of_an_operator() -> None:
    chained = figures("where", strategy="chain", chain=["source:s", "q/where0"], slope=1.25e6, unit="bytes")
    assert explain({"q/where0": chained}, "q").splitlines()[-1] == (
        "    heartbeat 12:00; chain: runs with source:s, q/where0, which free 1.25e+06 bytes a second"
    )


def test_a_running_query_shows_the_last_choices_of_the_strategy() -> None:
    made = [{"run": n, "chose": "q/sink", "ready": 2, "why": f"of page {n}"} for n in range(20)]
    assert explain(OPERATORS, "q", "text", "fifo", made).splitlines()[-9:] == [
        "strategy fifo",
        *(f"    run {n}: q/sink of 2 ready; of page {n}" for n in range(12, 20)),
    ]
    assert explain(OPERATORS, "q", "mermaid", "fifo", made) == explain(OPERATORS, "q", "mermaid")


@pytest.mark.parametrize(
    ("size", "told"), [(1000, "1000 bytes"), (1536, "1.5 KiB"), (3 * 2**20, "3 MiB"), (5 * 2**30, "5 GiB")]
)
def test_what_waits_is_told_in_bytes(size: int, told: str) -> None:
    waits = {"s": figures("stream s", queued=1, queued_rows=7, queued_bytes=size)}
    assert f"1 waiting (7 rows, {told})" in explain(waits, "q")


def test_a_running_query_shows_the_streams_that_its_pages_wait_for() -> None:
    union = figures(
        "union", "source:a", "source:b", level="query level", label=["source:a", "source:b"], held=2, queued=3
    )
    assert explain({"q/union0": union}, "q").splitlines()[-1] == (
        "    reads source:a, source:b; heartbeat 12:00; query level: goes by source:a, source:b; "
        "3 waiting (0 rows, 0 bytes); 2 pages held back"
    )


def test_a_plan_as_text_is_its_description() -> None:
    assert explain_plan(plan(NESTED)) == described(NESTED)


def test_boxes_are_the_steps_of_a_plan_and_results_are_no_step() -> None:
    boxes = boxes_of_plan(plan(NESTED))
    assert [b.label for b in boxes] == ["1 stream", "2 where", "3 window", "4 window"]
    assert [b.feeds for b in boxes] == [(), ("1 stream",), ("2 where",), ("3 window",)]
    assert boxes[3].lines == ("window range 10 minutes slide 10 minutes", "agg most = max(n)")


def test_mermaid_has_a_node_for_each_operator_and_its_marks_are_escaped() -> None:
    drawn = explain(OPERATORS, "q", "mermaid").splitlines()
    assert drawn[0] == "flowchart TD"
    assert drawn[1] == '  n0["<b>source:s</b><br/>stream s<br/>heartbeat 12:00<br/>3 runs in 0.500 s"]'
    assert drawn[-2:] == ["  n0 --> n1", "  n1 --> n2"]
    of_plan = explain_plan(plan(NESTED), "mermaid")
    assert "where delay #gt; 0" in of_plan
    inside = re.findall(r'\["(.*)"\]', of_plan)
    assert len(inside) == 4 and not any('"' in text for text in inside)


def rectangles(picture: str) -> list[tuple[float, float, float, float]]:
    root = ElementTree.fromstring(picture)
    return [tuple(float(r.get(k, "")) for k in ("x", "y", "width", "height")) for r in root.iter(f"{SVG}rect")]  # type: ignore[misc]


def test_svg_is_a_document_with_all_the_text() -> None:
    picture = explain_plan(plan(NESTED), "svg")
    text = " ".join(t.text or "" for t in ElementTree.fromstring(picture).iter(f"{SVG}text"))
    assert "where delay > 0" in text and "agg most = max(n)" in text
    # The long list of columns is broken into lines, and whole.
    assert "ok Boolean" in " ".join(text.split())


def test_boxes_of_a_picture_do_not_overlap_and_lie_inside_it() -> None:
    boxes = [Box(f"s{n}", (f"stream s{n} " + "x" * 30 * n,), ()) for n in range(4)]
    boxes += [
        Box("u", ("union",), ("s0", "s1", "s3")),
        Box("v", ("join", "on a"), ("u", "s2")),
        Box("w", ("sink",), ("v",)),
    ]
    picture = svg(boxes)
    placed = rectangles(picture)
    root = ElementTree.fromstring(picture)
    assert len(placed) == len(boxes)
    assert len(list(root.iter(f"{SVG}path"))) == 2 * 6, "an arrow is a line and a head"
    for n, (x, y, width, height) in enumerate(placed):
        assert x >= 0 and x + width <= float(root.get("width", "")) and y + height <= float(root.get("height", ""))
        for left, top, wide, high in placed[n + 1 :]:
            assert left >= x + width or x >= left + wide or top >= y + height or y >= top + high
    # Boxes are drawn layer by layer, and here they are written in that order.
    tops = {box.label: top for box, (_, top, _, _) in zip(boxes, placed, strict=True)}
    assert all(tops[feed] < tops[box.label] for box in boxes for feed in box.feeds)


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(QueryError, match=r"no such format \(did you mean 'svg'\?\); write one of text, mermaid"):
        explain_plan(plan(NESTED), "svgg")  # type: ignore[arg-type]
