"""Which values a function takes: types as Arrow has them, told in Spark's words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True)
class Takes:
    """A kind of arguments."""

    words: str
    """For messages."""
    fits: Callable[[pa.DataType], bool]


def is_number(kind: pa.DataType) -> bool:
    """Whether values of a type are numbers."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def is_text(kind: pa.DataType) -> bool:
    """Whether values of a type are texts."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def is_plain(kind: pa.DataType) -> bool:
    """Whether Spark, Arrow, polars and Parquet all have the type, and put its values into the same order."""
    test = pa.types
    bytes_or_flag = test.is_binary(kind) or test.is_large_binary(kind) or test.is_boolean(kind)
    return bool(is_number(kind) or is_text(kind) or bytes_or_flag or test.is_date(kind) or test.is_timestamp(kind))


def is_value(kind: pa.DataType) -> bool:
    """Whether values of a type are plain, or arrays or structs of such."""
    if pa.types.is_struct(kind):
        return all(is_value(field.type) for field in kind)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return is_value(kind.value_type)
    return is_plain(kind)


NUMBERS = Takes("numbers", lambda kind: is_number(kind) or is_text(kind))
WHOLE_NUMBERS = Takes("whole numbers", pa.types.is_integer)
BOOLEANS = Takes("conditions", pa.types.is_boolean)
PLAIN = Takes("numbers, texts, bytes, booleans, dates and timestamps", is_plain)
VALUES = Takes("plain values, and arrays and structs of them", is_value)
HASHED = Takes("values that are no maps", lambda kind: not pa.types.is_map(kind))
ANYTHING = Takes("anything", lambda kind: True)


def number_sql(argument: str, kind: pa.DataType) -> str:
    """Spark SQL of a number; Spark's functions read texts as numbers too."""
    return f"CAST({argument} AS DOUBLE)" if is_text(kind) else argument


def spoken(kind: pa.DataType) -> str:
    """A type in Spark's words.

    >>> spoken(pa.list_(pa.int64())), spoken(pa.struct([("a", pa.string())])), spoken(pa.duration("us"))
    ('an array', 'a struct', 'an interval')
    """
    for test, words in (
        (pa.types.is_map, "a map"),
        (pa.types.is_list, "an array"),
        (pa.types.is_struct, "a struct"),
        (pa.types.is_duration, "an interval"),
        (pa.types.is_null, "always null"),
        (pa.types.is_boolean, "a boolean"),
        (pa.types.is_binary, "binary"),
        (is_text, "a text"),
    ):
        if test(kind):
            return words
    return f"a {kind}".partition("[")[0]
