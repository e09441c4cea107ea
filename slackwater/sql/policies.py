"""Disorder policies as SQL says them: `DISORDER DROP RATIO 1% STRETCH 10 MINUTES`."""

from __future__ import annotations

import ast
import re
from typing import Any

from slackwater.errors import QueryError
from slackwater.progress.bounds.behind import behind
from slackwater.progress.bounds.punctuated import punctuated
from slackwater.progress.disorder import Disorder
from slackwater.progress.policies import POLICIES, Policy, read_pair
from slackwater.sql.cursor import Cursor
from slackwater.sql.expression import read_expression
from slackwater.sql.values import read_value, sees_value, text_literal

#: Options that are policies, in parentheses.
_POLICIES = ("own",)
#: Options that are pairs.
_PAIRS = ("rate",)


def read_policy(cursor: Cursor, stops: tuple[str, ...]) -> Disorder:
    """A policy, behind the word DISORDER; `stops` may follow it."""
    begin = cursor.at
    policy = next((p for p in POLICIES if cursor.word == p.words[0]), None)
    if policy is None:
        known = [" ".join(p.words) for p in POLICIES]
        cursor.expected(f"a disorder policy ({', '.join(known)})", [p.words[0] for p in POLICIES])
    cursor.expect(*policy.words)
    main = list[Any]()
    if policy.make is punctuated:
        stops = (*stops, *(option.upper() for option in policy.options))
        main.append(read_expression(cursor, "the column of punctuations", stops).text)
    elif policy.make is behind:
        what = "the stream that it is behind, as in BEHIND orders BY 30 SECONDS"
        main.append(cursor.text(what) if cursor.is_text else cursor.name(what))
    elif sees_value(cursor):
        main.append(read_value(cursor))
    options = _options(cursor, policy)
    written = cursor.tokens[begin : cursor.at]
    try:
        return policy.make(*(policy.read(setting) for setting in main), **options)
    except QueryError as error:
        raise cursor.error(str(error), written) from None
    except (TypeError, AttributeError, ValueError):
        raise cursor.error(f"this policy cannot be read; write for example {policy.example}", written) from None


def _options(cursor: Cursor, policy: Policy) -> dict[str, Any]:
    options = dict[str, Any]()
    while (name := cursor.word.lower()) in policy.options:
        if name in options:
            raise cursor.error(f"{cursor.word} is written twice; leave one of them out")
        cursor.at += 1
        if name in _POLICIES:
            cursor.expect_symbol("(")
            options[name] = read_policy(cursor, ())
            cursor.expect_symbol(")")
            continue
        options[name] = read_value(cursor) if sees_value(cursor) else True
        if name in _PAIRS:
            options[name] = read_pair(options[name])
    return options


# --- written back

_BARE = re.compile(r"\d+(\.\d+)?( ?[a-z]+|%)")


def policy_sql(policy: Disorder) -> str:
    """A policy as SQL says it, from the one line that it says of itself.

    >>> from slackwater.progress.drop_ratio.drop_ratio import drop_ratio
    >>> policy_sql(drop_ratio(0.01, stretch="10 minutes"))
    'DROP RATIO 0.01 STRETCH 10 minutes'
    """
    try:
        call = ast.parse(policy.describe(), mode="eval").body
    except SyntaxError:
        raise QueryError(f"{policy.describe()} is too long to be written as SQL") from None
    return _call(call)


def _call(call: ast.expr) -> str:
    assert isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
    entry = next(p for p in POLICIES if p.make.__name__ == call.func.id)
    words, options = [*entry.words], list[str]()
    if call.args and entry.make is punctuated:
        words.append(str(ast.literal_eval(call.args[0])))
    else:
        words += [_written(argument) for argument in call.args]
    for option in call.keywords:
        if option.arg in _POLICIES:
            options += [str(option.arg).upper(), f"({_call(option.value)})"]
        elif option.arg in entry.options:
            options += [str(option.arg).upper(), _written(option.value)]
        else:
            words.append(_written(option.value))
    return " ".join([*words, *options])


def _written(value: ast.expr) -> str:
    if isinstance(value, ast.Constant):
        text = value.value
        if isinstance(text, bool):
            return str(text).upper()
        return text if isinstance(text, str) and _BARE.fullmatch(text) else _constant(text)
    if isinstance(value, ast.Dict):
        pairs = zip(value.keys, value.values, strict=True)
        return f"({', '.join(f'{_name(key)} = {_written(entry)}' for key, entry in pairs)})"
    if isinstance(value, ast.Call):
        return f"TUPLES ({', '.join(_written(a) for a in value.args)})"
    assert isinstance(value, (ast.Tuple, ast.List))
    return f"({', '.join(_written(e) for e in value.elts)})"


def _constant(value: object) -> str:
    return text_literal(value) if isinstance(value, str) else f"{value}"


def _name(key: ast.expr | None) -> str:
    found = ast.literal_eval(key) if key is not None else ""
    return " TO ".join(text_literal(name) for name in ((found,) if isinstance(found, str) else found))
