"""How good early answers are on kinds of streams: coverage, width and Winkler's score beside a plain interval.

    PYTHONPATH=. python experiments/early.py [--windows 600] [--seeds 701 702] [--only zipf] [--data folder]
    PYTHONPATH=. python experiments/early.py --held-out --seeds 801 802
    PYTHONPATH=. python experiments/early.py --stops --seeds 1101 1102

The real `Estimates` answers histories of windows (`experiments/lab/early_history.py`), prodded at half a slide.
With `--held-out` these are of what nothing was chosen with: kinds of streams, and http.
*To best* is the score beside the best one that holds 90 % of each group at most, and in brackets beside that of one
who may hold more.
With `--stops` sources stop, or there is an outage: coverage of the windows after each change, and of those from ten
seconds after it on.
Seeds 1 to 14, 101 to 104, 201 to 204, 301 to 304, 401 to 404, 601 to 612 and 901 to 904 were used to choose, or
looked at; with `--stops` 1001 and 1002.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from streams import SHARED, Real, real

from experiments.lab.early_history import COLUMNS, answer, best, held, history, judge
from experiments.lab.early_kinds import KINDS
from experiments.lab.early_streams import Case
from experiments.lab.held_out_kinds import HELD_OUT
from experiments.lab.stopping_kinds import HELD_OUT_STOPS, STOPS, Stopping
from slackwater.progress.time import microseconds

_RESULTS = Path(__file__).parent / "results"
HOUR = 3_600_000_000
#: Microseconds after a change: from then on a window has seen something of it.
SEEN = 10_000_000
#: The real set that nothing was chosen with.
HELD_OUT_SET = "http"
#: Without groups, and with a rate that goes with the time of the day.
DAILY = ("season", "dense season", "two populations", "three populations")
#: What is still to come does not depend on what is seen, and is always distributed alike: the best score is known.
KNOWN = ("steady", "zipf", "tails", "offsets", "correlated")


def figures(name: str, answers: pl.DataFrame) -> list[dict[str, Any]]:
    """One line for each value."""
    lines = []
    for column in COLUMNS:
        judged = judge(answers, column)
        apart = parts_of_a_day(answers) if name in DAILY else answers
        least = 50 if name in DAILY else 500
        groups = held(apart, column).filter(pl.col("windows") >= least).to_dicts()
        known = name in KNOWN and column in ("n", "total")
        line = {"stream": name, "value": column, **judged.__dict__}
        line["best"] = best(answers, column) if known else None
        line["best_of_all"] = best(answers, column, at_most=1.0) if known else None
        line["groups"] = groups if len(groups) > 1 else None
        lines.append(line)
    return lines


def parts_of_a_day(answers: pl.DataFrame) -> pl.DataFrame:
    """Answers from the second day on, with stretches of four hours in the place of groups.

    The stream's end cuts the last windows short: these are left out.
    """
    whole = answers.filter(pl.col("closed") < pl.col("closed").max())
    later = whole.filter(pl.col("prodded") >= pl.col("prodded").min() + 24 * HOUR)
    return later.with_columns(g=pl.col("prodded") // (4 * HOUR) % 6)


def mean(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """Of the same line with several seeds. Groups are others with each seed; parts of a day are the same ones."""
    made = dict(lines[0])
    for name, value in made.items():
        if isinstance(value, (int, float)):
            made[name] = float(np.mean([line[name] for line in lines]))
    # Seeds are independent of each other.
    made["error_of_coverage"] /= len(lines) ** 0.5
    made["worst_against_plain"] = max(line["against_plain"] for line in lines)
    if made["groups"] is not None:
        groups = [line["groups"] for line in lines]
        alike = made["stream"] in DAILY
        every = [one for some in groups for one in some]
        made["groups"] = [_together(same) for same in zip(*groups, strict=True)] if alike else every
    return made


def _together(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The same part of the day with several seeds."""
    error = float(np.sqrt(sum(part["error"] ** 2 for part in parts))) / len(parts)
    windows = sum(part["windows"] for part in parts)
    held_in_all = float(np.mean([part["held"] for part in parts]))
    return {"g": parts[0]["g"], "windows": windows, "held": held_in_all, "error": error}


def case_of(stream: Real) -> Case:
    """A real set as a case."""
    rows = stream.rows()
    page = microseconds(stream.page)
    named = rows.select(pl.col("time").alias("t"), pl.col("value").alias("v"))
    return Case(named, rows["arrival"].to_numpy(), stream.range, stream.slide, stream.slack, page)


