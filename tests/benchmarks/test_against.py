"""Two trees are compared by their own scripts, and a case is called slower only if all repeats say so."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

# Benchmarks are programs, and import one another as such.
sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))
from against import verdict

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
_CASES = """
from dataclasses import dataclass
OURS, ONE = "ours", "one"

@dataclass(frozen=True)
class Case:
    name: str
    sides: tuple = ("native", OURS)
    files: int = 1
    layout: str = "large"
    def queries_of(self, side): return ()

FULL = (Case("tumbling of TREE"), Case("ten queries", ("native", OURS, ONE)))
def make(cases, folder): return {"large": ["a file"]}
"""
_MEASURE = """
from dataclasses import dataclass

@dataclass
class Figures:
    rows: int
    whole_seconds: float = 2.0
    cpu_seconds: float = 3.0

class Meter:
    def __init__(self, spark): pass
    def start(self): pass
    def stop(self, figures): return figures
"""
_SPARK = """
class Spark:
    def stop(self): pass
def embedded(**settings): return Spark()
"""
_DATA = """
class LARGE:
    @staticmethod
    def make(folder, files): return list(range(files))
"""
_CATCHING_UP = """
from measure import Figures
TOGETHER = "ours"
def measure(spark, side, files, folder): return Figures(1000 * len(files))
"""


def tree(root: Path, name: str, rows: int) -> Path:
    """A tree with scripts of its own, that need no Spark."""
    files = {
        "benchmarks/cases.py": _CASES.replace("TREE", name),
        "benchmarks/measure.py": _MEASURE,
        "benchmarks/data.py": _DATA,
        "benchmarks/catching_up.py": _CATCHING_UP,
        "benchmarks/ours.py": f"from measure import Figures\ndef measure(*case): return Figures({rows})",
        "slackwater/__init__.py": "",
        "slackwater/spark/__init__.py": "",
        "slackwater/spark/embedded.py": _SPARK,
    }
    for path, text in files.items():
        (root / name / path).parent.mkdir(parents=True, exist_ok=True)
        (root / name / path).write_text(text)
    (root / f"files of {name}").mkdir()
    return root / name


@pytest.mark.parametrize(("name", "rows"), [("before", 7), ("now", 9)])
def test_each_tree_runs_its_own_scripts(tmp_path: Path, name: str, rows: int) -> None:
    code = tree(tmp_path, name, rows)
    options = json.dumps({"quick": False, "only": "", "pages": 5})
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / "one_tree.py"), str(code), str(tmp_path / f"files of {name}"), options],
        input=f"tumbling of {name}\ncatching up\n",
        env={**os.environ, "PYTHONPATH": str(code)},
        capture_output=True,
        text=True,
        check=True,
    )
    cases, tumbling, catching_up = map(json.loads, done.stdout.splitlines())
    assert cases["cases"] == [f"tumbling of {name}", "ten queries", "ten queries: one of them", "catching up"]
    assert tumbling == {"rows": rows, "seconds": 2.0, "processor": 3.0}
    assert catching_up["rows"] == 5000


@pytest.mark.parametrize(
    ("ratios", "slower"),
    [
        ([1.05, 1.08, 1.02], "yes"),
        ([1.05, 1.08, 0.99], "perhaps"),
        ([1.05, 1.08], "perhaps"),
        ([1.02, 1.03, 1.30], "no"),
        ([0.8, 0.9, 1.0], "no"),
    ],
)
def test_a_case_is_slower_if_all_repeats_say_so(ratios: list[float], slower: str) -> None:
    assert verdict(ratios) == slower
