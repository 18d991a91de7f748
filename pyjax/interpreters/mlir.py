"""Lowering rules that users register for primitives. Layer: interpreters.

Programs are lowered to HLO (`interpreters/hlo.py`): operands of a rule are HLO instructions, and
`ctx.builder` adds others. Most rules need none of that: `lower_fun` makes one from a function.
"""

from __future__ import annotations

from typing import Any

from pyjax.core.effects import lowerable_effects as lowerable_effects
from pyjax.core.errors import new_error
from pyjax.core.primitive import Primitive
from pyjax.interpreters.hlo import LoweringContext as LoweringRuleContext
from pyjax.interpreters.hlo import LoweringRule as LoweringRule
from pyjax.interpreters.hlo import ModuleContext as ModuleContext
from pyjax.interpreters.hlo import lower_fun as lower_fun
from pyjax.interpreters.platform_names import KNOWN_PLATFORMS, names_of_platform
from pyjax.interpreters.rules import Unsupported, lowering_rules
from xla_backend.hlo.instruction import Instruction as Value


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


__all__ = [
    "LoweringRule",
    "LoweringRuleContext",
    "ModuleContext",
    "Value",
    "lower_fun",
    "lowerable_effects",
    "register_lowering",
]
