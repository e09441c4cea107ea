"""Rows from what a user has: a path, a polars or pandas frame, an Arrow table; and what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

from slackwater.columns import SOURCE, TIME
from slackwater.errors import QueryError, did_you_mean
from slackwater.progress.time import FIRST_TIME, LAST_TIME
from slackwater.tune.rows import ARRIVAL, Extent, FrameRows, TuneRows
from slackwater.windows.kernel import source_text

#: Units of whole numbers since 1970, in microseconds, by the least median that has the unit. 10**8 seconds is 1973.
_UNITS = ((10**17, "nanoseconds", 1e-3), (10**14, "microseconds", 1.0), (10**11, "milliseconds", 1e3))
_SECONDS = (10**8, "seconds", 1e6)


def read_rows(data: Any, time: str, arrival: str, source: str | None) -> FrameRows:
    """The rows; columns that are not there or hold no times are refused."""
    if not isinstance(data, (str, Path)):
        return _rows(_frame(data), time, arrival, source)
    with _told(str(data)):
        rows = _rows(_file(str(data)), time, arrival, source)
        # A file is read once, and whole: a damaged row in the middle of it is found here.
        return replace(rows, frame=rows.frame.collect().lazy())


def _rows(frame: pl.LazyFrame, time: str, arrival: str, source: str | None) -> FrameRows:
    for what, name in (("time", time), ("arrival", arrival), ("source", source)):
        _check_column(list(frame.collect_schema()), name, what)
    made = [_instant(frame, time, "time").alias(TIME), _instant(frame, arrival, "arrival").alias(ARRIVAL)]
    if source is not None:
        made.append(source_text(pl.col(source)).alias(SOURCE))
    reach = pl.when(pl.col(TIME).is_between(FIRST_TIME, LAST_TIME)).then(pl.col(TIME)).alias(TIME)
    return FrameRows(frame.select(made).with_columns(reach), source is not None)


def describe_columns(path: str) -> str:
    """The columns of a file, those with a timestamp first; for a user who has not named one."""
    with _told(path):
        schema = _file(path).collect_schema()
    times = [name for name, kind in schema.items() if kind.is_temporal()]
    parts = {"with timestamps: ": times, "others: ": [name for name in schema if name not in times]}
    said = [what + ", ".join(names) for what, names in parts.items() if names]
    return f"{path!r} has columns {'; '.join(said)}"


def check_arrival(arrival: str | None) -> None:
    """Explain what an arrival is where none is named."""
    if arrival is None:
        raise QueryError(
            "arrival= is missing: name the column that says when each row came in, as in arrival='received'. A "
            "back-test plays the rows in that order. If your table has none, take what the way in has noted, such "
            "as Kafka's timestamp column, the time of the file or the ingestion time; from now on, write "
            "current_timestamp() beside each row"
        )


def _check_column(columns: list[str], name: str | None, what: str) -> None:
    if name is not None and (not isinstance(name, str) or name not in columns):
        hint = did_you_mean(name, columns) if isinstance(name, str) else ""
        raise QueryError(f"{what}={name!r}: there is no column {name!r}{hint}; there are {', '.join(columns)}")


def checked(rows: TuneRows, time: str, arrival: str) -> Extent:
    """How far the rows extend; refused where no row can be used."""
    extent = rows.extent()
    if extent.rows == 0:
        raise QueryError("there are no rows; give a day of yesterday's data, or at least some thousand rows")
    if extent.timed == 0:
        raise QueryError(
            f"none of the {extent.rows:,} rows has both a time (time={time!r}) and an arrival "
            f"(arrival={arrival!r}): the values are null or no timestamps such as '2024-05-01 12:00:00'"
        )
    return extent


@contextmanager
def _told(path: str) -> Iterator[None]:
    """What polars finds wrong with a file is a user's mistake."""
    try:
        yield
    except (pl.exceptions.PolarsError, OSError, UnicodeDecodeError) as error:
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise QueryError(
            f"{path!r} cannot be read: {first}; the files of a folder have the same columns, of the same types"
            if Path(path).is_dir()
            else f"{path!r} cannot be read: {first}"
        ) from None


def _frame(data: Any) -> pl.LazyFrame:
    if isinstance(data, pl.LazyFrame):
        return data
    if isinstance(data, pl.DataFrame):
        return data.lazy()
    if isinstance(data, (pa.Table, pa.RecordBatch)):
        return pl.DataFrame(data).lazy()
    if type(data).__module__.partition(".")[0] == "pandas":
        return pl.DataFrame(pa.Table.from_pandas(data, preserve_index=False)).lazy()
    raise QueryError(
        f"a {type(data).__name__} is no table; give a Spark DataFrame, a polars or pandas frame, an Arrow table, "
        "or a path to Parquet, CSV or JSON"
    )


