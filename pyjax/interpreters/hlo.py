"""Lowering: a jaxpr becomes an HLO module. Each primitive's lowering rule adds instructions.

Arrays of extended dtypes (random keys) are lowered as uint32 arrays with trailing key dimensions
(`interpreters/hlo_keys.py`). Layer: interpreters.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pyjax.core import dtypes
from pyjax.core.avals import (
    AbstractToken,
    MeshArray,
    ShapedArray,
    abstractify,
    physical_aval,
    unsplit,
)
from pyjax.core.call_chains import running_chain
from pyjax.core.effects import Effects, lowerable_effects
from pyjax.core.errors import new_error
from pyjax.core.extended_dtypes import is_extended
from pyjax.core.jaxpr import (
    ClosedJaxpr,
    Jaxpr,
    JaxprEqn,
    Literal,
    Var,
    are_of_other_width,
    as_recorded,
)
from pyjax.core.primitive import Primitive
from pyjax.core.source_info import Frame
from pyjax.core.xla_attributes import Attributes
from pyjax.interpreters.batching import batch_jaxpr
from pyjax.interpreters.manual_mesh import ManualMesh
from pyjax.interpreters.rules import lowering_rules
from pyjax.interpreters.source_locations import SourceLocations
from pyjax.interpreters.splits import is_program
from pyjax.interpreters.staging import trace_to_jaxpr
from xla_backend.hlo.annotation_text import merged_frontend_attributes
from xla_backend.hlo.attributes import CustomCallAttributes
from xla_backend.hlo.builder import HloBuilder
from xla_backend.hlo.instruction import Computation, Instruction, OpMetadata
from xla_backend.hlo.module import HloModule, InputOutputAlias
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.sharding import Sharding
from xla_backend.hlo.types import PrimitiveType, from_numpy_dtype
from xla_backend.process.bounded_cache import BoundedCache, Budget

LoweringRule = Callable[..., "list[Instruction] | Instruction"]

# Primitives that only move data: applied to key arrays, they are lowered on the uint32
# representation through their own batching rule, the trailing key axes being batch axes.
data_movement_primitives: set[Primitive] = set()

_shapes: BoundedCache[Any, Shape] = BoundedCache(Budget("HLO shapes", entries=4096))


def aval_to_shape(aval: Any) -> Shape:
    """The HLO shape that stores an aval."""
    shape = _shapes.hot.get(aval)
    return _shapes.put(aval, _aval_to_shape(aval)) if shape is None else shape


def _aval_to_shape(aval: Any) -> Shape:
    if isinstance(aval, AbstractToken):
        return Shape.token()
    aval = physical_aval(aval)
    if aval.dtype == dtypes.float0:
        # A float0 array holds nothing; predicates of its shape stand for it.
        return Shape.array(PrimitiveType.PRED, aval.shape)
    return Shape.array(from_numpy_dtype(aval.dtype), aval.shape)


def constant_array(value: Any, aval: Any) -> np.ndarray:
    """A concrete value as the NumPy array that stores it."""
    if aval.dtype == dtypes.float0:
        return np.zeros(aval.shape, np.bool_)
    if is_extended(aval.dtype):
        value = value.stored_array if hasattr(value, "stored_array") else value
        return np.asarray(value, aval.dtype.physical_dtype)
    return np.asarray(value).astype(aval.dtype, copy=False)


class Spread(NamedTuple):
    """How the arrays of a program lie over devices that run it together.

    Attributes:
      devices: in the order of their numbers.
      inputs, results: how each lies; of a result None: the compiler chooses.
    """

    devices: Sequence[Any]
    inputs: Sequence[Sharding]
    results: Sequence[Sharding | None]


class ModuleContext:
    """What lowerings of one module share: the cache of computations for jaxprs and reducers, and
    the places that operations come from."""

    def __init__(self, name: str, platform: str = "cpu", devices: Sequence[Any] = ()) -> None:
        """`devices`: those that run the program together, in their order."""
        self.name = name
        self.platform = platform
        self.devices = devices
        self.manual: ManualMesh | None = None  # inside of what says itself what each device does
        self._channels = itertools.count(1)
        self._groups = itertools.count()
        self.computations: dict[Any, Computation] = {}
        self.keep_alive: list[Any] = []  # jaxprs whose ids are keys of `computations`
        self.host_callbacks: list[
            Any
        ] = []  # functions called by the module, kept with the executable
        self.locations = SourceLocations()

    def next_channel(self) -> int:
        """A number that no other collective has."""
        return next(self._channels)

    def next_group(self) -> int:
        """A number for values that are to lie alike."""
        return next(self._groups)

    def by_each_device(self, call: Instruction) -> Instruction:
        """Mark what each device does itself, where the program says that (`shard_map`)."""
        return call if self.manual is None else self.manual.own(call)


class LoweringContext:
    """Handed to lowering rules: the builder, and the avals of the equation being lowered.

    Attributes:
      caller: the place at which the program being lowered is used; None if there are several.
      place: that of the equation being lowered, with its callers.
    """

    __slots__ = (
        "avals_in",
        "avals_out",
        "builder",
        "caller",
        "module",
        "names",
        "place",
        "primitive",
        "source",
        "stamped",
    )

    def __init__(
        self,
        module: ModuleContext,
        builder: HloBuilder,
        names: tuple[str, ...] = (),
        caller: Frame | None = None,
    ) -> None:
        self.module = module
        self.builder = builder
        self.names = names
        self.caller = caller
        self.place = caller
        self.stamped: dict[tuple[Frame | None, Primitive], tuple[Frame | None, OpMetadata]] = {}
        self.avals_in: list[Any] = []
        self.avals_out: list[Any] = []
        self.primitive: Primitive | None = None
        self.source: Frame | None = None

    @property
    def shapes_out(self) -> list[Shape]:
        return [_shapes.hot.get(a) or aval_to_shape(a) for a in self.avals_out]

    @property
    def platform(self) -> str:
        return self.module.platform

    def lower_jaxpr(self, closed: ClosedJaxpr, name: str, tuple_args: bool = False) -> Computation:
        """A computation for a jaxpr; its root is a tuple of the outputs (a single output too).

        With `tuple_args` it takes one tuple (bodies and conditions of while). Where several
        equations use it, its operations name the first one as their caller.
        """
        return self._lower_once(closed, name, tuple_args, self.place)

    def _lower_once(
        self, closed: ClosedJaxpr, name: str, tuple_args: bool, caller: Frame | None
    ) -> Computation:
        key = ("jaxpr", id(closed), tuple_args, self.names, self.module.manual)
        found = self.module.computations.get(key)
        if found is None:
            found = self._lower_jaxpr(closed, name, tuple_args, caller)
            self.module.computations[key] = found
            self.module.keep_alive.append(closed)
        return found

    def _lower_jaxpr(
        self, closed: ClosedJaxpr, name: str, tuple_args: bool, caller: Frame | None
    ) -> Computation:
        builder = HloBuilder(name)
        shapes = [aval_to_shape(a) for a in closed.in_avals]
        if tuple_args:
            packed = builder.parameter(0, Shape.tuple(shapes), "arg_tuple")
            args = [builder.get_tuple_element(packed, i) for i in range(len(shapes))]
        else:
            args = [builder.parameter(i, s) for i, s in enumerate(shapes)]
        outs = lower_into(LoweringContext(self.module, builder, self.names, caller), closed, args)
        return builder.build(builder.tuple(outs))

    def inline_jaxpr(self, closed: ClosedJaxpr, *operands: Instruction) -> list[Instruction]:
        """Add a jaxpr's instructions here."""
        context = LoweringContext(self.module, self.builder, self.names, self.place)
        saved = self.builder.metadata
        outs = lower_into(context, closed, list(operands))
        self.builder.metadata = saved
        return outs

    def call(self, closed: ClosedJaxpr, name: str, *operands: Instruction) -> list[Instruction]:
        """Call a jaxpr's computation; its outputs. Who calls it is known where it is inlined."""
        computation = self._lower_once(closed, name, False, None)
        shape = Shape.tuple([aval_to_shape(a) for a in closed.out_avals])
        result = self.builder.add(Opcode.CALL, operands, called=[computation], shape=shape)
        return [self.builder.get_tuple_element(result, i) for i in range(len(shape.tuple_shapes))]

    def scalar_computation(
        self, key: Any, name: str, make: Callable[[HloBuilder], Instruction]
    ) -> Computation:
        """A small computation built once per module."""
        found = self.module.computations.get(key)
        if found is None:
            builder = HloBuilder(name)
            found = self.module.computations[key] = builder.build(make(builder))
        return found

    def reducer(self, opcode: Opcode, element_type: PrimitiveType) -> Computation:
        """The scalar computation `opcode(a, b)` for reduce, scatter, reduce-window."""
        shape = Shape.array(element_type)

        def make(builder: HloBuilder) -> Instruction:
            lhs, rhs = builder.parameter(0, shape, "lhs"), builder.parameter(1, shape, "rhs")
            return builder.add(opcode, (lhs, rhs), shape=shape)

        key = ("reducer", opcode, element_type)
        return self.scalar_computation(key, f"region_{opcode.value}_{element_type.value}", make)

    def computation_of(
        self, fun: Callable[..., Any], *avals: Any, name: str = "region"
    ) -> Computation:
        """A computation for a function written in lax; one output is the root itself, more a
        tuple."""
        closed, _ = trace_to_jaxpr(lambda *xs: _as_list(fun(*xs)), avals)
        return self.region(closed, name)

    def region(self, closed: ClosedJaxpr, name: str = "region") -> Computation:
        """A computation for a jaxpr; one output is the root itself (reducers, comparators)."""
        key = ("region", id(closed))
        found = self.module.computations.get(key)
        if found is None:
            builder = HloBuilder(name)
            args = [builder.parameter(i, aval_to_shape(a)) for i, a in enumerate(closed.in_avals)]
            context = LoweringContext(self.module, builder, self.names, self.place)
            outs = lower_into(context, closed, args)
            root = outs[0] if len(outs) == 1 else builder.tuple(outs)
            found = self.module.computations[key] = builder.build(root)
            self.module.keep_alive.append(closed)
        return found


