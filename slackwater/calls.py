"""Checks how a public function is called, and which words an object has: mistakes are explained in our words."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, ClassVar, Never, ParamSpec, TypeVar

from slackwater.errors import QueryError, UnknownWordError, did_you_mean, shown

#: What other rooms make of errors that no user caused: each gives the error to raise instead, or None.
EXPLAINED: list[Callable[[Exception], Exception | None]] = []

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Kind:
    """The rule for the value of an argument."""

    fits: Callable[[object], bool]
    example: Callable[[object], str]
    """What to write instead of a value that does not fit."""


def called(words: Mapping[str, str] | None = None, **kinds: Kind) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator: refuses arguments that a function lacks, and values of a wrong kind, before it is called.

    Args:
        words: arguments of other systems, each with what to write instead; {value} stands for what was written.
        kinds: what the values of some arguments must be; None is left to the function.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)
        name = "sw.Session" if function.__name__ == "__init__" else function.__name__

        open_ended = any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values())

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            for word in () if open_ended else kwargs:
                if word not in signature.parameters:
                    raise _no_argument(name, word, kwargs[word], signature, words or {})
            try:
                given = signature.bind(*args, **kwargs).arguments
            except TypeError as error:
                raise QueryError(f"{name}(): {error}; write {name}({_short(signature)})") from None
            for word, kind in kinds.items():
                value = given.get(word)
                if value is not None and not kind.fits(value):
                    raise QueryError(f"{name}({word}={shown(value)}): write {word}={kind.example(value)}")
            try:
                return function(*args, **kwargs)
            except Exception as error:
                told = next((told for explain in EXPLAINED if (told := explain(error)) is not None), None)
                if told is None:
                    raise
                raise told from error

        return call

    return decorate


def _no_argument(
    name: str, word: str, value: object, signature: inspect.Signature, words: Mapping[str, str]
) -> QueryError:
    known = [p for p in signature.parameters if p != "self"]
    advice = words.get(word)
    if advice is None:
        near = did_you_mean(word, known)
        advice = f"there is no {word}={near or '; there are ' + ', '.join(f'{p}=' for p in known)}"
    return QueryError(f"{name}({word}={shown(value)}): {advice.replace('{value}', shown(value))}")


def _short(signature: inspect.Signature) -> str:
    """The parameters that must be given, and a sign for the others."""
    parameters = [p for p in signature.parameters.values() if p.name != "self"]
    needed = [
        f"{p.name}=…" if p.kind is p.KEYWORD_ONLY else str(p) if p.kind is p.VAR_POSITIONAL else p.name
        for p in parameters
        if p.default is p.empty
    ]
    return ", ".join([*needed, *(["…"] if len(needed) < len(parameters) else [])])


class NamesCounterparts:
    """An object that names what to write instead of a word that it lacks, such as one of PySpark's."""

    _words: ClassVar[Mapping[str, str]] = {}
    """Words of other systems, each with what to write instead."""
    _known_as: ClassVar[str] = ""
    """What such an object is called in messages."""

    def _advice(self, name: str) -> str | None:
        """What to write instead of a name that depends on the object."""
        return None

    def _lacks(self, name: str) -> Never:
        """Refuse a word. Names that begin with an underscore, and properties that fail, are Python's to report."""
        if name.startswith("_") or hasattr(type(self), name):
            object.__getattribute__(self, name)
        raise no_word(self._known_as, name, dir(type(self)), self._words, self._advice(name))

    if not TYPE_CHECKING:  # with a `__getattr__`, type checkers would accept every attribute
        __getattr__ = _lacks


def no_word(
    owner: str, name: str, known: list[str], words: Mapping[str, str], advice: str | None = None
) -> UnknownWordError:
    """The error for a word that something lacks."""
    advice = words.get(name) or advice
    if advice is None:
        public = [word for word in known if not word.startswith("_")]
        advice = f"there is no such word{did_you_mean(name, public) or '; there are ' + ', '.join(public)}"
    return UnknownWordError(f"{owner}.{name}: {advice}")
