"""`reduce` with a user's computation over one or several operands at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pyjax.core.array import Array
from pyjax.core.avals import ShapedArray
from pyjax.core.errors import fail
from pyjax.core.jaxpr import ClosedJaxpr, jaxpr_as_fun
from pyjax.core.primitive import Primitive
from pyjax.core.trace import is_concrete
from pyjax.core.traceback_filter import api_boundary
from pyjax.core.tree_util import tree_flatten, tree_structure, tree_unflatten
from pyjax.interpreters import ad
from pyjax.interpreters.batching import batch_jaxpr, bdim_at_front, not_mapped
from pyjax.interpreters.rules import FullJvp, Unsupported
from pyjax.interpreters.traced_function import trace_function
from pyjax.lax.arithmetic import add, mul
from pyjax.lax.arithmetic import max as max_
from pyjax.lax.arithmetic import min as min_
from pyjax.lax.bitwise import bitwise_and, bitwise_or, bitwise_xor
from pyjax.lax.common import aval_of, canonical_dims, nary_operands, shape_of
from pyjax.lax.nary import define, expand_to
from pyjax.lax.reduce import (
    axes_last,
    check_axes,
    identity_of,
    reduce_and,
    reduce_max,
    reduce_min,
    reduce_or,
    reduce_prod,
    reduce_sum,
    reduce_xor,
)
from pyjax.lax.reshard import computed_as
from pyjax.lax.shape import reshape
from pyjax.lax.shape_join import concatenate, cut
from xla_backend.hlo.attributes import DimensionsAttributes
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape

# Computations that have a reduction of their own, when the initial value is their identity.
_MONOIDS: dict[Any, tuple[Callable[..., Array], Opcode]] = {
    add: (reduce_sum, Opcode.ADD),
    mul: (reduce_prod, Opcode.MULTIPLY),
    max_: (reduce_max, Opcode.MAXIMUM),
    min_: (reduce_min, Opcode.MINIMUM),
    bitwise_and: (reduce_and, Opcode.AND),
    bitwise_or: (reduce_or, Opcode.OR),
    bitwise_xor: (reduce_xor, Opcode.XOR),
}


def _reduce_aval(
    *avals: ShapedArray, computation: Any, jaxpr: ClosedJaxpr, dimensions: tuple[int, ...]
) -> list[ShapedArray]:
    half = len(avals) // 2
    operands = avals[:half]
    for aval in operands:
        check_axes(dimensions, aval)
        if aval.shape != operands[0].shape:
            fail(
                TypeError,
                f"reduce operands must have one shape, got {[a.shape for a in operands]}.",
            )
    shape = tuple(n for i, n in enumerate(operands[0].shape) if i not in dimensions)
    return [
        ShapedArray(shape, a.dtype, a.weak_type and init.weak_type)
        for a, init in zip(operands, avals[half:])
    ]


def _reduce_lowering(
    ctx: Any, *args: Any, computation: Any, jaxpr: ClosedJaxpr, dimensions: tuple[int, ...]
) -> list[Any]:
    builder, outs = ctx.builder, ctx.shapes_out
    shape = outs[0] if len(outs) == 1 else Shape.tuple(outs)
    result = builder.add(
        Opcode.REDUCE,
        args,
        DimensionsAttributes(dimensions),
        (ctx.region(jaxpr, "reducer"),),
        shape=shape,
    )
    if len(outs) == 1:
        return [result]
    return [builder.get_tuple_element(result, i) for i in range(len(outs))]


def _vectorised(
    jaxpr: ClosedJaxpr, consts: Sequence[Any], lefts: Sequence[Array], rights: Sequence[Array]
) -> list[Array]:
    """The scalar computation on arrays of one shape, element by element; it takes consts first."""
    shape = shape_of(lefts[0])
    size = math.prod(shape)
    flat = [reshape(x, (size,)) for x in (*lefts, *rights)]
    batched, _ = batch_jaxpr(jaxpr, size, [False] * len(consts) + [True] * len(flat), True)
    return [reshape(o, shape) for o in jaxpr_as_fun(batched)(*consts, *flat)]


def _by_halves(
    jaxpr: ClosedJaxpr,
    operands: Sequence[Array],
    inits: Sequence[Array],
    dims: Any,
    consts: Sequence[Any] = (),
) -> list[Array]:
    """The reduction written with lax operations: log2(n) vectorised steps. For derivatives,
    batched inits, and computations that use arrays from outside (consts, their first operands).
    """
    xs = [axes_last(x, dims) for x in operands]
    kept = shape_of(xs[0])[:-1]
    axis, n = len(kept), shape_of(xs[0])[-1]
    starts = [expand_to(i, (*kept, 1), tuple(range(len(shape_of(i))))) for i in inits]
    if n == 0:
        return [reshape(s, kept) for s in starts]
    while n > 1:
        half = n // 2
        firsts = [cut(x, 0, half, axis) for x in xs]
        seconds = [cut(x, half, 2 * half, axis) for x in xs]
        combined = _vectorised(jaxpr, consts, firsts, seconds)
        if n % 2:
            combined = [
                concatenate([c, cut(x, n - 1, n, axis)], axis) for c, x in zip(combined, xs)
            ]
        xs, n = combined, half + n % 2
    return [reshape(o, kept) for o in _vectorised(jaxpr, consts, starts, xs)]


def _reduce_jvp(
    primals: Sequence[Array],
    tangents: Sequence[Any],
    *,
    computation: Any,
    jaxpr: ClosedJaxpr,
    dimensions: Any,
) -> tuple[list[Any], list[Any]]:
    half = len(primals) // 2

    def by_halves(*args: Array) -> list[Array]:
        return _by_halves(jaxpr, args[:half], args[half:], dimensions)

    return ad.jvp(by_halves, list(primals), list(tangents))


def _reduce_batching(
    axis_size: int,
    args: Any,
    dims: Any,
    *,
    computation: Any,
    jaxpr: ClosedJaxpr,
    dimensions: tuple[int, ...],
) -> Any:
    half = len(args) // 2
    operands = [bdim_at_front(x, d, axis_size) for x, d in zip(args[:half], dims[:half])]
    moved = tuple(d + 1 for d in dimensions)
    if all(d is not_mapped for d in dims[half:]):
        outs = reduce_p.bind(
            *operands, *args[half:], computation=computation, jaxpr=jaxpr, dimensions=moved
        )
    else:
        inits = [bdim_at_front(x, d, axis_size) for x, d in zip(args[half:], dims[half:])]
        outs = _by_halves(jaxpr, operands, inits, moved)
    return outs, [0] * half


reduce_p: Primitive = define(
    "reduce",
    multiple_results=True,
    abstract_eval=_reduce_aval,
    jvp=FullJvp(_reduce_jvp),
    transpose=Unsupported("reduce is not linear"),
    batching=_reduce_batching,
    lowering=_reduce_lowering,
)


def _is_identity(init: Any, opcode: Opcode, dtype: np.dtype) -> bool:
    if not is_concrete(init):
        return False
    return bool(np.array_equal(np.asarray(init), identity_of(opcode, dtype)))


@api_boundary
def reduce(
    operands: Any,
    init_values: Any,
    computation: Callable[..., Any],
    dimensions: Sequence[int],
    out_sharding: Any = None,
) -> Any:
    """Combine elements along dimensions with an associative computation.

    Args:
      operands: an array, or a pytree of arrays of one shape.
      init_values: scalars of the same structure and dtypes; an identity of the computation.
      computation: (accumulated, element) -> combined, on scalars of the operands' structure. It
        may use arrays from outside, also ones that are differentiated or mapped.
      dimensions: what is reduced.
      out_sharding: how results lie over mesh axes of type Explicit; by default as the operands do.
    Returns:
      The same structure of reduced arrays.
    Raises:
      TypeError: structures, dtypes or shapes differ.   ValueError: dimensions are out of range
        or repeated.

    >>> lax.reduce(jnp.arange(4), 0, lax.add, (0,))
    Array(6, dtype=int32)
    """
    if out_sharding is not None:
        plain = lambda xs, inits: reduce(xs, inits, computation, dimensions)
        return computed_as("reduce", out_sharding, plain, operands, init_values)
    flat, tree = tree_flatten(operands)
    inits, init_tree = tree_flatten(init_values)
    if tree != init_tree:
        fail(
            TypeError,
            f"Operands must have the same tree structure as init_values: {tree} vs. {init_tree}",
        )
    if not flat:
        fail(ValueError, "reduce requires at least one operand")
    dims = canonical_dims("reduce", dimensions)
    inits = [nary_operands("reduce", x, i)[1] for x, i in zip(flat, inits)]
    if len(flat) == 1 and computation in _MONOIDS:
        function, opcode = _MONOIDS[computation]
        if _is_identity(inits[0], opcode, aval_of(flat[0]).dtype):
            return tree_unflatten(tree, [function(flat[0], dims)])
    scalars = [ShapedArray((), aval_of(x).dtype) for x in flat]

    in_tree = tree_structure(((operands, operands), {}))
    traced = trace_function("reduce", computation, in_tree, [*scalars, *scalars])
    if traced.out_tree != tree:
        fail(
            TypeError,
            f"the reduction's computation returned {traced.out_tree}, but operands are {tree}.",
        )
    jaxpr, out_avals = traced.with_constants, traced.out_avals
    if [(a.shape, a.dtype) for a in out_avals] != [((), s.dtype) for s in scalars]:
        fail(
            TypeError,
            f"the reduction's computation must return {[s.str_short() for s in scalars]}, got "
            f"{[a.str_short() for a in out_avals]}.",
        )
    if traced.consts:
        # HLO's reduce calls a computation of scalars that sees nothing else.
        outs = _by_halves(traced.closed, flat, inits, dims, traced.consts)
        return tree_unflatten(tree, outs)
    outs = reduce_p.bind(*flat, *inits, computation=computation, jaxpr=jaxpr, dimensions=dims)
    return tree_unflatten(tree, outs)
