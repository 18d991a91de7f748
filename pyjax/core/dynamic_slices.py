"""Slices of a static size from a start that may be traced, as an index. Layer: core."""

from __future__ import annotations

import operator
from typing import Any

from pyjax.core.errors import new_error
from pyjax.core.trace import Tracer
from pyjax.core.tree_util import register_pytree_node
from xla_backend.process.light_dataclasses import dataclass


@dataclass(frozen=True)
class Slice:
    """`size` elements from `start` on, each `stride` from the one before; made by `ds`."""

    start: Any
    size: Any
    stride: int = 1

    @property
    def is_dynamic_start(self) -> bool:
        """Whether the start is known at run time only."""
        return isinstance(self.start, Tracer)

    @property
    def is_dynamic_size(self) -> bool:
        """Whether the size is: arrays have no such slices."""
        return isinstance(self.size, Tracer)

    @classmethod
    def from_slice(cls, slc: slice, size: int) -> Slice:
        """The elements that a slice of `size` elements has, with a step of at least 1."""
        start, stop, step = slc.indices(size)
        if step < 1:
            raise new_error(ValueError, f"a Slice goes forward, and {slc} has the step {step}")
        return cls(start, max(0, -(-(stop - start) // step)), step)

    def static_size(self) -> int:
        """The size as an integer.

        Raises:
          TypeError: it is traced, or none.
          ValueError: it, or the stride, makes no sense.
        """
        if self.is_dynamic_size:
            raise new_error(
                TypeError,
                f"ds: the size is traced ({self.size}), but shapes are part of the program; make "
                "it static (static_argnames), only the start may be traced.",
            )
        size = operator.index(self.size)
        if size < 0 or self.stride < 1:
            raise new_error(
                ValueError, f"ds: size {size} must be >= 0 and stride {self.stride} >= 1."
            )
        return size


def ds(start: Any, size: Any = None, stride: int | None = None) -> slice | Slice:
    """An index of `size` elements from `start` on: `x[ds(i, n)]`, where `i` may be traced.

    Args:
      start: integer, which counts from the end if negative; what would not fit begins earlier, as
        with `lax.dynamic_slice`. Updates (`x.at[ds(i, n)].set(v)`) that do not fit are dropped.
      size: how many elements; left out, `ds(n)` has the first n, and `ds(None)` is `:`.
      stride: how far elements are from one another, default 1.

    >>> from pyjax import numpy as jnp
    >>> jnp.arange(10)[ds(4, 3)].tolist(), jnp.arange(10)[ds(4, 3, 2)].tolist()
    ([4, 5, 6], [4, 6, 8])
    """
    if start is None:
        return slice(None)
    if size is None:
        start, size = 0, start
    return Slice(start, size, 1 if stride is None else stride)


def _flatten(s: Slice) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    known = s.start if not s.is_dynamic_start else None
    return (s.start if s.is_dynamic_start else None, None), (known, s.size, s.stride)


def _unflatten(known: tuple[Any, ...], parts: tuple[Any, ...]) -> Slice:
    start, size, stride = known
    return Slice(parts[0] if start is None else start, size, stride)


register_pytree_node(Slice, _flatten, _unflatten)
