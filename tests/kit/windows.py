"""A window of a stream from its settings, for tests that are the same for every kind."""

from __future__ import annotations

from typing import Any

import slackwater as sw


def window_of(
    query: sw.Query, range: Any = None, slide: Any = None, offset: Any = None, rows: int | None = None, **more: Any
) -> Any:
    """With a slide the windows that all rows share, without it one for each row."""
    if "step" in more:
        return query.cumulate(range, offset=offset, **more)
    if "gap" in more:
        return query.sessions(**more)
    if rows is not None and slide is not None:
        return query.window(rows=rows, slide_rows=slide, **more)
    if slide is None:
        return query.rolling(range=range, rows=rows, **more)
    return query.window(range, slide=slide, offset=offset, **more)