def _file(path: str) -> pl.LazyFrame:
    place = Path(path)
    kind = place.suffix.lower().lstrip(".")
    if place.is_dir():
        kinds = {p.suffix.lower().lstrip(".") for p in place.rglob("*") if p.is_file()} & set(_READERS)
        if len(kinds) != 1:
            held = " and ".join(sorted(kinds)) if kinds else "no"
            raise QueryError(
                f"{path!r} holds {held} files; give a folder of Parquet, CSV or JSON files of one kind"
            )
        (kind,) = kinds
        path = f"{path.rstrip('/')}/**/*.{kind}"
    elif "://" not in path and not any(c in path for c in "*?[") and not place.exists():
        near = [str(p) for p in place.parent.glob("*")] if place.parent.is_dir() else []
        raise QueryError(f"there is no file {path!r}{did_you_mean(path, near)}")
    if kind not in _READERS:
        raise QueryError(f"{path!r}: the name does not say what it holds; it ends in {', '.join(_READERS)}")
    frame: pl.LazyFrame = _READERS[kind](path)
    return frame


def _json(path: str) -> pl.LazyFrame:
    """An array of objects, or an object a line."""
    with Path(path).open(encoding="utf-8") as file:
        begin = file.read(1)
    return pl.read_json(path).lazy() if begin == "[" else _ndjson(path)


def _ndjson(path: str) -> pl.LazyFrame:
    return pl.scan_ndjson(path, infer_schema_length=None)


_READERS: dict[str, Any] = {
    # Of many files, some may have more columns than others.
    "parquet": lambda path: pl.scan_parquet(path, extra_columns="ignore", missing_columns="insert"),
    # All rows say what a column holds, and a row that is not like the others is one without a time.
    "csv": lambda path: pl.scan_csv(
        path, try_parse_dates=True, infer_schema_length=None, truncate_ragged_lines=True, encoding="utf8-lossy"
    ),
    "json": _json,
    "jsonl": _ndjson,
    "ndjson": _ndjson,
}


def _instant(frame: pl.LazyFrame, name: str, what: str) -> pl.Expr:
    """A column as microseconds since 1970, UTC."""
    kind, column = frame.collect_schema()[name], pl.col(name)
    if isinstance(kind, pl.Datetime):
        return column.dt.epoch("us")
    if kind == pl.Date:
        return column.cast(pl.Datetime("us")).dt.epoch("us")
    if kind == pl.String:
        # A column of numbers is one of text if a single value is no number.
        numbers, texts = column.cast(pl.Float64, strict=False), _parsed(column)
        as_texts, as_numbers = frame.select(texts.count().alias("texts"), numbers.count()).collect().row(0)
        if as_texts < as_numbers:
            return _numbers(frame.with_columns(numbers.alias(name)), name, what)
        return texts
    if kind == pl.Null:
        return column.cast(pl.Int64)
    if kind.is_numeric():
        return _numbers(frame, name, what)
    raise QueryError(
        f"{what}={name!r} is of type {kind}; a back-test needs timestamps, or seconds, milliseconds or "
        "microseconds since 1970"
    )


def _parsed(column: pl.Expr) -> pl.Expr:
    """Text as timestamps, in any of the common shapes; null where it is none."""
    text = column.str.strip_chars().str.replace("T", " ", literal=True).str.replace(r"(Z|[+-]00:?00)$", "")
    shapes = ("%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%d %H:%M", "%Y-%m-%d", "%Y/%m/%d %H:%M:%S%.f")
    plain = [text.str.to_datetime(shape, time_unit="us", strict=False).dt.epoch("us") for shape in shapes]
    offset = text.str.to_datetime("%Y-%m-%d %H:%M:%S%.f%#z", time_unit="us", strict=False).dt.epoch("us")
    return pl.coalesce(*plain, offset)


def _numbers(frame: pl.LazyFrame, name: str, what: str) -> pl.Expr:
    """Numbers since 1970, in the unit that their size shows."""
    median = frame.select(pl.col(name).cast(pl.Float64).fill_nan(None).median()).collect().item()
    if median is None:
        return pl.col(name).cast(pl.Int64, strict=False)
    for least, _, scale in (*_UNITS, _SECONDS):
        if abs(median) >= least:
            if scale >= 1 and frame.collect_schema()[name].is_integer():
                return pl.col(name).cast(pl.Int64) * int(scale)
            return (pl.col(name).cast(pl.Float64, strict=False) * scale).round().cast(pl.Int64, strict=False)
    raise QueryError(
        f"{what}={name!r} holds numbers such as {median:g}, which are no seconds, milliseconds, microseconds or "
        "nanoseconds since 1970; a back-test needs timestamps"
    )
