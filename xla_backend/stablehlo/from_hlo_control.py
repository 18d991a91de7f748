"""Calls, control flow, tuples, custom calls, transfers and collectives from HLO."""

from __future__ import annotations

import numpy as np

from xla_backend.hlo.attributes import (
    CallAttributes,
    CollectiveAttributes,
    CollectivePermuteAttributes,
    ConditionalAttributes,
    CustomCallAttributes,
    OutfeedAttributes,
    RawAttributes,
    TransferAttributes,
)
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.stablehlo.attributes import (
    UNIT,
    Attribute,
    DenseAttribute,
    DialectAttribute,
    IntegerAttribute,
    SymbolAttribute,
)
from xla_backend.stablehlo.format_values import I32
from xla_backend.stablehlo.from_hlo_context import (
    Rule,
    Scope,
    Values,
    channel_handle,
    dense,
    frontend_attributes,
    int_attribute,
    leaf_types,
    read_dictionary,
)
from xla_backend.stablehlo.from_hlo_elementwise import plain, same
from xla_backend.stablehlo.from_hlo_sharding import guide, manual_computation, manual_computation_of
from xla_backend.stablehlo.types import TOKEN

Attributes = dict[str, Attribute]

# -- tuples ----------------------------------------------------------------------------------------


def _tuple(scope: Scope, node: Instruction) -> Values:
    return scope.operands(node)


def _get_tuple_element(scope: Scope, node: Instruction) -> Values:
    """The leaves of one member."""
    (operand,) = node.operands
    first = operand.shape.leaf_starts[node.tuple_index]
    return scope.leaves(operand)[first : first + node.shape.leaf_count]


# -- calls and control flow ------------------------------------------------------------------------


def _call(scope: Scope, node: Instruction) -> Values:
    manual = manual_computation_of(node)
    if manual is not None:
        return manual_computation(scope, node, manual)
    name = scope.program.function(node.called[0])
    if isinstance(node.attributes, CallAttributes) and node.attributes.is_composite:
        return _composite(scope, node, name)
    attributes: Attributes = {"callee": SymbolAttribute((name,))}
    return scope.emit("func.call", scope.operands(node), leaf_types(node.shape), attributes)


def _composite(scope: Scope, node: Instruction, decomposition: str) -> Values:
    """The name and attributes of a composite travel as frontend attributes, which are not repeated
    here."""
    text = (node.annotations or {}).get("frontend_attributes", "{}")
    found = dict(frontend_attributes(text))
    attributes: Attributes = {
        "name": found.get("composite.name", decomposition),
        "decomposition": SymbolAttribute((decomposition,)),
    }
    composite_attributes = read_dictionary(found.get("composite.attributes", "{}"))
    if composite_attributes:
        attributes["composite_attributes"] = composite_attributes
    version = int(found.get("composite.version", "0"))
    if version:
        attributes["version"] = IntegerAttribute(version, I32)
    return scope.emit(
        "stablehlo.composite", scope.operands(node), leaf_types(node.shape), attributes
    )


def _while(scope: Scope, node: Instruction) -> Values:
    regions = [scope.region(c) for c in node.called]
    return scope.emit("stablehlo.while", scope.operands(node), leaf_types(node.shape), {}, regions)


def _conditional(scope: Scope, node: Instruction) -> Values:
    """Branches use their operands as values from outside."""
    assert isinstance(node.attributes, ConditionalAttributes)
    selector, *operands = node.operands
    regions = [
        scope.branch(computation, [scope.leaves(operand)])
        for computation, operand in zip(node.called, operands)
    ]
    name = "stablehlo.case" if node.attributes.is_indexed else "stablehlo.if"
    return scope.emit(name, scope.leaves(selector), leaf_types(node.shape), {}, regions)


def _after_all(scope: Scope, node: Instruction) -> Values:
    name = "stablehlo.after_all" if node.operands else "stablehlo.create_token"
    return scope.emit(name, scope.operands(node), [TOKEN])


# -- custom calls ----------------------------------------------------------------------------------

_API_VERSIONS = {
    "API_VERSION_STATUS_RETURNING": 2,
    "API_VERSION_STATUS_RETURNING_UNIFIED": 3,
    "API_VERSION_TYPED_FFI": 4,
}


def _layout(shape: Shape) -> DenseAttribute:
    return dense(np.array(shape.minor_to_major if shape.is_array else (), np.int64), "index")


