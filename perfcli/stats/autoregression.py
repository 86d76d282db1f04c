"""Says how likely a series is in noise with a memory: a first-order autoregression around a level
that may have steps or other shapes added.

The size of the noise and the level may be any, and are integrated over (Zellner, *An Introduction
to Bayesian Inference in Econometrics*, chapters 3 and 7); products are those of generalised least
squares (Hamilton, *Time Series Analysis*, chapter 8). Points may be missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

_ROUNDING = 1e-20
"""A sum of squares, of values of at most one, that rounding leaves."""


@dataclass(frozen=True, slots=True)
class Regressor:
    """Holds what may be added to a level, by its products with a series, with itself and with the
    level: for each correlation (row) and each place or shape (column)."""

    product: Any
    square: Any
    cross: Any

    @property
    def count(self) -> int:
        return int(self.product.shape[1])

    def take(self, columns: Any) -> Regressor:
        return Regressor(self.product[:, columns], self.square[:, columns], self.cross[:, columns])


class Autoregression:
    """Computes logarithms of the likelihood of a series, but for a constant, for each of some
    correlations. What is added to the level has the size ``size``, in standard deviations of the
    noise, by the root of its mean square."""

    def __init__(self, values: Any, at: Any, correlations: Any, size: float) -> None:
        import numpy as np

        x = values - values.mean()
        self._rho = np.asarray(correlations)[:, None] ** np.diff(at)
        self._scale = 1 / np.sqrt(1 - self._rho**2)
        self._size = size
        self._x = self._whiten(x / np.abs(x).max())
        self._one = self._whiten(np.ones(len(at)))
        self._total = (self._one**2).sum(axis=1, keepdims=True)
        self._level = (self._one * self._x).sum(axis=1, keepdims=True)
        self._rest = (self._x**2).sum(axis=1, keepdims=True) - self._level**2 / self._total
        self._shared = np.log(self._scale).sum(axis=1, keepdims=True) - np.log(self._total) / 2

    def _whiten(self, x: Any) -> Any:
        """Return values as multiples of independent noise, for each correlation."""
        import numpy as np

        x = x[..., None, :]
        first = np.repeat(x[..., :1], len(self._rho), axis=-2)
        later = (x[..., 1:] - self._rho * x[..., :-1]) * self._scale
        return np.concatenate([first, later], axis=-1)

    def list_steps(self) -> Regressor:
        """Return the steps that begin at each point but the first: ``scale`` there, and what a
        level is from there on."""
        following = _sum_after(self._one**2)
        return Regressor(
            product=self._scale * self._x[:, 1:] + _sum_after(self._one * self._x),
            square=self._scale**2 + following,
            cross=self._scale * self._one[:, 1:] + following,
        )

    def multiply(self, shapes: Any) -> Regressor:
        """Return shapes, one a row."""
        import numpy as np

        white = self._whiten(shapes)
        return Regressor(
            product=np.einsum("spt,pt->ps", white, self._x),
            square=np.einsum("spt,spt->ps", white, white),
            cross=np.einsum("spt,pt->ps", white, self._one),
        )

    def weigh_level(self) -> Any:
        """Return the likelihoods of a level alone."""
        return self._weigh(0.0, 1.0)

    def weigh(self, added: Regressor) -> Any:
        """Return the likelihoods of each with the level."""
        top, own = self._centre(added)
        return self._weigh(top**2 / own, own)

    def weigh_both(self, first: Regressor, second: Regressor) -> Any:
        """Return the likelihoods of two steps together, of which the second begins later."""
        top, own = self._centre(first)
        top_2, own_2 = self._centre(second)
        # Where the second begins, the first is a level already.
        both = self._size**2 * (second.cross - first.cross * second.cross / self._total)
        determinant = own * own_2 - both**2
        gain = (top**2 * own_2 + top_2**2 * own - 2 * top * top_2 * both) / determinant
        return self._weigh(gain, determinant)

    def _centre(self, added: Regressor) -> tuple[Any, Any]:
        """Return the product with the series, and one more than that with itself, both without
        what a level explains and in units of the expected size."""
        product = added.product - added.cross / self._total * self._level
        own = added.square - added.cross**2 / self._total
        return self._size * product, 1 + self._size**2 * own

    def _weigh(self, gain: Any, determinant: Any) -> Any:
        import numpy as np

        left = np.log(np.maximum(self._rest - gain, _ROUNDING))
        degrees = self._x.shape[1] - 1
        return self._shared - degrees / 2 * left - np.log(determinant) / 2


def _sum_after(terms: Any) -> Any:
    """Return for each column but the first the sum of the columns after it."""
    import numpy as np

    tails = terms[:, ::-1].cumsum(axis=1)[:, ::-1]
    return np.concatenate([tails[:, 2:], np.zeros((len(terms), 1))], axis=1)
