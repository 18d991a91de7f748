"""Running reductions along an axis: cumsum, cumprod, cummax, cummin, cumlogsumexp.

They lower to a reduce-window as long as the axis, which the compiler runs as one pass; with
`jax2tf_associative_scan_reductions`, to an associative scan, for readers without such windows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pyjax._config import options
from pyjax.core.array import Array, ArrayLike
from pyjax.core.avals import ShapedArray
from pyjax.core.errors import fail
from pyjax.core.primitive import Primitive
from pyjax.interpreters import ad
from pyjax.interpreters.hlo import lower_fun
from pyjax.interpreters.rules import LINEAR, FullJvp, Unsupported
from pyjax.lax.arithmetic import abs as abs_
from pyjax.lax.arithmetic import add, div, max, min, mul, neg, sub
from pyjax.lax.associative_scan import associative_scan
from pyjax.lax.common import (
    ANY,
    FLOATING,
    NUMBER,
    DtypeClass,
    aval_of,
    check_dtype,
    dtype_of,
    shape_of,
)
from pyjax.lax.compare import eq, full_value, select
from pyjax.lax.elementwise import exp, is_finite, log1p
from pyjax.lax.nary import define, stretch
from pyjax.lax.reduce import identity_of, reducer_of
from pyjax.lax.shape import reshape
from pyjax.lax.shape_join import cut, pad
from xla_backend.hlo.attributes import WindowAttributes, WindowDimension
from xla_backend.hlo.opcode import Opcode


def _cumulative_aval(name: str, accepts: DtypeClass) -> Callable[..., list[ShapedArray]]:
    def rule(x: ShapedArray, *, axis: int, reverse: bool) -> list[ShapedArray]:
        check_dtype(name, x, accepts)
        if not 0 <= axis < len(x.shape):
            fail(
                ValueError,
                f"axis {axis} is out of bounds for array of shape {x.shape}",
                fix="lax cumulative functions count axes from 0.",
            )
        return [x]

    return rule


def _logaddexp(x: Array, y: Array) -> Array:
    """log(exp(x) + exp(y)) without overflow."""
    high = max(x, y)
    difference = sub(x, y)
    soft = add(high, log1p(exp(neg(abs_(difference)))))
    # Equal infinities, and nan, have no difference to work with.
    return select(eq(difference, difference), soft, select(eq(x, y), x, add(x, y)))


# A long cumlogsumexp with fewer rows than this runs in blocks.
_FEW_ROWS = 32
_LONG_AXIS = 4096


def _logsumexp_in_blocks(x: Array, *, axis: int, reverse: bool) -> Array:
    """cumlogsumexp of one long axis: blocks on their own, then each adds the total before it.

    One element waits for the last in a scan of exp and log, but blocks do not wait for each other;
    sums of sums also round less.
    """
    shape = shape_of(x)
    size = shape[axis]
    block = math.isqrt(size - 1) + 1
    count = -(-size // block)
    fill = count * block - size
    nothing = np.asarray(-math.inf).astype(dtype_of(x))
    config = [(0, 0, 0)] * len(shape)
    config[axis] = (fill, 0, 0) if reverse else (0, fill, 0)
    blocks = reshape(pad(x, nothing, config), (*shape[:axis], count, block, *shape[axis + 1 :]))
    inside = cumlogsumexp_p.bind1(blocks, axis=axis + 1, reverse=reverse)
    last = 0 if reverse else block - 1
    totals = cumlogsumexp_p.bind1(cut(inside, last, last + 1, axis + 1), axis=axis, reverse=reverse)
    shift = [(0, 0, 0)] * (len(shape) + 1)
    shift[axis] = (-1, 1, 0) if reverse else (1, -1, 0)
    before = stretch(pad(totals, nothing, shift), shape_of(inside))
    whole = list(shape)
    whole[axis] = count * block
    out = reshape(_logaddexp(before, inside), tuple(whole))
    start = fill if reverse else 0
    return cut(out, start, start + size, axis)


# How two neighbours are combined.
_Operation = Callable[[Array, Array], Array]


def _scan_or(operation: _Operation, lowering: Callable[..., Any]) -> Callable[..., Any]:
    """The rule of a running reduction: as an option says, a scan, or `lowering`."""
    as_scan = lower_fun(
        lambda x, *, axis, reverse: associative_scan(operation, x, reverse=reverse, axis=axis)
    )

    def rule(ctx: Any, x: Any, **params: Any) -> Any:
        chosen = as_scan if options.jax2tf_associative_scan_reductions.value else lowering
        return chosen(ctx, x, **params)

    return rule


def _logsumexp_lowering(ctx: Any, x: Any, *, axis: int, reverse: bool) -> Any:
    size, elements = x.shape.dimensions[axis], x.shape.num_elements
    if size >= _LONG_AXIS and elements // size < _FEW_ROWS:
        return _lower_in_blocks(ctx, x, axis=axis, reverse=reverse)
    return _lower_in_one_pass(ctx, x, axis=axis, reverse=reverse)


def _cumulative_lowering(opcode: Opcode | None) -> Callable[..., Any]:
    def rule(ctx: Any, x: Any, *, axis: int, reverse: bool) -> Any:
        size = x.shape.dimensions[axis]
        if x.shape.num_elements == 0:
            return x
        aval = ctx.avals_in[0]
        window = [WindowDimension(1)] * x.shape.rank
        padding = {"padding_high": size - 1} if reverse else {"padding_low": size - 1}
        window[axis] = WindowDimension(size, **padding)
        if opcode is None:
            scalar = ShapedArray((), aval.dtype)
            reducer = ctx.computation_of(_logaddexp, scalar, scalar)
            init = np.asarray(-math.inf).astype(aval.dtype)
        else:
            reducer = reducer_of(ctx, opcode, aval)
            init = identity_of(opcode, aval.dtype)
        return ctx.builder.add(
            Opcode.REDUCE_WINDOW,
            (x, ctx.builder.constant(init)),
            WindowAttributes(tuple(window)),
            (reducer,),
            shape=ctx.shapes_out[0],
        )

    return rule


_lower_in_blocks = lower_fun(_logsumexp_in_blocks)
_lower_in_one_pass = _cumulative_lowering(None)


# How the tangent of a pair is made from the pair's values, result and tangents.
_Combine = Callable[[Array, Array, Array, Array, Array], Array]


def _share(x: Array, ans: Array, other: Array) -> Array:
    one = full_value(ans, 1)
    return div(
        select(eq(x, ans), one, full_value(ans, 0)), select(eq(other, ans), full_value(ans, 2), one)
    )


def _product_tangent(x: Array, y: Array, ans: Array, dx: Array, dy: Array) -> Array:
    return add(mul(dx, y), mul(x, dy))


def _extremum_tangent(x: Array, y: Array, ans: Array, dx: Array, dy: Array) -> Array:
    return add(mul(dx, _share(x, ans, y)), mul(dy, _share(y, ans, x)))


def _logsumexp_tangent(x: Array, y: Array, ans: Array, dx: Array, dy: Array) -> Array:
    def weight(v: Array) -> Array:
        # exp(-inf - -inf): nothing has been added yet, so nothing flows.
        return exp(select(is_finite(ans), sub(v, ans), full_value(ans, -np.inf)))

    return add(mul(dx, weight(x)), mul(dy, weight(y)))


def _scan_jvp(
    primitive: Callable[[], Primitive], operation: Any, tangent: _Combine, identity: float
) -> FullJvp:
    """Scan (value, tangent) pairs with the operation's own product rule, doubling the distance each
    step.
    """

    def rule(
        primals: Sequence[Array], tangents: Sequence[Any], *, axis: int, reverse: bool
    ) -> tuple[list[Any], list[Any]]:
        (x,), (t,) = primals, tangents
        out = primitive().bind1(x, axis=axis, reverse=reverse)
        if type(t) is ad.Zero:
            return [out], [ad.Zero(aval_of(out).to_tangent_aval())]
        start = np.asarray(identity).astype(dtype_of(x))
        zero = np.zeros((), dtype_of(t))
        distance, size = 1, shape_of(x)[axis]
        while distance < size:
            config = [(0, 0, 0)] * len(shape_of(x))
            config[axis] = (-distance, distance, 0) if reverse else (distance, -distance, 0)
            before, t_before = pad(x, start, config), pad(t, zero, config)
            ans = operation(before, x)
            t = tangent(before, x, ans, t_before, t)
            x, distance = ans, 2 * distance
        return [out], [t]

    return FullJvp(rule)


def _extremum_jvp(primitive: Callable[[], Primitive], operation: Any) -> FullJvp:
    """Scan (value, tangent) pairs in the order of `associative_scan`.

    At ties each pair shares equally, so the order decides who gets how much.
    """

    def pair(before: tuple[Array, Array], after: tuple[Array, Array]) -> tuple[Array, Array]:
        (x, dx), (y, dy) = before, after
        ans = operation(x, y)
        return ans, _extremum_tangent(x, y, ans, dx, dy)

    def rule(
        primals: Sequence[Array], tangents: Sequence[Any], *, axis: int, reverse: bool
    ) -> tuple[list[Any], list[Any]]:
        (x,), (t,) = primals, tangents
        out = primitive().bind1(x, axis=axis, reverse=reverse)
        if type(t) is ad.Zero:
            return [out], [ad.Zero(aval_of(out).to_tangent_aval())]
        return [out], [associative_scan(pair, (x, t), reverse=reverse, axis=axis)[1]]

    return FullJvp(rule)


def _cumsum_transpose(cts: Sequence[Any], x: Any, *, axis: int, reverse: bool) -> list[Any]:
    (ct,) = cts
    if type(ct) is ad.Zero:
        return [ad.Zero(x.aval)]
    return [cumsum_p.bind1(ct, axis=axis, reverse=not reverse)]


def _define_cumulative(
    name: str,
    operation: _Operation,
    opcode: Opcode | None,
    accepts: DtypeClass,
    jvp: Any,
    transpose: Any = None,
) -> Primitive:
    def batching(axis_size: int, args: Any, dims: Any, *, axis: int, reverse: bool) -> Any:
        (x,), (d,) = args, dims
        return primitive.bind_all(x, axis=axis + (axis >= d), reverse=reverse), [d]

    primitive = define(
        name,
        abstract_eval=_cumulative_aval(name, accepts),
        jvp=jvp,
        transpose=transpose or Unsupported(f"{name} is not linear"),
        batching=batching,
        lowering=_scan_or(
            operation, _cumulative_lowering(opcode) if opcode else _logsumexp_lowering
        ),
    )
    return primitive


cumsum_p: Primitive = _define_cumulative(
    "cumsum", add, Opcode.ADD, NUMBER, LINEAR, _cumsum_transpose
)
cumprod_p: Primitive = _define_cumulative(
    "cumprod",
    mul,
    Opcode.MULTIPLY,
    NUMBER,
    _scan_jvp(lambda: cumprod_p, mul, _product_tangent, 1.0),
)
cummax_p: Primitive = _define_cumulative(
    "cummax", max, Opcode.MAXIMUM, ANY, _extremum_jvp(lambda: cummax_p, max)
)
cummin_p: Primitive = _define_cumulative(
    "cummin", min, Opcode.MINIMUM, ANY, _extremum_jvp(lambda: cummin_p, min)
)
cumlogsumexp_p: Primitive = _define_cumulative(
    "cumlogsumexp",
    _logaddexp,
    None,
    FLOATING,
    _scan_jvp(lambda: cumlogsumexp_p, _logaddexp, _logsumexp_tangent, -math.inf),
)


def cumsum(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Array:
    """Running sum along `axis`, from the end if `reverse`. ValueError if axis is out of range.

    >>> lax.cumsum(jnp.array([1, 2, 3]), reverse=True)
    Array([6, 5, 3], dtype=int32)
    """
    return cumsum_p.bind1(operand, axis=int(axis), reverse=bool(reverse))


def cumprod(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Array:
    """Running product along `axis`, from the end if `reverse`.

    >>> lax.cumprod(jnp.array([1, 2, 3, 4]))
    Array([ 1,  2,  6, 24], dtype=int32)
    """
    return cumprod_p.bind1(operand, axis=int(axis), reverse=bool(reverse))


def cummax(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Array:
    """Running maximum along `axis`; nan from the first nan on.

    >>> lax.cummax(jnp.array([1, 3, 2]))
    Array([1, 3, 3], dtype=int32)
    """
    return cummax_p.bind1(operand, axis=int(axis), reverse=bool(reverse))


def cummin(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Array:
    """Running minimum along `axis`; nan from the first nan on.

    >>> lax.cummin(jnp.array([3, 1, 2]))
    Array([3, 1, 1], dtype=int32)
    """
    return cummin_p.bind1(operand, axis=int(axis), reverse=bool(reverse))


def cumlogsumexp(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Array:
    """Logarithm of the running sum of exponentials along `axis`, without overflow.

    >>> lax.cumlogsumexp(jnp.zeros(3)).round(2)
    Array([0.  , 0.69, 1.1 ], dtype=float32)
    """
    return cumlogsumexp_p.bind1(operand, axis=int(axis), reverse=bool(reverse))
