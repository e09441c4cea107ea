"""Feedback (S5 section 3.2): the prods that sinks ask for when they have been given answers."""

from __future__ import annotations

from slackwater.engine.journal import Emission
from slackwater.operators.prod import Prod


class Feedback:
    """Keeps what was asked until the commit is over.

    An early answer may ask once a page, or prods would never end: between two pages a second answer would repeat
    the first.
    """

    def __init__(self) -> None:
        self._asked: list[tuple[Emission, Prod]] = []
        self._early: dict[str, int] = {}
        """For each sink the page after which an early answer was last allowed to ask."""

    def ask(self, emission: Emission, prod: Prod) -> None:
        """A sink has asked for more when it was given this."""
        self._asked.append((emission, prod))

    def take(self, arrived: int) -> list[tuple[str, Prod]]:
        """Sinks and the prods that they ask for, each once. `arrived` is the number of pages so far."""
        wishes, self._asked = self._asked, []
        wanted: dict[tuple[str, Prod], None] = {}
        for emission, prod in wishes:
            if emission.early:
                if self._early.get(emission.sink) == arrived:
                    continue
                self._early[emission.sink] = arrived
            wanted[emission.sink, prod] = None
        return list(wanted)
