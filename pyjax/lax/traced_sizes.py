"""Sizes as values: what connects a dimension of traced size with the integer that it refers to."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyjax.core import dtypes
from pyjax.core.avals import ShapedArray
from pyjax.core.errors import fail
from pyjax.core.primitive import Primitive
from pyjax.core.structural import (
    broadcast_in_dim_p,
    dimension_p,
    dimension_size_p,
    reduce_sum_p,
    reshape_p,
    squeeze_p,
    transpose_p,
)
from pyjax.core.traced_sizes import FIX, Dimension, dimension_of, set_value_rule
from pyjax.interpreters.batching import move_bdim
from pyjax.interpreters.rules import (
    LINEAR,
    ZERO_TANGENT,
    Unsupported,
    define_primitive,
    define_rules,
    sized_primitives,
)
from pyjax.lax.arithmetic import add, max, min
from pyjax.lax.common import dtype_of, scalar_like
from pyjax.lax.compare import lt, select
from pyjax.lax.convert import convert
from pyjax.lax.creation import empty_p, iota_p
from pyjax.lax.dot import dot_general_p
from pyjax.lax.reduce import (
    reduce_and_p,
    reduce_max_p,
    reduce_min_p,
    reduce_or_p,
    reduce_prod_p,
    reduce_xor_p,
)
from xla_backend.hlo.attributes import SliceAttributes
from xla_backend.hlo.opcode import Opcode

sized_primitives.update(
    (
        broadcast_in_dim_p,
        dimension_p,
        dimension_size_p,
        dot_general_p,
        empty_p,
        iota_p,
        reduce_and_p,
        reduce_max_p,
        reduce_min_p,
        reduce_or_p,
        reduce_prod_p,
        reduce_sum_p,
        reduce_xor_p,
        reshape_p,
        squeeze_p,
        transpose_p,
    )
)


def _no_operands(*args: Any, **params: Any) -> Any:
    raise AssertionError("a dimension belongs to the program that is recorded, below all others")


def _mapped_size(*args: Any, **params: Any) -> Any:
    fail(
        NotImplementedError,
        "The size of an array depends on a value that vmap maps.",
        "Each lane would have an array of another shape (option dynamic_shapes).",
        FIX,
    )


_NO_MODULE = Unsupported(
    "a program with arrays of traced sizes has no HLO of its own, because it is compiled in parts "
    "(option dynamic_shapes); call the jitted function instead of lowering it"
)

# Says that a dimension has the size of its operand; no results.
define_rules(
    dimension_p,
    multiple_results=True,  # it has none
    abstract_eval=lambda size, *, dimension: [],
    jvp=ZERO_TANGENT,
    transpose=Unsupported("sizes are integers"),
    batching=_mapped_size,
    lowering=_NO_MODULE,
)


def _size_aval(*, dimension: Dimension) -> list[ShapedArray]:
    return [ShapedArray((), dtypes.canonicalize_dtype(np.int64), True)]


# The operand of that.
define_rules(
    dimension_size_p,
    abstract_eval=_size_aval,
    jvp=ZERO_TANGENT,
    transpose=Unsupported("sizes are integers"),
    batching=_no_operands,
    lowering=_NO_MODULE,
)
set_value_rule(lambda dimension: dimension_size_p.bind1(dimension=dimension))


def _leading_lowering(ctx: Any, x: Any, *, shape: tuple[int, ...]) -> Any:
    rank = len(shape)
    return ctx.builder.add(
        Opcode.SLICE,
        (x,),
        SliceAttributes((0,) * rank, shape, (1,) * rank),
        shape=ctx.shapes_out[0],
    )


leading_p: Primitive = define_primitive(
    "leading",
    abstract_eval=lambda x, *, shape: [ShapedArray(shape, x.dtype, x.weak_type)],
    jvp=LINEAR,
    transpose=Unsupported("how much is left out of an array of a traced size is not known"),
    batching=lambda axis_size, args, dims, *, shape: (
        leading_p.bind_all(move_bdim(args[0], dims[0], 0), shape=(axis_size, *shape)),
        [0],
    ),
    lowering=_leading_lowering,
)
sized_primitives.add(leading_p)


def leading(x: Any, axis: int, stop: Any) -> Any:
    """The first elements of `x` along an axis of a traced size, as `x[:stop]` takes them; `stop`
    may be traced."""
    size = x.shape[axis].value()
    stop = convert(stop, dtype_of(size), True)
    from_end = max(add(size, stop), scalar_like(0, size))
    count = select(lt(stop, scalar_like(0, stop)), from_end, min(stop, size))
    shape = tuple(dimension_of(count) if i == axis else n for i, n in enumerate(x.shape))
    return leading_p.bind1(x, shape=shape)