def _custom_call(scope: Scope, node: Instruction) -> Values:
    a = node.attributes
    assert isinstance(a, CustomCallAttributes)
    manual = manual_computation_of(node)
    if manual is not None:
        return manual_computation(scope, node, manual)
    guided = guide(scope, node)
    if guided is not None:
        return guided
    attributes: Attributes = {"call_target_name": a.target}
    config = read_dictionary(a.backend_config) if a.backend_config.startswith("{") else None
    typed = a.api_version == "API_VERSION_TYPED_FFI"
    if config is not None and typed:
        attributes["backend_config"] = ""
        attributes["mhlo.backend_config"] = config
    else:
        if a.backend_config:
            attributes["backend_config"] = a.backend_config
        if a.api_version in _API_VERSIONS:
            version = _API_VERSIONS[a.api_version]
            attributes["api_version"] = IntegerAttribute(version, I32)
    if a.has_side_effect:
        attributes["has_side_effect"] = True
    if node.called:
        names = [scope.program.function(c) for c in node.called]
        attributes["called_computations"] = tuple(SymbolAttribute((n,)) for n in names)
    if a.operand_layouts is not None:
        attributes["operand_layouts"] = tuple(_layout(s) for s in a.operand_layouts)
        attributes["result_layouts"] = tuple(_layout(s) for s in node.shape.flatten())
    if a.output_to_operand_aliasing:
        attributes["output_operand_aliases"] = tuple(
            DialectAttribute(
                "stablehlo.output_operand_alias",
                f"output_tuple_indices = {list(output)}, operand_index = {operand}, "
                f"operand_tuple_indices = {list(index)}",
            )
            for output, operand, index in a.output_to_operand_aliasing
        )
    return scope.emit(
        "stablehlo.custom_call", scope.operands(node), leaf_types(node.shape), attributes
    )


# -- transfers -------------------------------------------------------------------------------------


def _config(node: Instruction, name: str) -> str:
    assert isinstance(node.attributes, RawAttributes)
    return str(node.attributes.get(name) or "").strip('"')


def _infeed(scope: Scope, node: Instruction) -> Values:
    attributes: Attributes = {"infeed_config": _config(node, "infeed_config")}
    return scope.emit("stablehlo.infeed", scope.operands(node), leaf_types(node.shape), attributes)


def _outfeed(scope: Scope, node: Instruction) -> Values:
    assert isinstance(node.attributes, OutfeedAttributes)
    attributes: Attributes = {"outfeed_config": node.attributes.config or ""}
    return scope.emit("stablehlo.outfeed", scope.operands(node), [TOKEN], attributes)


_HOST_TO_DEVICE, _DEVICE_TO_HOST, _DEVICE_TO_DEVICE = 3, 2, 1


def _transfer(node: Instruction, host: int) -> Attributes:
    a = node.attributes
    assert isinstance(a, TransferAttributes)
    kind = host if a.is_host_transfer else _DEVICE_TO_DEVICE
    return {
        "channel_handle": channel_handle(a.channel_id or 0, kind),
        "is_host_transfer": a.is_host_transfer,
    }


def _send(scope: Scope, node: Instruction) -> Values:
    """Start and end of a transfer are one operation here; -done gives its results on."""
    return scope.emit(
        "stablehlo.send", scope.operands(node), [TOKEN], _transfer(node, _DEVICE_TO_HOST)
    )


def _recv(scope: Scope, node: Instruction) -> Values:
    types = [*leaf_types(node.shape.tuple_shapes[0]), TOKEN]
    attributes = _transfer(node, _HOST_TO_DEVICE)
    return scope.emit("stablehlo.recv", scope.operands(node), types, attributes)


# -- collectives -----------------------------------------------------------------------------------


def _groups(a: CollectiveAttributes) -> DenseAttribute:
    """Rows padded with -1 to the longest."""
    width = max((len(g) for g in a.replica_groups), default=0)
    rows = [[*g, *[-1] * (width - len(g))] for g in a.replica_groups]
    return dense(np.array(rows, np.int64).reshape(len(rows), width), "i64")


