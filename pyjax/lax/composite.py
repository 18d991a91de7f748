"""Composites: functions that the compiled program names, so that a compiler may know them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

import numpy as np

from pyjax.core.array import Array
from pyjax.core.avals import abstractify
from pyjax.core.effects import Effects
from pyjax.core.errors import UnexpectedTracerError, fail
from pyjax.core.hashable_array import HashableArray
from pyjax.core.jaxpr import ClosedJaxpr
from pyjax.core.primitive import Primitive
from pyjax.core.trace import Tracer
from pyjax.core.tree_util import tree_flatten, tree_unflatten
from pyjax.interpreters import batching
from pyjax.interpreters.discharge import discharge_inlined
from pyjax.interpreters.hlo import LoweringContext
from pyjax.interpreters.lift_constants import lift_leading, lift_rules
from pyjax.interpreters.rules import (
    FullJvp,
    Unsupported,
    call_discharge_rules,
    called_programs,
    define_primitive,
)
from pyjax.interpreters.traced_function import trace_function
from pyjax.interpreters.varying import as_program_says, varying_rules
from xla_backend import stablehlo
from xla_backend.hlo.attributes import CallAttributes
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.text_cursor import quote
from xla_backend.hlo.types import from_numpy_dtype


def composite(decomposition: Callable[..., Any], name: str, version: int = 0) -> Callable[..., Any]:
    """A function that stands in programs as one named operation, which its decomposition defines.

    Args:
      decomposition: function of pytrees of arrays (positional) and attributes (keyword).
      name: what compilers know the operation by, such as "my.softmax".
      version: counts changes of its meaning.
    Returns:
      A function: positional arguments are operands, keyword arguments become attributes in the
      program: bools, ints, floats, strings, dtypes, NumPy numbers, arrays that are not traced,
      sequences and dictionaries of them. None leaves an attribute out.
    Raises:
      TypeError: an attribute is something else.   UnexpectedTracerError: the decomposition closes
      over a traced value, or an attribute is one.   ValueError: it is differentiated; wrap it in
      custom_jvp or custom_vjp.
    This compiler runs the decomposition. Under vmap that is what is mapped.

    >>> import pyjax.numpy as jnp
    >>> tangent = composite(lambda x: jnp.sin(x) / jnp.cos(x), name="my.tangent")
    >>> round(float(tangent(1.0)), 4)
    1.5574
    """

    @wraps(decomposition)
    def call(*args: Any, **attributes: Any) -> Any:
        leaves, in_tree = tree_flatten((args, {}))
        frozen = {k: _frozen(v, f"{name}.{k}") for k, v in attributes.items() if v is not None}
        for key, value in frozen.items():
            _attribute(value, f"{name}.{key}")

        @wraps(decomposition)
        def with_attributes(*xs: Any) -> Any:
            return decomposition(*xs, **attributes)

        avals = [abstractify(x) for x in leaves]
        traced = trace_function("composite", with_attributes, in_tree, avals, (), None)
        if any(isinstance(c, Tracer) for c in traced.consts):
            raise UnexpectedTracerError(
                "Found a JAX Tracer as a constant in the decomposition for the composite op "
                f"'{name}'. The decomposition closes over a value that is being traced, and a "
                "composite is a function of its operands only: pass that value as an argument."
            )
        outs = composite_p.bind(
            *leaves,
            name=name,
            attributes=tuple(frozen.items()),
            version=version,
            jaxpr=traced.with_constants,
        )
        return tree_unflatten(traced.out_tree, outs)

    return call


def _frozen(value: Any, where: str) -> Any:
    """A value that has a hash; dictionaries as (items, dict)."""
    if isinstance(value, Tracer):
        raise UnexpectedTracerError(
            f"Found a JAX Tracer as an attribute of a composite, {where}. Attributes are part of "
            "the text of programs: pass the value as an argument."
        )
    if isinstance(value, (list, tuple)):
        return tuple(_frozen(v, where) for v in value)
    if isinstance(value, Mapping):
        return tuple(sorted((k, _frozen(v, f"{where}.{k}")) for k, v in value.items())), dict
    if isinstance(value, (np.ndarray, Array)):
        return HashableArray(np.asarray(value))
    return value


def _attribute(value: Any, where: str) -> str:
    """A value as StableHLO writes attributes."""
    match value:
        case None:
            return "unit"
        case bool() | np.bool_():
            return str(bool(value)).lower()
        case str():
            return quote(value)
        case np.floating() | np.integer() if value.dtype.names is None:
            kind = {"f": "f", "i": "i", "u": "ui"}[value.dtype.kind]
            number = f"{float(value):.17e}" if kind == "f" else str(int(value))
            return f"{number} : {kind}{8 * value.dtype.itemsize}"
        case HashableArray(value=array):
            shape = Shape(from_numpy_dtype(array.dtype), array.shape)
            return f"dense<{stablehlo.dense_body(array)}> : {stablehlo.tensor_type(shape)}"
        case np.dtype():
            return stablehlo.NAME_OF_ELEMENT[from_numpy_dtype(value)]
        case int():
            return f"{value} : i64"
        case float():
            return f"{value:.17e} : f64"
        case (tuple(items), kind) if kind is dict:
            return _attributes(items, where)
        case tuple():
            return f"[{', '.join(_attribute(v, where) for v in value)}]"
        case _:
            return fail(
                TypeError,
                f"No attribute of a composite can be made of {where}: {type(value).__name__}.",
                "Attributes are part of the text of programs.",
                "Pass bools, numbers, strings, arrays, or sequences and dictionaries of them as "
                "keyword arguments.",
            )


def _attributes(items: Sequence[tuple[str, Any]], where: str) -> str:
    return "{" + ", ".join(f"{k} = {_attribute(v, f'{where}.{k}')}" for k, v in items) + "}"


def _abstract_eval(*avals: Any, jaxpr: ClosedJaxpr, **_: Any) -> list[Any]:
    return list(jaxpr.out_avals)


def _effects(*avals: Any, jaxpr: ClosedJaxpr, **_: Any) -> Effects:
    return jaxpr.effects


def _jvp(primals: Any, tangents: Any, *, name: str, **_: Any) -> Any:
    fail(
        ValueError,
        f"JVP rule for composite not implemented: {name!r} is differentiated.",
        "A compiler that knows the operation by its name does not know its derivative.",
        "You can use `custom_jvp` or `custom_vjp` to add support: differentiate the decomposition.",
    )


def _batching(
    axis_size: int, args: Sequence[Any], dims: Sequence[Any], *, jaxpr: ClosedJaxpr, **_: Any
) -> tuple[list[Any], list[Any]]:
    moved = [x if d is None else batching.move_bdim(x, d, 0) for x, d in zip(args, dims)]
    new, batched = batching.batch_jaxpr(jaxpr, axis_size, [d is not None for d in dims])
    return list(new.eval(*moved)), [0 if b else None for b in batched]


def _lowering(
    ctx: LoweringContext,
    *operands: Instruction,
    jaxpr: ClosedJaxpr,
    name: str,
    attributes: Any,
    version: int,
) -> list[Instruction]:
    outs = ctx.call(jaxpr, name, *operands)
    call = outs[0].operands[0] if outs else None
    if call is not None:
        call.attributes = CallAttributes(is_composite=True)
        call.annotations = {
            "frontend_attributes": f"{{composite.attributes={_attributes(attributes, name)},"
            f"composite.name={quote(name)},composite.version={quote(str(version))}}}"
        }
    return outs


composite_p: Primitive = define_primitive(
    "composite",
    abstract_eval=_abstract_eval,
    jvp=FullJvp(_jvp),
    transpose=Unsupported("a composite has no derivative, so nothing is transposed"),
    batching=_batching,
    lowering=_lowering,
    effects=_effects,
    multiple_results=True,
)
called_programs[composite_p] = "jaxpr"
lift_rules[composite_p] = lift_leading("jaxpr")
varying_rules[composite_p] = as_program_says("jaxpr")
call_discharge_rules[composite_p] = discharge_inlined("jaxpr")

__all__ = ["composite", "composite_p"]
