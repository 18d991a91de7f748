"""Partial evaluation: run what is known, record what is not; and the same on jaxprs.

`PartialTrace` keeps known values as they are (values of the parent trace) and represents unknown
ones by tracers of its recorder. A primitive whose operands are all known is bound under the parent
trace; otherwise it becomes an equation, whose known operands are its residuals.

A rule in `partial_eval_rules` overrides that for primitives that hold jaxprs:
`rule(trace, args, **params) -> list`, called under the parent trace; `trace.is_unknown(x)` tells
the operands apart, `trace.emit(primitive, inputs, out_avals, params, effects)` records an equation
and returns its (unknown) outputs. Layer: interpreters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from pyjax.core.avals import abstractify
from pyjax.core.debug_info import UNKNOWN, DebugInfo
from pyjax.core.effects import Effects, has_side_effect, no_effects
from pyjax.core.jaxpr import (
    ClosedJaxpr,
    Jaxpr,
    JaxprEqn,
    Literal,
    eval_jaxpr,
)
from pyjax.core.primitive import Primitive
from pyjax.core.structural import new_tangent_ref_p
from pyjax.core.trace import CustomCall, Trace, state, under
from pyjax.interpreters.dead_code import dce_jaxpr
from pyjax.interpreters.lift_constants import constvars_as_inputs
from pyjax.interpreters.linear_util import WrappedFun
from pyjax.interpreters.rules import dce_rules, partial_eval_rules
from pyjax.interpreters.staging import (
    JaxprTracer,
    StagingTrace,
    trace_to_jaxpr,
)
from pyjax.interpreters.trace_cache import jaxpr_cache

Result = TypeVar("Result")
Val = Any

__all__ = [
    "DynamicJaxprTracer",
    "JaxprTracer",
    "PartialTrace",
    "PartialVal",
    "Val",
    "dce_jaxpr",
    "dce_jaxpr_consts",
    "dce_rules",
    "partial_eval_jaxpr",
    "trace_to_jaxpr",
    "trace_to_jaxpr_dynamic",
    "trace_to_jaxpr_nounits",
]
DynamicJaxprTracer = JaxprTracer


def dce_jaxpr_consts(
    jaxpr: Jaxpr, used_outputs: Sequence[bool], instantiate: bool | Sequence[bool] = False
) -> tuple[Jaxpr, list[bool], list[bool]]:
    """A program without what the used outputs do not need, of its constants, too: (it, which
    constants it needs, which inputs)."""
    count = len(jaxpr.constvars)
    together = jaxpr.replace(constvars=[], invars=[*jaxpr.constvars, *jaxpr.invars])
    inputs = [instantiate] * len(jaxpr.invars) if isinstance(instantiate, bool) else [*instantiate]
    keep = [False] * count + inputs
    found, used = dce_jaxpr(together, list(used_outputs), keep)
    consts = sum(used[:count])
    apart = found.replace(constvars=found.invars[:consts], invars=found.invars[consts:])
    return apart, used[:count], used[count:]


class PartialTrace(Trace):
    """Runs known operations under `parent`, records the others."""

    parent: Trace

    def __init__(self, parent: Trace, debug_info: DebugInfo = UNKNOWN) -> None:
        self.parent = parent
        self.recorder = StagingTrace(debug_info)
        self.recorder.parent = parent

    def is_unknown(self, x: Any) -> bool:
        """Whether `x` is a value known only when the recorded program runs."""
        return type(x) is JaxprTracer and x._trace is self.recorder

    def new_unknown(self, aval: Any) -> JaxprTracer:
        """A new input of the recorded program."""
        return self.recorder.new_argument(aval)

    def emit(
        self,
        primitive: Primitive,
        inputs: Sequence[Any],
        out_avals: Sequence[Any],
        params: dict[str, Any],
        effects: Effects = no_effects,
    ) -> list[Any]:
        """Record an equation; its outputs are unknown."""
        recorder = self.recorder
        atoms = [recorder.to_atom(x) for x in inputs]
        return recorder.emit(primitive, atoms, out_avals, params, effects)

    def run(self, function: Callable[..., Result], *args: Any, **params: Any) -> Result:
        """`function(*args, **params)` under this trace, called under its parent."""
        outer = state.traces
        state.traces = [self]
        try:
            return function(*args, **params)
        finally:
            state.traces = outer

    def process_primitive(
        self, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]
    ) -> list[Any]:
        recorder = self.recorder
        for x in args:
            if type(x) is JaxprTracer and x._trace is recorder:
                break
        else:
            if primitive is new_tangent_ref_p:  # what is written to it will be unknown
                return recorder.process_primitive(primitive, args, params)
            outer = state.traces
            state.traces = [self.parent]
            try:
                return self.parent.process_primitive(primitive, args, params)
            finally:
                state.traces = outer
        rule = partial_eval_rules.get(primitive)
        if rule is None:
            return recorder.process_primitive(primitive, args, params)
        outer = state.traces
        state.traces = [self.parent]
        try:
            return rule(self, args, **params)
        finally:
            state.traces = outer

    def process_custom_call(self, call: CustomCall, args: Sequence[Any]) -> list[Any]:
        if any(map(self.is_unknown, (*args, *call.closed_over))):
            return call.partial_eval(self, args)
        outer = state.traces
        state.traces = [self.parent]
        try:
            return self.parent.process_custom_call(call, args)
        finally:
            state.traces = outer

    def origin(self) -> str:
        return self.recorder.origin()

    def to_jaxpr(self, outs: Sequence[Any]) -> tuple[Jaxpr, list[Any]]:
        """The recorded program with dead code removed: (jaxpr with residuals as constvars,
        residuals)."""
        recorder = self.recorder
        outvars = [recorder.to_atom(x) for x in outs]
        needed: set[Any] = {v for v in outvars if type(v) is not Literal}
        eqns: list[JaxprEqn] = []
        for eqn in reversed(recorder.eqns):
            if not needed.isdisjoint(eqn.outvars) or has_side_effect(eqn.effects):
                needed.update(eqn.invars)
                eqns.append(eqn)
        eqns.reverse()
        kept = [pair for pair in recorder.constants.values() if pair[0] in needed]
        recorder.closed = True
        jaxpr = Jaxpr(
            [v for v, _ in kept],
            recorder.invars,
            outvars,
            eqns,
            recorder.effects,
            recorder.debug_info,
        )
        return jaxpr, [value for _, value in kept]


# -- wrapped functions ----------------------------------------------------------------------------


class PartialVal(tuple[Any, Any]):
    """A value that is known, `(None, value)`, or of which only the aval is, `(aval, None)`."""

    __slots__ = ()

    @classmethod
    def known(cls, value: Any) -> PartialVal:
        return cls((None, value))

    @classmethod
    def unknown(cls, aval: Any) -> PartialVal:
        return cls((aval, None))

    def is_known(self) -> bool:
        return self[0] is None

    def get_known(self) -> Any:
        """The value; None if it is not known."""
        return self[1]

    def get_aval(self) -> Any:
        return abstractify(self[1]) if self[0] is None else self[0]


def trace_to_jaxpr_dynamic(
    fun: WrappedFun, in_avals: Sequence[Any]
) -> tuple[Jaxpr, list[Any], list[Any]]:
    """Trace a wrapped function of flat values: (jaxpr, output avals, values of its constvars).

    >>> import pyjax.numpy as jnp
    >>> from pyjax.extend import linear_util
    >>> fun = linear_util.wrap_init(lambda x: [x + 1])
    >>> trace_to_jaxpr_dynamic(fun, [abstractify(2)])[0]
    { lambda ; a:i32[]. let b:i32[] = add a 1:i32[] in (b,) }
    """
    closed, out_avals = trace_to_jaxpr(fun.call_wrapped, in_avals, debug=fun.debug_info or UNKNOWN)
    return closed.jaxpr, list(out_avals), closed.consts


def trace_to_jaxpr_nounits(
    fun: WrappedFun, pvals: Sequence[PartialVal], instantiate: bool | Sequence[bool] = False
) -> tuple[Jaxpr, list[PartialVal], list[Any]]:
    """Run what depends on known values alone, record the rest.

    Args:
      fun: of flat values.   pvals: its arguments.
      instantiate: results to have as unknown though they are known (one flag or one per result).
    Returns:
      The recorded jaxpr, of the unknown arguments; the results; values of its constvars.
    """
    trace = PartialTrace(state.traces[0], fun.debug_info or UNKNOWN)
    args = [p.get_known() if p.is_known() else trace.new_unknown(p.get_aval()) for p in pvals]
    outs = list(under(trace, fun.call_wrapped, *args))
    forced = [instantiate] * len(outs) if isinstance(instantiate, bool) else instantiate
    unknown = [trace.is_unknown(x) or force for x, force in zip(outs, forced, strict=True)]
    jaxpr, residuals = trace.to_jaxpr([x for x, u in zip(outs, unknown) if u])
    results = [
        PartialVal.unknown(abstractify(x)) if u else PartialVal.known(x)
        for x, u in zip(outs, unknown)
    ]
    return jaxpr, results, residuals


# -- jaxprs ---------------------------------------------------------------------------------------


def partial_eval_jaxpr(
    closed: ClosedJaxpr, unknown_in: Sequence[bool], instantiate: bool | Sequence[bool] = False
) -> tuple[ClosedJaxpr, ClosedJaxpr, list[bool], list[Any]]:
    """Split a jaxpr by which of its inputs are known.

    Args:
      closed: the program.
      unknown_in: per input.
      instantiate: outputs to treat as unknown although they are known (one flag or one per output).
    Returns:
      known: known inputs -> known outputs + residuals.
      staged: residuals + unknown inputs -> unknown outputs.
      unknown_out: per output.
      residual_avals.
    """
    flags = instantiate if isinstance(instantiate, bool) else tuple(map(bool, instantiate))
    known, staged, unknown_out, residual_avals = _partial_eval_jaxpr(
        closed, tuple(map(bool, unknown_in)), flags
    )
    return known, staged, list(unknown_out), list(residual_avals)


@jaxpr_cache
def _partial_eval_jaxpr(
    closed: ClosedJaxpr, unknown_in: tuple[bool, ...], instantiate: bool | tuple[bool, ...]
) -> tuple[ClosedJaxpr, ClosedJaxpr, tuple[bool, ...], tuple[Any, ...]]:
    jaxpr = closed.jaxpr
    if isinstance(instantiate, bool):
        instantiate = (instantiate,) * len(jaxpr.outvars)
    forced = instantiate
    result: list[Any] = []

    def known_fun(*known_args: Any) -> list[Any]:
        trace = PartialTrace(state.traces[0], jaxpr.debug_info)
        known = iter(known_args)
        args = [
            trace.new_unknown(v.aval) if unknown else next(known)
            for v, unknown in zip(jaxpr.invars, unknown_in)
        ]
        outs = under(trace, eval_jaxpr, jaxpr, closed.consts, *args)
        unknown_out = [trace.is_unknown(x) or force for x, force in zip(outs, forced)]
        staged, residuals = trace.to_jaxpr([x for x, u in zip(outs, unknown_out) if u])
        result.extend((staged, tuple(unknown_out)))
        return [x for x, u in zip(outs, unknown_out) if not u] + residuals

    known_avals = [v.aval for v, u in zip(jaxpr.invars, unknown_in) if not u]
    known, out_avals = trace_to_jaxpr(known_fun, known_avals, debug=jaxpr.debug_info)
    staged, unknown_out = result
    num_known = sum(not u for u in unknown_out)
    return (
        known,
        ClosedJaxpr(constvars_as_inputs(staged)),
        unknown_out,
        tuple(out_avals[num_known:]),
    )
