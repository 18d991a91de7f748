"""Measures a row of the tables."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import pyjax
import pyjax.numpy as jnp
from tests.accuracy.measure import Worst, exactly, mp, worst
from tests.accuracy.rows import Row

OPERANDS = "xyzw"


def resolve(name: str) -> Any:
    """The public function of this name, relative to pyjax."""
    found: Any = pyjax
    for part in name.split("."):
        found = getattr(found, part)
    return found


@dataclass(frozen=True)
class Sample:
    """Operands of a row with the exact results."""

    arrays: tuple[np.ndarray, ...]
    exact: list[Any]
    scale: list[Any]


@cache
def sample(row: Row, dtype: str, count: int) -> Sample:
    """The same elements in every run."""
    rng = np.random.default_rng(zlib.crc32(f"{row.names} {row.call}".encode()))
    arrays = row.operands(rng, max(count // row.cost, 8), np.dtype(dtype))
    scale = exactly(row.scale, arrays) if row.scale else [mp.zero] * len(arrays[0])
    return Sample(arrays, exactly(row.exact, arrays), scale)


def results(row: Row, name: str, arrays: tuple[np.ndarray, ...], *, jit: bool) -> np.ndarray:
    """What the function `name` of a row gives."""
    function, code = resolve(name), compile(row.call, name, "eval")

    def call(*args: Any) -> Any:
        return eval(code, {"f": function, **dict(zip(OPERANDS, args, strict=False))})

    found = (pyjax.jit(call) if jit else call)(*map(jnp.asarray, arrays))
    dtype = np.result_type(*arrays)
    assert found.dtype in (dtype, dtype.type(0).real.dtype), (name, found.dtype)
    return np.asarray(found)


def measure(row: Row, name: str, dtype: str, count: int, *, jit: bool = True) -> Worst:
    """The largest error of the function `name` of a row over `count` random operands, and edges."""
    with pyjax.enable_x64(dtype == "float64"):
        elements = sample(row, dtype, count)
        found = results(row, name, elements.arrays, jit=jit)
        return worst(found, elements.arrays, elements.exact, elements.scale)
