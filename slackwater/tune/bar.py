"""A bar for the long work of a back-test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn


@contextmanager
def bar(console: Console | None = None) -> Iterator[Callable[[str, int, int], None]]:
    """A function that takes what is being done, the steps done and all steps. It shows them, on a terminal only."""
    console = console or Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as shown:
        task = shown.add_task("reading", total=None)

        def progress(what: str, done: int, steps: int) -> None:
            shown.update(task, description=what, completed=done, total=steps)

        yield progress
