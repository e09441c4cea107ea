"""Which kinds of time go together (S3 section 5), and which policies windows may have."""

from __future__ import annotations

from collections.abc import Sequence

from slackwater.errors import QueryError
from slackwater.plan import logical as L
from slackwater.plan.node import PlanNode, streams_of
from slackwater.progress.time_kinds import is_stamped


def check_time_kinds(rows: PlanNode, window: L.Window) -> None:
    """Refuse a policy for rows that are stamped on arrival, and a kind of time in the place of a policy."""
    own = window.disorder
    if own is not None and is_stamped(own):
        raise QueryError(
            f"disorder={own.describe()}: this is a kind of time and no policy; write it at the stream, as in "
            f"s.stream(…, time=sw.{own.describe()})"
        )
    for stream in streams_of(rows):
        if not is_stamped(stream.disorder):
            continue
        kind = stream.disorder.describe()
        if window.wattr is not None and own is None:
            raise QueryError(
                f"window on={window.wattr!r}: stream {stream.declared!r} has time={kind}, which says nothing of "
                "how late this attribute comes; add disorder= to window(…)"
            )
        if window.wattr is None and own is not None:
            raise QueryError(
                f"disorder={own.describe()}: stream {stream.declared!r} has time={kind}: rows are stamped as they "
                "come, so none is late; leave out disorder="
            )


def check_latent(sides: Sequence[PlanNode], what: str) -> None:
    """Refuse to put together rows that have a time with rows that have none yet: S3 does not mix them."""
    latent = [side for side in sides if side.latent]
    others = [side for side in sides if not side.latent]
    if latent and others:
        one, other = (streams_of(nodes[0])[0].declared for nodes in (latent, others))
        raise QueryError(
            f"{what}: the rows of {one!r} have latent time, which is none before a window asks for it, and those "
            f"of {other!r} have a time; declare {one!r} with time=sw.internal(), or both with time=sw.latent()"
        )
