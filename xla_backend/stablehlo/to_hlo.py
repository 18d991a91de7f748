"""StableHLO modules to HLO modules."""

from __future__ import annotations

from typing import Any

from xla_backend.hlo.instruction import Computation
from xla_backend.hlo.module import HloModule, InputOutputAlias
from xla_backend.stablehlo import (
    rules_checks,
    rules_chlo,
    rules_collectives,
    rules_control,
    rules_einsum,
    rules_elementwise,
    rules_quantized,
    rules_shape,
    rules_sharding,
    rules_structured,
)
from xla_backend.stablehlo.attributes import IntegerAttribute
from xla_backend.stablehlo.ir import Operation
from xla_backend.stablehlo.lowering import (
    ConversionError,
    Program,
    Rule,
    Scope,
    annotations_from,
    where,
)
from xla_backend.stablehlo.module import Module

RULES: dict[str, Rule] = {
    **rules_elementwise.RULES,
    **rules_shape.RULES,
    **rules_structured.RULES,
    **rules_control.RULES,
    **rules_collectives.RULES,
    **rules_chlo.RULES,
    **rules_checks.RULES,
    **rules_einsum.RULES,
    **rules_quantized.RULES,
    **rules_sharding.RULES,
}


def entry_function(module: Module) -> Operation:
    """`@main`, or the only function.

    Raises:
      ConversionError: neither.
    """
    functions = module.functions
    if "main" in functions:
        return functions["main"]
    public = [f for f in functions.values() if f.attributes.get("sym_visibility") != "private"]
    if len(public) == 1:
        return public[0]
    names = ", ".join(f"@{n}" for n in functions) or "none"
    raise ConversionError(f"no function is called @main (there are: {names})")


def module_to_hlo(module: Module, entry: str | None = None) -> HloModule:
    """The HLO of a StableHLO module.

    The entry takes the function's parameters and gives its result, or a flat tuple of several (or
    no) results. Sizes must be known, or follow from constants.

    Args:
      entry: name of the entry function; None: `main`, or the only public one.
    Raises:
      ConversionError: the module is not valid.
      UnimplementedError: an operation or type has no equivalent here; the message has its line.
    """
    functions = module.functions
    if entry is not None and entry not in functions:
        raise ConversionError(f"there is no function @{entry}")
    function = functions[entry] if entry is not None else entry_function(module)
    partitions = _count(module, "mhlo.num_partitions")
    program = Program(functions, RULES, partitions)
    scope = Scope(program, function.attributes["sym_name"])
    results = program.function_body(scope, function)
    results = rules_sharding.constrain_results(scope, function, results)
    computation = scope.builder.build(scope.pack(results))
    result = HloModule(module.name or "module", source_tables=program.locations.tables())
    result.num_partitions = partitions
    result.replica_count = _count(module, "mhlo.num_replicas")
    result.add_computations(_callees_first(computation))
    result.entry = computation
    rules_sharding.set_meshes(result, module)
    _apply_argument_attributes(result, function, len(results))
    return result


def _count(module: Module, name: str) -> int:
    value = module.attributes.get(name)
    return value.value if isinstance(value, IntegerAttribute) else 1


def _callees_first(entry: Computation) -> list[Computation]:
    order: list[Computation] = []
    seen: set[Computation] = set()
    stack: list[tuple[Computation, bool]] = [(entry, False)]
    while stack:
        computation, done = stack.pop()
        if done:
            order.append(computation)
        elif computation not in seen:
            seen.add(computation)
            stack.append((computation, True))
            callees = [c for node in computation for c in node.called]
            stack.extend((c, False) for c in reversed(callees))
    return order


def _apply_argument_attributes(module: HloModule, function: Operation, results: int) -> None:
    """Donation and sharding of the entry's parameters."""
    assert module.entry is not None
    per_argument: Any = function.attributes.get("arg_attrs")
    aliases = []
    donors = []
    for i, attributes in enumerate(per_argument or ()):
        annotations = annotations_from(attributes)
        if annotations:
            module.entry.parameters[i].annotations = annotations
        target = attributes.get("tf.aliasing_output")
        if target is not None:
            if not 0 <= target.value < results:
                raise ConversionError(
                    f"@{function.attributes['sym_name']}{where(function)}: tf.aliasing_output = "
                    f"{target.value}, but there are {results} results"
                )
            index = () if results == 1 else (target.value,)
            aliases.append(InputOutputAlias(index, i))
        if attributes.get("jax.buffer_donor", False) is True:
            donors.append(f"({i}, {{}})")
    module.aliases = tuple(sorted(aliases, key=lambda a: a.output_index))
    if donors:
        module.attributes["buffer_donor"] = "{ " + ", ".join(donors) + " }"
