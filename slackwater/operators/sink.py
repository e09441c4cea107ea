"""The sink: the end of a plan. It takes pages; the executor writes their rows between two halves of a commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NotRequired, Protocol, TypedDict, runtime_checkable

import pyarrow as pa

from slackwater.errors import RowsGoneError, RunError
from slackwater.figures import Figures
from slackwater.masking import masked
from slackwater.operators.corrected_rows import corrected_rows
from slackwater.operators.newest_rows import NEWEST, NewestRows
from slackwater.operators.operator import LATE, Emit, State, Unary
from slackwater.operators.page import Page
from slackwater.operators.payload import Payload, Recipe, Staged, payload_rows
from slackwater.operators.prod import Prod
from slackwater.operators.recent_answers import RECENT, RecentAnswers
from slackwater.progress.clock import Clock
from slackwater.progress.punctuation import Punctuation

#: Fewer rows are brought to the driver: that takes less than to make them twice, once to count them.
FEW = 10_000


class Output(Protocol):
    """Where rows go. The same commit id may come again after a crash, with the same rows: write it once."""

    def write(self, payload: Payload, commit_id: int) -> Prod | None:
        """Make the rows of one commit visible; what comes back is feedback for the query (S5 section 3.2)."""


@runtime_checkable
class MakesRows(Protocol):
    """An output that takes a recipe too: it has the rows made when it is written."""

    def made(self, recipe: Recipe) -> object:
        """The rows."""


@runtime_checkable
class HoldsBack(Protocol):
    """An output that holds rows back for a while, to show many at once."""

    def due_in(self) -> float | None:
        """In how many real seconds rows may be shown; None if none are held."""

    def flush_due(self) -> None:
        """Show them if it is time."""


class SinkValues(TypedDict):
    """The journaled values of a sink."""

    next: int
    rows: int
    early_rows: NotRequired[int]


class Sink(Unary):
    """Numbers the commits of one output and removes punctuations.

    An error of the output names the query, the output, and what to do.
    """

    def __init__(
        self,
        label: str,
        output: Output,
        clock: Clock | None = None,
        recent: RecentAnswers | None = None,
        takes_early: bool = True,
        keys: Sequence[str] | None = None,
        settles: bool = False,
    ) -> None:
        super().__init__(label)
        self._corrected = keys is not None
        """Whether rows say by which commit they come: then a page says its commit's number."""
        self._keys = keys if settles else None
        """The columns of a window and a group, where corrected rows come beside those from before."""
        self._takes_early = takes_early
        """Whether its rows say that they are early."""
        self._recent = recent
        self._newest = NewestRows()
        self._to = output
        self._makes = isinstance(output, MakesRows)
        self._last: int | None = None
        """How many rows the last page had."""
        self._holder = output if isinstance(output, HoldsBack) else None
        self._clock = clock
        self._staged: list[tuple[int, Payload, bool]] = []
        """The number of a page, its rows, and whether they are early."""
        self._recipes: list[Page] = []
        """Held until their rows are out."""
        self._next = 0
        self._rows = self._early_rows = 0
        self.passed = 0
        """Rows since the start of the process, after all that was done to them on the way."""

    def on_page(self, page: Page, emit: Emit) -> None:
        """Stage its rows for the next commit; a page without rows says nothing."""
        if page.prod is not None and not self._takes_early:
            return
        many = self._last is None or self._last >= FEW
        recipe = self.pages.recipe(page) if self._makes and many else None
        payload: Payload = self.pages.payload(page, self._last) if recipe is None else recipe
        if self._keys is not None and isinstance(payload, pa.Table):
            payload = corrected_rows(payload, self._keys)
        self._last = payload_rows(payload)
        self.passed += self._last
        if self._last:
            self._staged.append((page.number, payload, page.prod is not None))
            if recipe is not None:
                self.pages.hold(recipe.page)
                self._recipes.append(recipe.page)
            if not isinstance(payload, (Staged, Recipe)):
                self._newest.take(payload)
                if self._recent is not None:
                    self._recent.take(payload)

    def on_prod(self, prod: Prod, emit: Emit) -> None:
        """A prod ends here: the rows that it asked for came before it."""

    def output(self, times: Sequence[Punctuation]) -> Punctuation | None:
        """Time is of no interest outside."""
        return None

    def write(self, payload: Payload, commit_id: int) -> Prod | None:
        """Give the rows of a commit to the output; what comes back is feedback."""
        try:
            return self._to.write(payload, commit_id)
        except RowsGoneError as error:
            raise RunError(f"query {self._query!r} has failed: {error}") from error
        except Exception as error:
            raise self._told(error) from error

    @property
    def watches_clock(self) -> bool:
        """Whether its output holds rows back for a while."""
        return self._holder is not None

    def tick(self, now: int, emit: Emit) -> None:
        """Rows that the output holds back may be due."""
        if self._holder is not None:
            try:
                self._holder.flush_due()
            except Exception as error:
                raise self._told(error) from error

    def wake_at(self) -> int | None:
        """When they are, if the clock goes by itself."""
        wait = None if self._holder is None else self._holder.due_in()
        return None if wait is None or self._clock is None else self._clock.after(wait)

    def _told(self, error: Exception) -> RunError:
        rows = "late rows" if self.label.role == LATE else "results"
        return output_failed(self._query, rows, self._to, error)

    @property
    def _query(self) -> str:
        return self.label.query or self.label

    def take(self) -> list[tuple[int, Payload, bool]]:
        """The staged rows with their commit ids, and whether they are early."""
        staged, self._staged = self._staged, []
        taken = []
        for number, payload, early in staged:
            self._next = number if self._corrected else self._next
            taken.append((self._next, payload, early))
            self._next += 1
            self._rows += payload_rows(payload)
            self._early_rows += payload_rows(payload) if early else 0
        return taken

    def state(self, whole: bool) -> State:
        """The next commit id; asked for after `take`."""
        return State(SinkValues(next=self._next, rows=self._rows, early_rows=self._early_rows))

    def restore(self, states: Sequence[State]) -> None:
        """Continue the numbering."""
        values = states[-1].read(SinkValues)
        self._next, self._rows, self._early_rows = values["next"], values["rows"], values.get("early_rows", 0)

    def settle(self) -> None:
        """Rows are out."""
        for page in self._recipes:
            self.pages.release(page)
        self._recipes = []

    def metrics(self) -> Figures:
        """Rows and commits so far, the latest rows, and the latest answers of windows."""
        recent = {} if self._recent is None else {RECENT: self._recent.figures()}
        rows = {"rows": self._rows, "results": self._rows - self._early_rows, "early_results": self._early_rows}
        return {**rows, "commits": self._next, NEWEST: self._newest.tables, **recent}


def output_failed(query: str, rows: str, output: object, error: Exception) -> RunError:
    """The error of an output, in words that say whose it is and what to do."""
    about = getattr(output, "about", type(output).__name__)
    advice = getattr(output, "advice", "mend what is wrong there")
    words = masked(" ".join(line.strip() for line in str(error).splitlines()[:2] if line.strip()))
    return RunError(
        f"query {query!r} has failed: it cannot give its {rows} to {about}: {type(error).__name__}: {words}; "
        f"{advice}, then start it again"
    )
