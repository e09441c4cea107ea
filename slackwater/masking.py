"""Passwords and other secrets in texts that people read: each character becomes a star, so that places stay."""

from __future__ import annotations

import re

_KEY = r"[\w.-]*(?:passw(?:or)?d|secret|token|credential|jaas|(?:access|account|private|api)[._-]?key)[\w.-]*"
#: Where a secret stands: in an address, behind its key and in quotes, or behind its key and an equals sign.
_SECRETS = (
    re.compile(r"\w://[^\s:/@'\"]*:(?P<secret>[^\s'\"]+)@"),
    re.compile(rf"""{_KEY}['"`]?\s*(?:=>|=|:|,)?\s*(?P<quote>['"])(?P<secret>.*?)(?<!\\)(?P=quote)""", re.I | re.S),
    re.compile(rf"{_KEY}\s*=\s*(?P<secret>[^\s'\",;)]+)", re.I),
)

#: A shorter secret of another text is part of many words, too.
_SHORTEST = 4


def masked(text: str, of: str = "") -> str:
    """A text without the secrets in it, and without those that are in another text.

    >>> print(masked("OPTIONS (kafka.ssl.key.password = 'tiger', servers = 'postgresql://scott:tiger@db/x')"))
    OPTIONS (kafka.ssl.key.password = '*****', servers = 'postgresql://scott:*****@db/x')
    >>> masked("cannot read 'tiger'", of="host=db password=tiger")
    "cannot read '*****'"
    """
    for pattern in _SECRETS:
        for found in {match["secret"] for match in pattern.finditer(of)}:
            if len(found) >= _SHORTEST:
                text = text.replace(found, "*" * len(found))
        for match in pattern.finditer(text):
            begin, end = match.span("secret")
            text = text[:begin] + re.sub(r"[^\n]", "*", text[begin:end]) + text[end:]
    return text