def _as_list(x: Any) -> list[Any]:
    return list(x) if isinstance(x, (tuple, list)) else [x]


def lower_into(
    context: LoweringContext, closed: ClosedJaxpr, args: Sequence[Instruction]
) -> list[Instruction]:
    """Add the instructions of a jaxpr to the context's builder."""
    jaxpr = closed.jaxpr
    builder = context.builder
    env: dict[Var, Instruction] = dict(zip(jaxpr.invars, args))
    literals: dict[Any, Instruction] = {}
    for v, value in zip(jaxpr.constvars, closed.consts):
        env[v] = builder.constant(constant_array(value, v.aval))

    def constant(atom: Literal) -> Instruction:
        array = constant_array(atom.val, atom.aval)
        key = (array.dtype, array.shape, array.tobytes())
        node = literals.get(key)
        if node is None:
            node = literals[key] = builder.constant(array)
        return node

    for eqn in jaxpr.eqns:
        operands = [env[a] if type(a) is not Literal else constant(a) for a in eqn.invars]
        outs = lower_eqn(context, eqn, operands)
        for v, out in zip(eqn.outvars, outs):
            env[v] = out
    return [env[a] if type(a) is not Literal else constant(a) for a in jaxpr.outvars]


def lower_eqn(
    context: LoweringContext, eqn: JaxprEqn, operands: list[Instruction]
) -> list[Instruction]:
    """Apply the lowering rule of one equation."""
    primitive = eqn.primitive
    context.avals_in = [a.aval for a in eqn.invars]
    context.avals_out = [v.aval for v in eqn.outvars]
    summands = False
    typed = MeshArray in map(type, context.avals_in) or MeshArray in map(type, context.avals_out)
    if typed and not is_program(primitive):
        # What rules trace here is for the compiler, which decides how it is split.
        context.avals_in = [unsplit(a) for a in context.avals_in]
        summands = has_summands(eqn)
    context.primitive = primitive
    context.source = eqn.source
    stamp = context.stamped.get((eqn.source, primitive)) or _stamp(context, eqn)
    context.place, context.builder.metadata = stamp
    if primitive in data_movement_primitives and any(
        is_extended(getattr(a, "dtype", None)) for a in context.avals_in
    ):
        return _lower_on_physical(context, eqn, operands)
    if summands:
        return summand_lowerings.get(primitive, lower_each_summand)(context, eqn, operands)
    rule = lowering_rules[primitive]
    if are_of_other_width(eqn.invars):
        outs = as_recorded(eqn.invars, rule, context, *operands, **eqn.params)
    else:
        outs = rule(context, *operands, **eqn.params)
    results = outs if isinstance(outs, list) else [outs]
    if eqn.source is not None and eqn.source.attributes:
        for result in results:
            attach_attributes(result, eqn.source.attributes)
    return results


