"""Small matrix helpers that the linear-algebra files share, on the last two dimensions of
an array.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pyjax.core import dtypes
from pyjax.core.array import Array, ArrayLike
from pyjax.core.avals import ShapedArray
from pyjax.core.errors import fail
from pyjax.core.manual_types import without_sums
from pyjax.core.primitive import Primitive
from pyjax.core.structural import as_split
from pyjax.interpreters.batching import bdim_at_front
from pyjax.lax.arithmetic import add, conj, mul
from pyjax.lax.common import INEXACT, aval_of, check_dtype, dtype_of, is_complex, shape_of
from pyjax.lax.compare import full_value, select
from pyjax.lax.creation import eye, tri
from pyjax.lax.dot import dot_general
from pyjax.lax.dot_types import Precision
from pyjax.lax.nary import define, expand_to
from pyjax.lax.shape import transpose
from xla_backend.hlo.attributes import ComparisonDirection, CustomCallAttributes
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import PrimitiveType, from_numpy_dtype

# -- on values -------------------------------------------------------------------------------------


def mT(x: ArrayLike) -> Array:
    """Transpose of each matrix."""
    n = len(shape_of(x))
    return transpose(x, (*range(n - 2), n - 1, n - 2))


def mH(x: ArrayLike) -> Array:
    """Conjugate transpose of each matrix."""
    return conj(mT(x)) if is_complex(dtype_of(x)) else mT(x)


def matmul(a: Array, b: Array) -> Array:
    """Products of matrices with equal leading dimensions."""
    n = len(shape_of(a))
    batch = tuple(range(n - 2))
    return dot_general(a, b, (((n - 1,), (n - 2,)), (batch, batch)), Precision.HIGHEST)


def _masked(x: Array, mask: Array, keep: bool) -> Array:
    shape = shape_of(x)
    mask = expand_to(mask, shape, (len(shape) - 2, len(shape) - 1))
    mask = as_split(mask, without_sums(aval_of(x)).split)
    # A Python number of x's kind: weakly typed where x is.
    zeros = full_value(x, np.zeros((), dtype_of(x)).item())
    return select(mask, x, zeros) if keep else select(mask, zeros, x)


def tril(x: Array, offset: int = 0) -> Array:
    """Zero above a diagonal."""
    return _masked(x, tri(np.bool_, shape_of(x)[-2:], offset), True)


def triu(x: Array, offset: int = 0) -> Array:
    """Zero below a diagonal."""
    return _masked(x, tri(np.bool_, shape_of(x)[-2:], offset - 1), False)


def only_diagonal(x: Array) -> Array:
    """Zero off the main diagonal."""
    return _masked(x, eye(np.bool_, shape_of(x)[-2:]), True)


def without_diagonal(x: Array) -> Array:
    """Zero on the main diagonal."""
    return _masked(x, eye(np.bool_, shape_of(x)[-2:]), False)


def identity_like(x: Array) -> Array:
    """Identity matrices of x's (square) shape and dtype."""
    shape = shape_of(x)
    return expand_to(eye(dtype_of(x), shape[-2:]), shape, (len(shape) - 2, len(shape) - 1))


def symmetrized(x: ArrayLike) -> Array:
    """(x + x^H) / 2."""
    return mul(add(x, mH(x)), np.asarray(0.5, dtype_of(x)).item())


def columns(v: Array, like: Array) -> Array:
    """A vector for each matrix, repeated down the rows: [..., n] to [..., m, n]."""
    shape = shape_of(like)
    dims = (*range(len(shape) - 2), len(shape) - 1)
    return expand_to(v, shape, dims)


def rows(v: Array, like: Array) -> Array:
    """A vector for each matrix, repeated along the columns: [..., m] to [..., m, n]."""
    shape = shape_of(like)
    return expand_to(v, shape, tuple(range(len(shape) - 1)))


# -- rules -----------------------------------------------------------------------------------------


def check_matrix(
    name: str, x: ShapedArray, square: bool = False
) -> tuple[tuple[int, ...], int, int]:
    """(batch shape, m, n) of a matrix operand."""
    check_dtype(name, x, INEXACT)
    if len(x.shape) < 2:
        fail(
            ValueError,
            f"Argument to {name} must have ndims >= 2, got shape {x.shape}",
            fix="add dimensions, e.g. lax.expand_dims(x, (0,)).",
        )
    *batch, m, n = x.shape
    if square and m != n:
        fail(
            ValueError,
            f"Argument to {name} must have shape [..., n, n], got shape {x.shape}",
            f"the operand is {x.str_short()}.",
        )
    return tuple(batch), m, n


