"""A server of PostgreSQL, and in it a database for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kit.postgres import Server


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


@pytest.fixture
def database(server: Server) -> str:
    """Its address."""
    return server.database()
