"""`CREATE FUNCTION name AS 'module:function' RETURNS (columns)`: Python functions that SQL calls by name."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

from slackwater.errors import QueryError, did_you_mean
from slackwater.plan.function import check_function
from slackwater.sql.create_stream import read_columns
from slackwater.sql.cursor import Cursor
from slackwater.sql.scope import MapFunction
from slackwater.sql.statements import CreateFunction


def read_create_function(cursor: Cursor) -> CreateFunction:
    """Read what follows CREATE FUNCTION."""
    name = cursor.name("a name for the function")
    cursor.expect("AS")
    function = read_import(cursor, "a pyarrow.RecordBatch")
    cursor.expect("RETURNS")
    return CreateFunction(name, MapFunction(function, read_columns(cursor)))


def read_import(cursor: Cursor, *arguments: str) -> Callable[..., Any]:
    """Read an import path; give the function, which must take these arguments."""
    with cursor.located():
        path = cursor.text("the function, as in 'package.module:function',")
        function = imported(path)
        check_function(function, repr(path), *arguments)
    return function


def imported(path: str) -> Callable[..., Any]:
    """The function at `module:name`; modules in the working folder are found too.

    >>> imported("json:dumps")("x")
    '"x"'
    """
    module, _, name = path.partition(":")
    if not module or not name:
        raise QueryError(f"{path!r}: write the module, a colon and the function, as in 'package.module:function'")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        imported_module = importlib.import_module(module)
    except Exception as error:
        raise QueryError(f"{path!r}: cannot import {module}: {type(error).__name__}: {error}") from None
    function: Callable[..., Any] | None = getattr(imported_module, name, None)
    if function is None:
        raise QueryError(f"{path!r}: module {module} has no {name!r}{did_you_mean(name, vars(imported_module))}")
    return function
