"""Types of Arrow in the words of Spark SQL."""

from __future__ import annotations

import pyarrow as pa

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
