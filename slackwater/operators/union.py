"""The union (S3 section 4): rows of several inputs as those of one.

No order is asked of rows, so pages pass at once; only time waits. It is what holds time back for all that stands
behind it: its output is as far as the input that is furthest behind (S1 section 7), and a demand goes back along
that input alone. Where time is kept by source, each source has such an input.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from slackwater.operators.operator import Emit, Input, Operator
from slackwater.operators.prod import Prod
from slackwater.progress.punctuation import Punctuation


class Union(Operator):
    """Takes an element of each input in turn. A prod goes on when it has come by every input.

    Behind a prod an input waits: what comes after it must not reach an aggregate before the prod does, which would
    take early rows of one window and final rows of another for rows of the same answer.
    """

    def __init__(self, label: str) -> None:
        super().__init__(label)
        self._turn = 0

    def more(self, inputs: Sequence[Input]) -> bool:
        """Whether an element may go on."""
        return self._next(inputs) is not None or _prodded(inputs)

    def run(self, inputs: Sequence[Input], emit: Emit) -> None:
        """Send a page on; take a punctuation, of which the registers know; or pass a prod that has come by all."""
        chosen = self._next(inputs)
        if chosen is None:
            emit(_one_of([waiting.pop() for waiting in inputs]))
            return
        self._turn = chosen + 1
        element = inputs[chosen].pop()
        if not isinstance(element, Punctuation):
            emit(element)

    def blocking(self, inputs: Sequence[Input]) -> list[int]:
        """The inputs that are furthest behind; by source any of them may hold some source back."""
        if any(waiting.time.sources is not None for waiting in inputs):
            return list(range(len(inputs)))
        return super().blocking(inputs)

    def output(self, times: Sequence[Punctuation]) -> Punctuation:
        """What holds on all inputs."""
        return Punctuation.common(times)

    def _next(self, inputs: Sequence[Input]) -> int | None:
        """The next input in turn that has something else than a prod."""
        places = ((self._turn + n) % len(inputs) for n in range(len(inputs)))
        return next((n for n in places if len(inputs[n]) and not isinstance(inputs[n].peek(), Prod)), None)


def _prodded(inputs: Sequence[Input]) -> bool:
    return all(len(waiting) and isinstance(waiting.peek(), Prod) for waiting in inputs)


def _one_of(prods: Sequence[object]) -> Prod:
    """One prod for all; void if one of them is."""
    found = [prod for prod in prods if isinstance(prod, Prod)]
    return replace(found[0], void=any(prod.void for prod in found))
