"""What a report says: the table, the lines to copy, JSON, and a page that needs nothing else."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import polars as pl
import pytest
from click.testing import Result
from rich.console import Console
from typer.testing import CliRunner

import slackwater as sw
from slackwater.cli import app
from slackwater.tune.bar import bar
from slackwater.tune.engines import ENGINES
from slackwater.tune.report import Report
from slackwater.tune.show import percent

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
SETTINGS = {"time": "sent", "arrival": "received", "windows": ("1 minute", "20 seconds"), "page": "10 seconds"}


def rows(n: int = 2_000) -> pl.DataFrame:
    rng = np.random.default_rng(11)
    arrival = np.sort(rng.uniform(0, 2_000, n))
    late = rng.exponential(9, n) * (rng.random(n) < 0.3)
    return pl.DataFrame(
        {
            "sent": [NOON + timedelta(seconds=s) for s in (arrival - late).tolist()],
            "received": [NOON + timedelta(seconds=s) for s in arrival.tolist()],
            "device": [f"<d&{d}>" for d in rng.integers(0, 3, n)],
        }
    )


@pytest.fixture(scope="module")
def report() -> Report:
    settings = {
        **SETTINGS,
        "source": "device",
        "delays": "30 seconds",
        "policies": sw.sensors("9 s", timeout="1 min"),
    }
    return sw.tune(rows(), **settings)  # type: ignore[arg-type]


def test_every_target_has_its_fixed_delay_and_policies(report: Report) -> None:
    assert [f.target for f in report.fixed] == [0.001, 0.01, 0.05]
    for fixed in report.fixed:
        assert fixed.figures.lost_share <= fixed.target
        (tried,) = [
            t for t in report.tried if t.policy == f"bounded({fixed.native!r})" and t.target == fixed.target
        ]
        assert tried.figures == fixed.figures
        ours = [t.policy for t in report.tried if t.target == fixed.target and not t.policy.startswith("rival: ")]
        assert {policy.partition("(")[0] for policy in ours} == {
            "bounded",
            "drop_ratio",
            "disorder_control",
        }
    ours = [t for t in report.tried if not t.policy.startswith("rival: ")]
    assert len(report.tried) - len(ours) == 3
    free = {(t.policy.partition("(")[0], t.by_source) for t in ours if t.target is None}
    both = {("learned", False), ("learned", True), ("sensors", False), ("sensors", True)}
    assert free == both | {("bounded", False), ("max_delay", False)}


def test_what_is_lost_an_hour(report: Report) -> None:
    for fixed in report.fixed:
        hours = 2_000 / 3_600
        assert fixed.lost_per_hour == pytest.approx(fixed.figures.lost_rows / hours, rel=0.02)
        assert fixed.worst_hour_rows <= fixed.figures.lost_rows
        assert fixed.worst_hour == "2024-05-01 12:00:00"


def test_the_best_policy_kept_to_the_target(report: Report) -> None:
    best = report.best
    assert best.target in (None, 0.01)
    assert best.figures.lost_share <= 0.01
    rivals = [t for t in report.tried if t.target in (None, 0.01) and not t.policy.startswith("bounded")]
    assert best.figures.wait_mean == min(t.figures.wait_mean for t in rivals if t.figures.lost_share <= 0.01)


def test_the_lines_can_be_copied(report: Report) -> None:
    own, native = report.lines["slackwater"], report.lines["native"]

    class Session:
        def stream(self, name: str, df: object, **settings: object) -> dict[str, object]:
            return settings

    said = eval(own, {"s": Session(), "df": None, "sw": sw})
    assert said["time"] == "sent"
    assert said["source"] == "device"
    assert said["disorder"].describe().startswith(report.best.policy.partition("(")[0])
    assert native == f'df.withWatermark("sent", "{report.fixed_for(0.01).native}")'


def test_the_screen_shows_it(report: Report) -> None:
    lines = str(report).splitlines()
    assert len(lines) < 40
    assert lines[0].startswith("2,000 rows, arrived 2024-05-01 12:00:0")
    assert lines[0].endswith("windows of 1 minute every 20 seconds; 200 pages of 10 seconds")
    assert sum("= withWatermark" in line for line in lines) == 3
    assert sum(", by device" in line for line in lines) >= 5
    for line, (name, text) in zip(lines[-5:], report.lines.items(), strict=True):
        assert line.split(maxsplit=2 if " " in ENGINES[name] else 1)[-1].startswith(text)
        assert line.endswith(f"lost {percent(report.lost[name])}")


def test_a_share_may_be_written_as_text() -> None:
    report = sw.tune(rows(50), time="sent", arrival="received", targets=["1%", "0.05"])
    assert [fixed.target for fixed in report.fixed] == [0.01, 0.05]


def test_what_was_chosen_is_said() -> None:
    report = sw.tune(rows(50), time="sent", arrival="received", targets=0.01)
    assert report.chosen == ("windows", "page")
    assert "tune has chosen windows and page." in str(report)
    assert "so a shorter page needs a longer delay." in str(report)
    assert "Chosen" not in str(sw.tune(rows(50), **SETTINGS))  # type: ignore[arg-type]


def test_json_has_all_of_it(report: Report) -> None:
    read = json.loads(report.json())
    assert read["rows"] == 2_000
    assert len(read["policies"]) == len(report.tried)
    assert read["lines"] == report.lines
    assert read["fixed"][1]["delay_seconds"] == report.fixed[1].delay / 1e6
    assert sum(bar["rows"] for bar in read["lateness"]) == 2_000


def test_the_page_needs_nothing_else_and_is_well_formed(report: Report, tmp_path: Path) -> None:
    file = tmp_path / "tune.html"
    text = report.html(file)
    assert file.read_text(encoding="utf-8") == text
    assert not any(word in text for word in ("http://", "https://", "<script", "@import", "url("))
    assert "prefers-color-scheme:dark" in text
    assert 'name="viewport"' in text
    ElementTree.fromstring(report._repr_html_().partition("</style>")[2])
    assert text.count("<svg") == 4
    assert text.count("<circle") == sum(
        t.figures.lost_share > 0 and not t.policy.startswith("bounded") for t in report.tried
    )
    assert text.count("<tr") == 1 + len(report.tried)


def test_a_line_of_each_engine_says_what_it_would_have_lost(report: Report) -> None:
    """Against brute force: each row moves the watermark; the rows of one page are late for each other, too."""
    found, delay = rows().sort("received", maintain_order=True), report.fixed_for(0.01).delay
    times = found["sent"].dt.epoch("us").to_list()
    mark, ended, behind, pairs = times[0] - delay, 0, 0, 0
    for time in times:
        windows = [
            end for end in range(time // 20_000_000 * 20_000_000 + 20_000_000, time + 60_000_001, 20_000_000)
        ]
        pairs += len(windows)
        ended += sum(end <= mark for end in windows)
        behind += len(windows) * (time < mark)
        mark = max(mark, time - delay)
    assert report.lost["flink"] == report.lost["ksqldb"] == pytest.approx(ended / pairs, abs=2e-4)
    assert report.lost["risingwave"] == pytest.approx(behind / pairs, abs=1e-9)
    assert report.lost["flink"] < report.lost["risingwave"]
    assert report.lost["native"] == report.fixed_for(0.01).figures.lost_share


def test_a_share_that_allows_only_a_few_rows_is_marked_and_the_worst_stretch_counts(report: Report) -> None:
    assert "0.1 % = 2 rows" in str(report)
    assert "5 % = " not in str(report)
    missed = [t for t in report.tried if t.missed]
    assert any(t.figures.lost_share <= (t.target or 0) < t.figures.worst_share for t in missed)
    assert not any(t.missed for t in report.tried if t.target is None), "who knows no share misses none"


@pytest.fixture(scope="module")
def corrupt() -> Report:
    """Three rows of 2031 and three of 1970 among those of 33 minutes."""
    found, wrong = rows(), {3: datetime(2031, 1, 1, tzinfo=UTC), 7: datetime(1970, 1, 1, tzinfo=UTC)}
    sent = [wrong.get(k % 600, time) if k > 500 else time for k, time in enumerate(found["sent"].to_list())]
    settings: Any = {**SETTINGS, "source": "device"}
    return sw.tune(found.with_columns(pl.Series("sent", sent)), **settings)


def test_corrupt_times_are_filtered_before_a_watermark(corrupt: Report, report: Report) -> None:
    assert corrupt.fixed_for(0.01).delay < 86_400_000_000, "corrupt times are set apart before"
    assert "hours')" not in str(corrupt)
    delay = report.fixed_for(0.01).delay
    assert corrupt.filtered is not None and corrupt.filtered[1] == pytest.approx(delay, rel=0.1)
    native = corrupt.lines["native"]
    assert native.startswith('df.where("sent <= received + INTERVAL ')
    assert native.endswith(f'.withWatermark("sent", "{corrupt.filtered[1] // 1_000} milliseconds")')
    assert "A watermark needs a filter against times far ahead" in " ".join(str(corrupt).split())
    assert report.filtered is None and "filter" not in str(report)


def test_a_row_of_1970_does_not_make_the_mean_wait_years(corrupt: Report) -> None:
    assert max(t.figures.wait_mean for t in corrupt.tried) < 2_000


def test_texts_of_a_plot_do_not_lie_upon_each_other(corrupt: Report) -> None:
    for svg in ElementTree.fromstring(corrupt._repr_html_().partition("</style>")[2]).iter("svg"):
        by_line: dict[str, list[float]] = {}
        for text in svg.iter("text"):
            if text.get("text-anchor") == "middle" and text.get("x") is not None:
                by_line.setdefault(text.get("y", ""), []).append(float(text.get("x", "")))
        marks = [(t.get("x"), t.get("y")) for t in svg.iter("text") if t.get("text-anchor") in ("start", None)]
        assert len(marks) == len(set(marks))
        for places in by_line.values():
            assert all(b - a > 70 for a, b in pairwise(sorted(places)))


def tune(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["tune", *(str(a) for a in arguments)])


def test_the_command(tmp_path: Path) -> None:
    file, page = tmp_path / "rows.parquet", tmp_path / "page.html"
    rows(400).write_parquet(file)
    columns = ("--time", "sent", "--arrival", "received", "--target", "0.02")
    shown = tune(file, *columns, "--window", "30 seconds", "--page", "20 seconds", "--html", page)
    assert shown.exit_code == 0, shown.output
    assert "drop_ratio(0.02)" in shown.stdout
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    told = tune(file, *columns, "--json", "-", "--delay", "40 seconds")
    assert "bounded('40 seconds')" in {p["policy"] for p in json.loads(told.stdout)["policies"]}
    both = tune(file, *columns, "--json", tmp_path / "all.json", "--html", "-", "--delay", "40 seconds")
    assert both.stdout.startswith("<!doctype html>") and f"wrote {tmp_path / 'all.json'}" in both.stderr
    assert json.loads((tmp_path / "all.json").read_text("utf-8")) == json.loads(told.stdout)


@pytest.mark.parametrize("kind", ["csv", "ndjson"])
def test_the_command_reads_csv_and_lines_of_json(tmp_path: Path, kind: str) -> None:
    file = tmp_path / f"rows.{kind}"
    getattr(rows(400), f"write_{kind}")(file)
    told = tune(file, "--time", "sent", "--arrival", "received", "--json", "-")
    assert json.loads(told.stdout)["rows"] == 400, told.stderr


def test_mistakes_of_the_command_are_one_line(tmp_path: Path) -> None:
    file = tmp_path / "rows.parquet"
    rows(10).write_parquet(file)
    for arguments, said in (
        ((file, "--time", "snet", "--arrival", "received"), "there is no column 'snet' (did you mean 'sent'?)"),
        ((file,), "--time is missing: name the column of application time"),
        ((file, "--time", "sent"), "has columns with timestamps: sent, received"),
        ((tmp_path / "row.parquet", "--time", "a", "--arrival", "b"), "there is no file"),
        ((file, "--time", "sent", "--arrival", "received", "--slide", "1 minute"), "write --window too"),
        ((file, "--time", "sent", "--arrival", "received", "--html", "no/where.html"), "there is no folder 'no'"),
        ((file, "--time", "sent", "--arrival", "received", "--json", "no/all.json"), "--json 'no/all.json'"),
        ((file, "--time", "sent", "--arrival", "received", "--json", "-", "--html", "-"), "only one of them"),
    ):
        result = tune(*arguments)
        assert result.exit_code == 1
        assert result.stderr.startswith("error: ")
        assert len(result.stderr.splitlines()) == 1
        assert said in result.stderr


def test_a_terminal_shows_how_far_it_is() -> None:
    text = io.StringIO()
    terminal = Console(file=text, force_terminal=True, width=100, color_system=None)
    with bar(terminal) as told:
        sw.tune(rows(100), time="sent", arrival="received", targets=0.01, progress=told)
    assert "max_delay()" in text.getvalue()
    quiet = io.StringIO()
    with bar(Console(file=quiet)) as told:
        told("drop_ratio(0.01)", 1, 2)
    assert quiet.getvalue() == ""


def test_at_a_prompt_it_is_one_line_with_the_advice() -> None:
    report = sw.tune(rows(300), **SETTINGS, targets=0.01)
    assert repr(report) == f"<Report of 300 rows: {report.lines['slackwater']}; print it to see all>"


def test_progress_ends_with_all_steps() -> None:
    told: list[tuple[str, int, int]] = []
    sw.tune(rows(300), **SETTINGS, targets=0.01, progress=lambda *step: told.append(step))  # type: ignore[arg-type]
    assert told[0] == ("reading", 0, 1)
    assert told[-1][1] == told[-1][2]
    assert [done for what, done, _ in told if what != "reading"] == sorted(d for w, d, _ in told if w != "reading")