def has_summands(eqn: JaxprEqn) -> bool:
    """Whether an operand or a result is a sum over mesh axes that is still to be made."""
    splits = [a.aval.split for a in (*eqn.invars, *eqn.outvars)]
    return any(split is not None and split.summed_axes for split in splits)


# How equations on such sums are lowered: `rule(context, equation, operands)`. Others are linear in
# the operands that are sums, so that each summand is computed by itself.
summand_lowerings: dict[
    Primitive, Callable[[LoweringContext, JaxprEqn, list[Instruction]], list[Instruction]]
] = {}


def lower_each_summand(
    context: LoweringContext, eqn: JaxprEqn, operands: list[Instruction]
) -> list[Instruction]:
    """The primitive, batched over the leading dimensions along which summands lie."""
    is_sum = [a.aval.split is not None and bool(a.aval.split.summed_axes) for a in eqn.invars]
    split = eqn.invars[is_sum.index(True)].aval.split
    params = dict(eqn.params)
    for name in params.keys() & {"sharding", "out_sharding"}:
        params[name] = None
    logical = [unsplit(a.aval) for a in eqn.invars]
    closed, _ = trace_to_jaxpr(lambda *xs: eqn.primitive.bind_all(*xs, **params), logical)
    for name in reversed(split.summed_axes):
        closed, _ = batch_jaxpr(closed, split.mesh.shape[name], is_sum, True)
    return context.inline_jaxpr(closed, *operands)


