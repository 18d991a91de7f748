"""while_loop and the while primitive.

Operands: constants of the condition, constants of the body, carry. The condition returns a bool
scalar, or, after batching, a bool array: an element of the batch that is done keeps its carry.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pyjax.core.effects import Effects, moved_effects
from pyjax.core.errors import fail
from pyjax.core.jaxpr import ClosedJaxpr, DropVar, JaxprEqn, Var
from pyjax.core.refs import Ref
from pyjax.core.traceback_filter import api_boundary
from pyjax.core.tree_util import tree_flatten, tree_structure, tree_unflatten
from pyjax.interpreters import ad
from pyjax.interpreters.batching import batch_jaxpr, bdim_at_front, not_mapped
from pyjax.interpreters.dead_code import dce_closed_jaxpr
from pyjax.interpreters.discharge import bind_discharged
from pyjax.interpreters.hlo import LoweringContext, lower_into
from pyjax.interpreters.lift_constants import Lift, bind_lifted, lift_rules
from pyjax.interpreters.partial_eval import partial_eval_jaxpr
from pyjax.interpreters.rules import FullJvp, call_discharge_rules, define_rules
from pyjax.interpreters.trace_cache import jaxpr_cache
from pyjax.interpreters.traced_function import trace_function
from pyjax.interpreters.varying import Axes, Variation, along_too, varying_rules, vma_of
from pyjax.lax.common import BOOL_DTYPE, aval_of
from pyjax.lax.control_flow.in_python import runs_in_python, while_in_python
from pyjax.lax.control_flow.references import while_discharge
from pyjax.lax.control_flow.tracing import (
    avals_of,
    check_carry,
    either,
    merge,
    pick,
    promote_weak_carry,
    reordered,
    require_callable,
    split_list,
)
from pyjax.lax.control_flow.while_primitive import while_p
from pyjax.lax.control_flow.while_reverse import while_linearize, while_transpose
from pyjax.runtime.dispatch import apply_primitive, constant_array
from xla_backend.hlo.attributes import DimensionsAttributes
from xla_backend.hlo.builder import HloBuilder
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import PrimitiveType


def _while_aval(*avals: Any, body_jaxpr: ClosedJaxpr, **params: Any) -> list[Any]:
    return list(body_jaxpr.out_avals)


def _while_effects(
    *avals: Any,
    cond_nconsts: int,
    cond_jaxpr: ClosedJaxpr,
    body_nconsts: int,
    body_jaxpr: ClosedJaxpr,
) -> Effects:
    consts, body = range(cond_nconsts), range(cond_nconsts, len(avals))
    carry = range(cond_nconsts + body_nconsts, len(avals))
    return moved_effects(cond_jaxpr.effects, [*consts, *carry]) | moved_effects(
        body_jaxpr.effects, body
    )


def _while_variation(
    operands: list[Axes], results: Sequence[Any], params: dict[str, Any]
) -> Variation:
    """Results vary along the axes of the condition: devices stop in different rounds."""
    body, cond = params["body_jaxpr"], params["cond_jaxpr"]
    (stops,) = vma_of(cond.out_avals)
    wanted = vma_of(cond.in_avals)[: params["cond_nconsts"]] + vma_of(body.in_avals)
    return wanted, [along_too("a carry of a loop", a, stops) for a in body.out_avals]


# -- differentiation -------------------------------------------------------------------------------


@jaxpr_cache
def _with_extra_inputs(closed: ClosedJaxpr, position: int, avals: tuple[Any, ...]) -> ClosedJaxpr:
    """The jaxpr with inputs it ignores, from `position` on."""
    jaxpr = closed.jaxpr
    extra = [Var(a) for a in avals]
    new = jaxpr.replace(invars=[*jaxpr.invars[:position], *extra, *jaxpr.invars[position:]])
    return ClosedJaxpr(new, closed.consts)


def _while_jvp(
    primals: Sequence[Any],
    tangents: Sequence[Any],
    *,
    cond_nconsts: int,
    cond_jaxpr: ClosedJaxpr,
    body_nconsts: int,
    body_jaxpr: ClosedJaxpr,
) -> tuple[list[Any], list[Any]]:
    nonzero = [type(t) is not ad.Zero for t in tangents]
    cond_consts, body_consts, init = split_list(primals, cond_nconsts, body_nconsts)
    _, body_consts_t, init_t = split_list(tangents, cond_nconsts, body_nconsts)
    _, body_consts_nz, carry_nz = split_list(nonzero, cond_nconsts, body_nconsts)
    num_carry = len(init)
    while True:
        pushed, nonzero_out = ad.jvp_jaxpr(body_jaxpr, body_consts_nz + carry_nz, carry_nz)
        if nonzero_out == carry_nz:
            break
        carry_nz = either(carry_nz, nonzero_out)
    n_const_t, n_carry_t = sum(body_consts_nz), sum(carry_nz)
    # jvp gives (consts, carry, consts', carry'); the body takes (consts, consts', carry, carry').
    first_t = body_nconsts + num_carry
    ins = [
        *range(body_nconsts),
        *range(first_t, first_t + n_const_t),
        *range(body_nconsts, first_t),
        *range(first_t + n_const_t, first_t + n_const_t + n_carry_t),
    ]
    body = reordered(pushed, ins, range(num_carry + n_carry_t))
    tangent_avals = tuple(a.to_tangent_aval() for a in pick(body_jaxpr.out_avals, carry_nz))
    cond = cond_jaxpr
    if tangent_avals:
        cond = _with_extra_inputs(cond_jaxpr, cond_nconsts + num_carry, tangent_avals)
    dense = [ad.instantiate_zeros(t) for t in pick(init_t, carry_nz)]
    outs = bind_lifted(
        while_p,
        *cond_consts,
        *body_consts,
        *pick(body_consts_t, body_consts_nz),
        *init,
        *dense,
        cond_nconsts=cond_nconsts,
        cond_jaxpr=cond,
        body_nconsts=body_nconsts + n_const_t,
        body_jaxpr=body,
    )
    outs, out_tangents = outs[:num_carry], iter(outs[num_carry:])
    return outs, [
        next(out_tangents) if nz else ad.Zero(aval_of(out).to_tangent_aval())
        for nz, out in zip(carry_nz, outs)
    ]


def _while_partial_eval(
    trace: Any,
    args: Sequence[Any],
    *,
    cond_nconsts: int,
    cond_jaxpr: ClosedJaxpr,
    body_nconsts: int,
    body_jaxpr: ClosedJaxpr,
) -> list[Any]:
    """The known part of the carry runs as a loop of its own; the recorded loop computes all."""
    params = {
        "cond_nconsts": cond_nconsts,
        "cond_jaxpr": cond_jaxpr,
        "body_nconsts": body_nconsts,
        "body_jaxpr": body_jaxpr,
    }
    unknown = [trace.is_unknown(x) for x in args]
    cond_uk, body_uk, carry_uk = split_list(unknown, cond_nconsts, body_nconsts)
    while True:
        known_body, _, out_uk, _ = partial_eval_jaxpr(body_jaxpr, body_uk + carry_uk, carry_uk)
        if out_uk == carry_uk:
            break
        carry_uk = either(carry_uk, out_uk)
    depends = partial_eval_jaxpr(cond_jaxpr, cond_uk + carry_uk, False)[2]
    known_outs: list[Any] = []
    if depends[0]:
        carry_uk = [True] * len(carry_uk)
    else:
        cond_consts, body_consts, init = split_list(args, cond_nconsts, body_nconsts)
        known_cond = partial_eval_jaxpr(cond_jaxpr, cond_uk + carry_uk, False)[0]
        num_known = sum(not u for u in carry_uk)
        # Residuals of the body have no place in a loop of unknown length; the recorded
        # loop recomputes.
        n_in = len(known_body.in_avals)
        known_outs = while_p.bind(
            *pick(cond_consts, cond_uk, False),
            *pick(body_consts, body_uk, False),
            *pick(init, carry_uk, False),
            cond_nconsts=sum(not u for u in cond_uk),
            cond_jaxpr=reordered(known_cond, range(len(known_cond.in_avals)), [0]),
            body_nconsts=sum(not u for u in body_uk),
            body_jaxpr=reordered(known_body, range(n_in), range(num_known)),
        )
    if not any(carry_uk):
        return known_outs
    avals = list(body_jaxpr.out_avals)
    all_outs = trace.emit(while_p, args, avals, params)
    return merge(carry_uk, pick(all_outs, carry_uk), known_outs)


# -- batching --------------------------------------------------------------------------------------


def _while_batching(
    axis_size: int,
    args: Sequence[Any],
    dims: Sequence[Any],
    *,
    cond_nconsts: int,
    cond_jaxpr: ClosedJaxpr,
    body_nconsts: int,
    body_jaxpr: ClosedJaxpr,
) -> Any:
    batched = [d is not not_mapped for d in dims]
    cond_b, body_b, carry_b = split_list(batched, cond_nconsts, body_nconsts)
    # A predicate that is batched already must have the new axis in front of its others, as
    # the carry has.
    force_pred = bool(cond_jaxpr.out_avals[0].shape)
    while True:
        new_body, out_b = batch_jaxpr(body_jaxpr, axis_size, body_b + carry_b, carry_b)
        new_cond, (pred_b,) = batch_jaxpr(cond_jaxpr, axis_size, cond_b + carry_b, force_pred)
        wanted = [True] * len(carry_b) if pred_b else either(carry_b, out_b)
        if wanted == carry_b:
            break
        carry_b = wanted
    flags = cond_b + body_b + carry_b
    moved = [bdim_at_front(x, d, axis_size) if b else x for x, d, b in zip(args, dims, flags)]
    outs = while_p.bind(
        *moved,
        cond_nconsts=cond_nconsts,
        cond_jaxpr=new_cond,
        body_nconsts=body_nconsts,
        body_jaxpr=new_body,
    )
    return outs, [0 if b else not_mapped for b in carry_b]


# -- dead code -------------------------------------------------------------------------------------


def _while_dce(used: Sequence[bool], eqn: JaxprEqn) -> tuple[list[bool], JaxprEqn | None]:
    """Carries that neither the condition, nor a used carry, nor the outside needs go away."""
    params = eqn.params
    cond_jaxpr, body_jaxpr = params["cond_jaxpr"], params["body_jaxpr"]
    cond_nconsts, body_nconsts = params["cond_nconsts"], params["body_nconsts"]
    _, cond_used = dce_closed_jaxpr(cond_jaxpr, (True,))
    carry = either(list(map(bool, used)), cond_used[cond_nconsts:])
    while True:
        keep = (*[False] * body_nconsts, *carry)
        body, body_used = dce_closed_jaxpr(body_jaxpr, tuple(carry), keep)
        if list(body_used[body_nconsts:]) == carry:
            break
        carry = either(carry, body_used[body_nconsts:])
    cond, cond_used = dce_closed_jaxpr(cond_jaxpr, (True,), (*[False] * cond_nconsts, *carry))
    used_in = [*cond_used[:cond_nconsts], *body_used]
    outvars = [
        v if wanted else DropVar(v.aval)
        for v, wanted, kept in zip(eqn.outvars, used, carry)
        if kept
    ]
    changed = dict(
        params,
        cond_jaxpr=cond,
        cond_nconsts=sum(cond_used[:cond_nconsts]),
        body_jaxpr=body,
        body_nconsts=sum(body_used[:body_nconsts]),
    )
    invars = pick(eqn.invars, used_in)
    effects = _while_effects(*invars, **changed)
    new = eqn.replace(invars=invars, outvars=outvars, params=changed, effects=effects)
    return used_in, new


# -- lowering --------------------------------------------------------------------------------------


def emit_while(
    ctx: Any,
    state: Sequence[Instruction],
    condition: Callable[[HloBuilder, list[Instruction]], Instruction],
    body: Callable[[HloBuilder, list[Instruction]], list[Instruction]],
) -> list[Instruction]:
    """An HLO while over a tuple of values; `condition` and `body` fill builders of their own."""
    builder = ctx.builder
    shape = Shape.tuple([x.shape for x in state])

    def unpacked(name: str) -> tuple[HloBuilder, list[Instruction]]:
        sub = HloBuilder(name)
        sub.metadata = builder.metadata
        packed = sub.parameter(0, shape, "arg_tuple")
        return sub, [sub.get_tuple_element(packed, i) for i in range(len(state))]

    sub, values = unpacked("cond")
    cond_computation = sub.build(condition(sub, values))
    sub, values = unpacked("body")
    body_computation = sub.build(sub.tuple(body(sub, values)))
    computations = [cond_computation, body_computation]
    loop = builder.add(Opcode.WHILE, (builder.tuple(state),), called=computations, shape=shape)
    return [builder.get_tuple_element(loop, i) for i in range(len(state))]


def emit_jaxpr(
    ctx: Any, builder: HloBuilder, closed: ClosedJaxpr, operands: Sequence[Instruction]
) -> list[Instruction]:
    """Add a jaxpr's instructions to the computation that `builder` makes."""
    saved = builder.metadata
    context = LoweringContext(ctx.module, builder, ctx.names, ctx.place)
    outs = lower_into(context, closed, list(operands))
    builder.metadata = saved
    return outs


