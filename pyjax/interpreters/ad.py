"""Automatic differentiation: jvp and transposition (reverse mode: linearize.py, then the latter).

Functions here are flat: they take flat values and return flat lists. Layer: interpreters.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pyjax._config import options
from pyjax.core import call_chains, dtypes
from pyjax.core.avals import MeshArray, ShapedArray, abstractify
from pyjax.core.debug_info import UNKNOWN, DebugInfo
from pyjax.core.fault_checks import fault_checks, in_rule
from pyjax.core.jaxpr import (
    ClosedJaxpr,
    Jaxpr,
    JaxprEqn,
    Literal,
    Var,
    as_recorded,
    bind_eqn,
)
from pyjax.core.leaks import check_leaks
from pyjax.core.primitive import Primitive
from pyjax.core.refs import AbstractRef
from pyjax.core.structural import add_any_p as add_jaxvals_p
from pyjax.core.structural import (
    add_jaxvals,
    as_split,
    new_ref_p,
    new_tangent_ref_p,
    zeros_like_aval,
)
from pyjax.core.trace import CustomCall, Trace, Tracer, state, under
from pyjax.interpreters.ad_tables import (
    add_tangents,
    defbilinear,
    defjvp,
    defjvp2,
    deflinear,
    deflinear2,
    get_primitive_transpose,
    primitive_jvps,
    primitive_transposes,
)
from pyjax.interpreters.discharge import bind_discharged, holds_refs, uses_refs, without_own_refs
from pyjax.interpreters.partial_eval import trace_to_jaxpr
from pyjax.interpreters.rules import call_discharge_rules, jvp_rules, transpose_rules
from pyjax.interpreters.tangents import (
    UndefinedPrimal,
    Zero,
    instantiate_zeros,
    is_undefined_primal,
)
from pyjax.interpreters.trace_cache import jaxpr_cache

__all__ = [
    "add_jaxvals_p",
    "JVPTrace",
    "JVPTracer",
    "UndefinedPrimal",
    "Zero",
    "add_jaxvals",
    "add_tangents",
    "backward_pass",
    "defbilinear",
    "defjvp",
    "defjvp2",
    "deflinear",
    "deflinear2",
    "differentiated",
    "get_primitive_transpose",
    "instantiate_zeros",
    "is_undefined_primal",
    "jvp",
    "jvp_jaxpr",
    "primitive_jvps",
    "primitive_transposes",
    "transpose_jaxpr",
    "zeros_like_aval",
]

FlatFun = Callable[..., Sequence[Any]]


# -- forward mode ---------------------------------------------------------------------------------


class JVPTracer(Tracer):
    """A primal value with its tangent (an array, or Zero)."""

    __slots__ = ("primal", "tangent")

    def __init__(self, trace: JVPTrace, primal: Any, tangent: Any) -> None:
        self._trace = trace
        self.primal = primal
        self.tangent = tangent
        self.aval = primal.aval if hasattr(primal, "aval") else abstractify(primal)

    def to_concrete_value(self) -> Any:
        primal = self.primal
        return primal.to_concrete_value() if isinstance(primal, Tracer) else primal

    def _description(self) -> str:
        return f" with primal = {self.primal!r}, tangent = {self.tangent!r}"


class JVPTrace(Trace):
    """Applies jvp rules under `parent`."""

    def __init__(self, parent: Trace, debug_info: DebugInfo = UNKNOWN) -> None:
        self.parent: Trace = parent
        self.debug_info = debug_info
        self.closed = False
        self._names_rules = fault_checks() is not None
        self._made: dict[int, Any] | None = (
            {} if options.check_tracer_leaks.here()[0].value else None
        )

    def split(self, x: Any) -> tuple[Any, Any]:
        """(primal, tangent) of a value used under this trace."""
        if isinstance(x, JVPTracer) and x._trace is self:
            return x.primal, x.tangent
        return x, Zero(abstractify(x).to_tangent_aval())

    def drop_tangent(self, x: Any) -> Any:
        """The primal of a tracer of this trace; anything else as it is."""
        return x.primal if isinstance(x, JVPTracer) and x._trace is self else x

    def joined(self, outs: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        """Values under this trace for outputs and their tangents."""
        return [p if type(t) is Zero else JVPTracer(self, p, t) for p, t in zip(outs, tangents)]

    def pushed(
        self, primitive: Primitive, primals: list[Any], tangents: list[Any], params: dict[str, Any]
    ) -> tuple[list[Any], list[Any]]:
        """Outputs of a primitive and their tangents; called under the parent trace."""
        return jvp_rules[primitive](primals, tangents, **params)

    def pushed_call(
        self, call: CustomCall, primals: list[Any], tangents: list[Any]
    ) -> tuple[list[Any], list[Any]]:
        """The same for a function with a rule of its own."""
        return call.jvp(primals, tangents)

    def process_primitive(
        self, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]
    ) -> list[Any]:
        if primitive in call_discharge_rules and uses_refs(args, params):
            return bind_discharged(primitive, args, params)
        primals = []
        tangents = []
        all_zero = primitive is not new_ref_p and primitive is not new_tangent_ref_p
        for x in args:
            if isinstance(x, JVPTracer) and x._trace is self:
                primals.append(x.primal)
                tangents.append(x.tangent)
                all_zero = False
            else:
                primals.append(x)
                tangents.append(None)
        parent = self.parent
        outer = state.traces
        state.traces = [parent]
        try:
            if all_zero:
                return parent.process_primitive(primitive, args, params)
            for i, t in enumerate(tangents):
                if t is None:
                    tangents[i] = Zero(abstractify(primals[i]).to_tangent_aval())
            if self._names_rules:
                outs, out_tangents = self._pushed_by_name(primitive, primals, tangents, params)
            else:
                outs, out_tangents = self.pushed(primitive, primals, tangents, params)
        finally:
            state.traces = outer
        made = self.joined(outs, out_tangents)
        if self._made is not None:
            self._made.update({id(x): call_chains.current_frame() for x in made})
        return made

    def made_at(self, tracer: Tracer) -> Any:
        return None if self._made is None else self._made.get(id(tracer))

    def process_custom_call(self, call: CustomCall, args: Sequence[Any]) -> list[Any]:
        pairs = [self.split(x) for x in args]
        primals = [p for p, _ in pairs]
        tangents = [t for _, t in pairs]
        if any(isinstance(x, JVPTracer) and x._trace is self for x in call.closed_over):
            call.check_closed_over()
        outer = state.traces
        state.traces = [self.parent]
        try:
            if all(type(t) is Zero for t in tangents):
                return self.parent.process_custom_call(call, primals)
            outs, out_tangents = self.pushed_call(call, primals, tangents)
        finally:
            state.traces = outer
        return self.joined(outs, out_tangents)

    def _pushed_by_name(
        self, primitive: Primitive, primals: list[Any], tangents: list[Any], params: dict[str, Any]
    ) -> tuple[list[Any], list[Any]]:
        """`pushed`, under a frame that names the rule."""
        override = call_chains.override
        outer = override.frame
        override.frame = in_rule(call_chains.current_frame(), f"jvp of {primitive}")
        try:
            return self.pushed(primitive, primals, tangents, params)
        finally:
            override.frame = outer

    def origin(self) -> str:
        return self.debug_info.describe()


def jvp(
    fun: FlatFun, primals: Sequence[Any], tangents: Sequence[Any], debug: DebugInfo = UNKNOWN
) -> tuple[list[Any], list[Any]]:
    """Value and directional derivative of a flat function; tangents in and out may be Zero."""
    outs, out_tangents, _ = jvp_aux(lambda *xs: (fun(*xs), ()), primals, tangents, debug)
    return outs, out_tangents


def jvp_aux(
    fun: Callable[..., tuple[Sequence[Any], Sequence[Any]]],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    debug: DebugInfo = UNKNOWN,
) -> tuple[list[Any], list[Any], list[Any]]:
    """`jvp` of a function that returns (outputs, auxiliary values); the latter lose their
    tangents."""
    trace = JVPTrace(state.traces[0], debug)
    args = [
        p if type(t) is Zero or is_float0(t) else JVPTracer(trace, p, t)
        for p, t in zip(primals, tangents)
    ]
    pairs, aux = under(trace, differentiated, trace, fun, args)
    trace.closed = True
    if options.check_tracer_leaks.here()[0].value:
        over = weakref.ref(trace)
        del args, trace
        check_leaks(over)
    return [p for p, _ in pairs], [t for _, t in pairs], aux


def differentiated(
    trace: JVPTrace,
    fun: Callable[..., tuple[Sequence[Any], Sequence[Any]]],
    args: Sequence[Any],
) -> tuple[list[tuple[Any, Any]], list[Any]]:
    """Pairs of primal and tangent of the outputs, and the auxiliary values."""
    outs, aux = fun(*args)
    return [trace.split(x) for x in outs], [trace.drop_tangent(x) for x in aux]


def is_float0(x: Any) -> bool:
    """Whether a tangent is a float0 array (that of an integer input)."""
    return getattr(x, "dtype", None) == dtypes.float0


# -- transposition --------------------------------------------------------------------------------


def backward_pass(
    jaxpr: Jaxpr, consts: Sequence[Any], primals_in: Sequence[Any], cotangents: Sequence[Any]
) -> list[Any]:
    """Transpose a jaxpr that is linear in the inputs given as UndefinedPrimal.

    Args:
      consts: values of the constvars (residuals).
      primals_in: per input, a value or UndefinedPrimal(aval).
      cotangents: per output; Zero allowed.
    Returns:
      Per input, its cotangent (or Zero); for non-linear inputs, Zero.
    """
    if all(type(ct) is Zero for ct in cotangents):
        return [Zero(v.aval.to_cotangent_aval()) for v in jaxpr.invars]
    if jaxpr.effects and holds_refs(jaxpr):
        jaxpr = without_own_refs(jaxpr)
    linear: set[Var] = set()
    values: dict[Var, Any] = dict(zip(jaxpr.constvars, consts))
    for v, x in zip(jaxpr.invars, primals_in):
        if type(x) is UndefinedPrimal:
            linear.add(v)
        else:
            values[v] = x
    override = call_chains.override
    outer_frame = override.frame
    replay = call_chains.Replay()
    names_rules = fault_checks() is not None
    try:
        linear_eqns = _evaluate_nonlinear(jaxpr, linear, values, replay)
        cts: dict[Var, Any] = {}
        for v, ct in zip(jaxpr.outvars, cotangents):
            if type(v) is not Literal and v in linear and type(ct) is not Zero:
                cts[v] = add_jaxvals(cts[v], ct) if v in cts else ct
        while True:
            if not linear_eqns:
                break
            eqn = linear_eqns.pop()
            out_cts = [cts.pop(v, None) for v in eqn.outvars]
            present = False
            for i, ct in enumerate(out_cts):
                if ct is None:
                    out_cts[i] = Zero(eqn.outvars[i].aval.to_cotangent_aval())
                else:
                    present = True
            if not present:
                continue
            invars = eqn.invars
            args = [
                a.val
                if type(a) is Literal
                else UndefinedPrimal(a.aval)
                if a in linear
                else values[a]
                for a in invars
            ]
            override.frame = replay.at(eqn.source)
            if names_rules:
                override.frame = in_rule(override.frame, f"transpose of {eqn.primitive}")
            rule = transpose_rules[eqn.primitive]
            in_cts = as_recorded(invars, rule, out_cts, *args, **eqn.params)
            for a, ct in zip(invars, in_cts):
                if ct is None or type(ct) is Zero or type(a) is Literal:
                    continue
                if type(a.aval) is MeshArray or type(getattr(ct, "aval", None)) is MeshArray:
                    ct = as_split(ct, a.aval.cotangent_split())
                cts[a] = add_jaxvals(cts[a], ct) if a in cts else ct
    finally:
        override.frame = outer_frame
    result = []
    for v in jaxpr.invars:
        ct = cts.get(v)
        result.append(Zero(v.aval.to_cotangent_aval()) if ct is None else ct)
    return result


def _evaluate_nonlinear(
    jaxpr: Jaxpr, linear: set[Var], values: dict[Var, Any], replay: call_chains.Replay
) -> list[JaxprEqn]:
    """Run equations without linear operands; mark and return the others."""
    linear_eqns: list[JaxprEqn] = []
    for eqn in jaxpr.eqns:
        if not linear.isdisjoint(eqn.invars):
            linear.update(eqn.outvars)
            linear_eqns.append(eqn)
            continue
        operands = [a.val if type(a) is Literal else values[a] for a in eqn.invars]
        call_chains.override.frame = replay.at(eqn.source)
        values.update(zip(eqn.outvars, as_recorded(eqn.invars, bind_eqn, eqn, operands)))
    return linear_eqns


# -- jaxprs ---------------------------------------------------------------------------------------


def jvp_jaxpr(
    closed: ClosedJaxpr, nonzero_in: Sequence[bool], instantiate: bool | Sequence[bool] = False
) -> tuple[ClosedJaxpr, list[bool]]:
    """The jvp of a jaxpr as a jaxpr.

    Args:
      nonzero_in: which inputs have tangents.
      instantiate: which outputs must have tangents even if zero (one flag, or one per output).
    Returns:
      A jaxpr from primals then nonzero tangents to primals then nonzero tangents; which outputs
      have one.
    """
    if not isinstance(instantiate, bool):
        instantiate = tuple(map(bool, instantiate))
    new, nonzero_out = _jvp_jaxpr(closed, tuple(map(bool, nonzero_in)), instantiate)
    return new, list(nonzero_out)


@jaxpr_cache
def _jvp_jaxpr(
    closed: ClosedJaxpr, nonzero_in: tuple[bool, ...], instantiate: bool | tuple[bool, ...]
) -> tuple[ClosedJaxpr, tuple[bool, ...]]:
    in_avals = closed.in_avals
    n = len(in_avals)
    if isinstance(instantiate, bool):
        instantiate = (instantiate,) * len(closed.out_avals)
    forced = instantiate
    nonzero_out: list[bool] = []

    def fun(*args: Any) -> list[Any]:
        dense = iter(args[n:])
        tangents = [
            next(dense) if nz else Zero(a.to_tangent_aval()) for nz, a in zip(nonzero_in, in_avals)
        ]
        outs, out_tangents = jvp(closed.eval, args[:n], tangents, closed.jaxpr.debug_info)
        out_tangents = [
            instantiate_zeros(t) if force else t for t, force in zip(out_tangents, forced)
        ]
        nonzero_out.extend(type(t) is not Zero for t in out_tangents)
        return outs + [t for t in out_tangents if type(t) is not Zero]

    tangent_avals = [a.to_tangent_aval() for a, nz in zip(in_avals, nonzero_in) if nz]
    new, _ = trace_to_jaxpr(fun, [*in_avals, *tangent_avals], debug=closed.jaxpr.debug_info)
    return new, tuple(nonzero_out)


def transpose_jaxpr(
    closed: ClosedJaxpr, linear_in: Sequence[bool], nonzero_cts: Sequence[bool]
) -> tuple[ClosedJaxpr, list[bool]]:
    """The transpose of a jaxpr as a jaxpr.

    Args:
      linear_in: which inputs it is linear in.
      nonzero_cts: which outputs have a cotangent that is not Zero.
    Returns:
      A jaxpr from non-linear inputs then nonzero cotangents to nonzero cotangents of the linear
      inputs; which linear inputs have one.
    """
    new, nonzero = _transpose_jaxpr(
        closed, tuple(map(bool, linear_in)), tuple(map(bool, nonzero_cts))
    )
    return new, list(nonzero)


def transpose_call(
    closed: ClosedJaxpr, cts: Sequence[Any], args: Sequence[Any], call: Callable[..., Sequence[Any]]
) -> list[Any]:
    """Cotangents of the operands of a call by a call of the transposed program.

    Args:
      closed: the program that is called.
      args: its operands, `UndefinedPrimal` where it is linear in them.
      call: `(program, *values, *nonzero cotangents) -> results`, the same kind of call.
    Returns:
      None where an operand is not linear, or none of its cotangent is known.
    """
    linear = [is_undefined_primal(x) for x in args]
    nonzero = [type(ct) is not Zero for ct in cts]
    new, nonzero_out = transpose_jaxpr(closed, linear, nonzero)
    values = [x for x, lin in zip(args, linear) if not lin]
    found = iter(call(new, *values, *[ct for ct, nz in zip(cts, nonzero) if nz]))
    linear_cts = iter([next(found) if nz else None for nz in nonzero_out])
    return [next(linear_cts) if lin else None for lin in linear]


@jaxpr_cache
def _transpose_jaxpr(
    closed: ClosedJaxpr, linear_in: tuple[bool, ...], nonzero_cts: tuple[bool, ...]
) -> tuple[ClosedJaxpr, tuple[bool, ...]]:
    in_avals, out_avals = closed.in_avals, closed.out_avals
    nonzero_out: list[bool] = []
    num_nonlinear = sum(not x for x in linear_in)

    def fun(*args: Any) -> list[Any]:
        nonlinear = iter(args[:num_nonlinear])
        dense = iter(args[num_nonlinear:])
        primals = [
            UndefinedPrimal(a) if lin else next(nonlinear) for a, lin in zip(in_avals, linear_in)
        ]
        cts = [
            next(dense) if nz else Zero(a.to_cotangent_aval())
            for nz, a in zip(nonzero_cts, out_avals)
        ]
        found = backward_pass(closed.jaxpr, closed.consts, primals, cts)
        found = [ct for ct, lin in zip(found, linear_in) if lin]
        nonzero_out.extend(type(ct) is not Zero for ct in found)
        return [ct for ct in found if type(ct) is not Zero]

    avals = [a for a, lin in zip(in_avals, linear_in) if not lin]
    avals += [a.to_cotangent_aval() for a, nz in zip(out_avals, nonzero_cts) if nz]
    new, _ = trace_to_jaxpr(fun, avals, debug=closed.jaxpr.debug_info)
    return new, tuple(nonzero_out)


def zero_tangent_array(aval: ShapedArray | AbstractRef) -> Any:
    """Zeros for a tangent that users see: float0 for integers and mutable references."""
    tangent = aval.to_tangent_aval()
    if tangent.dtype == dtypes.float0 or type(aval) is AbstractRef:
        return np.zeros(aval.shape, dtypes.float0)
    return zeros_like_aval(tangent)
