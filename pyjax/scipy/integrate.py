"""Integration of sampled functions."""

from __future__ import annotations

from typing import Any

import pyjax.numpy as jnp

ArrayLike = Any


def trapezoid(y: ArrayLike, x: ArrayLike | None = None, dx: ArrayLike = 1.0, axis: int = -1) -> Any:
    """The integral of samples `y` along `axis` by the trapezoidal rule.

    Args:
      x: where the samples are; None: `dx` apart.

    >>> float(trapezoid(jnp.array([1.0, 2.0, 3.0])))
    4.0
    """
    return jnp.trapezoid(y, x, dx, axis)