def _while_lowering(
    ctx: Any,
    *operands: Instruction,
    cond_nconsts: int,
    cond_jaxpr: ClosedJaxpr,
    body_nconsts: int,
    body_jaxpr: ClosedJaxpr,
) -> list[Instruction]:
    if cond_jaxpr.out_avals[0].shape:
        return _batched_while_lowering(
            ctx, operands, cond_nconsts, cond_jaxpr, body_nconsts, body_jaxpr
        )
    n = cond_nconsts + body_nconsts

    def condition(builder: HloBuilder, values: list[Instruction]) -> Instruction:
        return emit_jaxpr(ctx, builder, cond_jaxpr, values[:cond_nconsts] + values[n:])[0]

    def body(builder: HloBuilder, values: list[Instruction]) -> list[Instruction]:
        return values[:n] + emit_jaxpr(ctx, builder, body_jaxpr, values[cond_nconsts:])

    return emit_while(ctx, operands, condition, body)[n:]


def _batched_while_lowering(
    ctx: Any,
    operands: Sequence[Instruction],
    cond_nconsts: int,
    cond_jaxpr: ClosedJaxpr,
    body_nconsts: int,
    body_jaxpr: ClosedJaxpr,
) -> list[Instruction]:
    """The predicate array is part of the state, so that the condition is computed once a step."""
    n = cond_nconsts + body_nconsts
    consts, init = list(operands[:n]), list(operands[n:])
    pred = emit_jaxpr(ctx, ctx.builder, cond_jaxpr, consts[:cond_nconsts] + init)[0]
    any_of = ctx.reducer(Opcode.OR, PrimitiveType.PRED)

    def condition(builder: HloBuilder, values: list[Instruction]) -> Instruction:
        return reduce_all(builder, values[0], any_of)

    def body(builder: HloBuilder, values: list[Instruction]) -> list[Instruction]:
        pred, *rest = values
        consts, carry = rest[:n], rest[n:]
        new = emit_jaxpr(ctx, builder, body_jaxpr, consts[cond_nconsts:] + carry)
        kept = []
        for old, fresh in zip(carry, new):
            dims = fresh.shape.dimensions
            mask = builder.broadcast(pred, dims, range(pred.shape.rank))
            kept.append(builder.add(Opcode.SELECT, (mask, fresh, old), shape=fresh.shape))
        wanted = emit_jaxpr(ctx, builder, cond_jaxpr, consts[:cond_nconsts] + kept)[0]
        # A lane that has stopped stays so: its state is frozen. Saying it lets the compiler keep
        # lanes out of a loop.
        next_pred = builder.add(Opcode.AND, (pred, wanted), shape=wanted.shape)
        return [next_pred, *consts, *kept]

    return emit_while(ctx, [pred, *consts, *init], condition, body)[n + 1 :]


