"""All experiments of the five papers in one command, and one HTML page with the papers' figures beside ours.

.venv/bin/python experiments/report.py             # shorter streams, nothing on Spark: minutes
.venv/bin/python experiments/report.py --full      # as in the README, Spark too: an hour or two
.venv/bin/python experiments/report.py --only S1   # run one paper's again; the others' figures stay
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from claims import CLAIMS, Claim
from report_page import Section, Shown, Table, page

_HERE = Path(__file__).parent
_RESULTS = _HERE / "results"
Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Experiment:
    """A program, what it is told in either mode, and where its figures and pictures lie."""

    paper: str
    title: str
    program: str
    quick: tuple[str, ...] | None
    full: tuple[str, ...]
    tables: Callable[[dict[str, Any]], list[Table]]
    figures: tuple[str, ...]
    pictures: tuple[str, ...] = ()
    out: str = ""
    """The file that it writes, where it wants one instead of a folder."""

    def command(self, full: bool, results: Path) -> list[str] | None:
        """What to run; None where quick mode leaves it out."""
        told = self.full if full else self.quick
        if told is None:
            return None
        return [sys.executable, str(_HERE / self.program), *told, "--out", str(results / self.out)]


def _lists(found: dict[str, Any]) -> list[Table]:
    """Each list of points is a table; what a point holds besides figures and words is left to the pictures."""
    tables = []
    for name, points in found.items():
        if isinstance(points, list) and points:
            plain = [{k: v for k, v in point.items() if not isinstance(v, (list, dict))} for point in points]
            tables.append(Table(name, plain))
    return tables


def _cost(found: dict[str, Any]) -> list[Table]:
    """The repeats of each case, without prods and with them."""
    rows = [
        {"case": case, "prods": side, **ran}
        for case, sides in found.items()
        for side, repeats in sides.items()
        for ran in repeats
    ]
    return [Table("S5: the final results' latency is unchanged", rows)]


def _on_demand(found: dict[str, Any]) -> list[Table]:
    rows = []
    for of in found.get("virtual", []):
        waiting, latency, queue = of["said"]
        rows.append(
            {
                "line": of["line"],
                "mean latency, ms": of["mean_ms"],
                "S3: latency": latency,
                "idle-waiting, %": of["idle_waiting_percent"],
                "S3: idle-waiting": waiting,
                "peak queue": of["peak_queue"],
                "S3: peak queue": queue,
                "enabling timestamps": of["enabling_timestamps"],
            }
        )
    spark = found.get("spark", {"lines": {}, "quiet": {}})
    lines = [{"line": line, **figures} for line, figures in spark["lines"].items()]
    quiet = [{"system": system, "seconds": waited} for system, waited in spark["quiet"].items()]
    return [
        Table("in virtual time", rows),
        Table("on Spark: seconds from the end of a window to its answer", lines),
        Table("one source goes quiet: seconds until the first complete answer", quiet),
    ]


def _chain(found: dict[str, Any]) -> list[Table]:
    claims = []
    for of in found["claims"]:
        of = dict(of)
        first = {"setting": of.pop("case"), "arrivals": of.pop("arrivals"), "S2 says": of.pop("claim")}
        claims.append({**first, **of})
    about = "S2's claims beside peak queues, as multiples of Chain's"
    return [Table(about, claims), Table("queues in pages, latencies in ms", found["figures"])]


def _prodding(found: dict[str, Any]) -> list[Table]:
    beside = []
    for of in found["figures"]:
        of = dict(of)
        first = {key: of.pop(key) for key in ("experiment", "case", "figure")}
        beside.append({**first, "S5": of.pop("thesis"), "ours": of.pop("ours"), **of})
    estimates = found["curves"].get("estimates", [])
    return [Table("S5's figures beside ours", beside), Table("corrected values and 90 % intervals", estimates)]


def _prodded(name: str, title: str, *pictures: str) -> Experiment:
    quick, full = ("--fast", "--quick", "--only", name), ("--only", name)
    return Experiment("S5", title, "prodding.py", quick, full, _prodding, (f"{name}.json",), pictures)


EXPERIMENTS = [
    Experiment(
        "S1",
        "Heartbeats in plans (section 7)",
        "heartbeats_in_plans.py",
        (),
        (),
        _lists,
        ("heartbeats_in_plans.json",),
        out="heartbeats_in_plans.json",
    ),
    Experiment(
        "S1",
        "Heartbeats in plans, on Spark",
        "heartbeats_on_spark.py",
        None,
        (),
        _lists,
        ("heartbeats_on_spark.json",),
        out="heartbeats_on_spark.json",
    ),
    Experiment(
        "S1",
        "Bounds: learned, indirect, coarse, in groups, with t = 0 (sections 3.2, 4.1, 5, 6)",
        "skew_bounds.py",
        ("--seconds", "240", "--seeds", "1"),
        (),
        _lists,
        ("skew_bounds.json",),
        ("skew_bounds.svg",),
        out="skew_bounds.json",
    ),
    Experiment(
        "S2",
        "Queues over time in five settings (section 6)",
        "chain.py",
        ("--pages", "240", "--seeds", "1"),
        (),
        _chain,
        ("chain.json",),
        ("chain_[!o]*.svg",),
    ),
    Experiment(
        "S2",
        "On Spark",
        "chain_on_spark.py",
        None,
        (),
        _lists,
        ("chain_on_spark.json",),
        ("chain_on_spark_*.svg",),
    ),
    Experiment(
        "S3",
        "Timestamps on demand (section 6)",
        "on_demand.py",
        ("--virtual", "20", "--seeds", "2"),
        ("--spark", "--seeds", "5"),
        _on_demand,
        ("on_demand.json",),
        ("on_demand.svg",),
    ),
    Experiment(
        "S4",
        "Buffer, drops and insertion (sections 3, 4)",
        "disorder.py",
        ("--rows", "10000", "--seeds", "2"),
        (),
        _lists,
        ("disorder.json",),
        ("disorder.svg",),
        out="disorder.json",
    ),
    _prodded("delays", "Delays (section 4.3.1)", "delays.svg"),
    _prodded("bursts", "Bursts and sidelining (sections 4.3.2, 6.2)", "bursts.svg", "sideline.svg"),
    _prodded("asking", "Who prods, and an accuracy to hold (sections 3.2, 6)"),
    _prodded("substreams", "Prods by predicate, on real flights (section 6.2 b)"),
    Experiment(
        "S5",
        "Do prods delay the final results? (Table 4.1)",
        "prodding.py",
        None,
        ("--only", "overhead"),
        _prodding,
        ("overhead.json",),
    ),
    _prodded("aggressiveness", "Aggressiveness (section 4.4)", "aggressiveness.svg", "gain.svg"),
    _prodded("estimates", "Corrected values and intervals (sections 3.4, 5.4)", "coverage.svg"),
    Experiment(
        "S5",
        "What prodding costs: rows a second, processor time, jobs (section 4.2)",
        "../benchmarks/prodding.py",
        None,
        (),
        _cost,
        ("prodding.json",),
        out="prodding.json",
    ),
]


def show(experiment: Experiment, results: Path) -> Shown | None:
    """What there is of an experiment; None where it has never run."""
    tables: list[Table] = []
    claims: list[tuple[Claim, str, bool | None]] = []
    for name in experiment.figures:
        if not (results / name).exists():
            return None
        found = json.loads((results / name).read_text(encoding="utf-8"))
        found = found if isinstance(found, dict) else {"figures": found}
        tables += [table for table in experiment.tables(found) if table.rows]
        claims += [(claim, *claim.ours(found)) for claim in CLAIMS.get(name, [])]
    pictures = sorted(path for pattern in experiment.pictures for path in results.glob(pattern))
    return Shown(experiment.title, experiment.program, claims, tables, pictures)


def main() -> None:
    """Run what was asked for, then write the page of all that has been found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="whole streams, and Spark where an experiment has it")
    parser.add_argument("--only", action="append", choices=["S1", "S2", "S3", "S4", "S5"], help="may be repeated")
    parser.add_argument("--no-run", action="store_true", help="only write the page again")
    parser.add_argument("--out", type=Path, default=_RESULTS, help="the folder for figures, pictures and the page")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    failed = []
    for experiment in EXPERIMENTS:
        command = experiment.command(options.full, options.out)
        if options.no_run or command is None or (options.only and experiment.paper not in options.only):
            continue
        began = time.monotonic()
        ended = subprocess.run(command, cwd=_HERE, stdout=subprocess.DEVNULL, check=False)
        print(f"{experiment.paper} {experiment.title}: {time.monotonic() - began:.0f} s", flush=True)
        if ended.returncode:
            failed.append(experiment.title)
    sections = []
    for paper in ("S1", "S2", "S3", "S4", "S5"):
        found = {e.title: show(e, options.out) for e in EXPERIMENTS if e.paper == paper}
        not_run = [title for title, shown in found.items() if shown is None]
        sections.append(Section(paper, [shown for shown in found.values() if shown is not None], not_run))
    path = options.out / "report.html"
    path.write_text(page(sections, options.full), encoding="utf-8")
    print(f"The report is {path}")
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