def attach_attributes(result: Instruction, attributes: Attributes) -> None:
    """Write attributes of an operation to the instruction that computes a result of it; those that
    it has already keep their values. Inputs of a computation belong to no operation."""
    while result.opcode is Opcode.GET_TUPLE_ELEMENT:
        (result,) = result.operands
    if result.opcode is Opcode.PARAMETER:
        return
    annotations = dict(result.annotations or {})
    text = annotations.get("frontend_attributes", "")
    annotations["frontend_attributes"] = merged_frontend_attributes(text, attributes)
    result.annotations = annotations


def _stamp(context: LoweringContext, eqn: JaxprEqn) -> tuple[Frame | None, OpMetadata]:
    """The place of an equation, with its callers, and the metadata of its instructions."""
    source, primitive = eqn.source, eqn.primitive
    locations = context.module.locations
    place = locations.under(source, context.caller)
    names = (context.module.name, *context.names, *(() if source is None else source.names))
    op_name = "/".join((*names, primitive.name))
    found = place, locations.metadata(place, primitive.name, op_name)
    context.stamped[source, primitive] = found
    return found


def _lower_on_physical(
    context: LoweringContext, eqn: JaxprEqn, operands: list[Instruction]
) -> list[Instruction]:
    """Lower data movement of key arrays: the same primitive, batched over the trailing key axes."""
    key_dtype = next(a.aval.dtype for a in eqn.invars if is_extended(a.aval.dtype))
    key_shape = key_dtype.key_shape

    def strip(aval: Any) -> Any:
        return aval.update(dtype=key_dtype.physical_dtype) if is_extended(aval.dtype) else aval

    is_key = [is_extended(a.aval.dtype) for a in eqn.invars]
    logical = [strip(a.aval) for a in eqn.invars]
    closed, _ = trace_to_jaxpr(lambda *xs: eqn.primitive.bind_all(*xs, **eqn.params), logical)
    for size in reversed(key_shape):
        closed, _ = batch_jaxpr(closed, size, is_key, True)
    n = len(key_shape)
    builder = context.builder
    moved = [_rotate(builder, x, n) if k else x for x, k in zip(operands, is_key)]
    outs = context.inline_jaxpr(closed, *moved)
    return [_rotate(builder, out, out.shape.rank - n) for out in outs]