def reduce_all(builder: HloBuilder, x: Instruction, reducer: Any) -> Instruction:
    """Reduce a predicate array to a scalar with `or`."""
    false = builder.constant(np.zeros((), np.bool_))
    dims = DimensionsAttributes(tuple(range(x.shape.rank)))
    return builder.add(
        Opcode.REDUCE, (x, false), dims, [reducer], shape=Shape.array(PrimitiveType.PRED)
    )


def _while_lift(
    operands: list[Any], params: dict[str, Any], lift: Lift
) -> tuple[list[Any], dict[str, Any]]:
    cond, cond_values = lift(params["cond_jaxpr"])
    body, body_values = lift(params["body_jaxpr"])
    if not cond_values and not body_values:
        return operands, params
    cond_nconsts = params["cond_nconsts"]
    changed = dict(
        params,
        cond_jaxpr=cond,
        cond_nconsts=cond_nconsts + len(cond_values),
        body_jaxpr=body,
        body_nconsts=params["body_nconsts"] + len(body_values),
    )
    of_cond, others = operands[:cond_nconsts], operands[cond_nconsts:]
    return [*cond_values, *of_cond, *body_values, *others], changed


def _run_now(*args: Any, **params: Any) -> list[Any]:
    refs = [id(x) for x in args if isinstance(x, Ref)]
    if len(refs) == len(set(refs)):
        return apply_primitive(while_p, args, params)
    # Condition and body use the same one: a program has one argument for it.
    return bind_discharged(while_p, args, params)