def define_on_matrices(name: str, **rules: Any) -> Primitive:
    """A primitive on the last dimensions of its operands: under vmap all operands are batched at
    the front, and every output is, too. `rules`: its others, as `define` takes them."""

    def batching(axis_size: int, args: Sequence[Any], dims: Sequence[Any], **params: Any) -> Any:
        moved = [bdim_at_front(x, d, axis_size) for x, d in zip(args, dims)]
        outs = primitive.bind_all(*moved, **params)
        return outs, [0] * len(outs)

    primitive = define(name, batching=batching, **rules)
    return primitive


def array_shape(dtype: Any, dimensions: Sequence[int]) -> Shape:
    return Shape.array(from_numpy_dtype(np.dtype(dtype)), tuple(dimensions))


INT32 = np.dtype(np.int32)


def lapack_call(
    ctx: Any,
    routine: str,
    operands: Sequence[Any],
    results: Sequence[Shape],
    **options: str | bool | int,
) -> list[Any]:
    """Call a LAPACK routine of the runtime; string options are LAPACK's character codes."""
    items = []
    for key, value in options.items():
        if isinstance(value, bool):
            items.append(f"{key} = {'true' if value else 'false'}")
        elif isinstance(value, str):
            items.append(f"{key} = {ord(value)} : ui8")
        else:
            items.append(f"{key} = {value} : i64")
    attributes = CustomCallAttributes(f"lapack.{routine}", "{" + ", ".join(items) + "}")
    call = ctx.builder.add(
        Opcode.CUSTOM_CALL, operands, attributes, shape=Shape.tuple(list(results))
    )
    return [ctx.builder.get_tuple_element(call, i) for i in range(len(results))]


def conjugated(builder: Any, x: Any) -> Any:
    """The complex conjugate of an instruction's value."""
    narrow = x.shape.element_type is PrimitiveType.C64
    part = x.shape.with_type(PrimitiveType.F32 if narrow else PrimitiveType.F64)
    minus = builder.add(Opcode.NEGATE, (builder.add(Opcode.IMAG, (x,), shape=part),), shape=part)
    return builder.add(
        Opcode.COMPLEX, (builder.add(Opcode.REAL, (x,), shape=part), minus), shape=x.shape
    )


def nan_where_failed(ctx: Any, info: Any, *results: Any) -> list[Any]:
    """The results, or nan for matrices whose `info` is not 0."""
    builder = ctx.builder
    ok = builder.compare(info, builder.full(info.shape, 0), ComparisonDirection.EQ)
    outs = []
    for x in results:
        kept = tuple(range(ok.shape.rank))
        mask = ok
        if x.shape.dimensions != ok.shape.dimensions:
            mask = builder.broadcast(ok, x.shape.dimensions, kept)
        nan = complex(np.nan, np.nan) if x.shape.element_type.is_complex else np.nan
        outs.append(
            builder.add(Opcode.SELECT, (mask, x, builder.full(x.shape, nan)), shape=x.shape)
        )
    return outs


_NARROW = (np.dtype(np.float16), dtypes.bfloat16)


def checked_subset(what: str, subset: Sequence[int], count: int) -> tuple[int, int]:
    """The bounds of `subset_by_index`, of so many values."""
    start, end = map(operator.index, subset)
    if not 0 <= start < end <= count:
        fail(
            ValueError,
            f"{what}: subset_by_index={tuple(subset)} is not within the {count} values.",
            fix="pass (start, end) with 0 <= start < end.",
        )
    return start, end


def in_lapack_type(rule: Callable[..., Any]) -> Callable[..., Any]:
    """LAPACK has float32, float64, complex64 and complex128: narrower floats go through float32."""

    narrow = (PrimitiveType.F16, PrimitiveType.BF16)

    def widened(aval: Any) -> Any:
        return aval.update(dtype=np.dtype(np.float32)) if aval.dtype in _NARROW else aval

    def lowering(ctx: Any, *operands: Any, **params: Any) -> Any:
        if not any(x.shape.element_type in narrow for x in operands):
            return rule(ctx, *operands, **params)
        builder, avals_in, avals_out = ctx.builder, ctx.avals_in, ctx.avals_out
        shapes_out = ctx.shapes_out
        wide = [
            builder.convert(x, PrimitiveType.F32) if x.shape.element_type in narrow else x
            for x in operands
        ]
        ctx.avals_in = [widened(a) for a in avals_in]
        ctx.avals_out = [widened(a) for a in avals_out]
        outs = rule(ctx, *wide, **params)
        ctx.avals_in, ctx.avals_out = avals_in, avals_out
        outs = outs if isinstance(outs, list) else [outs]
        return [
            builder.convert(out, shape.element_type)
            if shape.element_type in narrow and out.shape.element_type is PrimitiveType.F32
            else out
            for out, shape in zip(outs, shapes_out)
        ]

    return lowering
