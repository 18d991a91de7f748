"""The `jit` primitive: a call of a traced function, with its rules. The API is in api/jit.py.

Every derived jaxpr (jvp, known and unknown parts, transpose, batched) is remembered with the jaxpr
it comes from, so nested jits are transformed once. Layer: api.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyjax.api.flat import as_arrays
from pyjax.core import call_chains
from pyjax.core.effects import Effects
from pyjax.core.jaxpr import ClosedJaxpr, JaxprEqn, Literal, Var, bind_eqn, eval_jaxpr
from pyjax.core.trace import state
from pyjax.interpreters import ad, batching
from pyjax.interpreters.dead_code import dce_call_rule
from pyjax.interpreters.discharge import discharge_call
from pyjax.interpreters.hlo import LoweringContext
from pyjax.interpreters.lift_constants import bind_lifted, lift_leading, lift_rules
from pyjax.interpreters.linearize import linearize_jaxpr
from pyjax.interpreters.partial_eval import PartialTrace, partial_eval_jaxpr
from pyjax.interpreters.rules import (
    FullJvp,
    call_discharge_rules,
    called_programs,
    define_primitive,
)
from pyjax.interpreters.staging import is_staging, staging_rules
from pyjax.interpreters.tangents import Zero
from pyjax.interpreters.trace_cache import jaxpr_cache
from pyjax.interpreters.varying import as_program_says, varying_rules
from xla_backend.hlo.instruction import Instruction


def _abstract_eval(*avals: Any, jaxpr: ClosedJaxpr, **_: Any) -> list[Any]:
    return list(jaxpr.out_avals)


def _effects(*avals: Any, jaxpr: ClosedJaxpr, **_: Any) -> Effects:
    return jaxpr.effects


def _params(
    jaxpr: ClosedJaxpr, name: str, inline: bool = False, keep_unused: bool = False
) -> dict[str, Any]:
    return {
        "jaxpr": jaxpr,
        "name": name,
        "donated_invars": (False,) * len(jaxpr.in_avals),
        "keep_unused": keep_unused,
        "inline": inline,
    }


def _jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, jaxpr: ClosedJaxpr, name: str, **params: Any
) -> tuple[list[Any], list[Any]]:
    nonzero_in = [type(t) is not Zero for t in tangents]
    new, nonzero_out = ad.jvp_jaxpr(jaxpr, nonzero_in)
    dense = [t for t in tangents if type(t) is not Zero]
    inline = params.get("inline", False)
    outs = bind_lifted(jit_p, *primals, *dense, **_params(new, name, inline))
    n = len(jaxpr.out_avals)
    found = iter(outs[n:])
    out_tangents = [
        next(found) if nz else Zero(a.to_tangent_aval())
        for nz, a in zip(nonzero_out, jaxpr.out_avals)
    ]
    return outs[:n], out_tangents


# -- partial evaluation ---------------------------------------------------------------------------


class _Split:
    """A jaxpr split for partial evaluation, with outputs that need no computing taken out.

    `sources` says where each output of the known part comes from: ("in", i), ("out", i) or
    ("value", constant or literal).
    """

    def __init__(self, known: ClosedJaxpr, staged: ClosedJaxpr, unknown_out: list[bool]) -> None:
        self.staged = staged
        self.unknown_out = unknown_out
        jaxpr = known.jaxpr
        inputs = {v: i for i, v in enumerate(jaxpr.invars)}
        constants = dict(zip(jaxpr.constvars, known.consts))
        position: dict[Var, int] = {}
        outvars: list[Var] = []
        self.sources: list[tuple[str, Any]] = []
        for v in jaxpr.outvars:
            if type(v) is Literal:
                self.sources.append(("value", v.val))
            elif v in constants:
                self.sources.append(("value", constants[v]))
            elif v in inputs:
                self.sources.append(("in", inputs[v]))
            else:
                if v not in position:
                    position[v] = len(outvars)
                    outvars.append(v)
                self.sources.append(("out", position[v]))
        self.known = ClosedJaxpr(jaxpr.replace(outvars=outvars), known.consts)

    def run(self, args: Sequence[Any], name: str) -> list[Any]:
        """Known outputs and residuals."""
        outs: list[Any] = []
        if self.known.jaxpr.outvars or self.known.effects:
            outs = bind_lifted(jit_p, *args, **_params(self.known, name))
        places = {"in": args, "out": outs}
        results = [x if kind == "value" else places[kind][x] for kind, x in self.sources]
        return results if is_staging(state.traces[0]) else as_arrays(results)


@jaxpr_cache
def _split(jaxpr: ClosedJaxpr, unknown_in: tuple[bool, ...]) -> _Split:
    known, staged, unknown_out, _ = partial_eval_jaxpr(jaxpr, unknown_in, False)
    return _Split(known, staged, unknown_out)


def _partial_eval(
    trace: PartialTrace, args: Sequence[Any], *, jaxpr: ClosedJaxpr, name: str, **params: Any
) -> list[Any]:
    unknown_in = tuple(map(trace.is_unknown, args))
    split = _split(jaxpr, unknown_in)
    known_args = [x for x, u in zip(args, unknown_in) if not u]
    results = split.run(known_args, name)
    num_known = sum(not u for u in split.unknown_out)
    known_outs, residuals = iter(results[:num_known]), results[num_known:]
    unknown_args = [x for x, u in zip(args, unknown_in) if u]
    unknown_outs = iter(_recorded(trace, split.staged, [*residuals, *unknown_args], name))
    return [next(unknown_outs) if u else next(known_outs) for u in split.unknown_out]


def _recorded(
    trace: PartialTrace, staged: ClosedJaxpr, inputs: Sequence[Any], name: str
) -> list[Any]:
    if not staged.out_avals:
        return []
    params = _params(staged, name)
    return trace.emit(jit_p, inputs, staged.out_avals, params, staged.effects)


# -- linearization --------------------------------------------------------------------------------


@jaxpr_cache
def _linearized(jaxpr: ClosedJaxpr, nonzero_in: tuple[bool, ...]) -> _Split:
    primal, linear, nonzero_out, _ = linearize_jaxpr(jaxpr, nonzero_in)
    return _Split(primal, linear, nonzero_out)


def _linearize(
    tape: PartialTrace,
    primals: Sequence[Any],
    tangents: Sequence[Any],
    *,
    jaxpr: ClosedJaxpr,
    name: str,
    **params: Any,
) -> tuple[list[Any], list[Any]]:
    split = _linearized(jaxpr, tuple([type(t) is not Zero for t in tangents]))
    results = split.run(primals, name)
    n = len(jaxpr.out_avals)
    dense = [t for t in tangents if type(t) is not Zero]
    found = iter(_recorded(tape, split.staged, [*results[n:], *dense], name))
    return results[:n], [
        next(found) if nz else Zero(a.to_tangent_aval())
        for nz, a in zip(split.unknown_out, jaxpr.out_avals)
    ]


# -- transposition, batching ----------------------------------------------------------------------


def _transpose(
    cts: Sequence[Any], *args: Any, jaxpr: ClosedJaxpr, name: str, **_: Any
) -> list[Any]:
    def call(new: ClosedJaxpr, *operands: Any) -> list[Any]:
        return bind_lifted(jit_p, *operands, **_params(new, name))

    return ad.transpose_call(jaxpr, cts, args, call)


def _batching(
    axis_size: int,
    args: Sequence[Any],
    dims: Sequence[Any],
    *,
    jaxpr: ClosedJaxpr,
    name: str,
    **p: Any,
) -> tuple[list[Any], list[Any]]:
    moved = [x if d is None else batching.move_bdim(x, d, 0) for x, d in zip(args, dims)]
    new, batched = batching.batch_jaxpr(jaxpr, axis_size, [d is not None for d in dims])
    outs = jit_p.bind(*moved, **_params(new, name, p.get("inline", False)))
    return outs, [0 if b else None for b in batched]


# -- lowering, inlining ---------------------------------------------------------------------------


def _with_jaxpr(jaxpr: ClosedJaxpr, params: Mapping[str, Any]) -> dict[str, Any]:
    return _params(jaxpr, params["name"], params.get("inline", False))


def _lowering(
    ctx: LoweringContext, *operands: Instruction, jaxpr: ClosedJaxpr, name: str, **_: Any
) -> list[Instruction]:
    names = ctx.names
    ctx.names = (*names, *(ctx.source.names if ctx.source else ()), f"jit({name})")
    try:
        if len(jaxpr.eqns) <= 2:
            return ctx.inline_jaxpr(jaxpr, *operands)
        return ctx.call(jaxpr, name, *operands)
    finally:
        ctx.names = names


jit_p = define_primitive(
    "jit",
    abstract_eval=_abstract_eval,
    jvp=FullJvp(_jvp),
    transpose=_transpose,
    batching=_batching,
    lowering=_lowering,
    partial_eval=_partial_eval,
    linearize=_linearize,
    dce=dce_call_rule(_with_jaxpr),
    effects=_effects,
    multiple_results=True,
)
called_programs[jit_p] = "jaxpr"
varying_rules[jit_p] = as_program_says("jaxpr")
lift_rules[jit_p] = lift_leading("jaxpr")
call_discharge_rules[jit_p] = discharge_call(jit_p, _with_jaxpr)


def _stage_inline(trace: Any, args: Any, params: dict[str, Any]) -> list[Any] | None:
    if not params.get("inline", False):
        return None
    jaxpr = params["jaxpr"].jaxpr
    if not jaxpr.debug_info.is_library():
        return eval_jaxpr(jaxpr, params["jaxpr"].consts, *args)
    # A function of pyjax was traced for the user's line that called it first.
    here = call_chains.current_frame()

    def bind_here(eqn: JaxprEqn, values: Sequence[Any]) -> Sequence[Any]:
        call_chains.override.frame = here
        return bind_eqn(eqn, values)

    return eval_jaxpr(jaxpr, params["jaxpr"].consts, *args, apply=bind_here)


staging_rules[jit_p] = _stage_inline
