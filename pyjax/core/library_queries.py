"""Small functions on avals, variables and sizes, for libraries. Layer: core."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyjax.core.avals import ShapedArray
from pyjax.core.effects import Effects, no_effects
from pyjax.core.errors import new_error
from pyjax.core.jaxpr import JaxprEqn, Var
from pyjax.core.primitive import Primitive
from pyjax.core.trace import (
    Tracer,
    eval_trace,
    not_concrete_error,
    set_current_trace,
    to_concrete_value,
)

ParamDict = dict[str, Any]
Value = Any
OutputType = tuple[Any, ...]


def gensym() -> Callable[[Any], Var]:
    """A function that makes variables: `new(aval)`."""
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
    """The dtype of tangents: `float0` for integers, booleans and keys."""
    return ShapedArray((), primal_dtype).to_tangent_aval().dtype


def mapped_aval(size: int, axis: int | None, aval: Any) -> Any:
    """What one element sees of an array that is mapped over `axis`."""
    if axis is None:
        return aval
    shape = aval.shape
    if shape[axis] != size:
        raise new_error(ValueError, f"axis {axis} of {aval.str_short()} has not {size} elements")
    axis %= len(shape)
    return aval.update(shape=shape[:axis] + shape[axis + 1 :])


def unmapped_aval(size: int, axis: int | None, aval: Any, explicit_mesh_axis: Any = None) -> Any:
    """The array of `size` such elements, along `axis`."""
    if axis is None:
        return aval
    shape = aval.shape
    axis %= len(shape) + 1
    return aval.update(shape=(*shape[:axis], size, *shape[axis:]))


def is_constant_dim(d: Any) -> bool:
    """Whether a size is a number, not a symbol."""
    return isinstance(d, int)


def is_constant_shape(s: Sequence[Any]) -> bool:
    """Whether all sizes of a shape are numbers."""
    return all(map(is_constant_dim, s))
