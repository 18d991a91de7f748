"""Calls, control flow, tuples, tokens and transfers to HLO.

HLO's loops and branches see nothing but their operands: values from outside that a region uses
travel along with what it carries.
"""

from __future__ import annotations

from collections.abc import Sequence

from xla_backend.hlo.attributes import (
    CallAttributes,
    ConditionalAttributes,
    CustomCallAttributes,
    GetTupleElementAttributes,
    OutfeedAttributes,
    RawAttributes,
    TransferAttributes,
)
from xla_backend.hlo.check_calls import CHECK_CALLS
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.text_position import quote
from xla_backend.hlo.types import PrimitiveType
from xla_backend.stablehlo.attribute_text import attribute_text, dictionary_text
from xla_backend.stablehlo.attributes import SymbolAttribute
from xla_backend.stablehlo.ir import Operation, Region, Value
from xla_backend.stablehlo.lowering import (
    Rule,
    Scope,
    captured_values,
    flag,
    integer,
    invalid,
    unsupported,
)
from xla_backend.stablehlo.rules_checks import check_call
from xla_backend.stablehlo.struct_attributes import struct_fields

# -- calls -----------------------------------------------------------------------------------------


def _call_function(
    scope: Scope, op: Operation, name: str, attributes: CallAttributes
) -> list[Instruction]:
    operands = scope.operands(op)
    callee = scope.program.function(name, [o.shape for o in operands], op)
    call = scope.builder.add(Opcode.CALL, operands, attributes, [callee])
    return [call] if len(op.results) == 1 else scope.members(call)


def _call(scope: Scope, op: Operation) -> list[Instruction]:
    return _call_function(scope, op, op.attributes["callee"].name, CallAttributes())


def _composite(scope: Scope, op: Operation) -> list[Instruction]:
    """A call of the decomposition that keeps the composite's name and attributes."""
    target = op.attributes.get("decomposition")
    if not isinstance(target, SymbolAttribute):
        raise unsupported(op, "a composite needs a decomposition = @function")
    results = _call_function(scope, op, target.name, CallAttributes(is_composite=True))
    call = results[0] if len(op.results) == 1 else results[0].operands[0] if results else None
    if call is not None:
        attributes = dictionary_text(op.attributes.get("composite_attributes", {}))
        version = integer(op, "version", 0)
        call.annotations = {
            "frontend_attributes": (
                f"{{composite.attributes={attributes},composite.name="
                f'{quote(op.attributes["name"])},composite.version="{version}"}}'
            )
        }
    return results


# -- while -----------------------------------------------------------------------------------------


def _bind_region(
    scope: Scope, name: str, region: Region, carried: Sequence[Shape], captured: Sequence[Value]
) -> tuple[Scope, list[Instruction]]:
    """A scope whose one parameter is the tuple of the region's arguments and captured values; the
    instructions of the captured ones inside."""
    inner = Scope(scope.program, name)
    shapes = [*carried, *(scope.value(v).shape for v in captured)]
    packed = inner.builder.parameter(0, Shape.tuple(shapes), "arg_tuple")
    parts = inner.members(packed)
    arguments = region.block.arguments
    inner.values.update(zip(arguments, parts))
    inner.values.update(zip(captured, parts[len(arguments) :]))
    return inner, parts[len(arguments) :]


def _while(scope: Scope, op: Operation) -> list[Instruction]:
    condition, body = op.regions
    captured = captured_values(op.regions)
    operands = scope.operands(op)
    carried = [o.shape for o in operands]
    inner, _ = _bind_region(scope, "condition", condition, carried, captured)
    test = inner.builder.build(inner.block(condition.block)[0])
    inner, kept = _bind_region(scope, "body", body, carried, captured)
    results = inner.block(body.block)
    for before, after in zip(carried, results):
        if not before.compatible(after.shape):
            raise invalid(op, f"the body turns {before} into {after.shape}")
    step = inner.builder.build(inner.builder.tuple([*results, *kept]))
    state = scope.builder.tuple([*operands, *(scope.value(v) for v in captured)])
    loop = scope.builder.add(Opcode.WHILE, [state], called=[test, step], shape=state.shape)
    return [scope.builder.get_tuple_element(loop, i) for i in range(len(op.results))]


