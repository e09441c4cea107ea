"""Runs the cases of one tree by that tree's own scripts, as `against.py` asks for them on standard input.

    python benchmarks/one_tree.py TREE FOLDER '{"quick": false, "only": "", "pages": 20}'

It says which cases there are; then each line of input is the name of a case to run once.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

#: Catching up is a case beside those of `cases.py`.
CATCHING_UP = "catching up"
_EMBEDDED = ("slackwater.spark.storage.embedded", "slackwater.spark.embedded")


def works(tree: Path, folder: Path, quick: bool, only: str, pages: int) -> tuple[Any, dict[str, Callable[[], Any]]]:
    """Spark, and what runs each case once; the modules are those of the tree."""
    sys.path[:1] = [str(tree / "benchmarks"), str(tree)]
    cases, ours, catching_up, measure, data = map(
        import_module, ("cases", "ours", "catching_up", "measure", "data")
    )
    # Trees have it in other folders.
    there = next(name for name in _EMBEDDED if (tree / f"{name.replace('.', '/')}.py").exists())
    spark = import_module(there).embedded(master="local[2]", driver_memory="4g")
    known = [case for case in (cases.QUICK if quick else cases.FULL) if only in case.name]
    files = cases.make(tuple(known), folder)

    def run(case: Any, side: str) -> Any:
        meter = measure.Meter(spark)
        with tempfile.TemporaryDirectory(dir=folder, ignore_cleanup_errors=True) as work:
            some = files[case.layout][: case.files]
            meter.start()
            return meter.stop(ours.measure(spark, case, case.queries_of(side), some, Path(work)))

    found: dict[str, Callable[[], Any]] = {}
    for case in known:
        for side in (side for side in case.sides if side in (cases.OURS, cases.ONE)):
            name = case.name if side == cases.OURS else f"{case.name}: one of them"
            found[name] = lambda case=case, side=side: run(case, side)  # type: ignore[misc]
    if only in CATCHING_UP:
        waiting = data.LARGE.make(folder / "waiting", pages)
        found[CATCHING_UP] = lambda: catching_up.measure(spark, catching_up.TOGETHER, waiting, folder)
    return spark, found


def main() -> None:
    """Serve until the input ends."""
    tree, folder, options = sys.argv[1:]
    spark, found = works(Path(tree), Path(folder), **json.loads(options))
    print(json.dumps({"cases": list(found)}), flush=True)
    for line in sys.stdin:
        ran = found[line.rstrip("\n")]()
        told = {"rows": ran.rows, "seconds": ran.whole_seconds, "processor": ran.cpu_seconds}
        print(json.dumps(told), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
