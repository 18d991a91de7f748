"""Calls of programs as equations, for libraries whose interpreters know them by name.

No transformation here makes such equations: `jit` has its own primitive. Layer: api.
"""

from __future__ import annotations

from typing import Any

from pyjax.core.jaxpr import ClosedJaxpr, Jaxpr, eval_jaxpr
from pyjax.interpreters.composed import composed
from pyjax.interpreters.rules import called_programs


def _call(*args: Any, call_jaxpr: Jaxpr) -> list[Any]:
    return eval_jaxpr(call_jaxpr, (), *args)


def _closed_call(*args: Any, call_jaxpr: ClosedJaxpr) -> list[Any]:
    return call_jaxpr.eval(*args)


# `bind(*values, call_jaxpr=program)`: a jaxpr without constants, and a closed one.
call_p = composed("call", _call, multiple_results=True)
closed_call_p = composed("closed_call", _closed_call, multiple_results=True)
called_programs[closed_call_p] = "call_jaxpr"
