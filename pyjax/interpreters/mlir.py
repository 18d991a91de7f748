"""Lowering rules that users register for primitives. Layer: interpreters.

Programs are lowered to HLO (`interpreters/hlo.py`): operands of a rule are HLO instructions, and
`ctx.builder` adds others. Most rules need none of that: `lower_fun` makes one from a function.
"""

from __future__ import annotations

from typing import Any

from pyjax.core.effects import lowerable_effects as lowerable_effects
from pyjax.core.errors import new_error
from pyjax.core.primitive import Primitive
from pyjax.core.tree_util import default_registry as ir_tree_registry
from pyjax.interpreters.hlo import LoweringContext as LoweringRuleContext
from pyjax.interpreters.hlo import LoweringRule as LoweringRule
from pyjax.interpreters.hlo import ModuleContext as ModuleContext
from pyjax.interpreters.hlo import lower_fun as lower_fun
from pyjax.interpreters.mlir_text import DEVICE_TO_DEVICE_TYPE as DEVICE_TO_DEVICE_TYPE
from pyjax.interpreters.mlir_text import RECV_FROM_HOST_TYPE as RECV_FROM_HOST_TYPE
from pyjax.interpreters.mlir_text import SEND_TO_HOST_TYPE as SEND_TO_HOST_TYPE
from pyjax.interpreters.mlir_text import AxisContext as AxisContext
from pyjax.interpreters.mlir_text import ConstantHandler as ConstantHandler
from pyjax.interpreters.mlir_text import LoweringParameters as LoweringParameters
from pyjax.interpreters.mlir_text import LoweringResult as LoweringResult
from pyjax.interpreters.mlir_text import ShapePolyLoweringState as ShapePolyLoweringState
from pyjax.interpreters.mlir_text import ShardingContext as ShardingContext
from pyjax.interpreters.mlir_text import SPMDAxisContext as SPMDAxisContext
from pyjax.interpreters.mlir_text import TokenSet as TokenSet
from pyjax.interpreters.mlir_text import aval_to_ir_type as aval_to_ir_type
from pyjax.interpreters.mlir_text import aval_to_ir_types as aval_to_ir_types
from pyjax.interpreters.mlir_text import core_call_lowering as core_call_lowering
from pyjax.interpreters.mlir_text import dense_int_array as dense_int_array
from pyjax.interpreters.mlir_text import dense_int_elements as dense_int_elements
from pyjax.interpreters.mlir_text import dtype_to_ir_type as dtype_to_ir_type
from pyjax.interpreters.mlir_text import emit_python_callback as emit_python_callback
from pyjax.interpreters.mlir_text import flatten_ir_types as flatten_ir_types
from pyjax.interpreters.mlir_text import flatten_ir_values as flatten_ir_values
from pyjax.interpreters.mlir_text import i32_attr as i32_attr
from pyjax.interpreters.mlir_text import i64_attr as i64_attr
from pyjax.interpreters.mlir_text import ir as ir
from pyjax.interpreters.mlir_text import ir_attribute as ir_attribute
from pyjax.interpreters.mlir_text import ir_constant as ir_constant
from pyjax.interpreters.mlir_text import ir_constants as ir_constants
from pyjax.interpreters.mlir_text import ir_type_handlers as ir_type_handlers
from pyjax.interpreters.mlir_text import jaxpr_subcomp as jaxpr_subcomp
from pyjax.interpreters.mlir_text import lower_jaxpr_to_fun as lower_jaxpr_to_fun
from pyjax.interpreters.mlir_text import lower_jaxpr_to_module as lower_jaxpr_to_module
from pyjax.interpreters.mlir_text import make_ir_context as make_ir_context
from pyjax.interpreters.mlir_text import merge_mlir_modules as merge_mlir_modules
from pyjax.interpreters.mlir_text import module_to_bytecode as module_to_bytecode
from pyjax.interpreters.mlir_text import module_to_string as module_to_string
from pyjax.interpreters.mlir_text import register_constant_handler as register_constant_handler
from pyjax.interpreters.mlir_text import shape_tensor as shape_tensor
from pyjax.interpreters.mlir_text import token_type as token_type
from pyjax.interpreters.mlir_text import (
    unflatten_ir_values_like_types as unflatten_ir_values_like_types,
)
from pyjax.interpreters.platform_names import KNOWN_PLATFORMS, names_of_platform
from pyjax.interpreters.rules import Unsupported, lowering_rules
from xla_backend.hlo.instruction import Instruction as Value
from xla_backend.process.on_first_use import import_now

