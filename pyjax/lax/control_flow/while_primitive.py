"""The while primitive, declared for those that bind it; its rules are in while_loop.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyjax.core.primitive import Primitive
from pyjax.interpreters.lift_constants import bind_lifted
from pyjax.interpreters.partial_eval import trace_to_jaxpr
from pyjax.lax.common import aval_of

while_p = Primitive("while")


def bind_while(
    condition: Callable[..., Any], body: Callable[..., Sequence[Any]], init: Sequence[Any]
) -> list[Any]:
    """A loop of flat functions: `body(*carry) -> carry` while `condition(*carry)`; they may close
    over values of the trace that is current."""
    avals = [aval_of(x).strip_weak_type() for x in init]
    body_jaxpr, _ = trace_to_jaxpr(lambda *xs: list(body(*xs)), avals)
    cond_jaxpr, _ = trace_to_jaxpr(lambda *xs: [condition(*xs)], avals)
    return bind_lifted(
        while_p,
        *init,
        cond_nconsts=0,
        cond_jaxpr=cond_jaxpr,
        body_nconsts=0,
        body_jaxpr=body_jaxpr,
    )
