"""The contract between an operator and the executor (S3 section 3): `has_work`, `run`, `waits_for_time`, `output`.

Time is the engine's: it keeps a register for each input, and lets the operator's rule say how far time has come on
its output. An operator reads registers and never keeps one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeVar, cast

import pyarrow as pa

from slackwater.figures import Figures
from slackwater.operators.element import Element
from slackwater.operators.label import Label
from slackwater.operators.page import Page
from slackwater.operators.prod import Prod
from slackwater.progress.punctuation import Punctuation
from slackwater.progress.window_losses import WindowLosses

if TYPE_CHECKING:
    from slackwater.operators.pages import Pages

Values = TypeVar("Values")

MAIN = "main"
LATE = "late"

#: Given the current time, the next time at which some operator can emit. None: nobody waits.
Wanted = Callable[[int], int | None]


class Input(Protocol):
    """The near end of an arc."""

    def __len__(self) -> int:
        """How many elements wait."""
        ...

    def peek(self) -> Element:
        """The element that waits longest."""
        ...

    def pop(self, at: int = 0) -> Element:
        """Take that element, or the one at some place behind it."""
        ...

    def pop_prod(self) -> Prod | None:
        """Take the first prod out of turn, if there is one."""
        ...

    def move(self, to: Input) -> None:
        """Put the element that waits longest on another input of the same operator, as it is."""
        ...

    def elements(self) -> Iterator[Element]:
        """All waiting elements, in order."""
        ...

    @property
    def oldest(self) -> int:
        """Admission of the element that waits longest."""
        ...

    @property
    def prods(self) -> int:
        """How many prods wait."""
        ...

    @property
    def time(self) -> Punctuation:
        """The register: how far time has come on this input, by the punctuations that were taken."""
        ...

    def lift(self, time: Punctuation) -> None:
        """The input is idle: move its register to the time that the others have come to."""
        ...


class Emit(Protocol):
    """The far end: puts an element on the arcs that leave by a port."""

    def __call__(self, element: Element, port: str = MAIN) -> None:
        """Send an element on."""
        ...


@dataclass
class State:
    """The journaled values of an operator: small values, tables, and whether earlier states are needed too."""

    values: Mapping[str, object] = field(default_factory=dict)
    """JSON values. Who keeps them says in a TypedDict what they are."""
    tables: dict[str, pa.Table] = field(default_factory=dict)
    whole: bool = True

    def read(self, kind: type[Values]) -> Values:
        """The values as a TypedDict, which is the one that they were written as."""
        return cast(Values, self.values)

    def at(self, key: str) -> State:
        """The state of a part, whose values are a value of this one."""
        return State(cast(Mapping[str, object], self.values[key]), self.tables, self.whole)


class Operator(ABC):
    """A node at run time. The executor asks `has_work`, calls `run`, and sends demands back where it is blocked."""

    shelves: ClassVar[int] = 0
    """Queues of its own, after its inputs: what it sets aside waits there, and is journaled as on an arc."""
    makes_rows: ClassVar[bool] = False
    """Whether its pages are rows that it has made, not those of the page that it took."""

    ends_demand: ClassVar[bool] = False
    """Whether a demand ends here, though the operator has a feeder: it knows the time by itself."""

    ordered: ClassVar[bool] = False
    """Whether rows wait in it, or before it, until time has come to them. The others take rows in any order, and
    let what follows from them go on at once (S1 section 7.5)."""

    divisible: ClassVar[bool] = False
    """Whether it may take a page in slices: it works on each row by itself."""
    extends: ClassVar[bool] = False
    """Whether it only extends pages by what is to be done to their rows: then `extended` says how."""

    pages: Pages
    """How it works on pages: the executor's, from when the operator is added."""

    def __init__(self, label: str) -> None:
        self.label = Label.of(label)
        self.asked = frozenset[str]()
        """Statistics that a source asks of pages. Other threads read it: it is replaced, never changed."""
        self._reports: list[WindowLosses] = []

    @property
    def watches_clock(self) -> bool:
        """Whether `tick` may have something to do; it stays so for as long as the operator is there."""
        return False

    @property
    def hears_from(self) -> Set[str]:
        """Labels of the sources by whose rows it goes, though it is not behind them."""
        return frozenset()

    @property
    def drops_rows(self) -> bool:
        """Whether another number of rows may leave it than came."""
        return True

    def has_work(self, inputs: Sequence[Input]) -> bool:
        """Whether `run` has something to do; an operator of several inputs may want more than one filled."""
        return any(len(i) for i in inputs)

    def has_idle_work(self, inputs: Sequence[Input]) -> bool:
        """Whether `run` has something to do that can wait for a lull: nothing is ready and no source speaks."""
        return False

    def expensive(self, inputs: Sequence[Input]) -> bool:
        """Whether the next `run` may take long."""
        return False

    def waits_for_time(self, inputs: Sequence[Input]) -> bool:
        """Whether it holds something that only the passing of time lets out: then it sends a demand back."""
        return False

    @property
    def waiting_for_time(self) -> int:
        """The number of rows inside the operator that wait for the heartbeat; S2 counts them in its queue."""
        return 0

    def next_useful_time(self, tick: int) -> int | None:
        """The least tick above this one to which time must come on its input to let something out.

        By default, any progress helps.
        """
        return tick + 1

    def map_demand(self, wanted: Wanted) -> Wanted:
        """What it must ask of its inputs for its output to come as far as others want."""
        return wanted

    def blocking(self, inputs: Sequence[Input]) -> list[int]:
        """The inputs that hold its time back, by their registers: a demand goes back along these."""
        least = min(i.time.heartbeat for i in inputs)
        return [n for n, i in enumerate(inputs) if i.time.heartbeat == least]

    def output(self, times: Sequence[Punctuation]) -> Punctuation | None:
        """The rule of S1 section 7: how far time has come on the output, given that on the inputs.

        None where the operator says it by itself, as sources do, or has no output.
        """
        return times[0] if len(times) == 1 else None

    def extended(self, page: Page) -> Page:
        """What it makes of a page; it may be asked of a page that goes nowhere."""
        return page

    @abstractmethod
    def run(self, inputs: Sequence[Input], emit: Emit) -> None:
        """Do one unit of work: take an element, emit what follows from it."""

    def enable(self, now: int, emit: Emit, wanted: Wanted) -> None:
        """A demand has come back to here; a source says how far time has passed: an enabling timestamp (S3).

        A clock that goes on always has something new to say. It says it when that lets something out.
        """
        return None

    def due(self, now: int, wanted: Wanted) -> bool:
        """Whether `enable` is likely to have something new, for a demand while others are busy."""
        return False

    def wake_for(self, wanted: Wanted) -> int | None:
        """When the clock alone brings time as far as a demand wants it; None where the clock does not carry it on.

        Beside `wake_at`, which does not ask whether somebody waits.
        """
        return None

    def counted(self) -> int:
        """Rows that it has given and that were counted only since this was last asked, as those of a lazy page."""
        return 0

    def report(self) -> list[WindowLosses]:
        """What the last `run` made of a page: the executor carries it back to the sources."""
        reports, self._reports = self._reports, []
        return reports

    def on_report(self, report: WindowLosses) -> None:
        """A report has come back to here; a source lets its policy learn from it."""
        return None

    def tick(self, now: int, emit: Emit) -> None:
        """Wall-clock time is now this: an operator that `watches_clock` may say something."""
        return None

    def resume(self, now: int, since: int | None = None) -> None:
        """The clock has jumped to now: the process is back after a stop or a crash, or a history is over."""
        return None

    def open_rows(self) -> pa.Table | None:
        """The results that the open windows would have now; None: the operator has no windows that end by time."""
        return None

    @property
    def highest(self) -> int | None:
        """The largest time that a source has seen; None if it has seen none."""
        return None

    def end(self, emit: Emit, for_good: bool, last: int | None = None) -> None:
        """There is no more input, for good or for now; sources let time pass so that all windows close.

        For now: all windows with rows up to the time `last`.
        """
        return None

    def wake_at(self) -> int | None:
        """When the clock alone could give this operator something to say."""
        return None

    def state(self, whole: bool) -> State | None:
        """What has changed since this was last asked, or all of it; None when there is nothing to keep."""
        return None

    def restore(self, states: Sequence[State]) -> None:
        """Continue from journaled states: a whole one, then the changes since."""
        return None

    def observe(self, page: Page) -> None:
        """A source of its query has sent a page; for operators that stand on no arc."""
        return None

    def unsubscribe(self, query: str) -> None:
        """A query is gone."""
        return None

    def drop_pending(self, waiting: Set[int], now: int) -> None:
        """A query is gone: of the pages that a source has sent, only these still wait for somebody."""
        return None

    def detach(self) -> None:
        """It has been taken out of the graph: what it shares with others need not be for it any more."""
        return None

    def prepare(self, page: Page, now: int) -> Page:
        """A page is admitted: it may have to wait, and be made durable, before it is taken. Gives what waits."""
        return page

    def on_restored_page(self, page: Page) -> None:
        """A page that has come by this source waits on an arc since before a restart."""
        return None

    def settle(self) -> None:
        """All of `state` is durable and all emissions are out: drop the copies for a crash between the two."""
        return None

    def metrics(self) -> Figures:
        """Figures for a person."""
        return {}


