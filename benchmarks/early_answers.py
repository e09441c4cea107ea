"""How good early answers are: accuracy and coverage on generated streams, and on real ones where these are there.

    .venv/bin/python benchmarks/early_answers.py [--windows 1200] [--data ../shared/data]

S5's measurements (section 4.4) are the first rows: `seen` is the thesis' early value, `estimate` ours.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import polars as pl

import slackwater as sw
from experiments.lab.arrivals import SECOND
from experiments.lab.early_streams import Case, generated, ideal, play
from slackwater.testing import Script


def real(folder: Path) -> dict[str, Case]:
    """The real sets that are there."""
    cases = {}
    half_hour = 1_800 * SECOND
    for name, time, arrival, value, how in (
        (
            "flights",
            "scheduled",
            "departed",
            "delay_min",
            ("3 hours", "1 hour", "3 hours", half_hour, ("origin",)),
        ),
        ("phones_1", "sent", "received", "value", ("30 seconds", "10 seconds", "2 seconds", SECOND, ())),
        ("phones_2", "sent", "received", "value", ("30 seconds", "10 seconds", "2 seconds", SECOND, ())),
        ("http", "time", "time", "bytes", ("5 minutes", "1 minute", "5 seconds", 10 * SECOND, ())),
    ):
        file = folder / f"{name}.parquet"
        if file.exists():
            rows = pl.read_parquet(file)
            arrived = rows[arrival].cast(pl.Int64).to_numpy()
            named = rows.select(
                pl.col(time).cast(pl.Int64).alias("t"), pl.col(value).cast(pl.Int64).alias("v"), *how[4]
            )
            order = np.argsort(arrived, kind="stable")
            cases[name] = Case(named[order], arrived[order], *how)
    return cases


def show(name: str, script: Script) -> None:
    """Figures of each aggregate."""
    for aggregate, f in script.metrics()["q/window"]["accuracy"].items():
        held = "–" if f.get("coverage") is None else f"{100 * f['coverage']:.1f}"
        print(
            f"| {name} | {aggregate} | {f['pairs']:,} | {100 * f['seen']:.2f} | {100 * f['estimate']:.2f} | "
            f"{100 * f['worst_seen']:.1f} | {100 * f['worst_estimate']:.1f} | {held} | {f['latency_gain']:.1f} s |"
        )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--windows", type=int, default=1_200)
    parser.add_argument("--at", type=float, default=0.5)
    parser.add_argument("--only", default="")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    given = parser.parse_args()
    print("| stream | aggregate | pairs | seen % | estimate % | worst seen | worst estimate | held % | earlier |")
    print("|---|---|---|---|---|---|---|---|---|")
    cases = generated(given.windows) | real(given.data)
    for name, case in cases.items():
        if given.only in name:
            show(name, play(case, sw.early(at=given.at)))
    best = ideal(cases["S5 uniform 30/10"], 5)
    print(f"\nS5 uniform 30/10, count, if the true mean of the rest were known: {100 * best:.2f} %")


if __name__ == "__main__":
    main()
