"""What holds a query back, in a sentence or two."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: How many sources are named.
_NAMED = 3


def hold(status: str, paused: bool, stream: str, figures: Mapping[str, Any]) -> str:
    """What a query waits for, and what to do if time does not advance; `figures` are those of the stream.

    >>> figures = {"rows": 9, "lag_seconds": 17.2, "silent_seconds": 4.2, "wait": 13.0, "heartbeat": "12:00"}
    >>> hold("running", False, "iot", figures)
    'Waits for stream iot: last heard 4 s ago, rows may be up to 13 s late.'
    >>> hold("running", False, "iot", figures | {"held_back_by": {"d01": "12:00", "d02": "12:05"}})
    'Waits for source d01 of stream iot: its time is 13 s behind the newest row, which came 4 s ago.'
    """
    if status not in ("running", "waiting"):
        return ""
    if paused:
        return "The session is paused. Press Resume to go on."
    if status == "waiting":
        return f"Nothing reads stream {stream} now. Call session.run_available()."
    rows, silent, wait = figures.get("rows", 0), figures.get("silent_seconds"), figures.get("wait")
    if not rows:
        return f"No row of stream {stream} has come yet. Look whether its source has new data."
    if figures.get("missing_time", 0) >= rows:
        return f"No row of stream {stream} has a time that can be read. Look at the type of its time column."
    timed = figures.get("lag_seconds") is not None
    behind = None if wait is None else span(wait) if timed else f"{wait:g}"
    heard = "" if silent is None else f"{span(silent)} ago"
    held = figures.get("held_back_by", {})
    lowest = [name for name, beat in held.items() if beat == figures.get("heartbeat")]
    # Where all are as far, no source is to blame.
    if lowest and len(lowest) < max(2, len(held)) and behind is not None:
        names, whose = ", ".join(lowest[:_NAMED]), ("its" if len(lowest) == 1 else "their")
        newest = f", which came {heard}" if heard else ""
        text = (
            f"Waits for source{'s' * (len(lowest) > 1)} {names} of stream {stream}: "
            f"{whose} time is {behind} behind the newest row{newest}."
        )
    else:
        parts = [f"last heard {heard}"] if heard else []
        parts += [] if behind is None else [f"rows may be up to {behind} late"]
        text = f"Waits for stream {stream}{': ' if parts else ''}{', '.join(parts)}."
    if figures.get("idle"):
        return f"{text} It is silent for longer than its timeout, so unions and joins do not wait for it."
    if timed and silent is not None and wait is not None and silent > max(wait, 1.0):
        return f"{text} Windows at the end stay open until a newer row comes, or until the timeout of the policy."
    return text


def span(seconds: float) -> str:
    """A length of time, to about two digits.

    >>> span(0.04), span(13.2), span(600), span(30_000), span(400_000)
    ('0 s', '13 s', '10 min', '8.3 h', '4.6 days')
    """
    for unit, size in (("days", 86_400), ("h", 3_600)):
        if abs(seconds) >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds / 60:.0f} min" if abs(seconds) >= 120 else f"{seconds:.0f} s"
