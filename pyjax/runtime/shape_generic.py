"""Programs without compiling for each shape.

An eager operation on a shape that was not seen before would wait for the compiler. A jaxpr whose
arrays are all scalars or of one shape, and whose equations are elementwise, is instead compiled
once for vectors of any length; each shape then only binds its number of elements. A single
primitive is not even traced for each shape. Programs that broadcast and reduce are compiled once
for axes of any sizes (`shape_axes`). Below dispatch: deals in avals and executables, not in arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from pyjax._config.registry import trace_context
from pyjax.core.avals import ShapedArray
from pyjax.core.compile_log import compiling
from pyjax.core.dtypes import canonicalize_dtype
from pyjax.core.exact_keys import exact_key
from pyjax.core.extended_dtypes import is_extended
from pyjax.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, bind_eqn, eval_jaxpr
from pyjax.core.primitive import Primitive
from pyjax.core.source_info import Frame
from pyjax.core.structural import broadcast_in_dim_p
from pyjax.interpreters import hlo
from pyjax.interpreters.partial_eval import trace_to_jaxpr
from pyjax.interpreters.rules import elementwise_primitives
from pyjax.runtime.module_sources import module_source, tell_of_lowering
from pyjax.runtime.shape_axes import STAND_INS, axes_of
from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.module_source import ModuleSource
from xla_backend.process.bounded_cache import BoundedCache, Budget
from xla_backend.runtime.client import AbstractClient, LoadedExecutable, NotAtHand

# Stands for any length while tracing; large enough that nothing treats it as special.
_ANY_LENGTH = 4096
_LARGEST = 1 << 16  # more elements are worth a program with threads
_EQUATIONS = 24  # longer programs come from users' jits, which are compiled for their shapes

_LARGEST_OF_AXES = 1 << 20
# Calls after which a program is compiled for its shapes: code that knows them is faster, most of
# all where rows are short, and takes several threads where arrays are large.
_CALLS = 100
_CALLS_OF_LARGE = 5
# It gains nothing where there is little to do, and vectors are filled.
_TINY = 1 << 8
_SMALL = 1 << 11
_LONG_ROW = 16

M = TypeVar("M")
T = TypeVar("T")
Maker = Callable[[int], LoadedExecutable | None]
_makers: BoundedCache[Any, Maker | None] = BoundedCache(
    Budget("programs of any length", entries=512)
)
AxesMaker = Callable[..., LoadedExecutable | None]  # sizes, and whether it is to be at hand
_makers_for_axes: BoundedCache[Any, AxesMaker | None] = BoundedCache(
    Budget("programs for axes of any size", entries=512)
)
# Programs that somebody has asked for, for any sizes.
_met: BoundedCache[Any, bool] = BoundedCache(Budget("programs met once", entries=2048))


class Generic(NamedTuple):
    """A program that was not compiled for its shapes.

    Fields:
      scalars: what it takes behind the inputs.
      calls: after how many it is better compiled for its shapes; 0: never.
    """

    executable: LoadedExecutable
    scalars: Sequence[np.ndarray] = ()
    calls: int = 0


def find(
    closed: ClosedJaxpr,
    name: str,
    client: AbstractClient,
    options: CompileOptions,
    *,
    own: Callable[[], T | None] | None = None,
) -> Generic | T | None:
    """A shape-generic program, or None for other kinds of jaxprs. `own`: a program that was not met
    before, whatever its sizes were, is not compiled; what this finds is better, and so is asked for
    before the disk is looked at for one for any sizes."""
    try:
        return _find(closed, name, client, options, own)
    except NotAtHand:
        return None


def _find(
    closed: ClosedJaxpr,
    name: str,
    client: AbstractClient,
    options: CompileOptions,
    own: Callable[[], T | None] | None,
) -> Generic | T | None:
    if closed.consts or not 0 < len(closed.jaxpr.eqns) <= _EQUATIONS or closed.jaxpr.effects:
        return None
    shape = _common_shape((*closed.in_avals, *closed.out_avals))
    structure = None if shape is None else _structure(closed.jaxpr, shape)
    if structure is None or shape is None:
        return _find_for_axes(closed, name, client, options, own)
    key = (structure, client, options)
    at_hand, found = _first_met(key, own)
    if found is not None:
        return found
    maker = _makers.make(key, lambda: _compile(closed, structure, name, client, options, at_hand))
    executable = None if maker is None else maker(_size(shape))
    return None if executable is None else Generic(executable)


def _first_met(key: Any, own: Callable[[], T | None] | None) -> tuple[bool, T | None]:
    """Whether a program is met for the first time, where that makes a difference, and what `own`
    finds then."""
    if own is None or _met.find(key):
        return False, None
    _met.put(key, True)
    return True, own()


def _find_for_axes(
    closed: ClosedJaxpr,
    name: str,
    client: AbstractClient,
    options: CompileOptions,
    own: Callable[[], T | None] | None,
) -> Generic | T | None:
    if options.fast_math:  # what numbers are known decides what is computed
        return None
    avals = (*closed.in_avals, *closed.out_avals)
    largest = max([_size(a.shape) for a in avals if isinstance(a, ShapedArray)], default=0)
    if largest > _LARGEST_OF_AXES:
        return None
    if not all(map(_is_canonical, closed.jaxpr.eqns)):
        return None  # wide numbers of a block that has ended, in which it was traced
    axes = axes_of(closed)
    if axes is None or not 0 < len(axes.sizes) <= len(STAND_INS):
        return None
    stand_ins = STAND_INS[: len(axes.sizes)]

    def lower(caller: Frame | None) -> HloModule:
        generic, _ = trace_to_jaxpr(lambda *xs: axes.bind(xs, stand_ins), axes.avals(stand_ins))
        return hlo.lower_jaxpr_to_module(generic, name, caller=caller)

    # Options decide how random bits are made.
    key = (axes.structure, client, options, trace_context())
    at_hand, found = _first_met(key, own)
    if found is not None:
        return found

    def compile_it() -> AxesMaker | None:
        source = module_source(name, lower, "axes", axes.structure, client.platform)
        find = lambda: client.compile_size_classes(source, stand_ins, options, at_hand=at_hand)
        return _compiled(source, client, find, at_hand)

    maker = _makers_for_axes.make(key, compile_it)
    executable = None if maker is None else maker(axes.sizes, at_hand)
    if executable is None:
        return None
    return Generic(executable, axes.scalars, _calls(executable, largest, axes.sizes[-1]))


def _is_canonical(eqn: JaxprEqn) -> bool:
    """Whether its results have dtypes that are made here and now."""
    types = [v.aval.dtype for v in eqn.outvars if isinstance(v.aval, ShapedArray)]
    return all(not isinstance(t, np.dtype) or canonicalize_dtype(t) == t for t in types)


def _calls(executable: LoadedExecutable, largest: int, row: int) -> int:
    """After how many calls a program is compiled for its shapes. `row`: its last axis."""
    direct = executable.direct
    is_native = direct is not None and direct.entry is not None  # to those who call it
    if is_native and (largest <= _TINY or (largest <= _SMALL and row >= _LONG_ROW)):
        return 0
    return _CALLS if largest <= _LARGEST else _CALLS_OF_LARGE


def find_primitive(
    primitive: Primitive,
    avals: Sequence[Any],
    params: Mapping[str, Any],
    client: AbstractClient,
    options: CompileOptions,
) -> tuple[LoadedExecutable, list[Any]] | None:
    """The same for a single primitive, which `find` would know by the same structure: an
    executable and the avals of its results.
    """
    if primitive not in elementwise_primitives:
        return None
    out_avals = primitive.abstract_eval(*avals, **params)
    shape = _common_shape((*avals, *out_avals))
    if shape is None:
        return None
    numbers = tuple(range(len(avals) + len(out_avals)))
    operands, results = numbers[: len(avals)], numbers[len(avals) :]
    kinds, out_kinds = (tuple([_kind(a, shape) for a in group]) for group in (avals, out_avals))
    equation = (primitive, exact_key(tuple(params.items())), operands, out_kinds)
    structure = (kinds, equation, results)
    key = (structure, client, options)

    def compile_it() -> Maker | None:
        closed, _ = trace_to_jaxpr(lambda *xs: primitive.bind_all(*xs, **params), avals)
        return _compile(closed, structure, primitive.name, client, options)

    maker = _makers.make(key, compile_it)
    executable = None if maker is None else maker(_size(shape))
    return None if executable is None else (executable, out_avals)


def _size(shape: tuple[int, ...]) -> int:
    total = 1
    for n in shape:
        total *= n
    return total


def _common_shape(avals: Iterable[Any]) -> tuple[int, ...] | None:
    """The one shape of all arrays that are no scalars; None if there are several, or none."""
    shape: tuple[int, ...] = ()
    for aval in avals:
        if not isinstance(aval, ShapedArray) or is_extended(aval.dtype):
            return None
        if aval.shape:
            if shape and aval.shape != shape:
                return None
            shape = aval.shape
    return shape if shape and 0 < _size(shape) <= _LARGEST else None


def _structure(jaxpr: Jaxpr, shape: tuple[int, ...]) -> Any:
    """What the program does, without its shape: equal for programs that differ in that only."""
    numbers: dict[Any, int] = {v: i for i, v in enumerate(jaxpr.invars)}

    def operand(atom: Any) -> Any:
        if type(atom) is Literal:
            return (exact_key(atom.val), atom.aval) if not atom.aval.shape else None
        return numbers[atom]

    parts: list[Any] = [tuple(_kind(v.aval, shape) for v in jaxpr.invars)]
    for eqn in jaxpr.eqns:
        params = _parameters(eqn, shape)
        kinds = tuple(_kind(v.aval, shape) for v in eqn.outvars)
        operands = tuple(operand(a) for a in eqn.invars)
        if params is None or None in kinds or None in operands:
            return None
        for v in eqn.outvars:
            numbers[v] = len(numbers)
        parts.append((eqn.primitive, params, operands, kinds))
    parts.append(tuple(operand(a) for a in jaxpr.outvars))
    return tuple(parts) if None not in parts[0] else None


def _kind(aval: Any, shape: tuple[int, ...]) -> Any:
    """An operand or result as a structure knows it; None for what has no place in one."""
    if not isinstance(aval, ShapedArray) or is_extended(aval.dtype):
        return None
    if aval.shape and aval.shape != shape:
        return None
    return (bool(aval.shape), aval.dtype, aval.weak_type)


def _parameters(eqn: JaxprEqn, shape: tuple[int, ...]) -> Any:
    """Parameters of an equation, for its structure; None if it is not elementwise."""
    if eqn.primitive.name == "jit":
        inner = eqn.params["jaxpr"]
        return None if inner.consts else _structure(inner.jaxpr, shape)
    if eqn.primitive is broadcast_in_dim_p:
        spreads = not eqn.invars[0].aval.shape and eqn.params["shape"] == shape
        return () if spreads else None
    if eqn.primitive in elementwise_primitives:
        return exact_key(tuple(eqn.params.items()))
    return None


def _compile(
    closed: ClosedJaxpr,
    structure: Any,
    name: str,
    client: AbstractClient,
    options: CompileOptions,
    at_hand: bool = False,
) -> Maker | None:
    def lower(caller: Frame | None) -> HloModule:
        avals = [a.update(shape=(_ANY_LENGTH,)) if a.shape else a for a in closed.in_avals]
        generic, _ = trace_to_jaxpr(lambda *xs: _replay(closed.jaxpr, *xs), avals)
        return hlo.lower_jaxpr_to_module(generic, name, caller=caller)

    source = module_source(name, lower, "elementwise", structure, client.platform)
    find = lambda: client.compile_elementwise(source, options, at_hand=at_hand)
    return _compiled(source, client, find, at_hand)


def _compiled(
    source: ModuleSource, client: AbstractClient, find: Callable[[], M], at_hand: bool
) -> M:
    """What is compiled of a source, or found; listeners are told of both stages."""
    if at_hand:
        found = find()  # or they hear nothing
        find = lambda: found
    with compiling(source.name, client):
        maker = find()
        tell_of_lowering(source)
        return maker


def _replay(jaxpr: Jaxpr, *args: Any) -> list[Any]:
    """Bind the equations again on vectors of the stand-in length, calls inlined."""
    return eval_jaxpr(jaxpr, (), *args, apply=_bind_for_any_length)


def _bind_for_any_length(eqn: JaxprEqn, values: Sequence[Any]) -> list[Any]:
    if eqn.primitive.name == "jit":
        return _replay(eqn.params["jaxpr"].jaxpr, *values)
    if eqn.primitive is broadcast_in_dim_p:
        return eqn.primitive.bind_all(*values, **{**eqn.params, "shape": (_ANY_LENGTH,)})
    return bind_eqn(eqn, values)
