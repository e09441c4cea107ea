"""What numpy does with arrays of any size, made quicker for small ones: an answer has a few groups.

The results are numpy's, to the digit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from slackwater.progress.source_numbers import Floats

Number = TypeVar("Number", np.float64, np.int64)


def finite(values: Floats) -> Floats:
    """The values, with 0 for what is not a number and the largest number for infinity, as `np.nan_to_num`.

    It is the same array if nothing has to be replaced.

    >>> finite(np.array([1.0, np.nan])).tolist()
    [1.0, 0.0]
    """
    return values if np.isfinite(values).all() else np.nan_to_num(values)


def within(
    values: NDArray[Number], least: float | NDArray[Number], most: float | NDArray[Number]
) -> NDArray[Number]:
    """The values, none below the least and none above the most, as `np.clip`.

    >>> within(np.array([1.0, 5.0, np.nan]), 2, 4).tolist()
    [2.0, 4.0, nan]
    """
    return np.minimum(np.maximum(values, least), most)


def side_by_side(parts: Sequence[Floats]) -> Floats:
    """Arrays of one shape side by side along a new last axis.

    >>> side_by_side([np.array([1.0, 2.0]), np.array([3.0, 4.0])]).tolist()
    [[1.0, 3.0], [2.0, 4.0]]
    """
    both = np.empty((*parts[0].shape, len(parts)))
    for place, part in enumerate(parts):
        both[..., place] = part
    return both
