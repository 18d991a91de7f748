"""Changes of element type: convert_element_type, bitcast_convert_type, reduce_precision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pyjax.core import dtypes
from pyjax.core.array import Array, ArrayLike
from pyjax.core.avals import ShapedArray
from pyjax.core.errors import fail
from pyjax.core.extended_dtypes import is_extended
from pyjax.core.primitive import Primitive
from pyjax.core.source_info import warn_user
from pyjax.core.structural import convert_element_type_p
from pyjax.interpreters import ad
from pyjax.interpreters.batching import elementwise_batching, move_bdim
from pyjax.interpreters.rules import (
    ZERO_TANGENT,
    FullJvp,
    Unsupported,
    define_primitive,
    define_rules,
)
from pyjax.lax.common import (
    BOOL_DTYPE,
    FLOATING,
    aval_of,
    canonical_dtype,
    elementwise_aval,
    hlo_unary,
    is_complex,
    is_inexact,
)
from xla_backend.hlo.attributes import ComparisonDirection, ReducePrecisionAttributes
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType, from_numpy_dtype

# -- convert_element_type --------------------------------------------------------------------------


def _convert_aval(
    x: ShapedArray, *, new_dtype: np.dtype, weak_type: bool, sharding: Any
) -> list[ShapedArray]:
    if (is_extended(x.dtype) or is_extended(new_dtype)) and x.dtype != new_dtype:
        fail(
            ValueError,
            f"Cannot convert_element_type from {x.dtype} to {new_dtype}",
            "random keys are no numbers, and keys of two implementations have other words",
            "pyjax.random.key_data(keys) for the words of keys, and "
            "pyjax.random.wrap_key_data(words, impl=...) for keys of words.",
        )
    return [ShapedArray(x.shape, new_dtype, weak_type)]


def _convert_jvp(
    primals: Sequence[Array], tangents: Sequence[Any], **params: Any
) -> tuple[list[Any], list[Any]]:
    out = convert_element_type_p.bind1(*primals, **params)
    (t,) = tangents
    if type(t) is ad.Zero or not is_inexact(params["new_dtype"]):
        return [out], [ad.Zero(aval_of(out).to_tangent_aval())]
    return [out], [convert_element_type_p.bind1(t, **params)]


def _convert_transpose(cts: Sequence[Any], x: Any, **params: Any) -> list[Any]:
    (ct,) = cts
    if type(ct) is ad.Zero:
        return [ad.Zero(x.aval)]
    return [
        convert_element_type_p.bind1(
            ct, new_dtype=x.aval.dtype, weak_type=x.aval.weak_type, sharding=None
        )
    ]


def _convert_lowering(
    ctx: Any, x: Any, *, new_dtype: np.dtype, weak_type: bool, sharding: Any
) -> Any:
    target = ctx.shapes_out[0].element_type
    builder = ctx.builder
    if target is x.shape.element_type:
        return x
    if target is PrimitiveType.PRED:
        # HLO converts to pred by x != 0 for every type; nan counts as true.
        return builder.compare(x, builder.full(x.shape, 0), ComparisonDirection.NE)
    if x.shape.element_type.is_complex and not target.is_complex:
        part = PrimitiveType.F32 if x.shape.element_type is PrimitiveType.C64 else PrimitiveType.F64
        x = builder.add(Opcode.REAL, (x,), shape=x.shape.with_type(part))
    return builder.convert(x, target)


define_rules(
    convert_element_type_p,
    abstract_eval=_convert_aval,
    jvp=FullJvp(_convert_jvp),
    transpose=_convert_transpose,
    batching=elementwise_batching,
    lowering=_convert_lowering,
)


def convert(operand: ArrayLike, new_dtype: Any = None, weak_type: bool = False) -> Array:
    """As `convert_element_type`, with the weak type of the result chosen. `new_dtype=None` keeps
    the dtype. A dtype of 64 bits is kept, whatever the option says: arrays may have it.
    """
    aval = aval_of(operand)
    dtype = aval.dtype if new_dtype is None else new_dtype
    if aval.dtype == dtype and aval.weak_type == weak_type and isinstance(operand, Array):
        return operand
    return convert_element_type_p.bind1(
        operand, new_dtype=dtype, weak_type=bool(weak_type), sharding=None
    )


def wide_integer(value: int, dtype: Any) -> Any:
    """A Python int that is to be of `dtype`. One of more than 32 bits becomes a NumPy scalar of it
    at once, as C++ converts 64-bit integers: it does not have to fit the default integer first.

    >>> wide_integer(0xDEADBEEF, np.dtype(np.uint32))
    np.uint32(3735928559)
    """
    if -(1 << 31) <= value < 1 << 31 or not isinstance(dtype, np.dtype):
        return value
    wide = np.asarray(value)  # of objects from 2**64 on, which only integer dtypes cannot take
    if wide.dtype.kind not in "iu" and dtypes.issubdtype(dtype, np.integer):
        return value
    with np.errstate(over="ignore"):
        return wide.astype(dtype)[()]


def convert_element_type(operand: ArrayLike, new_dtype: Any) -> Array:
    """Convert every element to `new_dtype`, as C++ would, with defined results at the edges.

    Floats become integers by truncation, saturating at the ends, nan becomes 0; any nonzero value
    (and nan) becomes True; complex to real keeps the real part, with a ComplexWarning. 64-bit types
    become 32-bit unless `pyjax_enable_x64` is on. The result is not weakly typed.

    >>> lax.convert_element_type(jnp.array([1.7, -1.7]), jnp.int32)
    Array([ 1, -1], dtype=int32)
    """
    dtype = None if new_dtype is None else canonical_dtype(new_dtype)
    if type(operand) is int and dtype is not None:
        operand = wide_integer(operand, dtype)
    warn_if_imaginary_is_lost(operand, dtype)
    return convert(operand, dtype)


def warn_if_imaginary_is_lost(operand: Any, dtype: Any) -> None:
    """Warns at the user's line of a conversion of complex numbers to what has no imaginary part.

    Args:
      dtype: what they are converted to, if to anything.
    """
    given = getattr(operand, "dtype", None)
    if isinstance(given, np.dtype) and given.kind == "c":
        if isinstance(dtype, np.dtype) and dtype.kind != "c":
            warn_user(
                "Casting complex values to real discards the imaginary part: "
                f"{given} becomes {dtype}. lax.real(x) says so without a warning.",
                np.exceptions.ComplexWarning,
            )


# -- bitcast ---------------------------------------------------------------------------------------


def _bits(dtype: np.dtype) -> int:
    return from_numpy_dtype(dtype).bits


def _bitcast_aval(x: ShapedArray, *, new_dtype: np.dtype) -> list[ShapedArray]:
    if is_complex(x.dtype) != is_complex(new_dtype) or (x.dtype == BOOL_DTYPE) != (
        new_dtype == BOOL_DTYPE
    ):
        fail(
            TypeError,
            f"bitcast_convert_type from {x.dtype} to {new_dtype} is not supported.",
            "complex and bool arrays have no defined bits as another type.",
            "use lax.real / lax.imag, or convert_element_type.",
        )
    old_bits, new_bits = _bits(x.dtype), _bits(new_dtype)
    if old_bits == new_bits:
        shape = x.shape
    elif old_bits > new_bits:
        shape = (*x.shape, old_bits // new_bits)
    else:
        ratio = new_bits // old_bits
        if not x.shape or x.shape[-1] != ratio:
            fail(
                ValueError,
                f"Attempting to convert array of shape {x.shape} from {x.dtype} of size "
                f"{old_bits // 8} to {new_dtype} of size {new_bits // 8} but last dimension isn't "
                f"divisible by {ratio}.",
                f"each element of {new_dtype} is made of {ratio} elements of {x.dtype}.",
                f"reshape so that the last dimension has size {ratio}.",
            )
        shape = x.shape[:-1]
    return [ShapedArray(shape, new_dtype)]


def _bitcast_batching(
    axis_size: int, args: Sequence[Array], dims: Sequence[int], *, new_dtype: np.dtype
) -> Any:
    x = move_bdim(args[0], dims[0], 0)
    return bitcast_convert_type_p.bind_all(x, new_dtype=new_dtype), [0]


bitcast_convert_type_p: Primitive = define_primitive(
    "bitcast_convert_type",
    abstract_eval=_bitcast_aval,
    jvp=ZERO_TANGENT,
    transpose=Unsupported("bitcast_convert_type is not linear"),
    batching=_bitcast_batching,
    lowering=hlo_unary(Opcode.BITCAST_CONVERT),
)


def bitcast_convert_type(operand: ArrayLike, new_dtype: Any) -> Array:
    """The same bits read as another dtype.

    A narrower dtype adds a trailing dimension, a wider one consumes it.

    Raises:
      ValueError: the last dimension does not make up one element.   TypeError: bool or complex.

    >>> lax.bitcast_convert_type(jnp.float32(1), jnp.int32)
    Array(1065353216, dtype=int32)
    """
    dtype = canonical_dtype(new_dtype)
    if aval_of(operand).dtype == dtype and isinstance(operand, Array):
        return convert_element_type(operand, dtype)  # which drops a weak type
    return bitcast_convert_type_p.bind1(operand, new_dtype=dtype)


# -- reduce_precision ------------------------------------------------------------------------------


def _reduce_precision_lowering(ctx: Any, x: Any, *, exponent_bits: int, mantissa_bits: int) -> Any:
    return ctx.builder.add(
        Opcode.REDUCE_PRECISION,
        (x,),
        ReducePrecisionAttributes(exponent_bits, mantissa_bits),
        shape=ctx.shapes_out[0],
    )


def _reduce_precision_transpose(cts: Sequence[Any], x: Any, **params: Any) -> list[Any]:
    (ct,) = cts
    return [ct if type(ct) is ad.Zero else reduce_precision_p.bind1(ct, **params)]


reduce_precision_p: Primitive = define_primitive(
    "reduce_precision",
    abstract_eval=elementwise_aval("reduce_precision", FLOATING),
    jvp=(lambda g, ans, x, **params: reduce_precision_p.bind1(g, **params),),
    transpose=_reduce_precision_transpose,
    batching=elementwise_batching,
    lowering=_reduce_precision_lowering,
)


def reduce_precision(operand: ArrayLike, exponent_bits: int, mantissa_bits: int) -> Array:
    """Round to a float format with fewer bits, keeping the dtype: (5, 10) rounds as float16 does.

    Raises:
      TypeError: the operand is not floating.   ValueError: a bit count is out of range.

    >>> lax.reduce_precision(jnp.float32(1.001), 8, 7)
    Array(1., dtype=float32)
    """
    if exponent_bits < 1 or mantissa_bits < 0:
        fail(
            ValueError,
            "reduce_precision needs exponent_bits >= 1 and mantissa_bits >= 0, got "
            f"{exponent_bits} and {mantissa_bits}.",
        )
    return reduce_precision_p.bind1(
        operand, exponent_bits=int(exponent_bits), mantissa_bits=int(mantissa_bits)
    )
