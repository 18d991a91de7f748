"""How special functions are computed: in float64 for narrower floats, and from polynomials."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pyjax._config import options
from pyjax.core import structural
from pyjax.core.array import Array, ArrayLike
from pyjax.core.trace import Tracer
from pyjax.interpreters import ad
from pyjax.interpreters.hlo import lower_fun
from pyjax.lax.arithmetic import add, mul
from pyjax.lax.common import (
    aval_of,
    dtype_of,
    joint_shape,
    nary_operands,
    scalar_like,
    shape_of,
)
from pyjax.lax.convert import convert_element_type
from pyjax.lax.nary import stretch
from pyjax.lax.reshard import broadcast_alike
from pyjax.runtime.dispatch import as_array

FLOAT32 = np.dtype(np.float32)
FLOAT64 = np.dtype(np.float64)
COMPLEX128 = np.dtype(np.complex128)


def const(x: Array, value: float) -> Any:
    """A scalar constant of x's dtype."""
    return scalar_like(value, x)


def horner(u: Array, coefficients: Sequence[float]) -> Array:
    """A polynomial, coefficients from the highest power down."""
    result: Any = const(u, coefficients[0])
    for c in coefficients[1:]:
        result = add(mul(result, u), const(u, c))
    return result


def in_float64(
    function: Callable[..., Any],
    *,
    keeps_weak_types: bool = False,
    narrow: Callable[..., Any] | None = None,
) -> Callable[..., Any]:
    """Run a function of floats in float64 and round its result once to the operands' dtype.

    Complex numbers are computed in complex128. The result may be a tuple.

    Series and continued fractions lose several digits; this way float32 results are correct to
    about half an ulp, with one set of coefficients, and cost no more than compensated float32
    arithmetic.

    Args:
      keeps_weak_types: results are weakly typed where all operands are.
      narrow: a quicker function, in float64 too, for operands that were narrower real numbers:
        float64 has digits to lose then, and products of such numbers do not overflow.
    """
    of_narrow = function if narrow is None else narrow

    def wrapped(*args: Array, **params: Any) -> Any:
        dtype = dtype_of(args[0])
        shape = joint_shape(*[x.aval.shape for x in args])
        args = tuple(stretch(x, shape) for x in args)
        wide = COMPLEX128 if dtype.kind == "c" else FLOAT64
        if dtype == wide:
            return function(*args, **params)
        weak_type = keeps_weak_types and all(x.aval.weak_type for x in args)
        run = function if wide is COMPLEX128 else of_narrow
        with options.enable_x64(True):
            found = run(*[convert_element_type(x, wide) for x in args], **params)
            if isinstance(found, tuple):
                return tuple(structural.convert_element_type(x, dtype, weak_type) for x in found)
            return structural.convert_element_type(found, dtype, weak_type)

    return wrapped


def in_float32(
    function: Callable[..., Any], *, keeps_weak_types: bool = False
) -> Callable[..., Any]:
    """Run a function of floats in their own type, narrower ones in float32, of which the result is
    rounded once: for formulas that lose no digits.

    Args:
      keeps_weak_types: results are weakly typed where all operands are.
    """

    def wrapped(*args: Array) -> Any:
        dtype = dtype_of(args[0])
        weak_type = keeps_weak_types and all(x.aval.weak_type for x in args)
        if dtype.itemsize < FLOAT32.itemsize:
            args = tuple(convert_element_type(x, FLOAT32) for x in args)
        return structural.convert_element_type(function(*args), dtype, weak_type)

    return wrapped


def slope_of(function: Callable[..., Array], number: int, g: Any, *args: Any) -> Array:
    """The tangent along operand `number` of a function that is computed in float64."""

    args = tuple([x if isinstance(x, Tracer) else as_array(x) for x in args])

    def along(x: Any) -> list[Any]:
        operands = [x if i == number else arg for i, arg in enumerate(args)]
        return [in_float64(function)(*operands)]

    return ad.instantiate_zeros(ad.jvp(along, [args[number]], [g])[1][0])


def lower_in_float64(function: Callable[..., Array]) -> Callable[..., Any]:
    """The lowering rule of a function computed in float64."""
    return lower_fun(in_float64(function))


def lower_in_float32(function: Callable[..., Array]) -> Callable[..., Any]:
    """The lowering rule of a function of one float that is computed in its own type where that is
    float32 or float64, and in float32 where it is narrower."""

    def wrapped(x: Array) -> Array:
        dtype = dtype_of(x)
        if dtype.itemsize >= FLOAT32.itemsize:
            return function(x)
        return convert_element_type(function(convert_element_type(x, FLOAT32)), dtype)

    return lower_fun(wrapped)


def alike_operands(name: str, *operands: ArrayLike) -> Sequence[Any]:
    """`nary_operands`, all split over mesh axes of type Explicit as the result will be: what
    functions and their derivatives are made of chooses between them."""
    given = nary_operands(name, *operands)
    splits = {aval_of(x).split for x in given if shape_of(x)}
    if len(splits) <= 1:
        return given
    shape = next(shape_of(x) for x in given if shape_of(x))
    return [x if not shape_of(x) else broadcast_alike([x, *given], shape)[0] for x in given]
