"""Online regression with a prior: what mix of features comes closest, learned window by window."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from slackwater.progress.restorable import Restorable
from slackwater.progress.source_numbers import Floats

#: Windows: the prior weighs as much as so many, if features are as large as the noise. 2 makes bursts 4 % worse.
PRIOR = 10.0
#: What the noise was counts for this much when there is one more window.
NOISE_FADE = 0.99


class Ridge(Restorable):
    """Coefficients by column, from faded sums of squares.

    >>> ridge = Ridge(np.array([[1.0, 0.0]]))
    >>> for k in range(400):
    ...     x = np.array([[[1.0, k % 7 - 3.0]]])
    ...     ridge.learn(x, 2.0 + x[:, :, 1], x[:, :, 0] * 0.1, fade=1.0)
    >>> ridge.at(np.array([[[1.0, 3.0]]])).round(2)
    array([[5.]])
    """

    STATE: ClassVar[tuple[str, ...]] = ("_normal", "_right", "_noise")

    def __init__(self, prior: Floats) -> None:
        self._prior = prior
        columns, features = prior.shape
        self._normal, self._right = np.zeros((columns, features, features)), np.zeros((columns, features))
        self._noise = np.zeros((columns, 2))
        """How many windows, and the sum of their mean squares."""
        self._found: Floats | None = None

    def at(self, features: Floats) -> Floats:
        """The expected value, by group and column."""
        if self._found is None:
            self._found = self._solve()
        return np.asarray((features * self._found).sum(axis=2))

    def _solve(self) -> Floats:
        n, squares = self._noise.T
        strength = PRIOR * np.maximum(np.where(n > 0, squares / np.maximum(n, 1e-9), 1.0), 1e-9)
        normal = self._normal + strength[:, None, None] * np.eye(self._prior.shape[1])
        right = self._right + strength[:, None] * self._prior
        return np.asarray(np.linalg.solve(normal, right[:, :, None])[:, :, 0])

    def learn(self, features: Floats, values: Floats, errors: Floats, fade: float) -> None:
        """One window's features, values and errors, by group; what is not finite leaves no trace."""
        usable = np.isfinite(values) & np.isfinite(features).all(axis=2)
        x, y = np.where(usable[:, :, None], features, 0.0), np.where(usable, values, 0.0)
        squares = np.where(usable, errors, 0.0) ** 2
        count = np.maximum(usable.sum(axis=0), 1)[:, None]
        columns = x.transpose(1, 2, 0)
        self._normal = fade * self._normal + columns @ x.transpose(1, 0, 2) / count[:, :, None]
        self._right = fade * self._right + (columns @ y.T[:, :, None])[:, :, 0] / count
        new = np.stack([np.ones(len(count)), squares.sum(axis=0) / count[:, 0]], axis=1)
        self._noise = min(fade, NOISE_FADE) * self._noise + new
        self._found = None

    def restore(self, state: dict[str, object]) -> None:
        """Continue from an earlier `state()`."""
        super().restore(state)
        self._found = None
