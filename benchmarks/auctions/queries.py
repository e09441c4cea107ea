"""Nexmark's queries in Slackwater. What each asks is told in benchmarks/README.md.

Where Nexmark asks for ever, these ask for ten seconds: of windows, as Nexmark itself does in queries 5, 7 and 8.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pyspark.sql import DataFrame

import slackwater as sw

from .events import House

#: The windows of Nexmark's queries 5, 7 and 8, and the period of the reports, which are by the day in Nexmark.
WINDOW, SLIDE = "10 seconds", "2 seconds"
#: For how long persons and auctions find partners in queries 3 and 20.
KNOWN = "20 seconds"
INSTANT = "1 microsecond"

#: The price levels of the reports.
LEVELS = {"rank1": "price < 10000", "rank2": "price >= 10000 AND price < 1000000", "rank3": "price >= 1000000"}


@dataclass
class Streams:
    """The streams that a query names, each declared when it is first asked for."""

    session: sw.Session
    house: House
    read: Callable[[str], DataFrame]
    """Gives the rows of a stream: a streaming DataFrame, or a static one."""
    side: DataFrame
    """The stored relation of query 13: key, value."""
    page: str | None = None
    """Static rows are replayed in pages of so much arrival time."""
    declared: dict[str, sw.Stream] = field(default_factory=dict)

    @property
    def person(self) -> sw.Stream:
        return self._stream("person", "person", "dateTime", 0)

    @property
    def auction(self) -> sw.Stream:
        return self._stream("auction", "auction", "dateTime", 0)

    @property
    def closing(self) -> sw.Stream:
        """The auctions by the time at which they close."""
        return self._stream("closing", "auction", "expires", self.house.longest)

    @property
    def bid(self) -> sw.Stream:
        return self._stream("bid", "bid", "dateTime", 0)

    def _stream(self, name: str, of: str, time: str, more: int) -> sw.Stream:
        if name not in self.declared:
            # The time of a row moves on by a millisecond at least, so one more covers the largest delay.
            slack = f"{round(self.house.delay * 1_000) + 1 + more} milliseconds"
            replay = {} if self.page is None else {"arrival": "arrival", "page": self.page}
            self.declared[name] = self.session.stream(
                name, self.read(of), time=time, disorder=sw.bounded(slack), **replay
            )
        return self.declared[name]


def q0(s: Streams) -> sw.Query:
    return s.bid.select("auction", "bidder", "price", "dateTime", "extra")


def q1(s: Streams) -> sw.Query:
    return s.bid.select("auction", "bidder", "dateTime", "extra", price="0.908D * price")


def q2(s: Streams) -> sw.Query:
    return s.bid.where("auction % 123 = 0").select("auction", "price")


def q3(s: Streams) -> sw.Query:
    persons = s.person.where("state IN ('OR', 'ID', 'CA')").select("name", "city", "state", person="id")
    auctions = s.auction.where("category = 10").select("id", "seller")
    pairs = auctions.rolling(range=KNOWN).join(persons.rolling(range=KNOWN), on="seller = person")
    return pairs.select("name", "city", "state", "id")


def q4(s: Streams) -> sw.Query:
    prices = _sold(s).window(WINDOW).group_by("id", "category").agg(final="max(price)")
    return prices.window(WINDOW).group_by("category").agg(price="avg(final)")


def q5(s: Streams) -> sw.Query:
    counts = s.bid.window(WINDOW, slide=SLIDE).group_by("auction").agg(num="count(*)")
    most = counts.window(SLIDE).agg(most="max(num)").select("most")
    return (
        counts.select("auction", "num", "window_end")
        .join(most, on="num >= most")
        .select("auction", "num", "window_end")
    )


def q7(s: Streams) -> sw.Query:
    highest = s.bid.window(WINDOW).agg(highest="max(price)").select("highest", "window_end")
    return (
        s.bid.rolling(range=WINDOW)
        .join(highest, on="price = highest")
        .select("auction", "bidder", "price", "dateTime", "window_end")
    )


def q8(s: Streams) -> sw.Query:
    persons = s.person.window(WINDOW).group_by("id", "name").agg(entered="count(*)")
    sellers = s.auction.window(WINDOW).group_by("seller").agg(opened="count(*)")
    return (
        persons.select("id", "name", "window_start")
        .join(sellers.select("seller"), on="id = seller")
        .select("id", "name", "window_start")
    )


def q9(s: Streams) -> sw.Query:
    # The highest price wins, of equal ones the first bid. A text has all in the order in which it is asked for.
    offer = (
        "concat_ws(' ', lpad(price, 12, '0'), lpad(4102444800000 - unix_millis(bidTime), 13, '0'), "
        "lpad(bidder, 12, '0'))"
    )
    best = _sold(s).window(WINDOW).group_by("id", "category", "expires").agg(offer=f"max({offer})")
    return best.select(
        "id",
        "category",
        "expires",
        price="CAST(split(offer, ' ')[0] AS BIGINT)",
        bidTime="timestamp_millis(4102444800000 - CAST(split(offer, ' ')[1] AS BIGINT))",
        bidder="CAST(split(offer, ' ')[2] AS BIGINT)",
    )


def q11(s: Streams) -> sw.Query:
    return s.bid.sessions(gap=WINDOW).group_by("bidder").agg(bids="count(*)")


def q12(s: Streams) -> sw.Query:
    # The arrival that stands in the rows: a machine's own clock would give another answer each time.
    windows = s.bid.window(WINDOW, on="arrival", disorder=sw.bounded("1 millisecond"))
    return windows.group_by("bidder").agg(bids="count(*)")


def q13(s: Streams) -> sw.Query:
    bids = s.bid.select("auction", "bidder", "price", "dateTime", key="auction % 10000")
    return bids.join(s.side, on="key").select("auction", "bidder", "price", "dateTime", "value")


def q14(s: Streams) -> sw.Query:
    hour = "hour(dateTime)"
    return s.bid.where("0.908D * price > 1000000 AND 0.908D * price < 50000000").select(
        "auction",
        "bidder",
        "dateTime",
        "extra",
        price="0.908D * price",
        bidTimeType=f"CASE WHEN {hour} BETWEEN 8 AND 18 THEN 'dayTime' "
        f"WHEN {hour} <= 6 OR {hour} >= 20 THEN 'nightTime' ELSE 'otherTime' END",
        c_counts="length(extra) - length(replace(extra, 'c', ''))",
    )


def q15(s: Streams) -> sw.Query:
    return s.bid.window(WINDOW).agg(**_report())


def q16(s: Streams) -> sw.Query:
    return s.bid.window(WINDOW).group_by("channel").agg(**_report(), minute="max(date_format(dateTime, 'HH:mm'))")


def q17(s: Streams) -> sw.Query:
    return (
        s.bid.window(WINDOW)
        .group_by("auction")
        .agg(
            total_bids="count(*)",
            **{f"{rank}_bids": f"sum(int({level}))" for rank, level in LEVELS.items()},
            min_price="min(price)",
            max_price="max(price)",
            avg_price="avg(price)",
            sum_price="sum(price)",
        )
    )


def q18(s: Streams) -> sw.Query:
    last = (
        s.bid.window(WINDOW)
        .group_by("bidder", "auction")
        .agg(dateTime="max(dateTime)", bid="last(struct(price, channel, url))")
    )
    return last.select("bidder", "auction", "dateTime", price="bid.price", channel="bid.channel", url="bid.url")


def q19(s: Streams) -> sw.Query:
    bid = "struct(price, dateTime, bidder, channel, url)"
    return (
        s.bid.window(WINDOW).group_by("auction").agg(best=f"slice(sort_array(collect_list({bid}), false), 1, 10)")
    )


def q20(s: Streams) -> sw.Query:
    auctions = s.auction.where("category = 10").select(
        "id", "itemName", "initialBid", "reserve", "expires", "seller", "category", opened="dateTime"
    )
    bids = s.bid.select("auction", "bidder", "price", "channel", "url", "dateTime")
    return bids.rolling(range=KNOWN).join(auctions.rolling(range=KNOWN), on="auction = id")


def _sold(s: Streams) -> sw.Query:
    """Auctions with each of the bids for them, at the time at which the auction closes.

    An auction that closes at t meets the bids of as long as an auction may have been open. The pair's time is that
    of the later row, which is t.
    """
    closing = s.closing.select("id", "category", "expires", opened="dateTime")
    bids = s.bid.select("auction", "bidder", "price", bidTime="dateTime")
    longest = f"{s.house.longest + 1} milliseconds"
    return bids.rolling(range=longest).join(
        closing.rolling(range=INSTANT), on="auction = id AND bidTime >= opened AND bidTime <= expires"
    )


def _report() -> dict[str, str]:
    """How many bids there were, and how many different bidders and auctions, in all and by price."""
    filters = {"total": "", **{rank: f" FILTER (WHERE {level})" for rank, level in LEVELS.items()}}
    counts = {"bids": "count(*)", "bidders": "count(DISTINCT bidder)", "auctions": "count(DISTINCT auction)"}
    return {f"{rank}_{of}": call + where for of, call in counts.items() for rank, where in filters.items()}


QUERIES: dict[str, Callable[[Streams], sw.Query]] = {
    "q0": q0,
    "q1": q1,
    "q2": q2,
    "q3": q3,
    "q4": q4,
    "q5": q5,
    "q7": q7,
    "q8": q8,
    "q9": q9,
    "q11": q11,
    "q12": q12,
    "q13": q13,
    "q14": q14,
    "q15": q15,
    "q16": q16,
    "q17": q17,
    "q18": q18,
    "q19": q19,
    "q20": q20,
}

#: Those that this language cannot say, and why.
NOT_SAID = {
    "q6": "the last ten auctions of each seller, in the order of their closing: no window of rows over results",
}

#: What each reads.
READS = {
    **{name: ("bid",) for name in QUERIES},
    "q3": ("person", "auction"),
    "q4": ("auction", "bid"),
    "q8": ("person", "auction"),
    "q9": ("auction", "bid"),
    "q20": ("auction", "bid"),
}
