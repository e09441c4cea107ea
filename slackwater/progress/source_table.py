"""Numbers for the names of a stream's sources, a whole page at a time; and columns by these numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import repeat
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.progress.restorable import Restorable
from slackwater.progress.source_numbers import Ints

#: Names in a page from which on they are looked up together.
MANY = 1_000


class SourceNumbers:
    """Numbers sources from 0 on, in the order in which they were given.

    >>> numbers = SourceNumbers(["north", "south"])
    >>> numbers.of(["south", "west", "north"]).tolist()      # -1: not known
    [1, -1, 0]
    >>> numbers.meet(["south", "west", "east"], most=3).tolist(), numbers.names
    ([1, 2, -1], ['north', 'south', 'west'])
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.names = list(names)
        """By number. A new list whenever one is added, so that it can be given away."""
        self._number = {name: i for i, name in enumerate(self.names)}
        self._table: Any = None
        self._last: tuple[list[str], Ints] = ([], np.zeros(0, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.names)

    def of(self, names: list[str]) -> Ints:
        """The numbers of these sources; -1 for one that is not known."""
        if len(names) < MANY or 8 * len(names) < len(self.names):
            return np.fromiter(map(self._number.get, names, repeat(-1)), dtype=np.int64, count=len(names))
        # A stream's pages often have all of its sources, in the same order: comparing takes a tenth of looking up.
        if names != self._last[0]:
            self._last = names, self._looked_up(names)
        return self._last[1].copy()

    def _looked_up(self, names: list[str]) -> Ints:
        """Many at once: Arrow's table is a third of the cost of a lookup each, though it is built every time."""
        if self._table is None:
            self._table = pa.array(self.names, pa.string())
        found = pc.index_in(pa.array(names, pa.string()), value_set=self._table)
        return found.fill_null(-1).to_numpy().astype(np.int64)  # type: ignore[no-any-return]

    def meet(self, names: list[str], most: int) -> Ints:
        """The same, but sources that are not known get the next numbers, until there are `most`."""
        found = self.of(names)
        if len(self.names) >= most or (len(found) and found.min() >= 0):
            return found
        missing = np.nonzero(found < 0)[0]
        new = list(dict.fromkeys(names[i] for i in missing.tolist()))[: most - len(self.names)]
        self._number.update(zip(new, range(len(self.names), len(self.names) + len(new)), strict=True))
        found[missing] = [self._number.get(names[i], -1) for i in missing.tolist()]
        self.names = self.names + new
        self._table, self._last = None, ([], found[:0])
        return found


class SourceTable(Restorable):
    """Columns with an entry for each source, in the order in which sources showed up. A subclass names them."""

    new: ClassVar[Mapping[str, int | float]]
    """The columns, and what a source has in each when it shows up."""
    width: ClassVar[int | None] = None
    """Entries of a source in each column; None: one, and a column has one dimension."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._numbers = SourceNumbers(names)
        for name, value in self.new.items():
            setattr(self, name, self._fresh(len(self), value))

    def _fresh(self, sources: int, value: float) -> Any:
        return np.full(sources if self.width is None else (sources, self.width), value)

    @property
    def names(self) -> list[str]:
        """The sources by number."""
        return self._numbers.names

    def __len__(self) -> int:
        return len(self._numbers)

    def meet(self, names: list[str]) -> Ints:
        """The numbers of some sources; those that are new get the next ones."""
        before = len(self)
        number = self._numbers.meet(names, before + len(names))
        if len(self) > before:
            for name, value in self.new.items():
                grown = np.concatenate([getattr(self, name), self._fresh(len(self) - before, value)])
                setattr(self, name, grown)
        return number

    def state(self) -> dict[str, Any]:
        """Names and columns."""
        return {"names": list(self.names), **{name: getattr(self, name).copy() for name in self.new}}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from an earlier `state()`."""
        self._numbers = SourceNumbers(state["names"])
        for name, value in self.new.items():
            setattr(self, name, np.array(state[name], dtype=self._fresh(0, value).dtype))
