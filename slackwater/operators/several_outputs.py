"""Several outputs of one query: each gets every commit, under the same commit id.

A commit is done when all have taken it. After a crash between two of them it comes again to all, and those that
have it already know it by its id. So each output has every row once, as if it were the only one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from slackwater.operators.payload import Payload
from slackwater.operators.prod import Prod
from slackwater.operators.sink import HoldsBack, Output


class SeveralOutputs:
    """Gives each commit to one output after the other."""

    def __init__(self, outputs: Sequence[Output]) -> None:
        self.all = tuple(outputs)
        self._current = self.all[0]
        """The one that is at work: if it fails, messages name it."""

    @property
    def about(self) -> str:
        """What messages call the output that is at work."""
        return str(getattr(self._current, "about", type(self._current).__name__))

    @property
    def advice(self) -> str:
        """What to do when it fails."""
        return str(getattr(self._current, "advice", "mend what is wrong there"))

    def _each(self) -> Iterator[Output]:
        for output in self.all:
            self._current = output
            yield output

    def write(self, payload: Payload, commit_id: int) -> Prod | None:
        """The rows of one commit. If several outputs ask for an answer, all open windows are answered."""
        asked = [prod for output in self._each() if (prod := output.write(payload, commit_id)) is not None]
        return asked[0] if len(asked) == 1 else Prod() if asked else None

    def due_in(self) -> float | None:
        """When the first of them may show rows that it holds back."""
        waits = [output.due_in() for output in self.all if isinstance(output, HoldsBack)]
        return min((wait for wait in waits if wait is not None), default=None)

    def flush_due(self) -> None:
        """Show what is due."""
        for output in self._each():
            if isinstance(output, HoldsBack):
                output.flush_due()


def outputs_of(output: Output) -> tuple[Output, ...]:
    """The outputs of a query, each by itself."""
    return output.all if isinstance(output, SeveralOutputs) else (output,)
