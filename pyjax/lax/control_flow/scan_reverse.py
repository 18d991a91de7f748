"""Reverse mode of scan: splitting a scan into a known and a recorded one (by what is known, or into
primals and tangents), and transposing the latter.

Residuals that do not change from step to step are computed once, outside the loop; residuals that
are slices of xs are not stored again; the others are stacked by the known scan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyjax.core.jaxpr import ClosedJaxpr, Literal
from pyjax.core.structural import add_jaxvals, zeros_like_aval
from pyjax.interpreters import ad
from pyjax.interpreters.lift_constants import bind_lifted
from pyjax.interpreters.linearize import linearize_jaxpr
from pyjax.interpreters.partial_eval import partial_eval_jaxpr, trace_to_jaxpr
from pyjax.interpreters.trace_cache import jaxpr_cache
from pyjax.lax.common import aval_of
from pyjax.lax.control_flow.scan_rules import scan_p
from pyjax.lax.control_flow.tracing import either, merge, pick, reordered, split_list
from xla_backend.process.values import Value

# -- splitting -------------------------------------------------------------------------------------


class _Split(Value):
    """A scan split by which of its operands are known, or into primals (known) and tangents.

    Attributes:
      carry_unknown, ys_unknown: which outputs are recorded.
      hoisted: known consts -> values that are the same in every step.
      loop: body of the known scan: hoisted values, known carry, known xs -> known carry, known ys,
        residuals.
      staged: body of the recorded scan: fixed residuals, unknown consts, carry, stacked residuals,
        unknown xs.
      residuals: for each residual of the body where it comes from: ("fixed", i of hoisted),
        ("xs", i of known xs) or ("stacked", i of loop residuals).
    """

    carry_unknown: list[bool]
    ys_unknown: list[bool]
    hoisted: ClosedJaxpr
    num_fixed: int
    loop: ClosedJaxpr
    staged: ClosedJaxpr
    sources: list[tuple[str, int]]


# (body, which inputs are marked, which outputs must be) -> the two bodies, which outputs are
# marked, residuals.
_Cut = Callable[
    [ClosedJaxpr, list[bool], list[bool]],
    tuple[ClosedJaxpr, ClosedJaxpr, Sequence[bool], Sequence[Any]],
]


@jaxpr_cache
def _split_body(
    jaxpr: ClosedJaxpr, num_consts: int, num_carry: int, unknown: tuple[bool, ...]
) -> _Split:
    n_consts, n_carry = num_consts, num_carry
    known, staged, residuals, marks = _cut(partial_eval_jaxpr, jaxpr, n_consts, n_carry, unknown)
    consts_uk, carry_uk, ys_uk = marks
    counts = n_consts - sum(consts_uk), n_carry - sum(carry_uk), sum(consts_uk)
    return _arranged(known, staged, residuals, counts, carry_uk, ys_uk)


@jaxpr_cache
def _linearized_body(
    jaxpr: ClosedJaxpr, num_consts: int, num_carry: int, nonzero: tuple[bool, ...]
) -> _Split:
    n_consts, n_carry = num_consts, num_carry
    primal, linear, residuals, marks = _cut(linearize_jaxpr, jaxpr, n_consts, n_carry, nonzero)
    consts_nz, carry_nz, ys_nz = marks
    counts = n_consts, n_carry, sum(consts_nz)
    return _arranged(primal, linear, residuals, counts, carry_nz, ys_nz)


def _cut(
    cut: _Cut, jaxpr: ClosedJaxpr, num_consts: int, num_carry: int, marked: Sequence[bool]
) -> tuple[ClosedJaxpr, ClosedJaxpr, int, tuple[list[bool], list[bool], list[bool]]]:
    """Cut a body in two so that a carry that comes out marked goes in marked; (the two, number of
    residuals, marks of constants, carry and ys)."""
    consts, carry, xs = split_list(marked, num_consts, num_carry)
    num_ys = len(jaxpr.out_avals) - num_carry
    while True:
        first, second, out, residuals = cut(jaxpr, consts + carry + xs, carry + [False] * num_ys)
        carry_out, ys = split_list(out, num_carry)
        if carry_out == carry:
            return first, second, len(residuals), (consts, carry, ys)
        carry = either(carry, carry_out)


def _arranged(
    known: ClosedJaxpr,
    staged: ClosedJaxpr,
    num_residuals: int,
    counts: tuple[int, int, int],
    carry_unknown: list[bool],
    ys_unknown: list[bool],
) -> _Split:
    """The loops for a body that is split in two; `counts`: of known constants, known carries, and
    unknown constants."""
    num_known_consts, num_known_carry, n_consts = counts
    num_known_outs = len(known.out_avals) - num_residuals
    # Hoist: treat carry and xs as unknown; what is known then is the same in every step.
    in_loop = [False] * num_known_consts + [True] * (len(known.in_avals) - num_known_consts)
    hoist, loop, varies, fixed_avals = partial_eval_jaxpr(
        known, in_loop, [True] * num_known_outs + [False] * num_residuals
    )
    residual_varies = varies[num_known_outs:]
    # hoist returns fixed residuals of the staged body, then values the loop needs.
    num_fixed = num_residuals - sum(residual_varies)
    num_loop_consts = len(fixed_avals)
    xs_vars = {v: i for i, v in enumerate(loop.jaxpr.invars[num_loop_consts + num_known_carry :])}
    sources: list[tuple[str, int]] = []
    stacked_outs: list[int] = []
    loop_position, fixed_position = num_known_outs, 0
    for varying in residual_varies:
        if not varying:
            sources.append(("fixed", fixed_position))
            fixed_position += 1
            continue
        v = loop.jaxpr.outvars[loop_position]
        if type(v) is not Literal and v in xs_vars:
            sources.append(("xs", xs_vars[v]))
        else:
            sources.append(("stacked", len(stacked_outs)))
            stacked_outs.append(loop_position)
        loop_position += 1
    loop = reordered(loop, range(len(loop.in_avals)), [*range(num_known_outs), *stacked_outs])
    # Recorded body: fixed residuals and unknown consts, carry, other residuals and unknown xs.
    fixed = [i for i, (kind, _) in enumerate(sources) if kind == "fixed"]
    moving = [i for i, (kind, _) in enumerate(sources) if kind != "fixed"]
    n_carry = sum(carry_unknown)
    after = num_residuals + n_consts
    ins = [
        *fixed,
        *range(num_residuals, after),
        *range(after, after + n_carry),
        *moving,
        *range(after + n_carry, len(staged.in_avals)),
    ]
    staged = reordered(staged, ins, range(len(staged.out_avals)))
    return _Split(carry_unknown, ys_unknown, hoist, num_fixed, loop, staged, sources)


# Operands of a scan: constants, initial carry, xs.
_Operands = tuple[Sequence[Any], Sequence[Any], Sequence[Any]]


def _run_known(
    split: _Split, known: _Operands, unknown: _Operands, params: dict[str, Any]
) -> tuple[list[Any], list[Any], dict[str, Any]]:
    """Run the known part; (known outputs, operands of the recorded scan, its parameters)."""
    consts, init, xs = known
    fixed_values = split.hoisted.eval(*consts)
    fixed, loop_consts = split_list(fixed_values, split.num_fixed)
    outs: list[Any] = []
    if split.loop.out_avals or split.loop.effects:
        outs = bind_lifted(
            scan_p,
            *loop_consts,
            *init,
            *xs,
            jaxpr=split.loop,
            num_consts=len(loop_consts),
            num_carry=len(init),
            **params,
        )
    num_known_outs = len(outs) - sum(kind == "stacked" for kind, _ in split.sources)
    known_outs, stacked = outs[:num_known_outs], outs[num_known_outs:]
    places = {"xs": xs, "stacked": stacked}
    moving = [places[kind][i] for kind, i in split.sources if kind != "fixed"]
    unknown_consts, unknown_init, unknown_xs = unknown
    operands = [*fixed, *unknown_consts, *unknown_init, *moving, *unknown_xs]
    staged_params = dict(
        params,
        jaxpr=split.staged,
        num_consts=len(fixed) + len(unknown_consts),
        num_carry=len(unknown_init),
    )
    return known_outs, operands, staged_params


def _run_split(
    args: Sequence[Any],
    unknown: Sequence[bool],
    *,
    jaxpr: ClosedJaxpr,
    num_consts: int,
    num_carry: int,
    **params: Any,
) -> tuple[_Split, list[Any], list[Any], dict[str, Any]]:
    """Split by what is known, and run that; (split, and what `_run_known` gives)."""
    split = _split_body(jaxpr, num_consts, num_carry, tuple(map(bool, unknown)))
    consts, init, xs = split_list(args, num_consts, num_carry)
    consts_uk, _, xs_uk = split_list(unknown, num_consts, num_carry)
    carry_uk = split.carry_unknown
    known = pick(consts, consts_uk, False), pick(init, carry_uk, False), pick(xs, xs_uk, False)
    recorded = pick(consts, consts_uk), pick(init, carry_uk), pick(xs, xs_uk)
    return split, *_run_known(split, known, recorded, params)


def scan_partial_eval(trace: Any, args: Sequence[Any], **params: Any) -> list[Any]:
    unknown = [trace.is_unknown(x) for x in args]
    split, known_outs, operands, staged_params = _run_split(args, unknown, **params)
    unknown_out = split.carry_unknown + split.ys_unknown
    if not any(unknown_out):
        return known_outs
    avals = scan_p.abstract_eval(*map(aval_of, operands), **staged_params)
    staged_outs = trace.emit(scan_p, operands, avals, staged_params)
    return merge(unknown_out, staged_outs, known_outs)


def scan_linearize(
    tape: Any,
    primals: Sequence[Any],
    tangents: Sequence[Any],
    *,
    jaxpr: ClosedJaxpr,
    num_consts: int,
    num_carry: int,
    **params: Any,
) -> tuple[list[Any], list[Any]]:
    nonzero = tuple([type(t) is not ad.Zero for t in tangents])
    split = _linearized_body(jaxpr, num_consts, num_carry, nonzero)
    consts, init, xs = split_list(primals, num_consts, num_carry)
    parts = split_list(tangents, num_consts, num_carry)
    consts_nz, _, xs_nz = split_list(nonzero, num_consts, num_carry)
    init_t = [ad.instantiate_zeros(t) for t in pick(parts[1], split.carry_unknown)]
    recorded = pick(parts[0], consts_nz), init_t, pick(parts[2], xs_nz)
    outs, operands, staged_params = _run_known(split, (consts, init, xs), recorded, params)
    nonzero_out = split.carry_unknown + split.ys_unknown
    zeros = [ad.Zero(aval_of(out).to_tangent_aval()) for out in outs]
    if not any(nonzero_out):
        return outs, zeros
    avals = scan_p.abstract_eval(*map(aval_of, operands), **staged_params)
    found = tape.emit(scan_p, operands, avals, staged_params)
    return outs, merge(nonzero_out, found, pick(zeros, nonzero_out, False))


# -- transposition ---------------------------------------------------------------------------------


@jaxpr_cache
def _transposed_body(
    jaxpr: ClosedJaxpr,
    num_consts: int,
    num_carry: int,
    consts_lin: tuple[bool, ...],
    xs_lin: tuple[bool, ...],
    ys_nonzero: tuple[bool, ...],
) -> ClosedJaxpr:
    """(residual consts | cts of consts, ct of carry | cts of ys, residual xs) ->
    (cts of consts, ct of carry | cts of xs). Cotangents of constants add up over the steps."""
    consts_avals, carry_avals, xs_avals = split_list(jaxpr.in_avals, num_consts, num_carry)
    ys_avals = jaxpr.out_avals[num_carry:]
    cotangent = lambda avals: [a.to_cotangent_aval() for a in avals]
    res_c, lin_c = pick(consts_avals, consts_lin, False), cotangent(pick(consts_avals, consts_lin))
    ct_carry_avals = cotangent(carry_avals)
    ct_ys_avals = cotangent(pick(ys_avals, ys_nonzero))
    res_x = pick(xs_avals, xs_lin, False)

    def fun(*args: Any) -> list[Any]:
        c, ct_c, ct_carry, ct_ys, x = split_list(
            args, len(res_c), len(lin_c), num_carry, len(ct_ys_avals)
        )
        primals = [
            *merge(consts_lin, [ad.UndefinedPrimal(a) for a in pick(consts_avals, consts_lin)], c),
            *[ad.UndefinedPrimal(a) for a in carry_avals],
            *merge(xs_lin, [ad.UndefinedPrimal(a) for a in pick(xs_avals, xs_lin)], x),
        ]
        zeros = [ad.Zero(a.to_cotangent_aval()) for a in pick(ys_avals, ys_nonzero, False)]
        cts = [*ct_carry, *merge(ys_nonzero, ct_ys, zeros)]
        found = ad.backward_pass(jaxpr.jaxpr, jaxpr.consts, primals, cts)
        new_c, new_carry, new_x = split_list(found, num_consts, num_carry)
        sums = [
            old if type(ct) is ad.Zero else add_jaxvals(old, ct)
            for old, ct in zip(ct_c, pick(new_c, consts_lin))
        ]
        out_carry = [ad.instantiate_zeros(ct) for ct in new_carry]
        return sums + out_carry + [ad.instantiate_zeros(ct) for ct in pick(new_x, xs_lin)]

    avals = [*res_c, *lin_c, *ct_carry_avals, *ct_ys_avals, *res_x]
    return trace_to_jaxpr(fun, avals, debug=jaxpr.jaxpr.debug_info)[0]


def scan_transpose(cts: Sequence[Any], *args: Any, **params: Any) -> list[Any]:
    linear = [ad.is_undefined_primal(x) for x in args]
    num_consts, num_carry = params["num_consts"], params["num_carry"]
    if all(linear[num_consts : num_consts + num_carry]):
        return _transpose_linear(cts, args, **params)
    # Some carries start from values: either zeros, from which a linear carry develops, or the carry
    # does not depend on linear operands (a counter); those are scanned first.
    split = _split_body(params["jaxpr"], num_consts, num_carry, tuple(linear))
    if all(split.carry_unknown):
        return _transpose_linear(cts, args, **params)
    split, _, operands, staged_params = _run_split(args, linear, **params)
    unknown_out = split.carry_unknown + split.ys_unknown
    in_cts = _transpose_linear(pick(cts, unknown_out), operands, **staged_params)
    linear_cts = [ct for ct, x in zip(in_cts, operands) if ad.is_undefined_primal(x)]
    return merge(linear, linear_cts, [None] * len(args))


def _transpose_linear(
    cts: Sequence[Any],
    args: Sequence[Any],
    *,
    jaxpr: ClosedJaxpr,
    num_consts: int,
    num_carry: int,
    reverse: bool,
    **params: Any,
) -> list[Any]:
    """Transpose a scan whose whole carry is linear, by a scan in the other direction."""
    linear = [ad.is_undefined_primal(x) for x in args]
    consts_lin, init_lin, xs_lin = split_list(linear, num_consts, num_carry)
    consts, _, xs = split_list(args, num_consts, num_carry)
    ct_carry, ct_ys = split_list(cts, num_carry)
    ys_nonzero = tuple(type(ct) is not ad.Zero for ct in ct_ys)
    body = _transposed_body(
        jaxpr, num_consts, num_carry, tuple(consts_lin), tuple(xs_lin), ys_nonzero
    )
    ct_consts = [zeros_like_aval(x.aval.to_cotangent_aval()) for x in pick(consts, consts_lin)]
    outs = bind_lifted(
        scan_p,
        *pick(consts, consts_lin, False),
        *ct_consts,
        *[ad.instantiate_zeros(ct) for ct in ct_carry],
        *pick(ct_ys, ys_nonzero),
        *pick(xs, xs_lin, False),
        jaxpr=body,
        num_consts=num_consts - len(ct_consts),
        num_carry=num_carry + len(ct_consts),
        reverse=not reverse,
        **params,
    )
    new_consts, new_init, new_xs = split_list(outs, len(ct_consts), num_carry)
    return [
        *merge(consts_lin, new_consts, [None] * num_consts),
        *[ct if lin else None for ct, lin in zip(new_init, init_lin)],
        *merge(xs_lin, new_xs, [None] * len(xs)),
    ]
