"""The program of docs/kafka.md prints what the page says. SLACKWATER_PAGES=1 writes it into the page."""

from __future__ import annotations

import os

import pytest

from tests.kit import doc_pages as pages
from tests.kit.kafka import Kafka

pytestmark = pytest.mark.kafka


def test_the_page_prints_what_it_says(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA", kafka.address)
    ran = list(pages.run("kafka.md"))
    if os.environ.get("SLACKWATER_PAGES"):
        pages.rewrite("kafka.md", ran)
        return
    assert [block.printed for block in ran if block.shown] == [block.shown for block in ran if block.shown]
    assert sum(block.shown is not None for block in ran) == 2
