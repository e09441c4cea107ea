"""python -m tests.campaign.run --schedules 10000: run many schedules; failing ones are shrunk to scripts."""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from pathlib import Path

from tests.campaign.schedule import schedule
from tests.campaign.shrink import shrunk
from tests.campaign.simulation import simulate
from tests.kit.arcs import watched_arcs

SCRIPTS = Path(__file__).parent / "scripts"


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--schedules", type=int, default=10_000)
    asked.add_argument("--first", type=int, default=0)
    asked.add_argument("--shrink", action="store_true", help="shrink the failing ones into tests/campaign/scripts")
    given = asked.parse_args()
    happened, failed = Counter[str](), []
    began = time.monotonic()
    for seed in range(given.first, given.first + given.schedules):
        made = schedule(seed)
        happened.update({"schedules": 1, "events": len(made.events)})
        try:
            with watched_arcs(made.late):
                happened.update(simulate(made).counts)
        except Exception as error:
            failed.append(seed)
            print(f"seed {seed}: {type(error).__name__}: {str(error)[:300]}", flush=True)
            if given.shrink:
                SCRIPTS.mkdir(exist_ok=True)
                (SCRIPTS / f"seed_{seed}.json").write_text(shrunk(made).to_json())
    figures = {**happened, "failed": failed, "seconds": round(time.monotonic() - began)}
    print(json.dumps(figures))
    raise SystemExit(bool(failed))


if __name__ == "__main__":
    main()