def _rotate(builder: HloBuilder, x: Instruction, n: int) -> Instruction:
    """The last `n` dimensions to the front."""
    rank = x.shape.rank
    return builder.transpose(x, [*range(rank - n, rank), *range(rank - n)])


# -- rules from functions -------------------------------------------------------------------------


def lower_fun(fun: Callable[..., Any], multiple_results: bool = True) -> LoweringRule:
    """A lowering rule from a function written in lax operations: `fun(*args, **params)`.

    It returns one array or a sequence of arrays; `multiple_results=False` says that one array is
    the result, of a type that Python would take for a sequence.
    """
    as_list: Callable[[Any], list[Any]] = _as_list if multiple_results else lambda x: [x]

    def rule(ctx: LoweringContext, *operands: Instruction, **params: Any) -> list[Instruction]:
        closed, _ = trace_to_jaxpr(lambda *xs: as_list(fun(*xs, **params)), ctx.avals_in)
        return ctx.inline_jaxpr(closed, *operands)

    rule.__module__ = getattr(fun, "__module__", "")  # whose rule it is: `program_digest` asks
    return rule


# -- modules --------------------------------------------------------------------------------------


def lower_jaxpr_to_module(
    closed: ClosedJaxpr,
    name: str,
    *,
    donated: Sequence[bool] = (),
    kept_inputs: Sequence[bool] | None = None,
    platform: str = "cpu",
    arg_names: Sequence[str] = (),
    spread: Spread | None = None,
    caller: Frame | None = None,
) -> HloModule:
    """Lower a program.

    Args:
      closed: constants become literals of the module.
      name: module name.
      donated: per input, whether its buffer may be reused for an output of the same type.
      kept_inputs: per input; the others get no parameter (they must be unused).
      arg_names: names of the inputs, for parameters and messages.
      spread: of a program that several devices run together.
      caller: the place at which it is used; None: here.
    Returns:
      A module whose parameters are the (kept) flat inputs; the root is the output, or a tuple if
      there is not exactly one.
    """
    jaxpr = closed.jaxpr
    check_lowerable(jaxpr.effects)
    devices = () if spread is None else spread.devices
    module_context = ModuleContext(f"jit({name})", platform, devices)
    builder = HloBuilder("main")
    keep = list(kept_inputs) if kept_inputs is not None else [True] * len(jaxpr.invars)
    args: list[Any] = []
    number = 0
    for i, (v, kept) in enumerate(zip(jaxpr.invars, keep)):
        if not kept:
            args.append(None)
            continue
        if i < len(arg_names):
            builder.metadata = OpMetadata(op_name=arg_names[i])
        parameter = builder.parameter(number, aval_to_shape(v.aval))
        if spread is not None:
            parameter.annotations = {"sharding": str(spread.inputs[i])}
        args.append(parameter)
        number += 1
    caller = caller or running_chain()
    outs = lower_into(LoweringContext(module_context, builder, (), caller), closed, args)
    builder.metadata = OpMetadata()
    if spread is not None:
        wanted = zip(outs, spread.results)
        outs = [x if s is None else constrained(builder, x, s) for x, s in wanted]
    root = outs[0] if len(outs) == 1 else builder.tuple(outs)
    module = HloModule(module_name(name), source_tables=module_context.locations.tables())
    module.add_computation(builder.build(root), entry=True)
    module.num_partitions = len(devices) or 1
    if donated:
        kept_donated = [d for d, k in zip(donated, keep) if k]
        kept_avals = [v.aval for v, k in zip(jaxpr.invars, keep) if k]
        module.aliases = _match_donations(kept_donated, kept_avals, [v.aval for v in jaxpr.outvars])
    if module_context.host_callbacks:
        module.attributes["host_callbacks"] = tuple(module_context.host_callbacks)
    return module


