"""How a user cuts a query into windows: `window`, `rolling`, `cumulate`, `sessions`; and `totals`, without any."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Column

from slackwater.calls import called
from slackwater.errors import QueryError, shown
from slackwater.plan import logical as L
from slackwater.progress.disorder import Disorder
from slackwater.progress.time import Span
from slackwater.spark.api import counterparts as words
from slackwater.spark.api.column_sql import attribute_of

if TYPE_CHECKING:
    from slackwater.spark.api.query import Windowed
    from slackwater.spark.api.session import Session


class CutIntoWindows:
    """The part of a query that makes windows."""

    if TYPE_CHECKING:
        session: Session
        _logical: L.Logical

        def _windowed(self, window: L.Window) -> Windowed: ...

    @called(words.WINDOW_ARGUMENTS, disorder=words.POLICY)
    def window(
        self,
        size: Span | None = None,
        slide: Span | None = None,
        offset: Span | None = None,
        *,
        rows: int | None = None,
        slide_rows: int | None = None,
        on: str | Column | None = None,
        disorder: Disorder | None = None,
        fill: int | str | None = L.NO_FILL,
        forget: Span | None = None,
    ) -> Windowed:
        """The stream cut into windows of its time, or of another attribute of its rows; `agg` is next.

        `window("10 minutes")` tumbles: windows lie side by side, and begin where those of Spark's `window()` do.
        For a window that ends with each row, see `rolling`.

        Results of windows can be windowed again, as in the largest of the sums of all sensors (S5's Q3-4). The time
        of a result is the last tick of its window. So a window [s, e) takes the results of the windows that end in
        (s, e]. To compare the groups of each window with one another, give the outer window the slide of this query
        as its size.

        Args:
            size: the length of a window, as in "10 minutes".
            slide: how often a window begins; without it as often as one ends.
            offset: how much later windows begin.
            rows: instead of `size`: how many rows of a group a window has. The first windows have fewer.
            slide_rows: after how many rows of a group a window ends; without it after `rows`.
            on: the attribute that windows go by instead of the stream's time: a timestamp, a date, a whole number
                or a decimal.
            disorder: a policy for this query alone, instead of the stream's. Queries with equal ones share it.
            fill: the answer for a window in which a known group had no row: 0 in columns of numbers, None for NULL,
                or "last" for the values of the group's last answer. A group is known from its first answer on.
                Without `fill` there is no answer.
            forget: for how long after its last row a group is known, as in "1 day"; without this, for good.
        """
        if rows is not None or slide_rows is not None:
            if rows is None or size is not None or slide is not None:
                raise QueryError(
                    "window(rows=…, slide_rows=…) has windows of rows; leave size and slide out, as in "
                    "window(rows=100, slide_rows=10)"
                )
            by = rows if slide_rows is None else slide_rows
            return self._windowed(L.Window(None, by, offset, rows, attribute_of(on), disorder))
        if size is None:
            raise QueryError("window() needs a size, as in window('10 minutes')")
        if isinstance(size, Column) or size in self.session._analysis.columns(self._logical):
            raise QueryError(
                f"window({shown(size)}, …): windows go by the stream's time; write the size first, as in "
                "window('10 minutes'), and on= for another column"
            )
        step = size if slide is None else slide
        window = L.Window(size, step, offset, None, attribute_of(on), disorder, fill=fill, forget=forget)
        return self._windowed(window)

    @called(words.ROLLING_ARGUMENTS, disorder=words.POLICY)
    def rolling(
        self,
        range: Span | None = None,
        *,
        rows: int | None = None,
        on: str | Column | None = None,
        disorder: Disorder | None = None,
    ) -> Windowed:
        """A window for each row, that ends with the row (S4); `agg` or `join` is next.

        Grouped, it covers rows of the row's own group. In a join it says how long rows find partners.

        Args:
            range: the length of a window, as in "10 minutes": it covers (t - range, t] for a row of time t.
            rows: instead of `range`: how many rows a window covers, the row itself included.
            on: the attribute that windows go by instead of the stream's time, as in `window`.
            disorder: a policy for this query alone, instead of the stream's.
        """
        return self._windowed(L.Window(range, None, None, rows, attribute_of(on), disorder))

    @called(disorder=words.POLICY)
    def cumulate(
        self,
        size: Span,
        step: Span,
        offset: Span | None = None,
        *,
        on: str | Column | None = None,
        disorder: Disorder | None = None,
    ) -> Windowed:
        """Windows that grow by a step until they have their size, then begin anew; `agg` is next.

        `cumulate("1 day", step="1 hour")` answers each hour what has come since midnight, as Flink's CUMULATE does.

        Args:
            size: the length of the last one of a row of windows.
            step: by how much a window is longer than the one before it; the size is a multiple of it.
            offset: how much later windows begin.
            on: the attribute that windows go by instead of the stream's time, as in `window`.
            disorder: a policy for this query alone, instead of the stream's.
        """
        return self._windowed(L.Window(size, None, offset, None, attribute_of(on), disorder, step=step))

    @called(disorder=words.POLICY)
    def sessions(self, gap: Span, *, on: str | Column | None = None, disorder: Disorder | None = None) -> Windowed:
        """The stream cut into sessions, which go on while rows are at most a gap apart; `agg` is next.

        Grouped, each group has sessions of its own. A session of rows from `first` to `last` is
        [first, last + gap), as in Spark's `session_window`. A late row joins the open sessions that it connects.

        Args:
            gap: how long a session goes on without a row, as in "5 minutes".
            on: the attribute that windows go by instead of the stream's time, as in `window`.
            disorder: a policy for this query alone, instead of the stream's.
        """
        return self._windowed(L.Window(wattr=attribute_of(on), disorder=disorder, gap=gap))

    @called()
    def totals(self, *, forget: Span | None = None) -> Windowed:
        """Totals since the beginning, without a window. Go on with `agg`, and `start(early=sw.early(every=…))`.

        `totals().group_by("user").agg(n="count(*)")` answers as often as `every` says, and when the input ends. An
        answer has one row for each group that has changed since the last answer. Its `kind` is "early", because
        more rows may always come, and its `window_start` and `window_end` are NULL. No row is late.

        Args:
            forget: for how long after its last row a group is kept, as in "1 day"; without it, for ever. If the
                group comes back later, it starts at zero.
        """
        return self._windowed(L.Window(L.UNBOUNDED, forget=forget))
