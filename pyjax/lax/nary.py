"""How elementwise primitives are defined: `define_unary` and `define_nary` fill all rule tables
from a row.

N-ary operands have equal ranks or are scalars, and size-1 dimensions stretch; the jvp, transpose
and batching rules made here take care of that, so a row only states the mathematics.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pyjax.core import structural
from pyjax.core.avals import ShapedArray
from pyjax.core.primitive import Primitive
from pyjax.core.structural import broadcast_in_dim_p, reduce_sum_p
from pyjax.interpreters import ad
from pyjax.interpreters.batching import elementwise_batching, move_bdim, not_mapped
from pyjax.interpreters.rules import (
    LINEAR,
    ZERO_TANGENT,
    Unsupported,
    define_rules,
    elementwise_primitives,
)
from pyjax.lax.common import (
    DtypeClass,
    aval_of,
    elementwise_aval,
    hlo_nary,
    hlo_unary,
    nary_aval,
    shape_of,
)
from xla_backend.hlo.opcode import Opcode

# The primitives that interpreters use are declared in core; the others are made here.
_DECLARED = {p.name: p for p in vars(structural).values() if isinstance(p, Primitive)}


def define(name: str, **rules: Any) -> Primitive:
    """Give the primitive of this name its rules (keywords as in `rules.define_primitive`)."""
    return define_rules(_DECLARED.get(name) or Primitive(name), **rules)


def expand_to(x: Any, shape: tuple[int, ...], dims: tuple[int, ...], sharding: Any = None) -> Any:
    """broadcast_in_dim without checks."""
    return broadcast_in_dim_p.bind1(x, shape=shape, broadcast_dimensions=dims, sharding=sharding)


def stretch(x: Any, shape: tuple[int, ...]) -> Any:
    """Broadcast a scalar, or an array of equal rank with size-1 dimensions, to `shape`."""
    have = shape_of(x)
    if have == shape:
        return x
    return expand_to(x, shape, tuple(range(len(have))))


def unbroadcast(ct: Any, shape: tuple[int, ...]) -> Any:
    """The transpose of `stretch`: sum over the dimensions that were stretched."""
    have = shape_of(ct)
    if have == shape:
        return ct
    if not shape:
        axes = tuple(range(len(have)))
        return reduce_sum_p.bind1(ct, axes=axes, out_sharding=None)
    axes = tuple(i for i, (a, b) in enumerate(zip(have, shape)) if a != b)
    kept = tuple(i for i in range(len(have)) if i not in axes)
    return expand_to(reduce_sum_p.bind1(ct, axes=axes, out_sharding=None), shape, kept)


def nary_batching(bind: Callable[..., list[Any]]) -> Callable[..., tuple[list[Any], list[Any]]]:
    """Batching for operands that stretch: all mapped dimensions go to the front, ranks are made
    equal.
    """

    def rule(axis_size: int, args: Sequence[Any], dims: Sequence[Any], **params: Any) -> Any:
        shapes = [shape_of(x) for x in args]
        first_dim = next(d for d in dims if d is not not_mapped)
        rank = len(next(s for s, d in zip(shapes, dims) if d is not not_mapped))
        if all(
            (not s) if d is not_mapped else (d == first_dim and len(s) == rank)
            for s, d in zip(shapes, dims)
        ):
            return bind(*args, **params), [first_dim]
        logical = max(len(s) - (d is not not_mapped) for s, d in zip(shapes, dims))
        moved = []
        for x, shape, d in zip(args, shapes, dims):
            if d is not_mapped:
                if shape:
                    x = expand_to(x, (1, *shape), tuple(range(1, len(shape) + 1)))
            else:
                x = move_bdim(x, d, 0)
                if len(shape) == 1 and logical:
                    x = expand_to(x, (shape[0],) + (1,) * logical, (0,))
            moved.append(x)
        return bind(*moved, **params), [0]

    return rule


def _given(opcode: Opcode | None) -> Opcode:
    assert opcode is not None, "give an opcode or a lowering rule"
    return opcode


def define_unary(
    name: str,
    opcode: Opcode | None,
    accepts: DtypeClass,
    jvp: Any,
    *,
    transpose: Any = None,
    lowering: Any = None,
    result: Callable[[np.dtype], np.dtype] | None = None,
) -> Primitive:
    """A one-operand elementwise primitive; give `opcode` or a `lowering` rule."""
    return define(
        name,
        abstract_eval=elementwise_aval(name, accepts, result),
        jvp=jvp if jvp in (LINEAR, ZERO_TANGENT) or isinstance(jvp, Unsupported) else (jvp,),
        transpose=transpose or Unsupported(f"{name} is not linear"),
        batching=elementwise_batching,
        lowering=lowering or hlo_unary(_given(opcode)),
    )


def define_nary(
    name: str,
    opcode: Opcode | None,
    accepts: Sequence[DtypeClass],
    jvp: Any,
    *,
    transpose: Any = None,
    lowering: Any = None,
    result: Callable[..., np.dtype] | None = None,
    abstract_eval: Callable[..., list[ShapedArray]] | None = None,
) -> Primitive:
    """An elementwise primitive of several operands. `jvp` is a tuple of rules, or ZERO_TANGENT.

    `transpose(ct, *args, **params)` gives one cotangent (or None) per operand, of the output's
    shape; they are
    summed to the operands' shapes here.
    """

    def batching(axis_size: int, args: Any, dims: Any, **params: Any) -> Any:
        return nary_batching(primitive.bind_all)(axis_size, args, dims, **params)

    primitive = define(
        name,
        abstract_eval=abstract_eval or nary_aval(name, accepts, result),
        jvp=tuple(_stretched(rule) for rule in jvp) if isinstance(jvp, tuple) else jvp,
        transpose=_summed(transpose) if transpose else Unsupported(f"{name} is not linear"),
        batching=batching,
        lowering=lowering or hlo_nary(_given(opcode)),
    )
    elementwise_primitives.add(primitive)
    return primitive


def _stretched(rule: Any) -> Any:
    """Give a tangent the shape of the output: an operand may be smaller."""
    if rule is None:
        return None

    def stretched(g: Any, ans: Any, *primals: Any, **params: Any) -> Any:
        out = rule(g, ans, *primals, **params)
        shape = shape_of(ans)
        return out if shape_of(out) == shape else stretch(out, shape)

    return stretched


def _summed(transpose: Any) -> Any:
    def rule(cts: Sequence[Any], *args: Any, **params: Any) -> list[Any]:
        (ct,) = cts
        if type(ct) is ad.Zero:
            return [ad.Zero(x.aval) if ad.is_undefined_primal(x) else None for x in args]
        result = []
        for out, x in zip(transpose(ct, *args, **params), args):
            if out is not None and ad.is_undefined_primal(x):
                out = unbroadcast(out, x.aval.shape)
            result.append(out)
        return result

    return rule


def unary_transpose(rule: Callable[..., Any]) -> Callable[..., list[Any]]:
    """From `rule(ct, x, **params) -> cotangent`, for primitives linear in their first operand."""

    def transpose(cts: Sequence[Any], x: Any, *rest: Any, **params: Any) -> list[Any]:
        (ct,) = cts
        if type(ct) is ad.Zero:
            return [ad.Zero(x.aval), *[None] * len(rest)]
        return [rule(ct, x, **params), *[None] * len(rest)]

    return transpose


def undefined_aval(x: Any) -> ShapedArray:
    """The aval of a linear operand (or of an ordinary value)."""
    return x.aval if ad.is_undefined_primal(x) else aval_of(x)
