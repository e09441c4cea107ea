"""Shares as users write them."""

from __future__ import annotations

from fractions import Fraction
from numbers import Rational, Real


def read_share(written: object) -> Fraction | None:
    """A share from a number or a text; None if it is neither. It may lie outside of 0 to 1.

    >>> read_share("1%"), read_share(0.1), read_share("much")
    (Fraction(1, 100), Fraction(1, 10), None)
    """
    try:
        if isinstance(written, str):
            number, percent, rest = written.strip().partition("%")
            return None if rest else Fraction(number.strip()) / (100 if percent else 1)
        if isinstance(written, bool) or not isinstance(written, Real):
            return None
        # 0.1 is meant as it is written, not as the binary number next to it.
        return Fraction(written) if isinstance(written, Rational) else Fraction(repr(float(written)))
    except (ValueError, ZeroDivisionError):
        return None
