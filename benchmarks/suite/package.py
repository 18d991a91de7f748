"""The package that this process measures, under JAX's names, and the register of programs.

The environment variable BENCHMARKED names the package: `pyjax` (the default) or `jax`.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from benchmarks.programs import Framework

NAME = os.environ.get("BENCHMARKED", "pyjax")


def _module(path: str = "") -> Any:
    return importlib.import_module(NAME + path)


jax: Any = _module()
jnp: Any = _module(".numpy")
lax: Any = _module(".lax")
linalg: Any = _module(".scipy.linalg")
special: Any = _module(".scipy.special")
stats: Any = _module(".scipy.stats")
ndimage: Any = _module(".scipy.ndimage")
FRAMEWORK = Framework(jax, jnp, lax)

Made = tuple[Callable[..., Any], tuple[Any, ...]]


@dataclass(frozen=True)
class Program:
    """One row.

    Attributes:
      make: gives the function and its arguments.
      compiled: whether the function is jitted; else it is called as it is, and may run anything.
      tolerance: how far results of two packages may be apart, relative to the largest of the
        result; None: they are not compared.
    """

    name: str
    group: str
    make: Callable[[], Made]
    compiled: bool = True
    tolerance: float | None = 1e-4


PROGRAMS: dict[str, Program] = {}


def add(group: str, name: str, make: Callable[[], Made], **how: Any) -> None:
    """Register a program.

    Raises:
      ValueError: the name is taken.
    """
    if name in PROGRAMS:
        raise ValueError(f"two programs are called {name!r}")
    PROGRAMS[name] = Program(name, group, make, **how)


def program(
    group: str, name: str, **how: Any
) -> Callable[[Callable[[], Made]], Callable[[], Made]]:
    """Decorator: register what makes a program."""

    def register(make: Callable[[], Made]) -> Callable[[], Made]:
        add(group, name, make, **how)
        return make

    return register


def on(
    fun: Callable[..., Any], *shapes: tuple[int, ...], dtype: Any = np.float32
) -> Callable[[], Made]:
    """A maker: a function of normally distributed arrays of these shapes."""

    def make() -> Made:
        rng = np.random.default_rng(0)
        return fun, tuple(jnp.asarray(rng.normal(size=s).astype(np.float32), dtype) for s in shapes)

    return make


def add_all(group: str, rows: Sequence[tuple[str, Any, Any]], **how: Any) -> None:
    """Register functions of normally distributed arrays: rows of a name, the function, and the list
    of the shapes of its arguments, or the shape of the only one."""
    for name, fun, shapes in rows:
        add(group, name, on(fun, *(shapes if isinstance(shapes, list) else [shapes])), **how)


def add_made(group: str, rows: Sequence[tuple[str, Callable[[Framework], Made]]]) -> None:
    """Register programs that are written for any framework."""
    for name, made in rows:
        add(group, name, partial(made, FRAMEWORK))


def normal(*shape: int, seed: int = 0) -> Any:
    """A normally distributed f32 array."""
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape).astype(np.float32))


def uniform(low: float, high: float, *shape: int, seed: int = 0) -> Any:
    """A uniformly distributed f32 array."""
    values = np.random.default_rng(seed).uniform(low, high, shape)
    return jnp.asarray(values.astype(np.float32))


def integers(high: int, *shape: int, seed: int = 0) -> Any:
    """An i32 array with values below `high`."""
    return jnp.asarray(np.random.default_rng(seed).integers(0, high, shape).astype(np.int32))


def positive_definite(*shape: int) -> Any:
    """Symmetric positive definite f32 matrices."""
    a = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    n = np.float32(shape[-1])
    return jnp.asarray(a @ np.swapaxes(a, -1, -2) + n * np.eye(shape[-1], dtype=np.float32))
