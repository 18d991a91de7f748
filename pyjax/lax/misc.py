"""Primitives that pass values through: copy, stop_gradient, optimization_barrier, stage, dce_sink,
tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyjax.core import dtypes
from pyjax.core.array import Array
from pyjax.core.avals import abstract_token
from pyjax.core.effects import no_effects
from pyjax.core.errors import new_error
from pyjax.core.primitive import Primitive
from pyjax.core.tree_util import tree_flatten, tree_map, tree_unflatten
from pyjax.interpreters import ad
from pyjax.interpreters.batching import elementwise_batching
from pyjax.interpreters.rules import LINEAR, ZERO_TANGENT, FullJvp, Unsupported
from pyjax.lax.common import dtype_of, identity_lowering, is_inexact
from pyjax.lax.nary import define, unary_transpose
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape

copy_p: Primitive = define(
    "copy",
    abstract_eval=lambda x: [x],
    jvp=LINEAR,
    transpose=unary_transpose(lambda ct, x: ct),
    batching=elementwise_batching,
    lowering=lambda ctx, x: ctx.builder.add(Opcode.COPY, (x,), shape=x.shape),
)
stop_gradient_p: Primitive = define(
    "stop_gradient",
    abstract_eval=lambda x: [x],
    jvp=ZERO_TANGENT,
    transpose=Unsupported("stop_gradient passes no gradient"),
    batching=elementwise_batching,
    lowering=identity_lowering,
)
stage_p: Primitive = define(
    "stage",
    abstract_eval=lambda x: [x],
    jvp=LINEAR,
    transpose=unary_transpose(lambda ct, x: ct),
    batching=elementwise_batching,
    lowering=identity_lowering,
)


def stop_gradient(x: Any) -> Any:
    """x itself, which differentiation treats as a constant. x may be a pytree.

    >>> pyjax.grad(lambda x: x * lax.stop_gradient(x))(3.0)
    Array(3., dtype=float32, weak_type=True)
    """

    def stop(leaf: Any) -> Any:
        if not is_inexact(dtype_of(leaf)):
            return leaf
        return stop_gradient_p.bind1(leaf)

    return tree_map(stop, x)


def stage(x: Any, /) -> Any:
    """x itself, as a value of the computation being traced.

    >>> float(lax.stage(2.0))
    2.0
    """
    return tree_map(stage_p.bind1, x)


# -- optimization_barrier --------------------------------------------------------------------------


def _barrier_jvp(primals: Sequence[Array], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    outs = optimization_barrier_p.bind(*primals)
    live = [t for t in tangents if type(t) is not ad.Zero]
    moved = iter(optimization_barrier_p.bind(*live) if live else [])
    return outs, [t if type(t) is ad.Zero else next(moved) for t in tangents]


def _barrier_transpose(cts: Sequence[Any], *args: Any) -> list[Any]:
    live = [ct for ct in cts if type(ct) is not ad.Zero]
    moved = iter(optimization_barrier_p.bind(*live) if live else [])
    return [ct if type(ct) is ad.Zero else next(moved) for ct in cts]


def _barrier_lowering(ctx: Any, *operands: Any) -> list[Any]:
    builder = ctx.builder
    packed = builder.tuple(operands)
    shape = Shape.tuple([x.shape for x in operands])
    barrier = builder.add(Opcode.OPT_BARRIER, (packed,), shape=shape)
    return [builder.get_tuple_element(barrier, i) for i in range(len(operands))]


optimization_barrier_p: Primitive = define(
    "optimization_barrier",
    multiple_results=True,
    abstract_eval=lambda *avals: list(avals),
    jvp=FullJvp(_barrier_jvp),
    transpose=_barrier_transpose,
    batching=lambda axis_size, args, dims: (optimization_barrier_p.bind(*args), list(dims)),
    lowering=_barrier_lowering,
)


def optimization_barrier(operand: Any, /) -> Any:
    """The same pytree of arrays; the compiler moves nothing across, and computes all of it before
    any use.

    >>> lax.optimization_barrier(jnp.arange(3))
    Array([0, 1, 2], dtype=int32)
    """
    leaves, tree = tree_flatten(operand)
    return tree_unflatten(tree, optimization_barrier_p.bind(*leaves)) if leaves else operand


# -- dce_sink --------------------------------------------------------------------------------------

dce_sink_p: Primitive = define(
    "dce_sink",
    multiple_results=True,
    abstract_eval=lambda x, *, prevent_mlir_dce: [],
    jvp=FullJvp(lambda primals, tangents, **params: (dce_sink_p.bind(*primals, **params), [])),
    transpose=Unsupported("dce_sink has no outputs"),
    batching=lambda axis_size, args, dims, **params: (dce_sink_p.bind(*args, **params), []),
    lowering=lambda ctx, x, *, prevent_mlir_dce: [],
    effects=lambda x, *, prevent_mlir_dce: no_effects,
)


def dce_sink(val: Any, *, prevent_mlir_dce: bool = False) -> None:
    """Use a pytree of arrays without a result, so that a jaxpr keeps what computes it.

    >>> def f(x):
    ...     lax.dce_sink(lax.sin(x))
    ...     return x
    >>> [eqn.primitive.name for eqn in pyjax.make_jaxpr(f)(1.0).eqns]
    ['sin', 'dce_sink']
    """
    for leaf in tree_flatten(val)[0]:
        dce_sink_p.bind(leaf, prevent_mlir_dce=prevent_mlir_dce)


# -- tokens ----------------------------------------------------------------------------------------


def _token_lowering(ctx: Any, *operands: Any) -> Any:
    return ctx.builder.add(Opcode.AFTER_ALL, operands, shape=Shape.token())


after_all_p: Primitive = define(
    "after_all",
    abstract_eval=lambda *avals: [abstract_token],
    jvp=Unsupported("tokens carry no numbers"),
    transpose=Unsupported("tokens carry no numbers"),
    batching=Unsupported("tokens have no axes"),
    lowering=_token_lowering,
)
create_token_p: Primitive = define(
    "create_token",
    abstract_eval=lambda *avals: [abstract_token],
    jvp=Unsupported("tokens carry no numbers"),
    transpose=Unsupported("tokens carry no numbers"),
    batching=Unsupported("tokens have no axes"),
    lowering=_token_lowering,
)


def after_all(*operands: Any) -> Any:
    """A token that waits for all the given tokens.

    >>> pyjax.make_jaxpr(lambda: lax.after_all(lax.create_token()))().out_avals
    [AbstractToken()]
    """
    return after_all_p.bind1(*operands)


def create_token(_: Any = None) -> Any:
    """A token that waits for nothing.

    >>> pyjax.make_jaxpr(lax.create_token)().out_avals
    [AbstractToken()]
    """
    return create_token_p.bind1()


def dtype(x: Any) -> Any:
    """The dtype of an array or scalar, or the canonical form of a dtype.

    Raises:
      ValueError: `x` is None.   TypeError: it is something else.

    >>> lax.dtype(1.0)
    dtype('float32')
    """
    if x is None:
        raise new_error(ValueError, "Invalid argument to dtype: None.")
    return dtypes.dtype(x)
