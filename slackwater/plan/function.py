"""A user's Python functions: checked before anything runs, and whenever they are called."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pyarrow as pa

from slackwater.errors import QueryError
from slackwater.plan.step import Function


def checked(function: Function, schema: pa.Schema) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """The function, giving the columns that the user promised and a row for each row, or a clear error.

    It is sent to Spark's Python workers, which may not have Slackwater installed. So it uses nothing of ours.

    >>> double = checked(lambda rows: pa.record_batch({"b": [2 * a for a in rows["a"].to_pylist()]}),
    ...                  pa.schema([("b", pa.float64())]))
    >>> double(pa.record_batch({"a": [1, 2]})).to_pydict()
    {'b': [2.0, 4.0]}
    """

    def run(batch: pa.RecordBatch) -> pa.RecordBatch:
        result = function(batch)
        if isinstance(result, pa.Table):
            result = result.combine_chunks()
            columns = [c.chunk(0) if c.num_chunks else pa.array([], c.type) for c in result.columns]
            result = pa.RecordBatch.from_arrays(columns, schema=result.schema)
        if not isinstance(result, pa.RecordBatch):
            kind = type(result).__name__
            raise TypeError(f"the function gave a {kind}; return a pyarrow.RecordBatch or pyarrow.Table")
        if result.num_rows != batch.num_rows:
            raise ValueError(
                f"the function gave {result.num_rows} rows for {batch.num_rows}; give a row for each, in the same "
                "order, and filter with where()"
            )
        for name in schema.names:
            if name not in result.schema.names:
                raise ValueError(f"the function gave no column {name!r}; it gave {', '.join(result.schema.names)}")
        return pa.RecordBatch.from_arrays([result[f.name].cast(f.type) for f in schema], schema=schema)

    return run


def check_function(function: object, what: str, *arguments: str) -> None:
    """Refuse what cannot be called with these arguments."""
    if not callable(function):
        raise QueryError(f"{what} is {function!r}; give a function of {', '.join(arguments)}")
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError:
        raise QueryError(f"{what} takes ({', '.join(arguments)})") from None
    except ValueError:
        pass  # some functions written in C have no signature
