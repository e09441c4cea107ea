"""The failure of an operator: an error, and the operator at which it came up."""

from __future__ import annotations

from slackwater.engine.graph import Node


class OperatorError(Exception):
    """An operator has raised an error outside of a run; the cause is its own error."""

    def __init__(self, node: Node, cause: Exception) -> None:
        super().__init__(str(cause))
        self.node = node
        self.cause = cause
