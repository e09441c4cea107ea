"""The settings of a back-test, with defaults that suit the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from slackwater.errors import QueryError
from slackwater.progress.bounds.punctuated import Punctuated
from slackwater.progress.disorder import Disorder
from slackwater.progress.policies import in_python
from slackwater.progress.shares import read_share
from slackwater.progress.time import TimeDomain, microseconds
from slackwater.progress.time_kinds import is_stamped
from slackwater.tune.durations import HOUR, SECOND, nice, write
from slackwater.tune.rows import Extent
from slackwater.windows.spec import WindowSpec

Length = str | timedelta
#: Shares that may be lost.
TARGETS = (0.001, 0.01, 0.05)
#: Without `page=`, the rows are cut into about this many pages: a policy is called once a page.
PAGES = 6_000
#: Without `windows=`, the rows span about this many windows, of an hour at most.
WINDOWS = 500


@dataclass(frozen=True)
class TuneOptions:
    """The names of the columns, and the settings as the user wrote them."""

    time: str
    arrival: str
    source: str | None = None
    windows: Length | tuple[Length, Length] | None = None
    page: Length | None = None
    targets: tuple[float, ...] = TARGETS
    delays: tuple[Length, ...] = ()
    """Further fixed delays to try, such as the one in use."""
    policies: tuple[Disorder, ...] = ()
    """Further policies to try."""

    @property
    def target(self) -> float:
        """The share that the advice is for: the middle one."""
        return sorted(self.targets)[(len(self.targets) - 1) // 2]

    def check(self) -> None:
        """Refuse wrong settings before any row is read."""
        for delay in self.delays:
            if microseconds(delay) < 0:
                raise QueryError(f"delays={delay!r} is negative; write it as in delays=['10 minutes']")
        for policy in self.policies:
            if not hasattr(policy, "tracker"):
                raise QueryError(f"policies={policy!r} is no policy; write it as in policies=[sw.learned()]")
            written = in_python(policy.describe())
            if isinstance(policy, Punctuated) or is_stamped(policy):
                raise QueryError(
                    f"policies: {written} goes by more than times and arrivals, so it cannot be tried on "
                    "them; leave it out"
                )
            if policy.needs_sources and self.source is None:
                raise QueryError(f"policies: {written} speaks of sources; name their column, source=")
            policy.tracker(TimeDomain.TIMESTAMP)

    def spec(self, extent: Extent) -> WindowSpec:
        """The windows; without `windows=`, of a length that suits the data."""
        if self.windows is None:
            suits = min(nice((extent.last - extent.first) / WINDOWS), HOUR)
            length = write(max(suits, self.page_length(extent)))
            return WindowSpec.of(TimeDomain.TIMESTAMP, length, length, None)
        pair = self.windows if isinstance(self.windows, (tuple, list)) else (self.windows, self.windows)
        if len(pair) != 2:
            raise QueryError(
                f"windows={self.windows!r}: write RANGE, or RANGE and SLIDE as in ('3 hours', '1 hour')"
            )
        spec = WindowSpec.of(TimeDomain.TIMESTAMP, *pair, None)
        if not spec.alike:
            raise QueryError(
                f"windows={self.windows!r}: slide={pair[1]!r} is longer than size={pair[0]!r}; tune tries windows "
                "that have all rows"
            )
        return spec

    def page_length(self, extent: Extent) -> int:
        """The length of a page; without `page=`, a length that suits the data."""
        if self.page is None:
            span = extent.last - extent.first
            return nice(max(SECOND if span > 100 * SECOND else 0, span / PAGES))
        length = microseconds(self.page)
        if length <= 0:
            raise QueryError(f"page={self.page!r} must be positive, as in page='10 seconds'")
        return length


def as_shares(given: object) -> tuple[float, ...]:
    """The shares that may be lost, from numbers or texts such as "1%"."""
    found = []
    for target in as_tuple(given, "targets"):
        share = read_share(target)
        if share is None or not 0 < share < 1:
            raise QueryError(
                f"targets={target!r}: a share that may be lost lies between 0 and 1, as in 0.01 or '1%'"
            )
        found.append(float(share))
    if not found:
        raise QueryError("targets=[]: say what share may be lost, as in targets=[0.01]")
    return tuple(found)


def as_tuple(value: object, what: str) -> tuple[object, ...]:
    """One value, or several."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(value)
    if value is None:
        raise QueryError(f"{what}=None: leave it out, or write a list")
    return (value,)
