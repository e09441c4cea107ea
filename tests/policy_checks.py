"""What every disorder policy must do, whatever it promises: one set of checks for all of them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np


def kept(state: dict[str, Any]) -> dict[str, Any]:
    """A state as it comes back from a journal: arrays as arrays, all else through JSON."""
    arrays = {name: value.copy() for name, value in state.items() if isinstance(value, np.ndarray)}
    assert {a.dtype.name for a in arrays.values()} <= {"int64", "float64"}
    return json.loads(json.dumps({k: v for k, v in state.items() if k not in arrays})) | arrays


def plain(state: dict[str, Any]) -> dict[str, Any]:
    """A state that compares by content."""
    return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in state.items()}
