"""What Nexmark's queries should answer, by polars over all rows at once. Nothing of Slackwater is used here."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import polars as pl
import polars.testing

from .events import Events

_WINDOW, _SLIDE, _KNOWN = timedelta(seconds=10), timedelta(seconds=2), timedelta(seconds=20)
_COUNT = pl.len().cast(pl.Int64)
_PRICE = pl.col("price")
_LEVELS = {
    "rank1": _PRICE < 10_000,
    "rank2": (_PRICE >= 10_000) & (_PRICE < 1_000_000),
    "rank3": _PRICE >= 1_000_000,
}


def side_input(keys: int = 10_000) -> pl.DataFrame:
    """The stored relation of query 13."""
    return pl.DataFrame({"key": range(keys)}).with_columns(pl.format("value {}", "key").alias("value"))


def _start(time: str = "dateTime") -> pl.Expr:
    return pl.col(time).dt.truncate("10s").alias("window_start")


def _around(one: str, other: str, by: timedelta) -> pl.Expr:
    """Two rows that are alive for so long are so at the same time."""
    return (pl.col(one) < pl.col(other) + by) & (pl.col(other) < pl.col(one) + by)


def _sold(e: Events) -> pl.DataFrame:
    bids = e["bid"].select("auction", "bidder", "price", pl.col("dateTime").alias("bidTime"))
    pairs = e["auction"].join(bids, left_on="id", right_on="auction")
    return pairs.filter(pl.col("bidTime").is_between("dateTime", "expires")).with_columns(_start("expires"))


def q0(e: Events) -> pl.DataFrame:
    return e["bid"].select("auction", "bidder", "price", "dateTime", "extra")


def q1(e: Events) -> pl.DataFrame:
    return e["bid"].select("auction", "bidder", "dateTime", "extra", (0.908 * _PRICE).alias("price"))


def q2(e: Events) -> pl.DataFrame:
    return e["bid"].filter(pl.col("auction") % 123 == 0).select("auction", "price")


def q3(e: Events) -> pl.DataFrame:
    persons = e["person"].filter(pl.col("state").is_in(["OR", "ID", "CA"]))
    auctions = e["auction"].filter(pl.col("category") == 10)
    pairs = auctions.join(persons, left_on="seller", right_on="id", suffix="_p")
    return pairs.filter(_around("dateTime", "dateTime_p", _KNOWN)).select("name", "city", "state", "id")


def q4(e: Events) -> pl.DataFrame:
    final = _sold(e).group_by("window_start", "id", "category").agg(_PRICE.max())
    return final.group_by("window_start", "category").agg(_PRICE.mean())


def q5(e: Events) -> pl.DataFrame:
    ends = [pl.col("dateTime").dt.truncate("2s") + (n + 1) * _SLIDE for n in range(_WINDOW // _SLIDE)]
    rows = e["bid"].with_columns(pl.concat_list(ends).alias("window_end")).explode("window_end")
    counts = rows.group_by("window_end", "auction").agg(_COUNT.alias("num"))
    return counts.filter(pl.col("num") == pl.col("num").max().over("window_end"))


def q7(e: Events) -> pl.DataFrame:
    rows = e["bid"].with_columns((_start() + _WINDOW).alias("window_end"))
    highest = rows.filter(_PRICE.max().over("window_end") == _PRICE)
    return highest.select("auction", "bidder", "price", "dateTime", "window_end")


def q8(e: Events) -> pl.DataFrame:
    persons = e["person"].select("id", "name", _start()).unique()
    sellers = e["auction"].select(pl.col("seller").alias("id"), _start()).unique()
    return persons.join(sellers, on=["id", "window_start"])


def q9(e: Events) -> pl.DataFrame:
    order = {"price": True, "bidTime": False, "bidder": True}
    best = _sold(e).sort(*order, descending=list(order.values())).group_by("id", maintain_order=True).first()
    return best.select("id", "category", "expires", "price", "bidTime", "bidder", "window_start")


def q11(e: Events) -> pl.DataFrame:
    rows = e["bid"].sort("bidder", "dateTime")
    begins = (pl.col("dateTime").diff() >= _WINDOW).over("bidder").fill_null(True)
    sessions = rows.with_columns(begins.cum_sum().over("bidder").alias("session"))
    end = (pl.col("dateTime").max() + _WINDOW).alias("window_end")
    found = sessions.group_by("bidder", "session").agg(_COUNT.alias("bids"), end)
    return found.drop("session")


def q12(e: Events) -> pl.DataFrame:
    return e["bid"].group_by(_start("arrival"), "bidder").agg(_COUNT.alias("bids"))


def q13(e: Events) -> pl.DataFrame:
    bids = e["bid"].with_columns((pl.col("auction") % 10_000).alias("key"))
    return bids.join(side_input(), on="key").select("auction", "bidder", "price", "dateTime", "value")


def q14(e: Events) -> pl.DataFrame:
    price, hour = 0.908 * _PRICE, pl.col("dateTime").dt.hour()
    kind = (
        pl.when(hour.is_between(8, 18))
        .then(pl.lit("dayTime"))
        .when((hour <= 6) | (hour >= 20))
        .then(pl.lit("nightTime"))
        .otherwise(pl.lit("otherTime"))
    )
    letters = pl.col("extra").str.count_matches("c").cast(pl.Int64)
    return (
        e["bid"]
        .filter((price > 1_000_000) & (price < 50_000_000))
        .select(
            *("auction", "bidder", "dateTime", "extra"),
            price.alias("price"),
            kind.alias("bidTimeType"),
            letters.alias("c_counts"),
        )
    )


def _report() -> dict[str, pl.Expr]:
    made = {"total_bids": _COUNT, **{f"{r}_bids": level.sum().cast(pl.Int64) for r, level in _LEVELS.items()}}
    for of in ("bidder", "auction"):
        made[f"total_{of}s"] = pl.col(of).n_unique().cast(pl.Int64)
        for rank, level in _LEVELS.items():
            made[f"{rank}_{of}s"] = pl.col(of).filter(level).n_unique().cast(pl.Int64)
    return made


def q15(e: Events) -> pl.DataFrame:
    return e["bid"].group_by(_start()).agg(**_report())


def q16(e: Events) -> pl.DataFrame:
    minute = pl.col("dateTime").dt.to_string("%H:%M").max()
    return e["bid"].group_by(_start(), "channel").agg(**_report(), minute=minute)


def q17(e: Events) -> pl.DataFrame:
    counts = {k: v for k, v in _report().items() if k.endswith("_bids")}
    prices = {"min_price": _PRICE.min(), "max_price": _PRICE.max(), "avg_price": _PRICE.mean()}
    return e["bid"].group_by(_start(), "auction").agg(**counts, **prices, sum_price=_PRICE.sum())


def q18(e: Events) -> pl.DataFrame:
    columns = ["bidder", "auction", "dateTime", "price", "channel", "url"]
    rows = e["bid"].with_columns(_start()).sort("dateTime", "price", "channel", "url")
    return rows.group_by("window_start", "bidder", "auction").last().select("window_start", *columns)


def q19(e: Events) -> pl.DataFrame:
    bid = pl.struct("price", "dateTime", "bidder", "channel", "url")
    rows = e["bid"].with_columns(_start()).sort("price", "dateTime", "bidder", "channel", "url", descending=True)
    return rows.group_by("window_start", "auction", maintain_order=True).agg(bid.head(10).alias("best"))


def q20(e: Events) -> pl.DataFrame:
    auctions = e["auction"].filter(pl.col("category") == 10).rename({"dateTime": "opened"})
    pairs = e["bid"].join(auctions, left_on="auction", right_on="id")
    found = pairs.filter(_around("dateTime", "opened", _KNOWN))
    return found.select(
        *("auction", "bidder", "price", "channel", "url", "dateTime"),
        *("itemName", "initialBid", "reserve", "expires", "seller", "category", "opened"),
    )


TRUTH: dict[str, Callable[[Events], pl.DataFrame]] = {
    f"q{n}": globals()[f"q{n}"] for n in (0, 1, 2, 3, 4, 5, 7, 8, 9, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20)
}


def closed(expected: pl.DataFrame, got: pl.DataFrame) -> pl.DataFrame:
    """The rows that a side can have said that closes windows only when later rows come: up to its last window."""
    for bound in ("window_start", "window_end"):
        if bound in expected.columns and bound in got.columns:
            last = got[bound].max()
            return expected.filter(pl.col(bound) <= last) if last is not None else expected.clear()
    return expected


def differences(expected: pl.DataFrame, got: pl.DataFrame) -> str | None:
    """How two sets of rows differ in the columns of the first; None where they do not."""
    missing = [c for c in expected.columns if c not in got.columns]
    if missing:
        return f"no columns {', '.join(missing)}; there are {', '.join(got.columns)}"
    got = got.select(
        pl.col(name).cast(kind) if kind != pl.Datetime("us", "UTC") else pl.col(name).dt.cast_time_unit("us")
        for name, kind in expected.schema.items()
    )
    if got.height != expected.height:
        return f"{expected.height} rows expected, {got.height} came"
    # Sums of doubles may be rounded in another order, so they come last where rows are put in order.
    names = sorted(expected.columns, key=lambda c: expected.schema[c].is_float())
    order = [name for name in names if not expected.schema[name].is_nested()]
    try:
        pl.testing.assert_frame_equal(expected.select(names).sort(order), got.select(names).sort(order))
    except AssertionError as error:
        return str(error)
    return None
