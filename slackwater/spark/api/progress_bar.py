"""A progress bar for `run_available`: pages and rows so far, how fast, and how far a replay has come."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from slackwater.engine.loop import Loop

#: Seconds between two looks at live streams.
_EVERY = 0.25


@contextmanager
def bar(loop: Loop, console: Console | None = None) -> Iterator[Callable[[dict[str, Any]], None]]:
    """A bar for the time inside; gives a function to be called after each replayed page."""
    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(*columns, console=console or Console(stderr=True), transient=True) as progress:
        task, begun, ended = progress.add_task("reading"), time.monotonic(), threading.Event()
        clock: list[int] = []

        def show() -> None:
            operators: Collection[Mapping[str, Any]] = loop.history.latest.operators.values()
            sources = [f for f in operators if "missing_time" in f]
            pages, rows = (sum(f[name] for f in sources) for name in ("pages", "rows"))
            speed = rows / max(1e-3, time.monotonic() - begun)
            at = f", {datetime.fromtimestamp(clock[-1] / 1e6, UTC):%Y-%m-%d %H:%M:%S}" if clock else ""
            progress.update(task, description=f"{pages:,} pages, {rows:,} rows, {speed:,.0f} a second{at}")

        def on_page(page: dict[str, Any]) -> None:
            clock[:] = [page["clock"]]
            show()

        def look() -> None:
            while not ended.wait(_EVERY):
                show()

        threading.Thread(target=look, name="slackwater-progress", daemon=True).start()
        try:
            yield on_page
        finally:
            ended.set()
