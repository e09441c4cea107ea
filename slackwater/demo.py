"""The demonstration: a year's departures from New York come again, late as they were, through a sliding window."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from slackwater.data import FLIGHTS
from slackwater.errors import SinkError
from slackwater.estimates.early import early
from slackwater.progress.drop_ratio.drop_ratio import drop_ratio
from slackwater.spark.api.metric_types import Metrics
from slackwater.spark.api.session import Session
from slackwater.spark.sinks.parquet_sink import parquet

YEAR = 365
AIRPORTS = ("EWR", "JFK", "LGA")
RANGE, SLIDE, LOST = "3 hours", "1 hour", 0.01
#: A page costs nearly the same however few rows it has, so these two decide how long the demonstration takes.
DAYS, PAGE = 60, "3 hours"
#: Share of a slide after which early answers are asked for, where somebody watches.
EARLY_AT = 0.75

_MARK = ".slackwater-demo"
_SHOWN_WINDOWS = 8
_COLUMNS = ("origin", "flights", "delay", "window_start", "window_end", "emitted_at")
_DRAW_EVERY, _LINE_EVERY = 0.2, 5.0


@dataclass(frozen=True)
class Summary:
    """What came out of the replay."""

    rows: int
    late_rows: int
    lost_pairs: int
    """Pairs of a late row and a window that had been answered without it."""
    lost_share: float
    """Share of the (row, window) pairs."""
    windows: int
    results: int
    median_wait: timedelta | None
    longest_wait: timedelta | None
    """From a window's end to its final answer, on the replay's clock; without the windows that the end closed."""
    start_seconds: float
    replay_seconds: float


def prepare(out: Path) -> None:
    """Make the folder, or empty it if an earlier demonstration made it."""
    if out.exists() and not out.is_dir():
        raise SinkError(f"{out} is a file; give another folder with --out")
    if out.exists() and any(out.iterdir()):
        if not (out / _MARK).exists():
            raise SinkError(f"{out} is not empty and was not made by the demo; give another folder with --out")
        shutil.rmtree(out)
    try:
        out.mkdir(parents=True, exist_ok=True)
        (out / _MARK).touch()
    except OSError as error:
        raise SinkError(f"cannot write to {out}: {error.strerror}; give another folder with --out") from error


def replay(
    out: Path,
    console: Console,
    days: int = DAYS,
    page: str = PAGE,
    starting: Callable[[], AbstractContextManager[object]] = nullcontext,
    drive: Callable[[Callable[[], None]], None] = lambda work: work(),
    watch: Callable[[Session], Callable[[], None]] | None = None,
) -> Summary:
    """Replay the first days of the year, show it, and leave the results as Parquet under `out`.

    `starting` surrounds the start of Spark, `drive` is called with the replay. `watch` is called with the session,
    and gives a function to be called at the end; with it there are early answers, too.
    """
    prepare(out)
    started = time.perf_counter()
    console.print(
        f"Departures from New York in 2013, the first {days} of {YEAR} days, in pages of {page}.\n"
        f"Delay by airport, RANGE {RANGE} SLIDE {SLIDE}, losing at most {LOST:.0%} of what windows should count.",
        style="dim",
        highlight=False,
    )
    console.print("Starting Spark …", style="dim")
    with starting():
        session = Session()
    with session:
        until = datetime(2013, 1, 1, tzinfo=UTC) + timedelta(days=days)
        frame = session.spark.read.parquet(FLIGHTS).where(f"departed < TIMESTAMP'{until:%Y-%m-%d} 00:00:00Z'")
        departures = session.stream(
            "departures", frame, time="scheduled", arrival="departed", page=page, disorder=drop_ratio(LOST)
        )
        query = (
            departures.window(RANGE, slide=SLIDE).group_by("origin").agg(flights="count(*)", delay="avg(delay_min)")
        )
        settings = None if watch is None else early(at=EARLY_AT)
        run = query.start(sink=parquet(out, every="1 second"), name="delays", early=settings)
        ready = time.perf_counter()
        board = ReplayDisplay(console, out, run.metrics)
        stay = None if watch is None else watch(session)
        with board:
            drive(lambda: session.run_available(progress=lambda page: board.show(page["clock"])))
        ended = time.perf_counter()
        figures = run.metrics()
        if stay is not None:
            run.flush()
            stay()
    median, longest = waits(out)
    return Summary(
        rows=figures["rows"],
        late_rows=figures["late_rows"],
        lost_pairs=figures["lost_pairs"],
        lost_share=figures["lost_share"],
        windows=figures["windows"],
        results=figures["results"],
        median_wait=median,
        longest_wait=longest,
        start_seconds=ready - started,
        replay_seconds=ended - ready,
    )


def waits(folder: Path) -> tuple[timedelta | None, timedelta | None]:
    """Median and longest wait from a window's end to its answer.

    The last commit is left out: the end of the replay closed its windows, whatever the time.
    """
    answers = _finals(sorted(folder.glob("*.parquet"))).select("window_end", "emitted_at").unique()
    if not answers.height:
        return None, None
    waited = answers.filter(pl.col("emitted_at") < answers["emitted_at"].max()).select(
        wait=pl.col("emitted_at") - pl.col("window_end")
    )["wait"]
    median, longest = waited.median(), waited.max()
    assert median is None or isinstance(median, timedelta)
    assert longest is None or isinstance(longest, timedelta)
    return median, longest


def _finals(files: Sequence[Path]) -> pl.DataFrame:
    """The final answers of some files; early ones have more columns."""
    parts = [pl.read_parquet(file, columns=[*_COLUMNS, "kind"]) for file in files]
    rows = pl.concat(parts) if parts else pl.DataFrame(schema=[*_COLUMNS, "kind"])
    return rows.filter(pl.col("kind") == "final").drop("kind")


class ReplayDisplay:
    """Shows a replay: a table that is drawn again and again, or a line now and then where there is no terminal."""

    def __init__(self, console: Console, folder: Path, metrics: Callable[[], Metrics]) -> None:
        self._console = console
        self._metrics = metrics
        self._answers = Answers(folder)
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None
        self._clock = 0
        self._shown = 0.0
        self._began = time.perf_counter()

    def __enter__(self) -> ReplayDisplay:
        if self._live is not None:
            self._live.start()
            self._live.update(Text("Sorting the departures by arrival …", style="dim"), refresh=True)
        return self

    def __exit__(self, *exc: object) -> None:
        if self._live is None:
            return
        if exc[0] is None:
            self._live.update(self._draw(self._clock, self._metrics()), refresh=True)
        self._live.stop()

    def show(self, clock: int) -> None:
        """Show the state, unless that was done a moment ago."""
        self._clock, now = clock, time.perf_counter()
        if now - self._shown < (_LINE_EVERY if self._live is None else _DRAW_EVERY):
            return
        self._shown = now
        figures = self._metrics()
        if self._live is not None:
            self._live.update(self._draw(clock, figures), refresh=True)
            return
        self._console.print(
            f"{instant(clock)}  heartbeat {figures['heartbeat'][:16]}  lag {span(figures['lag_seconds'])}  "
            f"rows {figures['rows']:,}  late {figures['late_rows']:,}  windows {figures['windows']:,}",
            highlight=False,
            soft_wrap=True,
        )

    def _draw(self, clock: int, figures: Metrics) -> RenderableType:
        state = Table(box=None, padding=(0, 2, 0, 0))
        cells = {
            "clock (UTC)": instant(clock),
            "heartbeat": figures["heartbeat"][:16],
            "lag": span(figures["lag_seconds"]),
            "rows": f"{figures['rows']:,}",
            "late": f"{figures['late_rows']:,}",
            "windows": f"{figures['windows']:,}",
        }
        for name in cells:
            state.add_column(name, style="bold", header_style="cyan", no_wrap=True)
        state.add_row(*cells.values())
        recent = Table(box=None, padding=(0, 2, 0, 0))
        recent.add_column("window (UTC)", header_style="cyan", no_wrap=True)
        for airport in AIRPORTS:
            recent.add_column(airport, justify="right", header_style="cyan", no_wrap=True)
        recent.add_column("waited", justify="right", header_style="cyan", no_wrap=True)
        for row in self._answers.latest():
            recent.add_row(*row)
        seconds = Text(f"{time.perf_counter() - self._began:.0f} s", style="dim")
        title = Text("latest final windows: flights and their average delay in minutes", style="dim")
        return Group(state, Text(), title, recent, Text(), seconds)


class Answers:
    """The newest windows in the folder that the sink writes; each file is read once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._last = ""
        self._kept = pl.DataFrame()

    def latest(self) -> list[list[str]]:
        """The newest windows as cells, the latest first."""
        # The number of the commit is in the name, so names sort as they were written.
        names = sorted(p.name for p in self._folder.glob("part-*.parquet"))
        fresh = [n for n in names if n > self._last][-_SHOWN_WINDOWS:]
        if fresh:
            self._last = fresh[-1]
            frames = [self._kept, _finals([self._folder / n for n in fresh])]
            rows = pl.concat([f for f in frames if f.height] or frames[:1])
            if rows.height:
                oldest = rows["window_start"].unique().sort(descending=True).head(_SHOWN_WINDOWS).min()
                self._kept = rows.filter(pl.col("window_start") >= oldest)
        if not self._kept.height:
            return []
        windows = self._kept.partition_by("window_start", as_dict=True)
        return [_cells(windows[start]) for start in sorted(windows, reverse=True)]


