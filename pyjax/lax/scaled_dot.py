"""Products of operands in blocks with a scale each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pyjax.core import dtypes
from pyjax.core.array import Array
from pyjax.core.errors import fail
from pyjax.lax.arithmetic import mul
from pyjax.lax.common import shape_of
from pyjax.lax.composite import composite
from pyjax.lax.convert import convert_element_type
from pyjax.lax.dot import dot_general
from pyjax.lax.dot_types import canonical_dot_dimensions
from pyjax.lax.nary import expand_to
from pyjax.lax.shape import reshape

_DEFAULT = {2: (((1,), (0,)), ((), ())), 3: (((2,), (1,)), ((0,), (0,)))}


def scaled_dot(
    lhs: Array,
    rhs: Array,
    *,
    lhs_scale: Array | None = None,
    rhs_scale: Array | None = None,
    dimension_numbers: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """`dot_general` of `lhs * lhs_scale` and `rhs * rhs_scale`, a scale for each block of elements.

    Args:
      lhs, rhs: operands of rank 2 or more, often in eight or four bits.
      lhs_scale, rhs_scale: of the operand's shape, but shorter by a whole factor of at least 2
        along the contracted dimension; None scales nothing.
      dimension_numbers: ((contracting of lhs, of rhs), (batch of lhs, of rhs)); by default those of
        a product of matrices, or of stacks of them.
      preferred_element_type: what is multiplied, summed and returned; bfloat16 by default.
    Returns:
      Array of the shape of the `dot_general`.
    Raises:
      TypeError: an operand has less than two dimensions, or a scale does not fit its operand.
    In programs it is the composite "xla.scaled_dot".  It is not differentiable, as in JAX;
    `nn.scaled_dot_general` is.

    >>> import pyjax.numpy as jnp
    >>> x = jnp.ones((2, 4), jnp.float8_e4m3fn)
    >>> scales = jnp.array([[1.0, 2.0], [4.0, 0.5]])
    >>> scaled_dot(x, x.T, lhs_scale=scales, preferred_element_type=jnp.float32).tolist()
    [[6.0, 6.0], [9.0, 9.0]]
    """
    if min(len(shape_of(lhs)), len(shape_of(rhs))) < 2:
        fail(
            TypeError,
            "scaled_dot does not support 0-rank and 1-rank operands, got "
            f"{shape_of(lhs)} and {shape_of(rhs)}.",
            "Blocks are along the contracted dimension of matrices.",
            "Add a dimension of size 1: x[None].",
        )
    if dimension_numbers is None:
        dimension_numbers = _DEFAULT.get(len(shape_of(lhs)))
        if dimension_numbers is None:
            fail(
                TypeError,
                f"scaled_dot of operands of rank {len(shape_of(lhs))} needs dimension_numbers.",
                fix="pass ((lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch)).",
            )
    numbers = canonical_dot_dimensions("scaled_dot", dimension_numbers)
    (lhs_contracting, rhs_contracting), _ = numbers
    _check("LHS", lhs, lhs_scale, lhs_contracting)
    _check("RHS", rhs, rhs_scale, rhs_contracting)
    dtype = dtypes.dtype(np.dtype(preferred_element_type or dtypes.bfloat16))
    scales = [s for s in (lhs_scale, rhs_scale) if s is not None]

    def decomposition(lhs: Array, rhs: Array, *scales: Array, **_: Any) -> Array:
        given = list(scales)
        if lhs_scale is not None:
            lhs = _scaled(lhs, given.pop(0), dtype)
        if rhs_scale is not None:
            rhs = _scaled(rhs, given.pop(0), dtype)
        lhs, rhs = convert_element_type(lhs, dtype), convert_element_type(rhs, dtype)
        return dot_general(lhs, rhs, numbers, preferred_element_type=dtype)

    found: Array = composite(decomposition, "xla.scaled_dot")(
        lhs, rhs, *scales, dimension_numbers=numbers, preferred_element_type=str(dtype)
    )
    return found


def _check(side: str, operand: Array, scale: Array | None, contracting: Sequence[int]) -> None:
    if scale is None:
        return
    sizes, scales = shape_of(operand), shape_of(scale)
    if len(sizes) != len(scales):
        raise TypeError(f"{side} has {len(sizes)} dimensions, and its scale {len(scales)}.")
    for i, (size, count) in enumerate(zip(sizes, scales)):
        if i not in contracting:
            if size != count:
                raise TypeError(
                    f"{side} dim {i} of size {size} does not match scale dim size {count}."
                )
        elif not count or size % count:
            raise TypeError(
                f"{side} contracting dim {i} of size {size} must be divisible by its scale's dim "
                f"size {count}."
            )
        elif size // count < 2:
            raise TypeError(
                f"The ratio of {side} contracting dim {i} to its scale's dim size "
                f"({size // count}) must be at least 2."
            )


def repeated(scale: Array, shape: Sequence[int]) -> Array:
    """Each entry of `scale` for a whole block of an array of this shape."""
    wide: list[int] = []
    for size, count in zip(shape, shape_of(scale)):
        wide += [count, size // count]
    spread = expand_to(scale, tuple(wide), tuple(range(0, len(wide), 2)))
    return reshape(spread, tuple(shape))


def _scaled(operand: Array, scale: Array, dtype: Any) -> Array:
    spread = convert_element_type(repeated(scale, shape_of(operand)), dtype)
    return mul(convert_element_type(operand, dtype), spread)


__all__ = ["repeated", "scaled_dot"]