define_rules(
    while_p,
    multiple_results=True,
    abstract_eval=_while_aval,
    jvp=FullJvp(_while_jvp),
    transpose=while_transpose,
    linearize=while_linearize,
    batching=_while_batching,
    lowering=_while_lowering,
    partial_eval=_while_partial_eval,
    dce=_while_dce,
    effects=_while_effects,
    impl=_run_now,
)
lift_rules[while_p] = _while_lift
varying_rules[while_p] = _while_variation
call_discharge_rules[while_p] = while_discharge(while_p)

# -- public function -------------------------------------------------------------------------------


def _check_predicate(tree: Any, avals: Sequence[Any]) -> None:
    if tree.num_leaves != 1 or tree != _LEAF:
        fail(
            TypeError,
            f"cond_fun must return a boolean scalar, but got pytree {tree}.",
            fix="return one bool, e.g. jnp.logical_and(a, b).",
        )
    (aval,) = avals
    if aval.shape or aval.dtype != BOOL_DTYPE:
        fail(
            TypeError,
            f"cond_fun must return a boolean scalar, but got output type(s) [{aval.str_short()}].",
            "the loop runs while the condition is true.",
            "compare to get a bool, and reduce arrays with .any() or .all().",
        )


_LEAF = tree_flatten(0)[1]


