"""What calls of functions with rules of their own have in common as equations: the function is the
program `call_jaxpr`, its rules are the Python functions they are. Layer: api.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyjax.core.avals import abstractify
from pyjax.core.debug_info import DebugInfo
from pyjax.core.effects import Effects
from pyjax.core.jaxpr import ClosedJaxpr
from pyjax.core.primitive import CallPrimitive, Primitive
from pyjax.core.trace import CustomCall, state
from pyjax.interpreters.discharge import discharge_inlined
from pyjax.interpreters.hlo import LoweringContext
from pyjax.interpreters.lift_constants import lift_leading, lift_rules
from pyjax.interpreters.partial_eval import trace_to_jaxpr
from pyjax.interpreters.rules import (
    FullJvp,
    Unsupported,
    call_discharge_rules,
    called_programs,
    define_rules,
    lowered_parameters,
)
from pyjax.interpreters.staging import StagingTrace
from pyjax.interpreters.varying import as_program_says, varying_rules
from xla_backend.hlo.instruction import Instruction

# `remake(fun, consts, call_jaxpr, **params)`: a recorded call as it was, with its rules alive;
# `fun` closes over `consts`.
Remake = Callable[..., CustomCall]


def define_recorded_call(
    name: str, remake: Remake, *, transpose: Any, dce: Any = None
) -> Primitive:
    """The primitive that such calls are recorded as: it is bound by `process_custom_call` only.

    Its parameters are `call_jaxpr`, `num_consts` (how many operands the function closed over, which
    come first), and what `remake` takes.
    """

    def bound_elsewhere(*args: Any, **params: Any) -> Any:
        raise AssertionError(f"{name} is bound through process_custom_call")

    def rebind(*args: Any, call_jaxpr: ClosedJaxpr, num_consts: int, **params: Any) -> list[Any]:
        consts, operands = args[:num_consts], args[num_consts:]

        def fun(*xs: Any) -> list[Any]:
            return call_jaxpr.eval(*consts, *xs)

        call = remake(fun, consts, call_jaxpr, **params)
        return state.traces[0].process_custom_call(call, operands)

    primitive = define_rules(
        CallPrimitive(name, rebind),
        abstract_eval=_abstract_eval,
        jvp=FullJvp(bound_elsewhere),
        transpose=transpose,
        batching=Unsupported("it is bound through process_custom_call"),
        lowering=_lowering,
        dce=dce,
        effects=_effects,
    )
    called_programs[primitive] = "call_jaxpr"
    lowered_parameters[primitive] = ("call_jaxpr",)
    varying_rules[primitive] = as_program_says("call_jaxpr")
    call_discharge_rules[primitive] = discharge_inlined("call_jaxpr")
    lift_rules[primitive] = lift_leading("call_jaxpr", "num_consts")
    return primitive


def record(
    trace: StagingTrace,
    primitive: Primitive,
    kind: str,
    call: Any,
    args: Sequence[Any],
    **rules: Any,
) -> list[Any]:
    """Record a call: the function as a jaxpr, what is special to it as parameters.

    Args:
      kind: what the function is traced for.
      call: a CustomCall with a `name`.
    """
    avals = [abstractify(x) for x in args]
    closed, out_avals = trace_to_jaxpr(call.fun, avals, debug=DebugInfo(kind, call.fun))
    params = {
        "name": call.name,
        "call_jaxpr": closed,
        **rules,
        "num_consts": 0,  # what it closes over is lifted
    }
    atoms = [trace.to_atom(x) for x in args]
    return trace.emit(primitive, atoms, out_avals, params, closed.effects)


def _abstract_eval(*avals: Any, call_jaxpr: ClosedJaxpr, **_: Any) -> list[Any]:
    return list(call_jaxpr.out_avals)


def _effects(*avals: Any, call_jaxpr: ClosedJaxpr, **_: Any) -> Effects:
    return call_jaxpr.effects


def _lowering(
    ctx: LoweringContext, *operands: Instruction, call_jaxpr: ClosedJaxpr, **_: Any
) -> list[Instruction]:
    return ctx.inline_jaxpr(call_jaxpr, *operands)