def _collective_attributes(node: Instruction, global_ids: bool) -> Attributes:
    a = node.attributes
    assert isinstance(a, CollectiveAttributes)
    attributes: Attributes = {"replica_groups": _groups(a)}
    if a.channel_id is not None:
        attributes["channel_handle"] = channel_handle(a.channel_id, 1)
    if global_ids and a.use_global_device_ids:
        attributes["use_global_device_ids"] = UNIT
    return attributes


def _collective(name: str, dimension: str = "", *, global_ids: bool = True) -> Rule:
    def rule(scope: Scope, node: Instruction) -> Values:
        attributes = _collective_attributes(node, global_ids)
        assert isinstance(node.attributes, CollectiveAttributes)
        if dimension:
            attributes[dimension] = int_attribute(node.attributes.dimensions[0])
        regions = [scope.region(c) for c in node.called]
        types = leaf_types(node.shape)
        if node.opcode is Opcode.ALL_GATHER_START:
            types = types[len(types) // 2 :]  # the shape is (operands, results)
        return scope.emit(name, scope.operands(node), types, attributes, regions)

    return rule


def _all_to_all(scope: Scope, node: Instruction) -> Values:
    attributes = _collective_attributes(node, False)
    a = node.attributes
    assert isinstance(a, CollectiveAttributes)
    (dimension,) = a.dimensions
    devices = scope.program.module.num_partitions * scope.program.module.replica_count
    count = len(a.replica_groups[0]) if a.replica_groups else devices
    attributes["split_dimension"] = attributes["concat_dimension"] = int_attribute(dimension)
    attributes["split_count"] = int_attribute(count)
    return scope.emit(
        "stablehlo.all_to_all", scope.operands(node), leaf_types(node.shape), attributes
    )


def _collective_permute(scope: Scope, node: Instruction) -> Values:
    a = node.attributes
    assert isinstance(a, CollectivePermuteAttributes)
    pairs = np.array(a.source_target_pairs, np.int64).reshape(-1, 2)
    attributes: Attributes = {"source_target_pairs": dense(pairs, "i64")}
    if a.channel_id is not None:
        attributes["channel_handle"] = channel_handle(a.channel_id, 1)
    operands = scope.operands(node)
    types = [o.type for o in operands]
    return scope.emit("stablehlo.collective_permute", operands, types, attributes)


RULES: dict[Opcode, Rule] = {
    Opcode.AFTER_ALL: _after_all,
    Opcode.ALL_GATHER: _collective("stablehlo.all_gather", "all_gather_dim"),
    Opcode.ALL_GATHER_DONE: same,
    Opcode.ALL_GATHER_START: _collective("stablehlo.all_gather", "all_gather_dim"),
    Opcode.ALL_REDUCE: _collective("stablehlo.all_reduce"),
    Opcode.ALL_REDUCE_DONE: same,
    Opcode.ALL_REDUCE_START: _collective("stablehlo.all_reduce"),
    Opcode.ALL_TO_ALL: _all_to_all,
    Opcode.ASYNC_DONE: same,
    Opcode.ASYNC_START: _call,
    Opcode.ASYNC_UPDATE: same,
    Opcode.CALL: _call,
    Opcode.COLLECTIVE_BROADCAST: _collective("stablehlo.collective_broadcast", global_ids=False),
    Opcode.COLLECTIVE_PERMUTE: _collective_permute,
    Opcode.COLLECTIVE_PERMUTE_DONE: same,
    Opcode.COLLECTIVE_PERMUTE_START: _collective_permute,
    Opcode.CONDITIONAL: _conditional,
    Opcode.COPY_DONE: same,
    Opcode.COPY_START: same,
    Opcode.CUSTOM_CALL: _custom_call,
    Opcode.FUSION: _call,
    Opcode.GET_TUPLE_ELEMENT: _get_tuple_element,
    Opcode.INFEED: _infeed,
    Opcode.OPT_BARRIER: plain("stablehlo.optimization_barrier"),
    Opcode.OUTFEED: _outfeed,
    Opcode.PARTITION_ID: plain("stablehlo.partition_id"),
    Opcode.RECV: _recv,
    Opcode.RECV_DONE: same,
    Opcode.REDUCE_SCATTER: _collective("stablehlo.reduce_scatter", "scatter_dimension"),
    Opcode.REPLICA_ID: plain("stablehlo.replica_id"),
    Opcode.SEND: _send,
    Opcode.SEND_DONE: same,
    Opcode.TUPLE: _tuple,
    Opcode.WHILE: _while,
}
