"""Events of an auction house by the rules of Nexmark: persons, auctions and bids.

The rules are those of Apache Beam's generator (sdks/java/testing/nexmark, package sources.generator), which follows
"NEXMark – A Benchmark for Queries over Data Streams" (Tucker, Tufte, Papadimos, Maier, OGI 2002). Channels and urls
of bids are those of the Nexmark for Flink (github.com/nexmark/nexmark). Numbers are drawn by numpy, so the events
are not Beam's own, but their distributions are. Unlike Beam's, the rate is constant and one generator sends all.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa

#: Of 50 events in a row the first is a person, the next three are auctions, the rest are bids (GeneratorConfig).
PERSONS, AUCTIONS, BIDS = 1, 3, 46
EPOCH = PERSONS + AUCTIONS + BIDS
#: Ids begin here (GeneratorConfig).
FIRST_PERSON, FIRST_AUCTION, FIRST_CATEGORY = 1_000, 1_000, 10
CATEGORIES = 5
#: Of every 100 persons or auctions one is hot (AuctionGenerator, BidGenerator).
HOT = 100
#: Events may name so many persons and auctions that are still to come (PersonGenerator, AuctionGenerator).
LEAD = 10
#: Defaults of NexmarkConfiguration: 1 - 1/ratio of the events are for, or by, the hot ones.
HOT_AUCTIONS_RATIO, HOT_SELLERS_RATIO, HOT_BIDDERS_RATIO = 2, 4, 4
ACTIVE_PERSONS, AUCTIONS_IN_FLIGHT = 1_000, 100
PERSON_BYTES, AUCTION_BYTES, BID_BYTES = 200, 500, 100
#: The Nexmark for Flink (BidGenerator): half of the bids come by one of four channels.
HOT_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
HOT_CHANNELS_RATIO, CHANNELS = 2, 10_000

STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
CITIES = (
    *("Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland"),
    *("Bend", "Redmond", "Seattle", "Kent", "Cheyenne"),
)
_FIRST = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
_LAST = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")

#: The time of the first event, as Beam has it.
BASE_TIME = int(datetime(2015, 7, 15, tzinfo=UTC).timestamp()) * 1_000_000
_STAMP = pl.Datetime("us", "UTC")

#: For Spark.
SCHEMAS = {
    "person": "id bigint, name string, emailAddress string, creditCard string, city string, state string, "
    "dateTime timestamp, extra string, arrival timestamp",
    "auction": "id bigint, itemName string, description string, initialBid bigint, reserve bigint, "
    "dateTime timestamp, expires timestamp, seller bigint, category bigint, extra string, arrival timestamp",
    "bid": "auction bigint, bidder bigint, price bigint, channel string, url string, "
    "dateTime timestamp, extra string, arrival timestamp",
}

#: Rows of each stream, in the order of arrival.
Events = dict[str, pl.DataFrame]


@dataclass(frozen=True)
class House:
    """What an auction house sends; equal ones send the same events."""

    events: int = 100_000
    rate: int = 10_000
    """Events a second of the stream's time."""
    seed: int = 1
    delay: float = 0.0
    """An event that is delayed arrives at most so many seconds after its time."""
    delayed: float = 0.1
    """How many of them are (Beam's probDelayedEvent)."""
    quiet: tuple[float, float] | None = None
    """From when to when no bids come, in seconds of the stream."""

    @property
    def horizon(self) -> int:
        """Milliseconds in which as many auctions begin as are in flight."""
        return math.ceil(AUCTIONS_IN_FLIGHT * EPOCH / AUCTIONS / self.rate * 1_000)

    @property
    def longest(self) -> int:
        """No auction is open for longer, in milliseconds."""
        return 2 * self.horizon + 1

    @property
    def seconds(self) -> float:
        """How long the stream is."""
        return self.events / self.rate

    def make(self) -> Events:
        """All events."""
        draw = np.random.default_rng(self.seed)
        number = np.arange(self.events, dtype=np.int64)
        place = number % EPOCH
        made = {
            "person": self._persons(number[place < PERSONS], draw),
            "auction": self._auctions(number[(place >= PERSONS) & (place < PERSONS + AUCTIONS)], draw),
            "bid": self._bids(number[place >= PERSONS + AUCTIONS], draw),
        }
        if self.quiet is not None:
            start, end = (BASE_TIME + round(s * 1e6) for s in self.quiet)
            ticks = pl.col("dateTime").dt.epoch("us")
            made["bid"] = made["bid"].filter((ticks < start) | (ticks >= end))
        return {name: self._arrived(rows, draw) for name, rows in made.items()}

    def _time(self, number: np.ndarray) -> np.ndarray:
        """Microseconds, but in steps of milliseconds, as Beam has them."""
        return BASE_TIME + number * 1_000 // self.rate * 1_000

    def _persons(self, number: np.ndarray, draw: np.random.Generator) -> pl.DataFrame:
        n = len(number)
        rows = pl.DataFrame(
            {
                "id": last_person(number) + FIRST_PERSON,
                "first": _some(_FIRST, n, draw),
                "last": _some(_LAST, n, draw),
                "user": _texts(np.full(n, 7), draw),
                "host": _texts(np.full(n, 5), draw),
                "card": draw.integers(0, 10**16, n),
                "city": _some(CITIES, n, draw),
                "state": _some(STATES, n, draw),
                "dateTime": pl.Series(self._time(number)).cast(_STAMP),
                "extra": _extra(n, PERSON_BYTES - 80, draw),
            }
        )
        card = pl.col("card").cast(pl.String).str.zfill(16)
        return rows.select(
            "id",
            pl.format("{} {}", "first", "last").alias("name"),
            pl.format("{}@{}.com", "user", "host").alias("emailAddress"),
            pl.format("{} {} {} {}", *(card.str.slice(at, 4) for at in (0, 4, 8, 12))).alias("creditCard"),
            *("city", "state", "dateTime", "extra"),
        )

    def _auctions(self, number: np.ndarray, draw: np.random.Generator) -> pl.DataFrame:
        n, time = len(number), self._time(number)
        hot = draw.integers(0, HOT_SELLERS_RATIO, n) > 0
        seller = np.where(hot, last_person(number) // HOT * HOT, _any_person(number, draw))
        first_bid = _prices(n, draw)
        # As long as it takes until so many more auctions have begun, on average (AuctionGenerator).
        ahead = self._time(number + AUCTIONS_IN_FLIGHT * EPOCH // AUCTIONS) - time
        length = 1_000 + draw.integers(0, np.maximum(ahead // 1_000 * 2, 1)) * 1_000
        return pl.DataFrame(
            {
                "id": last_auction(number) + FIRST_AUCTION,
                "itemName": _texts(np.full(n, 20), draw),
                "description": _texts(np.full(n, 100), draw),
                "initialBid": first_bid,
                "reserve": first_bid + _prices(n, draw),
                "dateTime": pl.Series(time).cast(_STAMP),
                "expires": pl.Series(time + length).cast(_STAMP),
                "seller": seller + FIRST_PERSON,
                "category": FIRST_CATEGORY + draw.integers(0, CATEGORIES, n),
                "extra": _extra(n, AUCTION_BYTES - 168, draw),
            }
        )

    def _bids(self, number: np.ndarray, draw: np.random.Generator) -> pl.DataFrame:
        n = len(number)
        hot = draw.integers(0, HOT_AUCTIONS_RATIO, n) > 0
        auction = np.where(hot, last_auction(number) // HOT * HOT, _any_auction(number, draw))
        hot = draw.integers(0, HOT_BIDDERS_RATIO, n) > 0
        # The second of them, so that hot bidders and hot sellers are not the same.
        bidder = np.where(hot, last_person(number) // HOT * HOT + 1, _any_person(number, draw))
        hot, one = draw.integers(0, HOT_CHANNELS_RATIO, n) > 0, draw.integers(0, CHANNELS, n)
        rows = pl.DataFrame(
            {
                "auction": auction + FIRST_AUCTION,
                "bidder": bidder + FIRST_PERSON,
                "price": _prices(n, draw),
                "hot": hot,
                "one": one,
                "hotChannel": _some(HOT_CHANNELS, n, draw),
                "where": _texts(np.full(n, 15), draw),
                "dateTime": pl.Series(self._time(number)).cast(_STAMP),
                "extra": _extra(n, BID_BYTES - 32, draw),
            }
        )
        path = [pl.col("where").str.slice(at, 5) for at in (0, 5, 10)]
        url = pl.format("https://www.nexmark.com/{}/{}/{}/item.htm?query=1", *path)
        return rows.select(
            *("auction", "bidder", "price"),
            pl.when("hot").then("hotChannel").otherwise(pl.format("channel-{}", "one")).alias("channel"),
            pl.when("hot").then(url).otherwise(pl.format("{}&channel_id={}", url, "one")).alias("url"),
            *("dateTime", "extra"),
        )

    def _arrived(self, rows: pl.DataFrame, draw: np.random.Generator) -> pl.DataFrame:
        late = (draw.random(rows.height) < self.delayed) * draw.random(rows.height) * self.delay
        arrival = rows["dateTime"].dt.epoch("us") + pl.Series((late * 1e6).astype(np.int64))
        return rows.with_columns(arrival.cast(_STAMP).alias("arrival")).sort("arrival", maintain_order=True)


def last_person(number: np.ndarray) -> np.ndarray:
    """The newest person at an event, counted from 0: its own, where it is one."""
    return number // EPOCH * PERSONS + np.minimum(number % EPOCH, PERSONS - 1)


def last_auction(number: np.ndarray) -> np.ndarray:
    """The newest auction at an event, counted from 0; -1 before the first."""
    return number // EPOCH * AUCTIONS + np.clip(number % EPOCH - PERSONS, -1, AUCTIONS - 1)


def _any_person(number: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    """One of the active persons, or of those who come next."""
    known = last_person(number) + 1
    active = np.minimum(known, ACTIVE_PERSONS)
    return known - active + draw.integers(0, active + LEAD)


def _any_auction(number: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    """One of the auctions in flight, or of those that come next."""
    newest = last_auction(number)
    oldest = np.maximum(newest - AUCTIONS_IN_FLIGHT, 0)
    return oldest + draw.integers(0, newest - oldest + 1 + LEAD)


def _prices(n: int, draw: np.random.Generator) -> np.ndarray:
    """Their logarithms are even, from 100 to 100,000,000 cents (PriceGenerator)."""
    return np.round(10.0 ** (draw.random(n) * 6) * 100).astype(np.int64)


def _some(words: Sequence[str], n: int, draw: np.random.Generator) -> pl.Series:
    return pl.Series(words)[draw.integers(0, len(words), n)]


def _extra(n: int, average: int, draw: np.random.Generator) -> pl.Series:
    """Texts that fill an event up to its average size, a fifth more or less (StringsGenerator)."""
    return _texts(draw.integers(average * 4 // 5, average * 6 // 5 + 1, n), draw)


def _texts(lengths: np.ndarray, draw: np.random.Generator) -> pl.Series:
    """Texts of small letters."""
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    letters = draw.integers(ord("a"), ord("z") + 1, int(ends[-1]), dtype=np.uint8)
    return pl.Series(pa.LargeStringArray.from_buffers(len(lengths), pa.py_buffer(ends), pa.py_buffer(letters)))


def write(events: Events, folder: Path, pages: int) -> dict[str, list[Path]]:
    """Write each stream as files in a folder of its own; file n has what arrives in the n-th part of the time."""
    ends = [rows["arrival"].dt.epoch("us") for rows in events.values() if rows.height]
    first, last = min(e.min() for e in ends), max(e.max() for e in ends)  # type: ignore[type-var]
    made: dict[str, list[Path]] = {}
    for name, rows in events.items():
        of = (pl.col("arrival").dt.epoch("us") - first) * pages // (last - first + 1)  # type: ignore[operator]
        (folder / name).mkdir(parents=True)
        made[name] = []
        for (page,), part in rows.with_columns(of.alias("page")).group_by("page", maintain_order=True):
            path = folder / name / f"part-{page:04d}.parquet"
            part.drop("page").write_parquet(path, compression="snappy", row_group_size=part.height)
            # Spark takes files in the order of their age.
            os.utime(path, (1_700_000_000 + int(page), 1_700_000_000 + int(page)))  # type: ignore[call-overload]
            made[name].append(path)
    return made