@api_boundary
def while_loop(
    cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init_val: Any
) -> Any:
    """Repeat `val = body_fun(val)` while `cond_fun(val)`.

    Args:
      cond_fun: from the carry to a bool scalar.
      body_fun: from the carry to the next one, of equal structure, shapes and dtypes.
      init_val: pytree of arrays.
    Returns:
      the first carry for which cond_fun is false. Derivatives are those of the rounds that were
      run. In reverse mode states of the loop are stored, or where there are too many computed again
      from checkpoints (option `jax_while_loop_checkpoint_bytes`): so memory is bounded whatever the
      number of rounds, and time grows by a factor of two to four.
    Raises:
      TypeError: the condition is no bool scalar, or body_fun changes the carry's type.
    >>> from pyjax import lax
    >>> int(lax.while_loop(lambda x: x < 100, lambda x: 2 * x, 1))
    128
    """
    require_callable("lax.while_loop: body_fun and cond_fun arguments", cond_fun, body_fun)
    init, tree = tree_flatten(init_val)
    if runs_in_python():
        return while_in_python(cond_fun, body_fun, init_val)
    in_tree = tree_structure(((init_val,), {}))
    while True:
        avals = avals_of(init)
        body = trace_function("while_loop", body_fun, in_tree, avals)
        promoted = promote_weak_carry(init, avals, body.out_avals)
        if promoted is None:
            break
        init = promoted
    cond = trace_function("while_loop", cond_fun, in_tree, avals)
    _check_predicate(cond.out_tree, cond.out_avals)
    check_carry("while_loop body function", body_fun, 0, tree, avals, body.out_tree, body.out_avals)
    cond_consts, body_consts = cond.operands(constant_array), body.operands(constant_array)
    outs = while_p.bind(
        *cond_consts,
        *body_consts,
        *init,
        cond_nconsts=len(cond_consts),
        cond_jaxpr=cond.closed,
        body_nconsts=len(body_consts),
        body_jaxpr=body.closed,
    )
    return tree_unflatten(tree, outs)
