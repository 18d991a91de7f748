"""Running primitives by programs. Layer: interpreters."""

from __future__ import annotations

from typing import Any

from pyjax.core.primitive import Primitive
from pyjax.core.trace import run_compiled


def apply_primitive(prim: Primitive, *args: Any, **params: Any) -> Any:
    """The result of a primitive on values, by a program that is made of its lowering and kept.

    `p.def_impl(functools.partial(apply_primitive, p))` says what is done anyway with a primitive
    that can be lowered and has no implementation.

    >>> from pyjax import lax
    >>> from pyjax.interpreters import xla
    >>> xla.apply_primitive(lax.neg_p, 2.0)
    Array(-2., dtype=float32, weak_type=True)
    """
    outs = run_compiled(prim, args, params)
    return outs if prim.multiple_results else outs[0]
