"""Values for parameters and constants of random programs.

A program's seed picks a profile. Most profiles hold small integers or quarters: sums and products
of those are exact in any order, so results can be compared bit by bit and comparisons never hang on
a rounding.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable

import numpy as np

from xla_backend.hlo.module import HloModule
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import PrimitiveType as P

Values = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]

_SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-40, 1e18, 1.0, -1.0, 0.5])


def _integers(rng: np.random.Generator, dims: tuple[int, ...]) -> np.ndarray:
    return rng.integers(-4, 6, dims).astype(np.float64)


def _quarters(rng: np.random.Generator, dims: tuple[int, ...]) -> np.ndarray:
    return rng.integers(-10, 11, dims) / 4.0


def _uniform(rng: np.random.Generator, dims: tuple[int, ...]) -> np.ndarray:
    return rng.uniform(-3.0, 3.0, dims)


def _special(rng: np.random.Generator, dims: tuple[int, ...]) -> np.ndarray:
    chosen = rng.choice(_SPECIAL, dims)
    return np.where(rng.random(dims) < 0.3, chosen, rng.uniform(-3.0, 3.0, dims))


# name: how to draw floats, how often
PROFILES: dict[str, tuple[Values, int]] = {
    "integers": (_integers, 5),
    "quarters": (_quarters, 3),
    "uniform": (_uniform, 3),
    "special": (_special, 1),
}


def profile_of(seed: int) -> str:
    """The profile of the program with this seed."""
    weights = [weight for _, weight in PROFILES.values()]
    return random.Random(f"profile {seed}").choices(list(PROFILES), weights)[0]


def random_array(shape: Shape, rng: np.random.Generator, profile: str) -> np.ndarray:
    """Values of any element type; integers are small, but now and then span their whole range."""
    kind, dims = shape.element_type, shape.dimensions
    dtype = kind.numpy_dtype
    if kind is P.PRED:
        return np.asarray(rng.random(dims) < 0.5)
    if kind.is_integral:
        signed = kind.is_signed_integral
        if kind.bits >= 8 and rng.random() < 0.1:
            low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
            return np.asarray(rng.integers(low, high, dims, dtype=dtype, endpoint=True))
        top = min(9, 2 ** (kind.bits - signed) - 1)
        bottom = -min(4, 2 ** (kind.bits - 1)) if signed else 0
        return np.asarray(rng.integers(bottom, top + 1, dims)).astype(np.int8).astype(dtype)
    draw = PROFILES[profile][0]
    with np.errstate(all="ignore"):  # 1e18 is infinite in the narrow types
        if kind.is_complex:
            return np.asarray(draw(rng, dims) + 1j * draw(rng, dims)).astype(dtype)
        return np.asarray(draw(rng, dims)).astype(np.float32).astype(dtype)


def arguments_for(module: HloModule, seed: int) -> list[np.ndarray]:
    """Values for all leaves of the entry's parameters.

    They depend on the parameter's name and shape and on the seed: a parameter keeps its values when
    others come and go.
    """
    assert module.entry is not None
    profile = profile_of(seed)
    arrays = []
    for parameter in module.entry.parameters:
        rng = np.random.default_rng([seed, zlib.crc32(parameter.name.encode())])
        leaves = [leaf for leaf in parameter.shape.flatten() if leaf.is_array]
        arrays += [random_array(leaf, rng, profile) for leaf in leaves]
    return arrays
