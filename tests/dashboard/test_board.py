"""Sections of the page: the table of operators comes less often than the rest, and is never old for long."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import NamedTuple

import numpy as np
import pytest

from slackwater.dashboard.board import Board, _text
from tests.kit.watched import WatchedScript, rows


def taken(sections: dict[str, bytes]) -> tuple[int, int]:
    """Rows that the source has taken: by the table of operators, and by the stream."""
    return json.loads(sections["operators"])["source:s"]["rows_out"], json.loads(sections["streams"])[0]["rows"]


def test_the_table_of_operators_is_made_every_quarter_of_a_second_or_when_all_is_asked_for(
    script: WatchedScript,
) -> None:
    second = 0.0
    board = Board(script, lambda: second)
    before, came = taken(board.sections(whole=False))
    assert came == 3
    script.page(rows((5, "AA", 1.0)), at=6)
    second = 0.2
    assert taken(board.sections(whole=False)) == (before, 4)
    assert taken(board.sections()) == (before + 1, 4)
    script.page(rows((5, "AA", 1.0)), at=6)
    assert taken(board.sections(whole=False)) == (before + 1, 5)
    second = 0.5
    assert taken(board.sections(whole=False)) == (before + 2, 5)


def test_the_table_has_the_operators_of_the_graph_at_once(script: WatchedScript) -> None:
    board = Board(script, lambda: 0.0)
    board.sections()
    script.query("counts").stop()
    sections = board.sections(whole=False)
    assert set(json.loads(sections["operators"])) == set(json.loads(sections["graph"])["nodes"])


class Point(NamedTuple):
    x: int
    y: float


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({1: math.nan, "a": [math.inf, 0.5]}, b'{"1":null,"a":[null,0.5]}'),
        ({"many": 2**70, "none": math.nan}, b'{"many":1180591620717411303424,"none":null}'),
        ("\udcff", b'"\\udcff"'),
        (Decimal("1.50"), b'"1.50"'),
        ([np.float64(0.5), np.float64("nan"), np.int64(2)], b"[0.5,null,2]"),
        (Point(1, 2.5), b"[1,2.5]"),
    ],
)
def test_a_section_is_json_whatever_figures_there_are(value: object, text: bytes) -> None:
    assert _text(value) == text
