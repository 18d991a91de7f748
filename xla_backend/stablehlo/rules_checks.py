"""Checks inside programs to HLO: the operations `check.*` and custom calls of these names become
custom calls of the host that compare (hlo/check_calls.py)."""

from __future__ import annotations

from typing import Any

from xla_backend.hlo.attributes import CustomCallAttributes
from xla_backend.hlo.check_calls import CHECK_CALLS
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.stablehlo.attributes import FloatAttribute, IntegerAttribute
from xla_backend.stablehlo.ir import Operation
from xla_backend.stablehlo.lowering import Rule, Scope, invalid
from xla_backend.stablehlo.rules_shape import constant

_NUMBERS = ("line", "min_ulp_difference", "max_ulp_difference", "tolerance")


def _config(op: Operation) -> str:
    """Line and tolerances, as the backend_config of the call."""
    fields = {"line": f"{op.line} : i64"} if op.line else {}
    given: Any = op.attributes.get("mhlo.backend_config") or op.attributes.get("backend_config")
    attributes = {**op.attributes, **(given if isinstance(given, dict) else {})}
    for name in _NUMBERS:
        value = attributes.get(name)
        if isinstance(value, IntegerAttribute):
            fields[name] = f"{value.value} : i64"
        elif isinstance(value, FloatAttribute):
            fields[name] = f"{float(value.value)!r} : f64"
    return "{" + ", ".join(f"{k} = {v}" for k, v in fields.items()) + "}"


def check_call(scope: Scope, op: Operation, target: str) -> list[Instruction]:
    """The call for an operation with operands (actual, expected), or actual and a constant."""
    operands = scope.operands(op)
    if "value" in op.attributes:
        operands.append(constant(scope, op.attributes["value"]))
    if len(operands) != 2 or not operands[0].shape.compatible(operands[1].shape):
        shapes = ", ".join(str(o.shape) for o in operands)
        raise invalid(op, f"a check compares two values of one shape, got {shapes}")
    attributes = CustomCallAttributes(
        target, _config(op), True, api_version="API_VERSION_TYPED_FFI"
    )
    scope.builder.add(Opcode.CUSTOM_CALL, operands, attributes, shape=Shape.tuple([]))
    return []


def _rule(target: str) -> Rule:
    return lambda scope, op: check_call(scope, op, target)


RULES: dict[str, Rule] = {
    **{target: _rule(target) for target in CHECK_CALLS},
    "check.expect_eq_const": _rule("check.expect_eq"),
    "check.expect_almost_eq_const": _rule("check.expect_almost_eq"),
}