def constrained(builder: HloBuilder, x: Instruction, sharding: Sharding) -> Instruction:
    """A value that the compiler is to lay out so."""
    call = builder.add(Opcode.CUSTOM_CALL, (x,), CustomCallAttributes("Sharding"), shape=x.shape)
    call.annotations = {"sharding": str(sharding)}
    return call


def check_lowerable(effects: Effects) -> None:
    """Programs have effects of known types only.

    Raises:
      ValueError: there is another one.
    """
    unknown = lowerable_effects.filter_not_in(effects)
    if unknown:
        raise new_error(
            ValueError,
            f"Cannot lower jaxpr with effects: {unknown}.",
            "nothing says that programs may have effects of this type",
            "Write mlir.lowerable_effects.add_type(type_of_effect) (pyjax.interpreters.mlir).",
        )


def module_name(name: str) -> str:
    """The name of the module of a function with this name."""
    return _identifier(f"jit_{name}")


def _identifier(name: str) -> str:
    return "".join(c if c.isalnum() or c in "_.-" else "_" for c in name).rstrip("_")


def unusable_donations(
    donated: Sequence[bool], in_avals: Sequence[Any], out_avals: Sequence[Any]
) -> list[Any]:
    """Avals of donated inputs that no output can take the memory of: none is left of their type."""
    used = {alias.parameter for alias in _match_donations(donated, in_avals, out_avals)}
    return [a for i, (d, a) in enumerate(zip(donated, in_avals)) if d and i not in used]


def _match_donations(
    donated: Sequence[bool], in_avals: Sequence[Any], out_avals: Sequence[Any]
) -> tuple[InputOutputAlias, ...]:
    """Pair donated inputs with outputs of the same type, first come first served."""
    free: dict[Shape, list[int]] = {}
    for i, aval in enumerate(out_avals):
        if not isinstance(aval, AbstractToken):
            free.setdefault(aval_to_shape(aval), []).append(i)
    aliases = []
    for number, (give, aval) in enumerate(zip(donated, in_avals)):
        slots = free.get(aval_to_shape(aval)) if give else None
        if slots:
            index = slots.pop(0)
            output_index = () if len(out_avals) == 1 else (index,)
            aliases.append(InputOutputAlias(output_index, number))
    return tuple(aliases)


def primitive_module(
    primitive: Primitive,
    avals: Sequence[ShapedArray],
    params: dict[str, Any],
    platform: str = "cpu",
) -> tuple[HloModule, list[Any]]:
    """The module of one primitive (eager execution) and its output avals."""
    closed, out_avals = trace_to_jaxpr(lambda *xs: primitive.bind_all(*xs, **params), avals)
    return lower_jaxpr_to_module(closed, primitive.name, platform=platform), out_avals


def value_to_constant(builder: HloBuilder, value: Any) -> Instruction:
    """A concrete array or scalar as a constant instruction."""
    return builder.constant(constant_array(value, abstractify(value)))


__all__ = [
    "Jaxpr",
    "LoweringContext",
    "ModuleContext",
    "aval_to_shape",
    "constant_array",
    "data_movement_primitives",
    "lower_eqn",
    "lower_fun",
    "lower_into",
    "lower_jaxpr_to_module",
    "primitive_module",
    "value_to_constant",
]
