"""The demonstration: its folder, its two ways to show things, and that what it shows is true."""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import polars as pl
import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from slackwater import demo
from slackwater.errors import SinkError
from slackwater.spark.api.session import Session

DAYS = 3


def screen(terminal: bool) -> tuple[Console, io.StringIO]:
    text = io.StringIO()
    return Console(file=text, force_terminal=terminal, width=120, color_system=None), text


@pytest.fixture(scope="module")
def shown(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, demo.Summary, str]:
    """A short replay without a terminal."""
    out = tmp_path_factory.mktemp("demo")
    console, text = screen(terminal=False)
    summary = demo.replay(out, console, days=DAYS, page="6 hours")
    demo.report(summary, out, console)
    return out, summary, text.getvalue()


def departed(days: int) -> pl.DataFrame:
    until = datetime(2013, 1, 1, tzinfo=UTC) + timedelta(days=days)
    return pl.read_parquet(demo.FLIGHTS).filter(pl.col("departed") < until)


def truth(days: int) -> pl.DataFrame:
    """Every window from all rows, however late."""
    last, hour = pl.col("scheduled").dt.truncate("1h"), timedelta(hours=1)
    starts = pl.concat([departed(days).with_columns(window_start=last - n * hour) for n in range(3)])
    return starts.group_by("window_start", "origin").agg(
        true_flights=pl.len().cast(pl.Int64), true_delay=pl.col("delay_min").mean()
    )


@pytest.mark.spark
def test_answers_lack_the_late_rows_and_nothing_else(shown: tuple[Path, demo.Summary, str]) -> None:
    out, summary, _ = shown
    answers = pl.read_parquet(out / "*.parquet")
    compared = truth(DAYS).join(answers, on=["window_start", "origin"], how="left")
    lost = compared["true_flights"] - compared["flights"].fill_null(0)
    assert lost.min() == 0
    assert lost.sum() == summary.lost_pairs > 0
    whole = compared.filter(pl.col("true_flights") == pl.col("flights"))
    assert whole.height > 100
    assert (whole["true_delay"] - whole["delay"]).abs().max() < 1e-9  # type: ignore[operator]
    assert answers.height == summary.results
    assert summary.rows == departed(DAYS).height


@pytest.mark.spark
def test_without_a_terminal_there_are_plain_lines(shown: tuple[Path, demo.Summary, str]) -> None:
    out, summary, text = shown
    assert "\x1b" not in text and "\r" not in text
    assert "2013-01-01 12:00  heartbeat none" in text, "a share is promised only when lateness has been seen"
    assert f"rows       {summary.rows:,}\n" in text
    assert f"results    {out} (Parquet)\n" in text
    assert summary.median_wait is not None and summary.median_wait > timedelta(0)


@pytest.mark.spark
def test_a_terminal_gets_figures_and_the_latest_windows(shown: tuple[Path, demo.Summary, str]) -> None:
    out, summary, _ = shown
    console, text = screen(terminal=True)
    figures = {
        "heartbeat": "2013-01-03 21:00:59.999999",
        "lag_seconds": 5400.0,
        "rows": summary.rows,
        "late_rows": summary.late_rows,
        "windows": summary.windows,
    }
    with demo.ReplayDisplay(console, out, lambda: figures) as board:
        board.show(1_357_257_600_000_000)
    drawn = text.getvalue()
    last = pl.read_parquet(out / "*.parquet").sort("window_start").row(-1, named=True)
    assert "2013-01-04 00:00" in drawn and "1 h 30 min" in drawn
    assert f"{last['window_start']:%d %b %H:%M}–{last['window_end']:%H:%M}" in drawn
    assert f"{last['flights']} {last['delay']:+6.1f}" in drawn


def test_answers_reads_each_file_once_and_keeps_the_latest_windows(tmp_path: Path) -> None:
    answers = demo.Answers(tmp_path)
    assert answers.latest() == []
    for n in range(12):
        start = datetime(2013, 1, 1, n, tzinfo=UTC)
        end = start + timedelta(hours=3)
        row = {
            "origin": "JFK",
            "flights": n,
            "delay": 1.5,
            "window_start": start,
            "window_end": end,
            "kind": "final",
        }
        pl.DataFrame([row | {"emitted_at": end + timedelta(hours=2)}]).write_parquet(
            tmp_path / f"part-x-{n:06d}.parquet"
        )
        assert answers.latest()[0] == [
            f"01 Jan {n:02}:00–{n + 3:02}:00", "", f"{n}   +1.5", "", "2 h 0 min"
        ]  # fmt: skip
    assert len(answers.latest()) == 8


def test_a_folder_that_the_demo_made_is_emptied(tmp_path: Path) -> None:
    demo.prepare(tmp_path / "out")
    (tmp_path / "out" / "part-0.parquet").touch()
    demo.prepare(tmp_path / "out")
    assert list((tmp_path / "out").glob("*.parquet")) == []


def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").touch()
    with pytest.raises(SinkError, match="was not made by the demo; give another folder with --out"):
        demo.prepare(tmp_path)
    assert (tmp_path / "mine.txt").exists()
    with pytest.raises(SinkError, match="is a file"):
        demo.prepare(tmp_path / "mine.txt")


def test_no_answers_no_waits(tmp_path: Path) -> None:
    assert demo.waits(tmp_path) == (None, None)


def test_somebody_who_watches_sees_early_answers_and_the_board_shows_final_ones_alone(
    spark: SparkSession, tmp_path: Path
) -> None:
    console, text = screen(terminal=True)
    seen: list[str] = []

    def watch(session: Session) -> Callable[[], None]:
        url = session.serve().url

        def stay() -> None:
            state = httpx.get(f"{url}state").json()
            seen.extend(q["status"] for q in state["queries"])
            recent = state["answers/delays"]["windows"]
            assert {w["group"] for w in recent} == set(demo.AIRPORTS)
            assert any("early" in w for w in recent) and any("final" in w for w in recent)

        return stay

    summary = demo.replay(tmp_path / "out", console, days=DAYS, page="6 hours", watch=watch)
    assert seen == ["finished"]
    rows = [pl.read_parquet(file, columns=["kind"]) for file in (tmp_path / "out").glob("*.parquet")]
    kinds = pl.concat(rows)["kind"].value_counts().rows()
    assert dict(kinds)["final"] == summary.results and dict(kinds)["early"] > 0
    assert summary.median_wait is not None and "latest final windows" in text.getvalue()
