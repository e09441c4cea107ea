"""Types of Spark as types of Arrow, and back: the same with every version of Spark and under any setting."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

#: Spark's types without parameters, and Arrow's.
_PLAIN: list[tuple[type[DataType], pa.DataType]] = [
    (BooleanType, pa.bool_()),
    (ByteType, pa.int8()),
    (ShortType, pa.int16()),
    (IntegerType, pa.int32()),
    (LongType, pa.int64()),
    (FloatType, pa.float32()),
    (DoubleType, pa.float64()),
    (StringType, pa.string()),
    (BinaryType, pa.binary()),
    (DateType, pa.date32()),
    (TimestampType, pa.timestamp("us", tz="UTC")),
    (TimestampNTZType, pa.timestamp("us")),
    (DayTimeIntervalType, pa.duration("us")),
    (NullType, pa.null()),
]
_LARGE = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}


def arrow_of(kind: DataType) -> pa.DataType | None:
    """Arrow's type for one of Spark's; None where it has none that a result can have."""
    if isinstance(kind, DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, ArrayType):
        element = arrow_of(kind.elementType)
        return None if element is None else pa.list_(pa.field("element", element, kind.containsNull))
    if isinstance(kind, MapType):
        key, value = arrow_of(kind.keyType), arrow_of(kind.valueType)
        if key is None or value is None:
            return None
        return pa.map_(pa.field("key", key, False), pa.field("value", value, kind.valueContainsNull))
    if isinstance(kind, StructType):
        fields = [(f.name, arrow_of(f.dataType), f.nullable) for f in kind.fields]
        if any(made is None for _, made, _ in fields):
            return None
        return pa.struct([pa.field(name, made, nullable) for name, made, nullable in fields])
    return next((arrow for plain, arrow in _PLAIN if isinstance(kind, plain)), None)


def spark_of(kind: pa.DataType) -> DataType:
    """Spark's type for one of Arrow's that `arrow_of` gives."""
    if pa.types.is_decimal(kind):
        return DecimalType(kind.precision, kind.scale)
    if pa.types.is_map(kind):
        return MapType(spark_of(kind.key_type), spark_of(kind.item_type), kind.item_field.nullable)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return ArrayType(spark_of(kind.value_type), kind.value_field.nullable)
    if pa.types.is_struct(kind):
        return spark_schema(pa.schema(list(kind)))
    plain = pa.timestamp("us", tz="UTC") if pa.types.is_timestamp(kind) and kind.tz else _LARGE.get(kind, kind)
    return next(spark for spark, arrow in _PLAIN if arrow == plain)()


def spark_schema(schema: pa.Schema) -> StructType:
    """Spark's schema for one of Arrow's."""
    return StructType([StructField(f.name, spark_of(f.type), f.nullable) for f in schema])