# -- if, case --------------------------------------------------------------------------------------


def _branch(scope: Scope, region: Region) -> tuple[Computation, Instruction]:
    """A branch as a computation of the values it uses, and the operand to pass."""
    captured = captured_values([region])
    values = [scope.value(v) for v in captured]
    if len(values) != 1:
        inner, _ = _bind_region(scope, "branch", region, (), captured)
        operand = scope.builder.tuple(values)
    else:
        inner = Scope(scope.program, "branch")
        inner.values[captured[0]] = inner.builder.parameter(0, values[0].shape)
        operand = values[0]
    results = inner.block(region.block)
    return inner.builder.build(inner.pack(results)), operand


def _conditional(is_indexed: bool) -> Rule:
    def rule(scope: Scope, op: Operation) -> list[Instruction]:
        branches = [_branch(scope, region) for region in op.regions]
        selector = scope.value(op.operands[0])
        operands = [selector, *(operand for _, operand in branches)]
        called = [computation for computation, _ in branches]
        result = scope.builder.add(
            Opcode.CONDITIONAL, operands, ConditionalAttributes(is_indexed), called
        )
        return [result] if len(op.results) == 1 else scope.members(result)

    return rule


# -- tuples, barriers, tokens ----------------------------------------------------------------------


def _tuple(scope: Scope, op: Operation) -> Instruction:
    return scope.builder.tuple(scope.operands(op))


def _get_tuple_element(scope: Scope, op: Operation) -> Instruction:
    attributes = GetTupleElementAttributes(integer(op, "index"))
    return scope.add(op, Opcode.GET_TUPLE_ELEMENT, scope.operands(op), attributes)


def _optimization_barrier(scope: Scope, op: Operation) -> list[Instruction]:
    operands = scope.operands(op)
    barrier = scope.builder.add(Opcode.OPT_BARRIER, [scope.pack(operands)])
    return [barrier] if len(operands) == 1 else scope.members(barrier)


def _after_all(scope: Scope, op: Operation) -> Instruction:
    return scope.add(op, Opcode.AFTER_ALL, scope.operands(op))


# -- custom calls ----------------------------------------------------------------------------------

_U32 = Shape(PrimitiveType.U32)
_TYPED_FFI = "API_VERSION_TYPED_FFI"
_API_VERSIONS = {
    2: "API_VERSION_STATUS_RETURNING",
    3: "API_VERSION_STATUS_RETURNING_UNIFIED",
    4: _TYPED_FFI,
}


def _with_layouts(shapes: Sequence[Shape], op: Operation, name: str) -> list[Shape] | None:
    """Shapes with the layouts of `operand_layouts` or `result_layouts`; None if absent."""
    layouts = op.attributes.get(name)
    if layouts is None:
        return None
    result = []
    for shape, layout in zip(shapes, layouts):
        order = tuple(int(d) for d in layout.array.reshape(-1))
        default = tuple(range(shape.rank - 1, -1, -1))
        plain = not shape.is_array or order == default
        result.append(shape if plain else Shape(shape.element_type, shape.dimensions, order))
    return result


def _aliasing(op: Operation) -> tuple[tuple[tuple[int, ...], int, tuple[int, ...]], ...]:
    entries = []
    for alias in op.attributes.get("output_operand_aliases", ()):
        fields = struct_fields(alias)
        entries.append(
            (
                fields.get("output_tuple_indices", ()),
                fields.get("operand_index", 0),
                fields.get("operand_tuple_indices", ()),
            )
        )
    return tuple(entries)


def _backend_config(op: Operation) -> str:
    for name in ("mhlo.backend_config", "backend_config"):
        config = op.attributes.get(name)
        if isinstance(config, dict):
            parts = [f"{k} = {attribute_text(config[k])}" for k in sorted(config)]
            return "{" + ", ".join(parts) + "}"
        if isinstance(config, str) and config:
            return config
    return ""