class Unary(Operator):
    """An operator of one input; by default everything but pages passes through unchanged (S3 section 4.2)."""

    def run(self, inputs: Sequence[Input], emit: Emit) -> None:
        """Take one element and hand it to the method for its kind."""
        element = inputs[0].pop()
        if isinstance(element, Punctuation):
            self.on_punctuation(inputs[0].time, emit)
        elif isinstance(element, Prod):
            self.on_prod(element, emit)
        else:
            self.on_page(element, emit)

    @abstractmethod
    def on_page(self, page: Page, emit: Emit) -> None:
        """Rows have come; those of an early page hold for the prod behind them and no longer."""

    def on_punctuation(self, time: Punctuation, emit: Emit) -> None:
        """Time has come so far on the input; `output` says how far that is on the other side."""
        return None

    def on_prod(self, prod: Prod, emit: Emit) -> None:
        """An answer is wanted now; an operator that holds nothing lets the prod pass (S5 section 3.3)."""
        emit(prod)


class Extending(Unary):
    """An operator that only extends pages by what is to be done to their rows."""

    extends: ClassVar[bool] = True
    divisible: ClassVar[bool] = True

    @abstractmethod
    def extended(self, page: Page) -> Page:
        """The same page with that to be done."""

    def on_page(self, page: Page, emit: Emit) -> None:
        """Send it on, extended."""
        emit(self.extended(page))
