"""The von Mises distribution on the circle, with concentration `kappa`."""

from __future__ import annotations

from typing import Any

import numpy as np

import pyjax.numpy as jnp
from pyjax.numpy.eager import one_program
from pyjax.numpy.util import promote_args_inexact
from pyjax.scipy.special import i0e

Array = Any
ArrayLike = Any


@one_program(None)
def logpdf(x: ArrayLike, kappa: ArrayLike) -> Array:
    """Logarithm of the density at x.

    >>> round(float(logpdf(0.5, 2.0)), 3)
    -0.907
    """
    x, kappa = promote_args_inexact("vonmises.logpdf", x, kappa)
    return kappa * (jnp.cos(x) - 1) - jnp.log(2 * np.pi * i0e(kappa))


@one_program(None)
def pdf(x: ArrayLike, kappa: ArrayLike) -> Array:
    """Density at x.

    >>> round(float(pdf(0.5, 2.0)), 3)
    0.404
    """
    return jnp.exp(logpdf(x, kappa))
