"""The queue on an arc: elements in order, and the register of how far time has come at its end (S3's TSM).

Where the label of an operator asks for it (S1 section 7), pages are held back at the beginning of the queue until a
heartbeat has come to them; only then are they presented to the operator.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import chain

from slackwater.operators.element import Element, of_prod, page_of
from slackwater.operators.operator import Input
from slackwater.operators.page import Page
from slackwater.operators.pages import Pages
from slackwater.operators.prod import Prod
from slackwater.progress.heartbeat import Heartbeat
from slackwater.progress.punctuation import Punctuation
from slackwater.progress.time import MAX_TICK


@dataclass(slots=True)
class Entry:
    """An element that waits."""

    element: Element
    admission: int
    source: str | None = None
    """Label of the source that a page has come by; results of aggregates have come by none."""
    is_page: bool = field(init=False)
    _rows: int = field(init=False, default=0)
    _bytes: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.is_page = isinstance(self.element, Page)

    @property
    def page(self) -> Page:
        """The element, which is a page."""
        return page_of(self.element)

    @property
    def unsaved(self) -> bool:
        """Whether it is a page that would be lost with the process."""
        return isinstance(self.element, Page) and not self.element.durable

    def size(self, pages: Pages) -> tuple[int, int]:
        """Rows and bytes of a page, 0 as long as they are not known; a long queue asks for them at each step."""
        if isinstance(self.element, Page) and not (self._rows and self._bytes):
            self._rows, self._bytes = pages.rows(self.element) or 0, self.element.size or 0
        return self._rows, self._bytes

    @property
    def sized(self) -> bool:
        """Whether `size` will not change any more."""
        return not self.is_page or bool(self._rows and self._bytes)

    @property
    def early(self) -> bool:
        """Whether it is a prod, or belongs to one."""
        return of_prod(self.element) is not None

    def highest(self, pages: Pages) -> int | None:
        """The time that a page waits for, that of its last row; runs a job if none has. None: it need not wait.

        Rows of a stream with sources may lie below its heartbeat and be in time for their own source (D4): while
        they waited, others would go on without them.
        """
        arrival = pages.measure(self.element) if isinstance(self.element, Page) else None
        return None if arrival is None or arrival.sources is not None else arrival.highest


class Queue:
    """First in, first out; a punctuation that is taken moves the register.

    Its length is what has been presented; what is held back stands behind that. A prod, and what belongs to it, is
    never held back.
    """

    def __init__(self, pages: Pages | None = None) -> None:
        self._pages = pages or Pages()
        self._entries: deque[Entry] = deque()
        self._held: deque[Entry] = deque()
        self._holds_back = False
        self._untold = False
        """Whether what is held back has changed since time was told of ahead of it."""
        self.time = Punctuation.NONE
        self.taken: Entry | None = None
        """The element that was taken last: its results belong to the same admission."""
        self.prods = 0
        """How many prods wait."""
        self.on_change: Callable[[], None] = lambda: None
        """Called when what waits here, or what of it is presented, has changed."""

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        """All elements that wait, those held back included."""
        return chain(self._entries, self._held)

    @property
    def held(self) -> Sequence[Entry]:
        """Elements that are held back, in order."""
        return self._held

    @property
    def waiting(self) -> int:
        """How many elements wait, with those that are held back."""
        return len(self._entries) + len(self._held)

    def push(self, entry: Entry) -> None:
        """Append an element; behind a page that is held back it waits too."""
        element = entry.element
        if isinstance(element, Page):
            self._pages.hold(element)
        if self.time.idle and (entry.is_page or (isinstance(element, Punctuation) and not element.idle)):
            # It counts again at once: while this waits, time must not go past its rows.
            self.time = replace(self.time, idle=False)
        self._put(entry)
        self.on_change()

    def _put(self, entry: Entry) -> None:
        if self._holds_back and not entry.early and (entry.is_page or self._held):
            self._held.append(entry)
            self._untold = True
            return
        self._entries.append(entry)
        if isinstance(entry.element, Prod):
            self.prods += 1

    def hold_back(self, pages: bool) -> None:
        """Whether to hold pages back from now on, also those that wait already."""
        if pages == self._holds_back:
            return
        self._holds_back = pages
        waiting = list(self)
        self._entries.clear()
        self._held.clear()
        self.prods = 0
        for entry in waiting:
            self._put(entry)
        self.on_change()

    def lift(self, time: Punctuation) -> None:
        """The arc is idle, and the operator goes on with others to this time: rows up to it are late now."""
        self.time = self.time.joined(replace(time, idle=True))

    def present(self, heartbeat: int) -> None:
        """A heartbeat has come so far: present the pages whose rows it has passed, and what follows them."""
        while self._held and ((highest := self._held[0].highest(self._pages)) is None or highest <= heartbeat):
            self._entries.append(self._held.popleft())
            self._untold = True
        if self._untold:
            self._untold = False
            self._tell_ahead()
            self.on_change()

    def _tell_ahead(self) -> None:
        """Release held punctuations up to just below the first held page."""
        told = reduce(Punctuation.joined, (e for e in self.elements() if isinstance(e, Punctuation)), self.time)
        lowest, ahead, admission = MAX_TICK, told, 0
        for entry in self._held:
            element = entry.element
            if isinstance(element, Punctuation):
                passed = Heartbeat(min(element.heartbeat.tick, lowest - 1))
                ahead, admission = told.joined(Punctuation(passed, told.sources)), entry.admission
            elif (arrival := self._pages.arrival(page_of(element))) is None or arrival.sources is not None:
                # Nothing behind it follows from its rows; or rows of a source may come below the heartbeat of all.
                break
            elif arrival.lowest is not None:
                lowest = min(lowest, arrival.lowest)
        if ahead is not told:
            self._entries.append(Entry(ahead, admission))
            self._leave_out(ahead)

    def _leave_out(self, told: Punctuation) -> None:
        """Drop held punctuations that are no longer news: a heartbeat never goes back."""
        for entry in self._held:
            if isinstance(entry.element, Punctuation):
                entry.element = told.joined(entry.element)
        self._held = deque(entry for entry in self._held if entry.element is not told)

    def peek(self) -> Element:
        """The element that waits longest."""
        return self._entries[0].element

    @property
    def first(self) -> Entry:
        """The same, as it waits."""
        return self._entries[0]

    def pop(self, at: int = 0) -> Element:
        """Take that element, or the one at some place behind it."""
        return self._take(at).element

    def pop_prod(self) -> Prod | None:
        """Take the first prod out of turn, if there is one."""
        if not self.prods:
            return None
        for n, entry in enumerate(self._entries):
            if isinstance(entry.element, Prod):
                self._take(n)
                return entry.element
        return None

    def move(self, to: Input) -> None:
        """Put the element that waits longest on another queue, as it is."""
        assert isinstance(to, Queue)
        to.push(self._take(0))

    def _take(self, at: int) -> Entry:
        entry = self._entries[at]
        del self._entries[at]
        self.taken = entry
        if isinstance(entry.element, Prod):
            self.prods -= 1
        elif isinstance(entry.element, Punctuation):
            self.time = self.time.joined(entry.element)
        else:
            self._pages.take(entry.element)
        self.on_change()
        return entry

    def exchange(self, entry: Entry, page: Page) -> None:
        """Replace a waiting page by the same page with its rows elsewhere."""
        self._pages.hold(page)
        self._pages.release(entry.page)
        entry.element = page

    def cut(self, parts: int) -> None:
        """Divide the page that waits longest into this many parts; the next run takes one."""
        entry = self._entries[0]
        cut = entry.page.cut(parts)
        if cut is None:
            return
        for page in cut:
            self._pages.hold(page)
        self._pages.release(entry.page)
        self._entries.popleft()
        self._entries.extendleft(Entry(page, entry.admission, entry.source) for page in reversed(cut))
        self.on_change()

    def clear(self) -> None:
        """Nobody will take what waits."""
        for entry in self:
            if entry.is_page:
                self._pages.release(entry.page)
        self._entries.clear()
        self._held.clear()

    def elements(self) -> Iterator[Element]:
        """All presented elements, in order."""
        return (entry.element for entry in self._entries)

    @property
    def oldest(self) -> int:
        """Admission of the element that waits longest."""
        return self._entries[0].admission

    def size(self) -> tuple[int, int]:
        """Rows and bytes of the pages that wait, as far as they are known."""
        sizes = [entry.size(self._pages) for entry in self]
        return sum(rows for rows, _ in sizes), sum(size for _, size in sizes)
