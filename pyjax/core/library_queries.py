"""Small functions on avals, variables and sizes, for libraries. Layer: core."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyjax.core.avals import MeshArray, ShapedArray
from pyjax.core.effects import Effects, no_effects
from pyjax.core.errors import new_error
from pyjax.core.jaxpr import JaxprEqn, Var
from pyjax.core.primitive import Primitive
from pyjax.core.trace import (
    Tracer,
    eval_trace,
    not_concrete_error,
    set_current_trace,
    state,
    to_concrete_value,
)

ParamDict = dict[str, Any]
Value = Any
OutputType = tuple[Any, ...]


def gensym() -> Callable[[Any], Var]:
    """A function that makes variables: `new(aval)`.

    >>> (aval,) = pyjax.make_jaxpr(lambda x: x)(1.0).in_avals
    >>> new = gensym()
    >>> new(aval).aval is aval, new(aval) is new(aval)
    (True, False)
    """
    return Var


def new_jaxpr_eqn(
    invars: Sequence[Any],
    outvars: Sequence[Var],
    primitive: Primitive,
    params: dict[str, Any],
    effects: Effects = no_effects,
    source_info: Any = None,
    ctx: Any = None,
) -> JaxprEqn:
    """An equation.

    Args:
      source_info: what `eqn.source` is of the equation that it comes from, or None.
      ctx: unused; equations keep nothing of the context they were made in.

    >>> (eqn,) = pyjax.make_jaxpr(lax.sin)(1.0).eqns
    >>> copy = new_jaxpr_eqn(eqn.invars, eqn.outvars, lax.cos_p, eqn.params)
    >>> copy.primitive.name
    'cos'
    """
    return JaxprEqn(list(invars), list(outvars), primitive, params, frozenset(effects), source_info)


def concrete_or_error(force: Any, val: Any, context: str = "") -> Any:
    """`force(val)` of a value that Python can look at; `val` itself if `force` is None.

    Raises:
      ConcretizationTypeError: it is traced; `context` says what it was needed for.

    >>> concrete_or_error(int, 3.0)
    3
    """
    if isinstance(val, Tracer):
        found = to_concrete_value(val)
        if found is None:
            raise not_concrete_error(
                val, context, "Make the argument static (static_argnums, static_argnames)."
            )
        val = found
    return val if force is None else force(val)


def eval_context() -> set_current_trace:
    """Context manager: operations run at once, whatever is traced around."""
    return set_current_trace(eval_trace)


def primal_dtype_to_tangent_dtype(primal_dtype: Any) -> Any:
    """The dtype of tangents: `float0` for integers, booleans and keys.

    >>> primal_dtype_to_tangent_dtype(np.dtype("float32"))
    dtype('float32')
    """
    return ShapedArray((), primal_dtype).to_tangent_aval().dtype


def mapped_aval(size: int, axis: int | None, aval: Any) -> Any:
    """What one element sees of an array that is mapped over `axis`; `aval_mapping_handlers` says it
    for classes of avals that libraries define.

    >>> aval = pyjax.make_jaxpr(lambda x: x)(jnp.ones((5, 3))).in_avals[0]
    >>> mapped_aval(5, 0, aval).shape
    (3,)
    """
    handlers = aval_mapping_handlers.get(type(aval))
    return (handlers[0] if handlers else _mapped_array)(size, axis, aval)


def unmapped_aval(size: int, axis: int | None, aval: Any, explicit_mesh_axis: Any = None) -> Any:
    """The array of `size` such elements, along `axis`.

    >>> aval = pyjax.make_jaxpr(lambda x: x)(jnp.ones(3)).in_avals[0]
    >>> unmapped_aval(5, 0, aval).shape
    (5, 3)
    """
    handlers = aval_mapping_handlers.get(type(aval))
    if handlers and handlers[1] is not _unmapped_array:
        return handlers[1](size, axis, explicit_mesh_axis, aval)
    return _unmapped_array(size, axis, aval)


def _mapped_array(size: int, axis: int | None, aval: Any) -> Any:
    if axis is None:
        return aval
    shape = aval.shape
    if shape[axis] != size:
        raise new_error(ValueError, f"axis {axis} of {aval.str_short()} has not {size} elements")
    return aval.without_dim(axis % len(shape))


def _unmapped_array(size: int, axis: int | None, aval: Any) -> Any:
    if axis is None:
        return aval
    return aval.with_dim(axis % (aval.ndim + 1), size)


# Class of avals: (mapped(size, axis, aval), unmapped(size, axis, mesh_axis, aval)).
aval_mapping_handlers: dict[type, tuple[Callable[..., Any], Callable[..., Any]]] = {
    ShapedArray: (_mapped_array, _unmapped_array),
    MeshArray: (_mapped_array, _unmapped_array),
}


def max_dim(d1: Any, d2: Any) -> Any:
    """The larger of two sizes.

    Raises:
      InconclusiveDimensionOperation: symbols among them leave it open.

    >>> max_dim(2, 3)
    3
    """
    return d1 if d1 is d2 or d1 >= d2 else d2


def min_dim(d1: Any, d2: Any) -> Any:
    """The smaller of two sizes; see `max_dim`."""
    return d1 if d1 is d2 or d1 <= d2 else d2


def concretization_function_error(
    fun: Callable[..., Any], suggest_astype: bool = False
) -> Callable[..., Any]:
    """What raises the error of `fun` (`bool`, `int`, ...) of a traced value."""
    context = f"The problem arose with the `{fun.__name__}` function. " + (
        f"If trying to convert the data type of a value, try using `x.astype({fun.__name__})` "
        f"or `jnp.array(x, {fun.__name__})` instead."
        if suggest_astype
        else ""
    )

    def error(self: Any, arg: Any) -> Any:
        raise not_concrete_error(arg, context, "Make it static, or use functions of arrays.")

    return error


class TracingContext:
    """What is traced here and now."""

    @property
    def trace(self) -> Any:
        """The trace that operations go to."""
        return state.traces[0]

    def is_top_level(self) -> bool:
        """Whether operations run at once."""
        return self.trace is eval_trace


trace_ctx = TracingContext()


def is_constant_dim(d: Any) -> bool:
    """Whether a size is a number, not a symbol."""
    return isinstance(d, int)


def is_constant_shape(s: Sequence[Any]) -> bool:
    """Whether all sizes of a shape are numbers."""
    return all(map(is_constant_dim, s))
