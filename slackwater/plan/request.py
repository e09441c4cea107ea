"""A prod as a sink's function asks for it: S5's feedback punctuation (section 3.2, figure 3.2 d)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ProdRequest:
    """A request for early answers. It is checked against the query when the function returns it."""

    until: object = None
    where: str | None = None
    at: object = None


def prod(until: object = None, where: str | None = None, at: object = None) -> ProdRequest:
    """What a sink's function gives back to ask for early answers (S5 section 3.2); True asks all open windows.

    What a final answer asks for is done at once. What an early answer asks for is done once for each page that
    comes: a function that always asks is called a few times a page, not for ever.

    >>> prod(until="2013-01-14 06:00", where="carrier = 'AA'")
    ProdRequest(until='2013-01-14 06:00', where="carrier = 'AA'", at=None)

    Args:
        until: only windows that end by then, a time of the stream; all open ones if left out.
        where: only groups that meet this condition on the group columns.
        at: only windows that contain this time (S5's "timestamp = t"); instead of `until`.
    """
    return ProdRequest(until, where, at)