Token = Value
MeshAxisName = Any


class _ByPlatform:
    """The rules of one primitive: one for each of some platforms, and one for the others."""

    __slots__ = ("default", "platforms", "primitive")

    def __init__(self, primitive: Primitive, default: LoweringRule | None) -> None:
        self.primitive = primitive
        self.default = default
        self.platforms: dict[str, LoweringRule] = {}

    def __call__(self, ctx: LoweringRuleContext, *operands: Value, **params: Any) -> list[Value]:
        names = names_of_platform(ctx.platform)
        rule = next((r for name, r in self.platforms.items() if name in names), self.default)
        if rule is None:
            raise new_error(
                NotImplementedError,
                f"MLIR translation rule for primitive {self.primitive.name!r} not found for "
                f"platform {ctx.platform}.",
                f"there are rules for {', '.join(self.platforms)}",
                "Register one without platform=, for all others.",
            )
        outs = rule(ctx, *operands, **params)
        return [outs] if isinstance(outs, Value) else list(outs)


def register_lowering(
    prim: Primitive,
    rule: LoweringRule,
    platform: str | None = None,
    inline: bool = True,
    cacheable: bool = True,
) -> None:
    """Say how programs compute a primitive.

    Args:
      rule: `(ctx, *operands, **params) -> instruction, or sequence of them`; `lower_fun(function)`
        makes one of a function.
      platform: the only platform it is for ("cpu", "cuda", "gpu" ...); by default it is for all
        that have no rule of their own.
      inline, cacheable: whether programs may hold it as a function, and share that. Each equation
        is lowered by itself here, and stands where it is used, whatever they say.
    Raises:
      NotImplementedError: no platform has this name.

    >>> import pyjax
    >>> from pyjax.extend.core import Primitive
    >>> from pyjax.interpreters import mlir
    >>> twice_p = Primitive("twice")
    >>> _ = twice_p.def_abstract_eval(lambda x: x)
    >>> mlir.register_lowering(twice_p, mlir.lower_fun(lambda x: 2 * x, multiple_results=False))
    >>> pyjax.jit(twice_p.bind)(3)
    Array(6, dtype=int32, weak_type=True)
    """
    found = lowering_rules.get(prim)
    if not isinstance(found, _ByPlatform):
        found = _ByPlatform(prim, None if isinstance(found, Unsupported) else found)
    if platform is None:
        found.default = rule
    elif platform in KNOWN_PLATFORMS:
        found.platforms[platform] = rule
    else:
        raise new_error(
            NotImplementedError,
            f"Registering an MLIR lowering rule for primitive {prim} for an unknown platform "
            f"{platform}.",
            f"Known platforms are: {', '.join(KNOWN_PLATFORMS)}",
            "Leave out platform= for all platforms.",
        )
    lowering_rules[prim] = found


def __getattr__(name: str) -> Any:
    # Of a higher layer.
    if name == "Mesh":
        return import_now("pyjax.sharding").Mesh
    raise AttributeError(f"module 'pyjax.interpreters.mlir' has no attribute {name!r}")


__all__ = [
    "AxisContext",
    "ConstantHandler",
    "DEVICE_TO_DEVICE_TYPE",
    "LoweringParameters",
    "LoweringResult",
    "RECV_FROM_HOST_TYPE",
    "SEND_TO_HOST_TYPE",
    "SPMDAxisContext",
    "ShapePolyLoweringState",
    "ShardingContext",
    "TokenSet",
    "aval_to_ir_type",
    "aval_to_ir_types",
    "core_call_lowering",
    "dense_int_array",
    "dense_int_elements",
    "dtype_to_ir_type",
    "emit_python_callback",
    "flatten_ir_types",
    "flatten_ir_values",
    "i32_attr",
    "i64_attr",
    "ir",
    "ir_attribute",
    "ir_constant",
    "ir_constants",
    "ir_type_handlers",
    "jaxpr_subcomp",
    "lower_jaxpr_to_fun",
    "lower_jaxpr_to_module",
    "make_ir_context",
    "merge_mlir_modules",
    "module_to_bytecode",
    "module_to_string",
    "register_constant_handler",
    "shape_tensor",
    "token_type",
    "unflatten_ir_values_like_types",
    "LoweringRule",
    "LoweringRuleContext",
    "MeshAxisName",
    "ModuleContext",
    "Token",
    "Value",
    "ir_tree_registry",
    "lower_fun",
    "lowerable_effects",
    "register_lowering",
]