def show(line: dict[str, Any], held_out: bool = False) -> None:
    """A row of the table."""
    coverage = f"{100 * line['coverage']:.1f} ± {100 * line['error_of_coverage']:.1f}"
    groups = ""
    if line["groups"] is not None:
        shares, error = [g["held"] for g in line["groups"]], max(g["error"] for g in line["groups"])
        groups = f"{100 * min(shares):.1f}–{100 * max(shares):.1f} (± {100 * error:.1f})"
    worst = line.get("worst_against_plain", line["against_plain"])
    known = ""
    if line["best"] is not None:
        known = f"{line['score'] / line['best']:.2f} ({line['score'] / line['best_of_all']:.2f})"
    print(
        f"| {line['stream']}{' *' if held_out else ''} | {line['value']} | {100 * line['seen']:.2f} | "
        f"{100 * line['corrected']:.2f} | {coverage} | {groups} | {line['width']:.4g} | "
        f"{line['against_plain']:.2f} | {worst:.2f} | {known} |",
        flush=True,
    )


def after_stops(kind: Stopping, windows: int, seeds: Sequence[int]) -> pl.DataFrame:
    """By value: the shares of windows after changes that were held, mean widths, and the scores of all windows."""
    lines = []
    for seed in seeds:
        case, stretches = kind(windows, np.random.default_rng(seed))
        answers = answer(history(case))
        at = pl.col("prodded")
        changed, later = (
            pl.any_horizontal([at.is_between(begin + wait, end) for begin, end in stretches]) for wait in (0, SEEN)
        )
        for column in COLUMNS[:3]:
            low, high, final = (pl.col(f"{column}_{part}").cast(pl.Float64) for part in ("low", "high", "final"))
            known = answers.filter(low.is_not_null()).select(
                changed=changed, later=later, inside=final.is_between(low, high), width=high - low
            )
            there = known.filter("changed")
            held = there["inside"].mean(), there.filter("later")["inside"].mean(), known["inside"].mean()
            judged = judge(answers, column)
            width = there["width"].mean()
            lines.append((column, there.height, *held, width, judged.score, judged.against_plain))
    names = ["value", "windows", "held", "later", "all", "width", "score", "to plain"]
    return pl.DataFrame(lines, names, orient="row").group_by("value", maintain_order=True).mean()


def show_stops(windows: int, seeds: Sequence[int]) -> None:
    """The table of kinds in which sources stop."""
    print("| stream | value | windows | held % | from 10 s on % | all % | width | score | to plain |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, kind in {**STOPS, **HELD_OUT_STOPS}.items():
        for value, count, *inside, width, score, plain in after_stops(kind, windows, seeds).iter_rows():
            shares = " | ".join(f"{100 * share:.0f}" for share in inside)
            mark = " *" if name in HELD_OUT_STOPS else ""
            line = f"| {name}{mark} | {value} | {count:.0f} | {shares} | {width:.4g} | {score:.4g} | {plain:.2f} |"
            print(line, flush=True)


def main() -> None:
    """Read the options, run, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--windows", type=int, default=600)
    parser.add_argument("--seeds", type=int, nargs="+", default=[701, 702])
    parser.add_argument("--only", nargs="+")
    parser.add_argument(
        "--held-out", action="store_true", help="only what nothing was chosen with, else all others"
    )
    parser.add_argument("--stops", action="store_true", help="only streams whose sources stop")
    parser.add_argument("--data", type=Path, default=SHARED, help="the folder of the real streams")
    parser.add_argument("--out", type=Path, default=_RESULTS, help="the folder for the figures")
    options = parser.parse_args()
    if options.stops:
        show_stops(options.windows, options.seeds)
        return
    lines = []
    print("| stream | value | seen % | corrected % | held % | by group, 4 h | width | to plain | worst | to best |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name, make in (HELD_OUT if options.held_out else KINDS).items():
        if options.only and name not in options.only:
            continue
        runs = [
            figures(name, answer(history(make(options.windows, np.random.default_rng(seed)))))
            for seed in options.seeds
        ]
        for same in zip(*runs, strict=True):
            lines.append(mean(list(same)))
            show(lines[-1], options.held_out)
    for stream in real(options.data):
        if (stream.name == HELD_OUT_SET) != options.held_out or not stream.path.exists():
            continue
        if not options.only or stream.name in options.only:
            for line in figures(stream.name, answer(history(case_of(stream)))):
                lines.append(line)
                show(line, options.held_out)
    options.out.mkdir(parents=True, exist_ok=True)
    name = "early_held_out.json" if options.held_out else "early.json"
    (options.out / name).write_text(json.dumps({"seeds": options.seeds, "lines": lines}, indent=1))


if __name__ == "__main__":
    main()
