"""Progress charts as people see them."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import pytest

from slackwater.errors import QueryError
from slackwater.scheduling.picture import explain_charts


def figures(feeds: list[str], cost: float, selectivity: float) -> dict[str, Any]:
    return {"feeds": feeds, "charted": {"cost": cost, "selectivity": selectivity, "growth": None, "width": None}}


OPERATORS = {
    "source:s": figures([], 0.0, 1.0),
    "q/where0": figures(["source:s"], 1e-6, 0.2),
    "q/sink": figures(["q/where0"], 5e-6, 0.0),
    "q/prodder": {"feeds": [], "charted": {}},
}


def test_a_chart_as_text_shows_points_envelope_and_chains() -> None:
    lines = explain_charts(OPERATORS).splitlines()
    assert lines[0] == "progress chart of source:s to q/sink"
    plot = [line[9:] for line in lines[1:12]]
    # Half of the time for the filter, which leaves a fifth: eight lines down of ten.
    assert plot[0] == "o" + "─" * 29
    assert plot[8][30] == "o" and plot[10][60] == "o" and plot[10].count("o") == 1
    assert plot[4][15] == "·", "the envelope leads straight to the first point"
    assert lines[13].split() == ["0", "2", "µs", "a", "row"]
    assert lines[14] == "chain 1: source:s, q/where0; 20 % left after 1 µs a row; frees 80 % a µs"
    assert lines[15] == "chain 2: q/sink; 0 % left after 2 µs a row; frees 20 % a µs"


def test_a_chart_as_a_picture_has_a_circle_for_each_point() -> None:
    two = {**OPERATORS, "q2/sink": figures(["q/where0"], 1e-6, 0.0)}
    root = ET.fromstring(explain_charts(two, "svg"))
    circles = root.findall("{http://www.w3.org/2000/svg}circle")
    assert len(circles) == 2 * 4
    assert {float(c.attrib["cx"]) for c in circles[:4]} == {44.0, 324.0, 604.0}


def test_there_is_no_flowchart_of_a_chart() -> None:
    with pytest.raises(QueryError, match="drawn as 'text' or 'svg'"):
        explain_charts(OPERATORS, "mermaid")
