"""What the engine has logged of its decisions in a test."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

LOGGER = "slackwater.decisions"


@contextmanager
def logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Decisions are logged inside."""
    with caplog.at_level(logging.DEBUG, LOGGER):
        yield


def decisions(caplog: pytest.LogCaptureFixture, name: str) -> list[dict[str, Any]]:
    """The fields of the decisions of this name, in order."""
    records: list[Any] = [record for record in caplog.records if record.name == LOGGER]
    return [record.fields for record in records if record.event == name]
