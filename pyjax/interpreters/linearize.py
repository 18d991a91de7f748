"""Linearization: a function's value, and its derivative there as a linear program.

Two ways lead there (option `use_direct_linearize`). Direct: one trace runs primals at once, under
its parent, and records equations of tangents. A primitive may have a rule for that,
`rule(tape, primals, tangents, **params) -> (outs, tangents out)`, called under the parent; it
records on the tape, whose values the tangents are (or Zero). For others the jvp rule is linearized:
it runs on the tape, which computes what it knows and records what depends on tangents. The other
way is jvp of everything, with the tape below it: programs inside of equations are traced to their
jvp, which is traced once more to be split.

Functions here are flat, as in ad.py. Layer: interpreters.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

from pyjax._config import options
from pyjax.core import dtypes
from pyjax.core.avals import abstractify
from pyjax.core.debug_info import UNKNOWN, DebugInfo
from pyjax.core.jaxpr import ClosedJaxpr, Jaxpr, eval_jaxpr
from pyjax.core.leaks import check_leaks
from pyjax.core.primitive import Primitive
from pyjax.core.refs import AbstractRef
from pyjax.core.structural import zeros_like_aval
from pyjax.core.trace import CustomCall, state, under
from pyjax.interpreters.ad import FlatFun, JVPTrace, JVPTracer, backward_pass, differentiated
from pyjax.interpreters.lift_constants import constvars_as_inputs
from pyjax.interpreters.partial_eval import PartialTrace, trace_to_jaxpr
from pyjax.interpreters.rules import jvp_rules, linearize_rules
from pyjax.interpreters.tangents import UndefinedPrimal, Zero, instantiate_zeros
from pyjax.interpreters.trace_cache import jaxpr_cache


class LinearizeTracer(JVPTracer):
    """A primal value with its tangent, which is a value of the recorded program."""

    __slots__ = ()

    def __repr__(self) -> str:
        tangent = self.tangent.aval.str_short(short_dtypes=True)
        return f"GradTracer(primal={self.primal}, typeof(tangent)={tangent})"


class LinearizeTrace(JVPTrace):
    """Runs primals under the parent of `tape`, and records tangents there."""

    def __init__(self, tape: PartialTrace, debug_info: DebugInfo = UNKNOWN) -> None:
        super().__init__(tape.parent, debug_info)
        self.tape = tape

    def joined(self, outs: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        # A linear map of tangents that does not depend on them is zero.
        is_unknown = self.tape.is_unknown
        made = []
        for p, t in zip(outs, tangents):
            if is_unknown(p):
                raise _unknown_primals()
            made.append(LinearizeTracer(self, p, t) if is_unknown(t) else p)
        return made

    def pushed(
        self, primitive: Primitive, primals: list[Any], tangents: list[Any], params: dict[str, Any]
    ) -> tuple[list[Any], list[Any]]:
        rule = linearize_rules.get(primitive)
        if rule is None:
            return self.tape.run(jvp_rules[primitive], primals, tangents, **params)
        return rule(self.tape, primals, tangents, **params)

    def pushed_call(
        self, call: CustomCall, primals: list[Any], tangents: list[Any]
    ) -> tuple[list[Any], list[Any]]:
        return call.linearize(self.tape, primals, tangents)


class Linearized:
    """A linear map recorded by `linearize`.

    Attributes:
      jaxpr: residuals are constvars; inputs are the nonzero tangents in; outputs the nonzero ones
        out.
      residuals: values of the constvars.
      nonzero_in, nonzero_out: which primals in have tangents, which outputs depend on them.
      out_avals: of all tangents out.
    """

    __slots__ = ("jaxpr", "nonzero_in", "nonzero_out", "out_avals", "residuals")

    def __init__(
        self,
        jaxpr: Jaxpr,
        residuals: list[Any],
        nonzero_in: list[bool],
        nonzero_out: list[bool],
        out_avals: list[Any],
    ) -> None:
        self.jaxpr = jaxpr
        self.residuals = residuals
        self.nonzero_in = nonzero_in
        self.nonzero_out = nonzero_out
        self.out_avals = out_avals

    def apply(self, tangents: Sequence[Any]) -> list[Any]:
        """Tangents out (Zero where independent) for one tangent per primal."""
        dense = [instantiate_zeros(t) for t, nz in zip(tangents, self.nonzero_in) if nz]
        outs = iter(eval_jaxpr(self.jaxpr, self.residuals, *dense))
        return [next(outs) if nz else Zero(a) for nz, a in zip(self.nonzero_out, self.out_avals)]

    def transpose(self, cotangents: Sequence[Any]) -> list[Any]:
        """Cotangents of the primals that have tangents, from one cotangent per output."""
        cts = [ct for ct, nz in zip(cotangents, self.nonzero_out) if nz]
        linear = [UndefinedPrimal(v.aval) for v in self.jaxpr.invars]
        return backward_pass(self.jaxpr, self.residuals, linear, cts)


def linearize(
    fun: FlatFun,
    primals: Sequence[Any],
    nonzero_in: Sequence[bool] | None = None,
    debug: DebugInfo = UNKNOWN,
) -> tuple[list[Any], Linearized]:
    """Evaluate a flat function and record its derivative as a linear program.

    Args:
      nonzero_in: which primals to differentiate (default: those of inexact dtype).
    Raises:
      ValueError: an output's value depends on tangents (a loop whose length is unknown, say).
    """
    outs, linear, _ = linearize_aux(lambda *xs: (fun(*xs), ()), primals, nonzero_in, debug)
    return outs, linear


def linearize_aux(
    fun: Callable[..., tuple[Sequence[Any], Sequence[Any]]],
    primals: Sequence[Any],
    nonzero_in: Sequence[bool] | None = None,
    debug: DebugInfo = UNKNOWN,
) -> tuple[list[Any], Linearized, list[Any]]:
    """`linearize` of a function that returns (outputs, auxiliary values)."""
    avals = [abstractify(p) for p in primals]
    if nonzero_in is None:
        nonzero_in = [
            a.to_tangent_aval().dtype != dtypes.float0 and type(a) is not AbstractRef for a in avals
        ]
    tape = PartialTrace(state.traces[0], debug)
    direct = options.use_direct_linearize.here()[0].value
    trace: JVPTrace = LinearizeTrace(tape, debug) if direct else JVPTrace(tape, debug)
    tracer = LinearizeTracer if direct else JVPTracer
    args = [
        tracer(trace, p, tape.new_unknown(a.to_tangent_aval())) if nz else p
        for p, a, nz in zip(primals, avals, nonzero_in)
    ]
    pairs, aux = under(trace, differentiated, trace, fun, args)
    outs = [p for p, _ in pairs]
    tangents = [t for _, t in pairs]
    if any(map(tape.is_unknown, outs)):
        raise _unknown_primals()
    nonzero_out = [type(t) is not Zero for t in tangents]
    jaxpr, residuals = tape.to_jaxpr([t for t in tangents if type(t) is not Zero])
    trace.closed = True
    if options.check_tracer_leaks.here()[0].value:
        over = weakref.ref(trace)
        del args, trace
        check_leaks(over)
    out_avals = [abstractify(p).to_tangent_aval() for p in outs]
    return outs, Linearized(jaxpr, residuals, list(nonzero_in), nonzero_out, out_avals), aux


def _unknown_primals() -> ValueError:
    return ValueError(
        "Linearization failed to produce known values for all output primals. This is typically "
        "caused by differentiating an operation whose values and tangents come from one equation: "
        "a primitive with a jvp rule that does not compute values apart from tangents."
    )


def vjp(
    fun: FlatFun,
    primals: Sequence[Any],
    nonzero_in: Sequence[bool] | None = None,
    debug: DebugInfo = UNKNOWN,
) -> tuple[list[Any], Callable[[Sequence[Any]], list[Any]]]:
    """Value and pullback. The pullback takes a cotangent per output and returns one per primal:
    arrays, or Zero where nothing depends on it (its aval is the tangent's)."""
    outs, linear = linearize(fun, primals, nonzero_in, debug)
    avals = [abstractify(p).to_tangent_aval() for p in primals]

    def pullback(cotangents: Sequence[Any]) -> list[Any]:
        found = iter(linear.transpose(cotangents))
        return [next(found) if nz else Zero(a) for nz, a in zip(linear.nonzero_in, avals)]

    return outs, pullback


# -- jaxprs ---------------------------------------------------------------------------------------


def linearize_jaxpr(
    closed: ClosedJaxpr, nonzero_in: Sequence[bool], instantiate: bool | Sequence[bool] = False
) -> tuple[ClosedJaxpr, ClosedJaxpr, list[bool], list[Any]]:
    """The direct linearization of a jaxpr, as two.

    Args:
      nonzero_in: which inputs have tangents.
      instantiate: which outputs must have tangents even if zero (one flag, or one per output).
    Returns:
      primal: inputs -> outputs + residuals.
      linear: residuals + nonzero tangents in -> nonzero tangents out.
      nonzero_out: per output.
      residual_avals.
    """
    flags = instantiate if isinstance(instantiate, bool) else tuple(map(bool, instantiate))
    primal, linear, nonzero_out, residual_avals = _linearize_jaxpr(
        closed, tuple(map(bool, nonzero_in)), flags
    )
    return primal, linear, list(nonzero_out), list(residual_avals)


@jaxpr_cache
def _linearize_jaxpr(
    closed: ClosedJaxpr, nonzero_in: tuple[bool, ...], instantiate: bool | tuple[bool, ...]
) -> tuple[ClosedJaxpr, ClosedJaxpr, tuple[bool, ...], tuple[Any, ...]]:
    debug = closed.jaxpr.debug_info
    forced = instantiate
    if isinstance(forced, bool):
        forced = (forced,) * len(closed.out_avals)
    result: list[Any] = []

    def fun(*primals: Any) -> list[Any]:
        tape = PartialTrace(state.traces[0], debug)
        trace = LinearizeTrace(tape, debug)
        args = [
            LinearizeTracer(trace, p, tape.new_unknown(a.to_tangent_aval())) if nz else p
            for p, a, nz in zip(primals, closed.in_avals, nonzero_in)
        ]
        pairs = [trace.split(x) for x in under(trace, closed.eval, *args)]
        trace.closed = True
        tangents = [
            under(tape.recorder, zeros_like_aval, t.aval) if force and type(t) is Zero else t
            for (_, t), force in zip(pairs, forced)
        ]
        linear, residuals = tape.to_jaxpr([t for t in tangents if type(t) is not Zero])
        result.extend((linear, tuple([type(t) is not Zero for t in tangents])))
        return [p for p, _ in pairs] + residuals

    primal, out_avals = trace_to_jaxpr(fun, closed.in_avals, debug=debug)
    linear, nonzero_out = result
    residual_avals = tuple(out_avals[len(nonzero_out) :])
    return primal, ClosedJaxpr(constvars_as_inputs(linear)), nonzero_out, residual_avals
