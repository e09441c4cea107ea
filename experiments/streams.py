"""The streams of the experiments: S5's made again, and real ones where they are at hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl

import slackwater
from experiments.lab.arrivals import Delay, exponential, lognormal, outages, pareto, regimes
from experiments.lab.prodded import Values, normal_values, steady, uniform_values

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
FLIGHTS = Path(slackwater.__file__).parent / "data" / "flights.parquet"

#: Section 4.4: the distributions of values.
DISTRIBUTIONS: dict[str, Values] = {
    "uniform": uniform_values(),
    "normal, SD 100": normal_values(100),
    "normal, SD 400": normal_values(400),
    "normal, SD 1000": normal_values(1000),
}


@dataclass(frozen=True)
class Real:
    """A real data set and the windows that suit it."""

    name: str
    path: Path
    time: str
    arrival: str
    value: str
    range: str
    slide: str
    slack: str
    page: str

    def rows(self) -> pl.DataFrame:
        """Its rows in the order of arrival, times in microseconds."""
        return (
            pl.read_parquet(self.path)
            .select(
                arrival=pl.col(self.arrival).dt.timestamp("us"),
                time=pl.col(self.time).dt.timestamp("us"),
                value=pl.col(self.value),
            )
            .drop_nulls()
            .sort("arrival", maintain_order=True)
        )


def real(folder: Path) -> Iterator[Real]:
    """Those that there are, with windows of which there are over a thousand; flights is part of the package."""
    yield Real(
        "flights", FLIGHTS, "scheduled", "departed", "delay_min", "3 hours", "1 hour", "4 hours", "30 minutes"
    )
    phones = ("sent", "received", "value", "2 seconds", "0.5 seconds", "6 seconds", "0.125 seconds")
    yield Real("phones 1", folder / "phones_1.parquet", *phones)
    yield Real("phones 2", folder / "phones_2.parquet", *phones)
    http = ("time", "time", "bytes", "60 seconds", "20 seconds", "0 seconds", "5 seconds")
    yield Real("http", folder / "http.parquet", *http)
    quakes = ("time", "updated", "magnitude", "2 hours", "6 minutes", "1 day", "3 minutes")
    yield Real("quakes", folder / "quakes.parquet", *quakes)


@dataclass(frozen=True)
class Difficult:
    """A stream whose early answers are hard to judge: delays change, or final answers come many windows later."""

    name: str
    rate: float
    delay: Delay
    slack: str
    range: str = "30 seconds"
    slide: str = "10 seconds"
    page: str = "2.5 seconds"

    def rows(self, seconds: int, seed: int) -> pl.DataFrame:
        """Its rows in the order of arrival."""
        return steady(seconds, rate=self.rate, values=normal_values(100), delay=self.delay, seed=seed)


_SWITCHING = regimes(*((2_000.0 * n, exponential(8 if n % 2 else 1)) for n in range(8)))
_OVERLAPPING = {"range": "2 minutes", "slide": "6 seconds", "page": "3 seconds"}
DIFFICULT = (
    Difficult("delays switch between 1 and 8 s", 5, _SWITCHING, "60 seconds"),
    Difficult("outages of 100 s", 5, outages(exponential(1), 1_000, 100), "130 seconds"),
    Difficult("finals 17 min late, heavy tail", 3, pareto(3, 1.2), "1000 seconds"),
    Difficult("finals 33 min late, few rows", 0.25, lognormal(20, 1.5), "2000 seconds"),
    Difficult("overlap 20", 2, exponential(20), "150 seconds", **_OVERLAPPING),
    Difficult("overlap 20, finals 25 min late", 0.15, lognormal(55, 1.5), "1500 seconds", **_OVERLAPPING),
)
