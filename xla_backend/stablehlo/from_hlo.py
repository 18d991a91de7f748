"""HLO modules to StableHLO modules, in the style of JAX: a public `@main`, private functions for
what is called, regions for loops, branches and reducers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.stablehlo import from_hlo_control, from_hlo_elementwise, from_hlo_structured
from xla_backend.stablehlo.attributes import Attribute, IntegerAttribute
from xla_backend.stablehlo.format_values import I32
from xla_backend.stablehlo.from_hlo_context import (
    Program,
    Rule,
    Scope,
    discardable,
    frontend_attributes,
    leaf_types,
    read_dictionary,
)
from xla_backend.stablehlo.ir import Block, Operation, Region
from xla_backend.stablehlo.module import Module
from xla_backend.stablehlo.to_shardy import write_in_shardy
from xla_backend.stablehlo.types import FunctionType

RULES: dict[Opcode, Rule] = {
    **from_hlo_elementwise.RULES,
    **from_hlo_structured.RULES,
    **from_hlo_control.RULES,
}


def module_from_hlo(
    module: HloModule, result_info: Sequence[str] = (), *, in_shardy: bool = False
) -> Module:
    """The StableHLO of an HLO module.

    Parameters and results that are tuples are taken apart into their leaves.

    Args:
      result_info: names of the results' leaves, written as `jax.result_info`.
      in_shardy: with shardings in Shardy's dialect, in place of `mhlo.sharding` as HLO has them.
    Raises:
      UnimplementedError: an opcode or type has no StableHLO equivalent.
    """
    assert module.entry is not None, f"module {module.name} has no entry computation"
    program = Program(module, RULES)
    program.functions[module.entry] = "main"
    result = Module(
        module.name,
        {
            "mhlo.num_partitions": IntegerAttribute(module.num_partitions, I32),
            "mhlo.num_replicas": IntegerAttribute(module.replica_count, I32),
        },
    )
    for mesh, shape in _meshes(module).items():
        result.append(Operation("sdy.mesh", (), (), {"sym_name": mesh, "mesh": shape}))
    main = result.append(_function(program, module.entry, "public"))
    _add_argument_attributes(main, module)
    if result_info:
        main.attributes["res_attrs"] = tuple({"jax.result_info": name} for name in result_info)
    while program.pending:
        result.append(_function(program, program.pending.pop(0), "private"))
    if in_shardy:
        write_in_shardy(result)
    return result


def _function(program: Program, computation: Computation, visibility: str) -> Operation:
    block = Block()
    arguments = []
    for parameter in computation.parameters:
        location = program.locations.of(parameter.metadata)
        types = leaf_types(parameter.shape)
        arguments.append([block.add_argument(t, location) for t in types])
    scope = Scope(program, block)
    results = scope.computation(computation, arguments)
    scope.emit("func.return", results, ())
    inputs = tuple(a.type for a in block.arguments)
    attributes: dict[str, Attribute] = {
        "sym_name": program.functions[computation],
        "sym_visibility": visibility,
        "function_type": FunctionType(inputs, tuple(r.type for r in results)),
    }
    return Operation("func.func", (), (), attributes, [Region([block])])


def _meshes(module: HloModule) -> dict[str, Any]:
    """Meshes that shardings of the module name."""
    text = str(module.attributes.get("frontend_attributes", "{}"))
    values = dict(frontend_attributes(text))
    return read_dictionary(values.get("xla.sdy.meshes", "{}")) or {}


def _leaf_number(parameters: Sequence[Instruction], number: int, index: tuple[int, ...]) -> int:
    """Position of a leaf of a parameter among the leaves of all."""
    before = sum(p.shape.leaf_count for p in parameters[:number])
    return before + parameters[number].shape.leaf_number(index)


def _add_argument_attributes(main: Operation, module: HloModule) -> None:
    """Donation and sharding of parameters."""
    assert module.entry is not None
    parameters = module.entry.parameters
    attributes: list[dict[str, Attribute]] = [
        discardable(p.annotations) for p in parameters for _ in p.shape.flatten()
    ]
    for alias in module.aliases:
        leaf = _leaf_number(parameters, alias.parameter, alias.parameter_index)
        output = alias.output_index[0] if alias.output_index else 0
        attributes[leaf]["tf.aliasing_output"] = IntegerAttribute(output, I32)
    for number in _donors(str(module.attributes.get("buffer_donor", ""))):
        attributes[_leaf_number(parameters, number, ())]["jax.buffer_donor"] = True
    if any(attributes):
        main.attributes["arg_attrs"] = tuple(attributes)


def _donors(text: str) -> list[int]:
    """Parameter numbers of `{ (0, {}), (2, {}) }`."""
    return [int(part.split(",")[0]) for part in text.split("(")[1:]]
