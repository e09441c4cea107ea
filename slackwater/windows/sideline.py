"""Whether bursts are sidelined behind an expensive operator: the setting that a user writes (S5 section 6.2)."""

from __future__ import annotations

from dataclasses import dataclass

from slackwater.calls import called
from slackwater.errors import QueryError


@dataclass(frozen=True)
class Sideline:
    """What share of the work is for sidelined pages; see `sideline`."""

    ratio: int = 4

    def describe(self) -> str:
        """As the user would write it."""
        return f"sideline(ratio={self.ratio})"


@called()
def sideline(ratio: int = 4) -> Sideline:
    """Later windows on time after a burst: its rest is set aside, for `start(sideline=…)` (S5 section 6.2).

    >>> sideline(ratio=4).describe()
    'sideline(ratio=4)'

    Args:
        ratio: while other pages wait, one row in so many is of a sidelined one (of pages that are equally large,
            one page in so many); in a lull all are worked off.
    """
    if isinstance(ratio, bool) or not isinstance(ratio, int) or ratio < 2:
        raise QueryError(f"sideline(ratio={ratio!r}): write 2 or more, as in ratio=4 for one sidelined row in four")
    return Sideline(ratio)
