"""Vector quantisation."""

from __future__ import annotations

from typing import Any

import numpy as np

import pyjax.numpy as jnp
from pyjax.numpy.eager import one_program
from pyjax.numpy.util import promote_args_inexact

Array = Any
ArrayLike = Any


@one_program(2)
def vq(obs: ArrayLike, code_book: ArrayLike, check_finite: bool = True) -> tuple[Array, Array]:
    """The nearest code and the distance to it, for each observation.

    Args:
      obs: [n, d] or [n].  code_book: [k, d] or [k].
    Raises:
      ValueError: ranks differ, or are above 2.

    >>> vq(jnp.array([[0.0], [9.0]]), jnp.array([[1.0], [10.0]]))
    (Array([0, 1], dtype=int32), Array([1., 1.], dtype=float32))
    """
    if np.ndim(obs) != np.ndim(code_book):
        raise ValueError("vq: Observation and code_book should have the same rank")
    obs, codes = (jnp.asarray(x) for x in promote_args_inexact("vq", obs, code_book))
    if obs.ndim not in (1, 2):
        raise ValueError("ndim different than 1 or 2 are not supported")
    if obs.ndim == 1:
        obs, codes = obs[:, None], codes[:, None]
    distances = jnp.linalg.norm(obs[:, None, :] - codes[None, :, :], axis=-1)
    nearest = jnp.argmin(distances, axis=-1)
    return nearest, jnp.take_along_axis(distances, nearest[:, None], axis=-1)[:, 0]
