"""The cond primitive: an index chooses one of several jaxprs. Its rules.

Operands: index (int32 scalar), then the operands of every branch. Branches hold no constants that
are tracers; all have the same input and output types.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pyjax.core import dtypes
from pyjax.core.avals import ShapedArray
from pyjax.core.effects import IOEffect, OrderedIOEffect, join_effects, moved_effects
from pyjax.core.errors import fail
from pyjax.core.jaxpr import ClosedJaxpr, JaxprEqn
from pyjax.core.structural import zeros_like_aval
from pyjax.interpreters import ad
from pyjax.interpreters.batching import batch_jaxpr, bdim_at_front, not_mapped
from pyjax.interpreters.dead_code import dce_closed_jaxpr
from pyjax.interpreters.hlo import aval_to_shape
from pyjax.interpreters.lift_constants import Lift, bind_lifted, lift_rules
from pyjax.interpreters.linearize import linearize_jaxpr
from pyjax.interpreters.partial_eval import partial_eval_jaxpr, trace_to_jaxpr
from pyjax.interpreters.rules import FullJvp, call_discharge_rules, define_primitive
from pyjax.interpreters.trace_cache import jaxpr_cache
from pyjax.interpreters.varying import Axes, Variation, along_too, varying_rules, vma_of
from pyjax.lax.common import aval_of, shape_of
from pyjax.lax.compare import eq, select, select_n
from pyjax.lax.control_flow.references import cond_discharge
from pyjax.lax.control_flow.tracing import either, merge, pick, with_common_leading, with_leading
from pyjax.lax.misc import stop_gradient
from pyjax.lax.nary import expand_to
from xla_backend.hlo.attributes import ComparisonDirection, ConditionalAttributes
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import PrimitiveType

Branches = tuple[ClosedJaxpr, ...]


def _cond_aval(index: ShapedArray, *avals: Any, branches: Branches, **params: Any) -> list[Any]:
    outs = []
    for same in zip(*(b.out_avals for b in branches)):
        first = same[0]
        if getattr(first, "weak_type", False) and not all(a.weak_type for a in same):
            first = first.strip_weak_type()
        outs.append(first)
    return outs


def _cond_variation(
    operands: list[Axes], results: Sequence[Any], params: dict[str, Any]
) -> Variation:
    """Results vary along the axes along which the index does: devices run different branches."""
    branches: Branches = params["branches"]
    nowhere: Axes = frozenset()
    wanted = [nowhere.union(*same) for same in zip(*(vma_of(b.in_avals) for b in branches))]
    found = [
        nowhere.union(*(along_too("a result of cond", a, operands[0]) for a in same))
        for same in zip(*(b.out_avals for b in branches))
    ]
    return [operands[0], *wanted], found


def _cond_effects(index: Any, *avals: Any, branches: Branches, **params: Any) -> Any:
    positions = range(1, 1 + len(avals))
    return join_effects(moved_effects(b.effects, positions) for b in branches)


# -- differentiation -------------------------------------------------------------------------------


def _nonzero_outputs(branches: Branches, nonzero_in: Sequence[bool]) -> list[bool]:
    """Outputs with a tangent in any branch."""
    result = [False] * len(branches[0].out_avals)
    for branch in branches:
        result = either(result, ad.jvp_jaxpr(branch, nonzero_in, False)[1])
    return result


def _cond_jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, branches: Branches, **params: Any
) -> tuple[list[Any], list[Any]]:
    index, *operands = primals
    op_tangents = tangents[1:]
    nonzero_in = [type(t) is not ad.Zero for t in op_tangents]
    nonzero_out = _nonzero_outputs(branches, nonzero_in)
    pushed = tuple(ad.jvp_jaxpr(b, nonzero_in, nonzero_out)[0] for b in branches)
    outs = bind_lifted(
        cond_p, index, *operands, *pick(op_tangents, nonzero_in), branches=pushed, **params
    )
    n = len(nonzero_out)
    found = iter(outs[n:])
    out_tangents = [
        next(found) if nz else ad.Zero(aval_of(out).to_tangent_aval())
        for nz, out in zip(nonzero_out, outs[:n])
    ]
    return outs[:n], out_tangents


@jaxpr_cache
def with_residual_slots(
    known: ClosedJaxpr, num_outs: int, slots: tuple[int, ...], slot_avals: tuple[Any, ...]
) -> ClosedJaxpr:
    """A known branch whose residuals go to the given slots; zeros fill the unused ones."""

    def fun(*args: Any) -> list[Any]:
        outs = known.eval(*args)
        filled = [None] * len(slot_avals)
        for slot, residual in zip(slots, outs[num_outs:]):
            filled[slot] = residual
        return outs[:num_outs] + [
            zeros_like_aval(aval) if x is None else x for x, aval in zip(filled, slot_avals)
        ]

    return trace_to_jaxpr(fun, known.in_avals, debug=known.jaxpr.debug_info)[0]


def assign_slots(
    per_branch: Sequence[Sequence[Any]],
) -> tuple[list[tuple[int, ...]], tuple[Any, ...]]:
    """Residuals of different branches with equal types share slots: only one branch runs."""
    slot_avals: list[Any] = []
    assigned = []
    for avals in per_branch:
        used: set[int] = set()
        slots = []
        for aval in avals:
            free = (i for i, a in enumerate(slot_avals) if a is aval and i not in used)
            slot = next(free, len(slot_avals))
            if slot == len(slot_avals):
                slot_avals.append(aval)
            used.add(slot)
            slots.append(slot)
        assigned.append(tuple(slots))
    return assigned, tuple(slot_avals)


def _cond_partial_eval(
    trace: Any, args: Sequence[Any], *, branches: Branches, **params: Any
) -> Any:
    unknown = [trace.is_unknown(x) for x in args]
    if unknown[0]:
        avals = cond_p.abstract_eval(*map(aval_of, args), branches=branches, **params)
        effects = cond_p.effects(*map(aval_of, args), branches=branches, **params)
        return trace.emit(cond_p, args, avals, dict(branches=branches, **params), effects)
    index, *operands = args
    unknown_ops = unknown[1:]
    unknown_out = [False] * len(branches[0].out_avals)
    for branch in branches:
        unknown_out = either(unknown_out, partial_eval_jaxpr(branch, unknown_ops, False)[2])
    split = [partial_eval_jaxpr(b, unknown_ops, unknown_out) for b in branches]
    known_ops, recorded = pick(operands, unknown_ops, False), pick(operands, unknown_ops)
    outs, staged_outs = _run_split(trace, index, known_ops, recorded, split, params)
    return merge(unknown_out, staged_outs, outs)


def _run_split(
    tape: Any,
    index: Any,
    known_ops: Sequence[Any],
    unknown_ops: Sequence[Any],
    split: Sequence[tuple[ClosedJaxpr, ClosedJaxpr, list[bool], list[Any]]],
    params: dict[str, Any],
) -> tuple[list[Any], list[Any]]:
    """Run the known parts of branches, record the others; outputs of both."""
    # Weak types of residuals do not matter, but all branches must agree on the types of the slots.
    slots, slot_avals = assign_slots([residual_avals for *_, residual_avals in split])
    num_known = len(split[0][0].out_avals) - len(split[0][3])
    known = tuple(
        with_residual_slots(s[0], num_known, own, slot_avals) for s, own in zip(split, slots)
    )
    staged = tuple(with_leading(s[1], own, slot_avals) for s, own in zip(split, slots))
    known_outs = bind_lifted(cond_p, index, *known_ops, branches=known, **params)
    outs, residuals = known_outs[:num_known], known_outs[num_known:]
    if not staged[0].out_avals:
        return outs, []
    inputs = [index, *residuals, *unknown_ops]
    avals = cond_p.abstract_eval(*map(aval_of, inputs), branches=staged, **params)
    return outs, tape.emit(cond_p, inputs, avals, dict(branches=staged, **params))


def _cond_linearize(
    tape: Any,
    primals: Sequence[Any],
    tangents: Sequence[Any],
    *,
    branches: Branches,
    **params: Any,
) -> tuple[list[Any], list[Any]]:
    index, *operands = primals
    nonzero_in = [type(t) is not ad.Zero for t in tangents[1:]]
    split = [linearize_jaxpr(branch, nonzero_in) for branch in branches]
    nonzero_out = [any(column) for column in zip(*[s[2] for s in split])]
    split = [
        s if s[2] == nonzero_out else linearize_jaxpr(branch, nonzero_in, nonzero_out)
        for branch, s in zip(branches, split)
    ]
    dense = pick(tangents[1:], nonzero_in)
    outs, found = _run_split(tape, index, operands, dense, split, params)
    zeros = [ad.Zero(aval_of(x).to_tangent_aval()) for x in pick(outs, nonzero_out, False)]
    return outs, merge(nonzero_out, found, zeros)


@jaxpr_cache
def _transposed_branch(
    branch: ClosedJaxpr, linear: tuple[bool, ...], nonzero_cts: tuple[bool, ...]
) -> ClosedJaxpr:
    """From non-linear operands and cotangents to cotangents of all linear operands (zeros
    included).
    """
    values_avals = pick(branch.in_avals, linear, False)
    ct_avals = [a.to_cotangent_aval() for a in pick(branch.out_avals, nonzero_cts)]

    def fun(*args: Any) -> list[Any]:
        values, dense = args[: len(values_avals)], args[len(values_avals) :]
        undefined = [ad.UndefinedPrimal(a) for a in pick(branch.in_avals, linear)]
        primals = merge(linear, undefined, values)
        zeros = [ad.Zero(a.to_cotangent_aval()) for a in pick(branch.out_avals, nonzero_cts, False)]
        cts = merge(nonzero_cts, dense, zeros)
        found = ad.backward_pass(branch.jaxpr, branch.consts, primals, cts)
        return [ad.instantiate_zeros(ct) for ct in pick(found, linear)]

    return trace_to_jaxpr(fun, [*values_avals, *ct_avals], debug=branch.jaxpr.debug_info)[0]


def _cond_transpose(
    cts: Sequence[Any], index: Any, *operands: Any, branches: Branches, **params: Any
) -> list[Any]:
    linear = tuple(ad.is_undefined_primal(x) for x in operands)
    nonzero = tuple(type(ct) is not ad.Zero for ct in cts)
    transposed = tuple(_transposed_branch(b, linear, nonzero) for b in branches)
    outs = bind_lifted(
        cond_p,
        index,
        *pick(operands, linear, False),
        *pick(cts, nonzero),
        branches=transposed,
        **params,
    )
    return [None, *merge(linear, outs, [None] * len(operands))]


# -- batching --------------------------------------------------------------------------------------


def _guarded(index: Any, branch: int, operand: Any) -> Any:
    """The operand, without a derivative where another branch is chosen.

    A derivative that is nan or infinite where its branch is not chosen must not leak into the
    gradient.
    """
    if not dtypes.issubdtype(aval_of(operand).dtype, np.inexact):
        return operand
    chosen = eq(index, np.asarray(branch, aval_of(index).dtype))
    shape = shape_of(operand)
    return select(expand_to(chosen, shape, (0,)), operand, stop_gradient(operand))


def _cond_batching(
    axis_size: int, args: Sequence[Any], dims: Sequence[Any], *, branches: Branches, **params: Any
) -> Any:
    index, *operands = args
    index_dim, *op_dims = dims
    if index_dim is not not_mapped:
        # All branches run; the results are selected.
        if any(isinstance(e, (IOEffect, OrderedIOEffect)) for b in branches for e in b.effects):
            fail(
                NotImplementedError,
                "IO effect not supported in vmap-of-cond.",
                "Where each example chooses, all branches run, also those that none takes.",
                "Call io_callback outside of the branches, with what says whether to act, or use "
                "lax.map.",
            )
        index = bdim_at_front(index, index_dim, axis_size)
        operands = [bdim_at_front(x, d, axis_size) for x, d in zip(operands, op_dims)]
        results = []
        for i, branch in enumerate(branches):
            batched, _ = batch_jaxpr(branch, axis_size, [True] * len(operands), True)
            results.append(batched.eval(*[_guarded(index, i, x) for x in operands]))
        outs = []
        for cases in zip(*results):
            which = expand_to(index, shape_of(cases[0]), (0,))
            outs.append(select_n(which, *cases))
        return outs, [0] * len(outs)
    batched_in = [d is not not_mapped for d in op_dims]
    operands = [
        bdim_at_front(x, d, axis_size) if b else x for x, d, b in zip(operands, op_dims, batched_in)
    ]
    batched_out = [False] * len(branches[0].out_avals)
    for branch in branches:
        batched_out = either(batched_out, batch_jaxpr(branch, axis_size, batched_in, False)[1])
    changed = tuple(batch_jaxpr(b, axis_size, batched_in, batched_out)[0] for b in branches)
    outs = cond_p.bind(index, *operands, branches=changed, **params)
    return outs, [0 if b else not_mapped for b in batched_out]


# -- dead code, lowering ---------------------------------------------------------------------------


def _cond_dce(used: Sequence[bool], eqn: JaxprEqn) -> tuple[list[bool], JaxprEqn | None]:
    branches: Branches = eqn.params["branches"]
    used_out = tuple(bool(u) for u in used)
    keep = [False] * len(branches[0].in_avals)
    for branch in branches:
        keep = either(keep, dce_closed_jaxpr(branch, used_out)[1])
    pruned = tuple(dce_closed_jaxpr(b, used_out, tuple(keep))[0] for b in branches)
    invars = [eqn.invars[0], *pick(eqn.invars[1:], keep)]
    outvars = pick(eqn.outvars, used)
    params = dict(eqn.params, branches=pruned)
    effects = _cond_effects(*invars, branches=pruned)
    new = eqn.replace(invars=invars, outvars=outvars, params=params, effects=effects)
    return [True, *keep], new


def _cond_lowering(ctx: Any, index: Any, *operands: Any, branches: Branches, **params: Any) -> Any:
    builder = ctx.builder
    if len(branches) == 1:
        return ctx.inline_jaxpr(branches[0], *operands)
    metadata = builder.metadata
    computations = [
        ctx.lower_jaxpr(b, f"branch_{i}", tuple_args=True) for i, b in enumerate(branches)
    ]
    builder.metadata = metadata
    packed = builder.tuple(operands)
    shape = Shape.tuple([aval_to_shape(a) for a in branches[0].out_avals])
    if len(branches) == 2:
        # HLO's predicate form: true is called[0]; branch 1 of cond is the true one.
        zero = builder.constant(np.zeros((), np.int32))
        chosen = builder.compare(index, zero, ComparisonDirection.NE)
        result = builder.add(
            Opcode.CONDITIONAL,
            (chosen, packed, packed),
            ConditionalAttributes(is_indexed=False),
            computations[::-1],
            shape=shape,
        )
    else:
        index = builder.convert(index, PrimitiveType.S32)
        result = builder.add(
            Opcode.CONDITIONAL,
            (index, *[packed] * len(branches)),
            ConditionalAttributes(is_indexed=True),
            computations,
            shape=shape,
        )
    return [builder.get_tuple_element(result, i) for i in range(len(shape.tuple_shapes))]


def _cond_lift(
    operands: list[Any], params: dict[str, Any], lift: Lift
) -> tuple[list[Any], dict[str, Any]]:
    programs = [lift(branch) for branch in params["branches"]]
    if not any(values for _, values in programs):
        return operands, params
    branches, values = with_common_leading(programs)
    return [operands[0], *values, *operands[1:]], {**params, "branches": branches}


cond_p = define_primitive(
    "cond",
    multiple_results=True,
    abstract_eval=_cond_aval,
    jvp=FullJvp(_cond_jvp),
    transpose=_cond_transpose,
    batching=_cond_batching,
    lowering=_cond_lowering,
    partial_eval=_cond_partial_eval,
    linearize=_cond_linearize,
    dce=_cond_dce,
    effects=_cond_effects,
)
lift_rules[cond_p] = _cond_lift
varying_rules[cond_p] = _cond_variation
call_discharge_rules[cond_p] = cond_discharge(cond_p)