def _custom_call(scope: Scope, op: Operation) -> list[Instruction]:
    if op.attributes["call_target_name"] in CHECK_CALLS and not op.results:
        return check_call(scope, op, op.attributes["call_target_name"])
    operands = scope.operands(op)
    shapes = [scope.program.shape(t) for t in op.result_types]
    results = _with_layouts(shapes, op, "result_layouts") or shapes
    layouts = _with_layouts([o.shape for o in operands], op, "operand_layouts")
    has_dictionary = any(
        isinstance(op.attributes.get(n), dict) for n in ("mhlo.backend_config", "backend_config")
    )
    version = integer(op, "api_version", 4 if has_dictionary else 1)
    called = [
        scope.program.function(symbol.name, None, op)
        for symbol in op.attributes.get("called_computations", ())
    ]
    attributes = CustomCallAttributes(
        op.attributes["call_target_name"],
        _backend_config(op),
        flag(op, "has_side_effect"),
        tuple(layouts) if layouts is not None else None,
        _aliasing(op),
        _TYPED_FFI if has_dictionary else _API_VERSIONS.get(version),
    )
    shape = results[0] if len(results) == 1 else Shape.tuple(results)
    call = scope.builder.add(Opcode.CUSTOM_CALL, operands, attributes, called, shape)
    if len(results) == 1:
        return [call]
    return scope.members(call)


# -- transfers -------------------------------------------------------------------------------------


def _infeed(scope: Scope, op: Operation) -> list[Instruction]:
    shapes = [scope.program.shape(t) for t in op.result_types[:-1]]
    data = Shape.tuple(shapes)
    config = op.attributes.get("infeed_config", "")
    attributes = RawAttributes((("infeed_config", quote(config)),) if config else ())
    result = scope.builder.add(
        Opcode.INFEED,
        scope.operands(op),
        attributes,
        shape=Shape.tuple([data, Shape.token()]),
    )
    received, token = scope.members(result)
    return [*scope.members(received), token]


def _outfeed(scope: Scope, op: Operation) -> Instruction:
    *values, token = scope.operands(op)
    packed = scope.builder.tuple(values)
    attributes = OutfeedAttributes(packed.shape, op.attributes.get("outfeed_config") or None)
    return scope.add(op, Opcode.OUTFEED, [packed, token], attributes)


def _transfer_attributes(op: Operation) -> TransferAttributes:
    handle = op.attributes.get("channel_handle")
    channel = struct_fields(handle).get("handle") if handle is not None else None
    return TransferAttributes(channel, flag(op, "is_host_transfer"))


def _send(scope: Scope, op: Operation) -> Instruction:
    *values, token = scope.operands(op)
    attributes = _transfer_attributes(op)
    started = scope.builder.add(Opcode.SEND, [scope.pack(values), token], attributes)
    return scope.add(op, Opcode.SEND_DONE, [started], attributes)


def _recv(scope: Scope, op: Operation) -> list[Instruction]:
    shapes = [scope.program.shape(t) for t in op.result_types[:-1]]
    data = shapes[0] if len(shapes) == 1 else Shape.tuple(shapes)
    attributes = _transfer_attributes(op)
    context = Shape.tuple([data, _U32, Shape.token()])
    started = scope.builder.add(Opcode.RECV, scope.operands(op), attributes, shape=context)
    received, token = scope.members(scope.builder.add(Opcode.RECV_DONE, [started], attributes))
    values = [received] if len(shapes) == 1 else scope.members(received)
    return [*values, token]


RULES: dict[str, Rule] = {
    "func.call": _call,
    "stablehlo.after_all": _after_all,
    "stablehlo.case": _conditional(True),
    "stablehlo.composite": _composite,
    "stablehlo.create_token": _after_all,
    "stablehlo.custom_call": _custom_call,
    "stablehlo.get_tuple_element": _get_tuple_element,
    "stablehlo.if": _conditional(False),
    "stablehlo.infeed": _infeed,
    "stablehlo.optimization_barrier": _optimization_barrier,
    "stablehlo.outfeed": _outfeed,
    "stablehlo.recv": _recv,
    "stablehlo.send": _send,
    "stablehlo.tuple": _tuple,
    "stablehlo.while": _while,
}
