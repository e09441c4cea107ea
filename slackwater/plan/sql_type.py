"""Types of Arrow in the words of Spark SQL, and back."""

from __future__ import annotations

import pyarrow as pa
import sqlglot
from sqlglot import exp

from slackwater.errors import QueryError

_PLAIN = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "STRING",
    pa.large_string(): "STRING",
    pa.binary(): "BINARY",
    pa.large_binary(): "BINARY",
    pa.date32(): "DATE",
    pa.duration("us"): "INTERVAL DAY TO SECOND",
    pa.null(): "VOID",
}
_BY_NAME = {
    "TIMESTAMP": pa.timestamp("us", "UTC"),
    "TIMESTAMP_NTZ": pa.timestamp("us"),
    **{name: kind for kind, name in reversed(_PLAIN.items())},
}


def sql_type(kind: pa.DataType) -> str:
    """The name of a type.

    >>> sql_type(pa.list_(pa.struct([("a", pa.decimal128(9, 2)), ("b", pa.timestamp("us", tz="UTC"))])))
    'ARRAY<STRUCT<`a`: DECIMAL(9, 2), `b`: TIMESTAMP>>'
    """
    if pa.types.is_timestamp(kind):
        return "TIMESTAMP" if kind.tz else "TIMESTAMP_NTZ"
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    if pa.types.is_map(kind):
        return f"MAP<{sql_type(kind.key_type)}, {sql_type(kind.item_type)}>"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"ARRAY<{sql_type(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return f"STRUCT<{', '.join(f'`{field.name}`: {sql_type(field.type)}' for field in kind)}>"
    return _PLAIN[kind]


def arrow_schema(text: str) -> pa.Schema:
    """Columns that are written as for Spark.

    >>> arrow_schema("ts TIMESTAMP, tags ARRAY<STRING>").field("tags").type
    ListType(list<item: string>)
    """
    try:
        table = sqlglot.parse_one(f"CREATE TABLE t ({text})", read="spark").this
    except sqlglot.ParseError:
        table = None
    columns = table.expressions if isinstance(table, exp.Schema) else []
    if not columns or not all(isinstance(column, exp.ColumnDef) and column.kind for column in columns):
        raise QueryError(f"{text!r} names no columns with their types; write them as in 'ts TIMESTAMP, n BIGINT'")
    return pa.schema([(column.name, _arrow_type(column.kind)) for column in columns])


def _arrow_type(kind: exp.DataType) -> pa.DataType:
    inner = kind.expressions
    if kind.is_type("array"):
        return pa.list_(_arrow_type(inner[0]))
    if kind.is_type("map"):
        return pa.map_(_arrow_type(inner[0]), _arrow_type(inner[1]))
    if kind.is_type("struct"):
        return pa.struct([(field.name, _arrow_type(field.kind)) for field in inner])
    if kind.is_type("decimal"):
        return pa.decimal128(*(int(size.name) for size in inner)) if inner else pa.decimal128(10, 0)
    name = kind.sql("spark")
    if name not in _BY_NAME:
        known = ", ".join([*_BY_NAME, "DECIMAL", "ARRAY", "MAP", "STRUCT"])
        raise QueryError(f"there is no type {name}; there are {known}")
    return _BY_NAME[name]
