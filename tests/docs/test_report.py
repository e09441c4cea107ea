"""The report of the experiments: what it judges, and that its page needs no other file."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
POINTS = {
    "figure 3": [
        {"method": "max delay", "rows": 100, "buffer": 50.0, "dropped": 9.0},
        {"method": "mean and distance (S4)", "rows": 100, "buffer": 51.0, "dropped": 4.0},
    ],
    "figure 4": [
        {"delays": "normal", "method": "S4", "asked": 2, "buffer": 9.0, "least": 1.0, "most": 3.0},
        {"delays": "normal", "method": "drop_ratio", "asked": 2, "buffer": 9.0, "least": 1.0, "most": 1.5},
    ],
    "insertion": [{"buffer": "circular array (S4)", "backlog": 100, "ns": 70.0}],
}


def _report(folder: Path) -> str:
    command = [sys.executable, str(EXPERIMENTS / "report.py"), "--no-run", "--out", str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    return (folder / "report.html").read_text(encoding="utf-8")


def test_claims_are_judged_by_the_figures_that_were_found(tmp_path: Path) -> None:
    (tmp_path / "disorder.json").write_text(json.dumps(POINTS))
    (tmp_path / "disorder.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    html = _report(tmp_path)
    judged = dict(re.findall(r"<tr><td>([^<]*)</td><td>[^<]*</td><td class=\"(yes|no)\">", html))
    assert [judged[claim] for claim in judged if "Figure 3" in claim] == ["yes"]
    assert [judged[claim] for claim in judged if "Figure 4" in claim] == ["no"]
    assert "50.0 rows in the buffer; 4.0 against 9.0 dropped" in html
    assert "at most 1.50 times DRATIO (drop_ratio: 0.75 times)" in html
    assert html.count("Not run yet.") == 4


def test_the_page_names_no_other_file(tmp_path: Path) -> None:
    (tmp_path / "disorder.json").write_text(json.dumps(POINTS))
    (tmp_path / "disorder.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    links = re.findall(r'(?:src|href)="([^"]*)"', _report(tmp_path))
    assert any(link.startswith("data:image/svg+xml") for link in links)
    assert [link for link in links if not link.startswith(("data:", "#"))] == []


def test_figures_of_spark_have_their_tables(tmp_path: Path) -> None:
    ran = {"rows_per_second": 1234.5, "spark_jobs": 22}
    wrote = {
        "prodding.json": {"replay": {"without": [ran], "with": [ran, ran]}},
        "chain_on_spark.json": {"figures": [{"case": "two operators", "strategy": "fifo", "memory": [[0, 1]]}]},
        "on_demand.json": {
            "virtual": [_line("A none", 900.0), _line("C on demand", 0.04), _line("D latent", 0.02)],
            "spark": {"lines": {"A none": {"median": 7.5}}, "quiet": {"native, union": None}},
        },
    }
    for name, figures in wrote.items():
        (tmp_path / name).write_text(json.dumps(figures))
    html = _report(tmp_path)
    assert html.count("1,234.50") == 3
    assert "Not run yet, for it takes longer: Queues over time in five settings (section 6)." in html
    assert "<td>two operators</td><td>fifo</td></tr>" in html
    assert '<td>A none</td><td class="n">7.50</td>' in html and "<td>native, union</td><td></td>" in html
    assert "C is 0.020 ms above D; A is 22,500 times C" in html


def _line(line: str, mean: float) -> dict[str, object]:
    """A line of S3's experiment."""
    said = ["99 %", "", ""]
    of = {"mean_ms": mean, "idle_waiting_percent": 1.0, "peak_queue": 3, "enabling_timestamps": 0}
    return {"line": line, "said": said, **of}
