"""The events of an auction house keep Nexmark's rules: proportions, ids, hot ones, prices, times, disorder."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from benchmarks.auctions.events import HOT, HOT_CHANNELS, SCHEMAS, House, last_auction, last_person, write

HOUSE = House(50_000, 10_000)
EVENTS = HOUSE.make()
PERSON, AUCTION, BID = (EVENTS[name] for name in ("person", "auction", "bid"))

houses = st.builds(
    House,
    events=st.integers(1, 1_500),
    rate=st.sampled_from([1, 7, 100, 3_000, 10_000]),
    seed=st.integers(0, 5),
    delay=st.sampled_from([0.0, 0.01, 4.0]),
)


def share(rows: pl.Series) -> float:
    return float(rows.mean())  # type: ignore[arg-type]


def test_of_fifty_events_one_is_a_person_three_are_auctions_and_the_rest_are_bids() -> None:
    assert [PERSON.height, AUCTION.height, BID.height] == [1_000, 3_000, 46_000]


def test_ids_count_up() -> None:
    for rows in (PERSON, AUCTION):
        assert rows["id"].to_list() == list(range(1_000, 1_000 + rows.height))


@given(st.integers(0, 10_000))
def test_the_newest_person_and_auction_are_those_that_have_come(number: int) -> None:
    places = np.arange(number + 1) % 50
    at = np.array([number])
    assert last_person(at)[0] == np.count_nonzero(places == 0) - 1
    assert last_auction(at)[0] == np.count_nonzero((places >= 1) & (places <= 3)) - 1


def test_hot_ones_get_their_share() -> None:
    hot_auction = (BID["auction"] - 1_000) % HOT == 0
    assert share(hot_auction) == pytest.approx(1 - 1 / 2 + 1 / 2 / HOT, abs=0.02)
    hot_bidder = (BID["bidder"] - 1_000) % HOT == 1
    assert share(hot_bidder) == pytest.approx(1 - 1 / 4 + 1 / 4 / HOT, abs=0.02)
    hot_seller = (AUCTION["seller"] - 1_000) % HOT == 0
    assert share(hot_seller) == pytest.approx(1 - 1 / 4 + 1 / 4 / HOT, abs=0.03)
    assert share(BID["channel"].is_in(HOT_CHANNELS)) == pytest.approx(1 / 2, abs=0.02)


def test_logarithms_of_prices_are_even() -> None:
    logs = np.log10(BID["price"].to_numpy() / 100)
    assert (np.histogram(logs, bins=6, range=(0, 6))[0] / BID.height).tolist() == pytest.approx(
        [1 / 6] * 6, abs=0.01
    )


def test_auctions_are_open_for_as_long_as_a_hundred_begin_on_average() -> None:
    length = (AUCTION["expires"] - AUCTION["dateTime"]).dt.total_microseconds() / 1e6
    assert share(length) == pytest.approx(100 * 50 / 3 / HOUSE.rate, rel=0.05)


def test_a_bid_is_for_an_auction_in_flight_or_one_of_the_next_ten() -> None:
    begun = (BID["dateTime"].dt.epoch("us") - BID["dateTime"].dt.epoch("us").min()) * HOUSE.rate // 1_000_000
    newest = pl.Series(last_auction(begun.to_numpy())) + 1_000  # of the first event of its millisecond, or before
    ahead = BID["auction"] - newest
    assert ahead.min() >= -HOT - 3 and 0 < ahead.max() <= 10 + 3  # type: ignore[operator]


def test_events_are_as_large_as_they_should_be() -> None:
    for rows, size in ((PERSON, 200), (AUCTION, 500), (BID, 100)):
        extra = share(rows["extra"].str.len_bytes())
        assert size * 0.5 < extra < size
    assert PERSON["creditCard"].str.contains(r"^\d{4}( \d{4}){3}$").all()


@settings(max_examples=20)
@given(houses)
def test_one_seed_makes_the_same_events_and_another_one_others(house: House) -> None:
    made, again = house.make(), house.make()
    for name in SCHEMAS:
        assert_frame_equal(made[name], again[name])
    if made["bid"].height:
        other = House(house.events, house.rate, house.seed + 1, house.delay).make()
        assert not made["bid"].equals(other["bid"])


@settings(max_examples=20)
@given(houses)
def test_time_goes_at_the_rate_and_rows_arrive_within_the_delay(house: House) -> None:
    made = house.make()
    assert sum(rows.height for rows in made.values()) == house.events
    times = pl.concat(rows["dateTime"] for rows in made.values()).sort().dt.epoch("us")
    steps = np.arange(house.events) * 1_000 // house.rate * 1_000
    assert (times - times[0]).to_list() == steps.tolist()
    for rows in made.values():
        assert rows["arrival"].is_sorted()
        late = rows["arrival"] - rows["dateTime"]
        assert late.is_between(timedelta(0), timedelta(seconds=house.delay)).all()
    assert (
        (made["auction"]["expires"] - made["auction"]["dateTime"]).dt.total_milliseconds() <= house.longest
    ).all()


def test_delays_bring_rows_out_of_order() -> None:
    rows = House(5_000, 1_000, delay=3.0).make()["bid"]
    assert not rows["dateTime"].is_sorted()
    assert share(rows["arrival"] > rows["dateTime"]) == pytest.approx(0.1, abs=0.02)


def test_a_quiet_house_sends_no_bids_meanwhile_and_all_others() -> None:
    quiet, loud = House(5_000, 1_000, quiet=(2, 3)).make(), House(5_000, 1_000).make()
    seconds = (pl.col("dateTime").dt.epoch("us") - loud["person"]["dateTime"].dt.epoch("us")[0]) / 1e6
    kept = loud["bid"].filter((seconds < 2) | (seconds >= 3))
    assert 0 < kept.height < loud["bid"].height
    assert_frame_equal(quiet["bid"], kept)
    assert_frame_equal(quiet["auction"], loud["auction"])


def test_files_have_all_rows_in_the_order_of_arrival(tmp_path: Path) -> None:
    events = House(5_000, 1_000, quiet=(2, 4)).make()
    files = write(events, tmp_path, 10)
    for name, rows in events.items():
        assert_frame_equal(pl.concat(map(pl.read_parquet, files[name])), rows)
        ages = [file.stat().st_mtime for file in files[name]]
        assert ages == sorted(set(ages))
    assert [len(files[name]) for name in ("person", "auction", "bid")] == [10, 10, 6]
