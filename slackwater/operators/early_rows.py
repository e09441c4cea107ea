"""Operators to which early rows come: such rows wait on the arc for their prod, so that they are journaled."""

from __future__ import annotations

from collections.abc import Sequence

from slackwater.operators.element import is_early
from slackwater.operators.operator import Emit, Input, Unary


class EarlyRows(Unary):
    """Takes early rows together with the prod behind them."""

    def has_work(self, inputs: Sequence[Input]) -> bool:
        """Whether something can be taken."""
        (arc,) = inputs
        return len(arc) > 0 and (not is_early(arc.peek()) or arc.prods > 0)

    def run(self, inputs: Sequence[Input], emit: Emit) -> None:
        """Take one element; early rows together with all up to their prod."""
        while is_early(inputs[0].peek()):
            super().run(inputs, emit)
        super().run(inputs, emit)