def _cells(window: pl.DataFrame) -> list[str]:
    by_airport = {row["origin"]: row for row in window.iter_rows(named=True)}
    any_row = next(iter(by_airport.values()))
    cells = [f"{any_row['window_start']:%d %b %H:%M}–{any_row['window_end']:%H:%M}"]
    for airport in AIRPORTS:
        row = by_airport.get(airport)
        cells.append("" if row is None else f"{row['flights']} {row['delay']:+6.1f}")
    wait = (any_row["emitted_at"] - any_row["window_end"]).total_seconds()
    return [*cells, span(wait) if wait >= 0 else "by the end"]


def report(summary: Summary, out: Path, console: Console) -> None:
    """Say what came out and where it lies."""
    share = summary.late_rows / summary.rows if summary.rows else 0.0
    lines = {
        "rows": f"{summary.rows:,}",
        "late rows": f"{summary.late_rows:,} ({share:.1%}): a window they belong to had been answered",
        "lost": f"{summary.lost_share:.2%} of what windows should have counted; {LOST:.0%} was allowed",
        "windows": f"{summary.windows:,} closed, {summary.results:,} final answers",
        "wait": f"{_span(summary.median_wait)} in the median, {_span(summary.longest_wait)} at most, "
        "from a window's end to its final answer",
        "seconds": f"{summary.start_seconds + summary.replay_seconds:.0f} "
        f"({summary.start_seconds:.0f} to start Spark, {summary.replay_seconds:.0f} to replay)",
        "results": f"{out} (Parquet)",
    }
    console.print()
    for name, text in lines.items():
        console.print(f"{name:<10} {text}", highlight=False, soft_wrap=True)


def instant(tick: int) -> str:
    """A tick to the minute."""
    return f"{datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=tick):%Y-%m-%d %H:%M}"


def span(seconds: float | None) -> str:
    """A stretch of time in hours and minutes.

    >>> span(5400), span(-120), span(None)
    ('1 h 30 min', '-2 min', '–')
    """
    if seconds is None:
        return "–"
    minutes = round(abs(seconds) / 60)
    hours = f"{minutes // 60} h " if minutes >= 60 else ""
    return f"{'-' if seconds < 0 and minutes else ''}{hours}{minutes % 60} min"


def _span(wait: timedelta | None) -> str:
    return span(None if wait is None else wait.total_seconds())
