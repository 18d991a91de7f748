"""Derivatives of loops whose number of rounds is known when they run, though not before.

A loop `repeat trips times: x = body(consts, x)` has three maps here, each a primitive. Forwards
mode of it is `loop_tangent`, dx_end = D(loop) dx. Its transpose is `loop_gradient`: cotangents go
back through the states that the loop went through, which are made anew from checkpoints
(loop_backwards.py). The derivative of that, `loop_curvature`, is a product with the loop's matrix
of second derivatives; as the matrix is symmetric, it is its own transpose. So gradients of
gradients need no derivative of checkpoints.

Operands of all: consts, initial carry, trips; then what the map is linear in. `trips` is an int32
scalar, or an array of one number per lane of a batch, over the leading axes of every carry: a lane
keeps its state when its rounds are over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pyjax.core.errors import fail
from pyjax.core.jaxpr import ClosedJaxpr, Jaxpr
from pyjax.core.primitive import Primitive
from pyjax.interpreters import ad
from pyjax.interpreters.batching import batch, batch_jaxpr, bdim_at_front, not_mapped
from pyjax.interpreters.hlo import lower_fun
from pyjax.interpreters.lift_constants import Lift, bind_lifted, lift_rules
from pyjax.interpreters.linearize import linearize_jaxpr
from pyjax.interpreters.partial_eval import trace_to_jaxpr
from pyjax.interpreters.rules import FullJvp, define_primitive
from pyjax.interpreters.trace_cache import jaxpr_cache
from pyjax.lax.arithmetic import add
from pyjax.lax.common import aval_of, shape_of
from pyjax.lax.compare import lt, select
from pyjax.lax.control_flow.loop_backwards import backwards, slots_for
from pyjax.lax.control_flow.tracing import either, merge, pick, reordered, split_list
from pyjax.lax.control_flow.while_primitive import bind_while
from pyjax.lax.indexing.slicing import dynamic_index_in_dim
from pyjax.lax.misc import stop_gradient
from pyjax.lax.reduce import argmax, reduce_max
from pyjax.lax.shape import reshape
from pyjax.lax.shape_extra import broadcast_in_dim

Flags = tuple[bool, ...]
_ONE = np.ones((), np.int32)
_ZERO = np.zeros((), np.int32)


def carries_that_vary(
    body: ClosedJaxpr, num_consts: int, consts_on: Sequence[bool], carry_on: Sequence[bool]
) -> Flags:
    """Which carries depend, in some round, on the constants and carries marked."""
    carry = list(carry_on)
    while True:
        *_, out, _ = linearize_jaxpr(body, [*consts_on, *carry])
        if either(carry, out) == carry:
            return tuple(carry)
        carry = either(carry, out)


def _tangents(values: Sequence[Any], flags: Sequence[bool]) -> list[Any]:
    return [aval_of(x).to_tangent_aval() for x in pick(values, flags)]


# -- lanes that stop on their own ------------------------------------------------------------------


@jaxpr_cache
def _stopping(body: ClosedJaxpr, num_consts: int, trips: Any) -> ClosedJaxpr:
    """(consts, trips of lanes, carry, round) -> (carry, next round): lanes that are done stay.

    The body sees the state of the lane with most rounds in their places: a derivative that is nan
    or infinite where a lane stays must not leak into the gradient.
    """
    lanes = tuple(range(len(trips.shape)))

    def fun(*args: Any) -> list[Any]:
        consts, (trips_of, *carry), (i,) = (
            args[:num_consts],
            args[num_consts:-1],
            args[-1:],
        )
        goes_on = lt(broadcast_in_dim(i, trips.shape, ()), trips_of)
        longest = argmax(reshape(trips_of, (trips_of.size,)), 0, np.int32)

        def where_going_on(x: Any, y: Any) -> Any:
            return select(broadcast_in_dim(goes_on, shape_of(x), lanes), x, y)

        def of_longest(x: Any) -> Any:
            rest = shape_of(x)[len(lanes) :]
            one = dynamic_index_in_dim(reshape(x, (trips_of.size, *rest)), longest, 0, False)
            every = tuple(range(len(lanes), len(lanes) + len(rest)))
            return stop_gradient(broadcast_in_dim(one, shape_of(x), every))

        seen = [where_going_on(x, of_longest(x)) for x in carry]
        new = body.eval(*consts, *seen)
        return [*map(where_going_on, new, carry), add(i, _ONE)]

    consts, carry = split_list(body.in_avals, num_consts)
    avals = [*consts, trips, *carry, aval_of(_ZERO)]
    return trace_to_jaxpr(fun, avals, debug=body.jaxpr.debug_info)[0]


def _with_one_count(
    consts: Sequence[Any], init: Sequence[Any], trips: Any, body: ClosedJaxpr
) -> tuple[list[Any], list[Any], Any, ClosedJaxpr]:
    """The loop with a scalar number of rounds: (consts, init, trips, body). Constants and carries
    that are added follow the others."""
    shape = shape_of(trips)
    if not shape:
        return list(consts), list(init), trips, body
    body = _stopping(body, len(consts), aval_of(trips))
    most = reduce_max(trips, tuple(range(len(shape))))
    return [*consts, trips], [*init, _ZERO], most, body


# -- the maps --------------------------------------------------------------------------------------


def _pushed(
    body: ClosedJaxpr, num_consts: int, consts_on: Sequence[bool], carry_on: Sequence[bool]
) -> ClosedJaxpr:
    """The body with tangents: (consts, consts', carry, carry') -> (carry, carry')."""
    num_carry = len(carry_on)
    pushed, _ = ad.jvp_jaxpr(body, [*consts_on, *carry_on], list(carry_on))
    first_t = num_consts + num_carry
    ins = [
        *range(num_consts),
        *range(first_t, first_t + sum(consts_on)),
        *range(num_consts, first_t),
        *range(first_t + sum(consts_on), first_t + sum(consts_on) + sum(carry_on)),
    ]
    # Outputs that vary although their input does not have been ruled out by the caller.
    return reordered(pushed, ins, range(num_carry + sum(carry_on)))


def _tangent(
    *operands: Any, body: ClosedJaxpr, num_consts: int, consts_on: Flags, carry_on: Flags
) -> list[Any]:
    """`loop_tangent` as a while loop of the body and its derivative."""
    n, num_on = len(carry_on), sum(consts_on)
    consts, init, (trips,), consts_t, init_t = split_list(operands, num_consts, n, 1, num_on)
    consts, init, trips, body = _with_one_count(consts, init, trips, body)
    consts_on = consts_on + (False,) * (len(consts) - num_consts)
    carry_on = carry_on + (False,) * (len(init) - n)
    step = _pushed(body, len(consts), consts_on, carry_on)

    def run(i: Any, *carry: Any) -> list[Any]:
        return [add(i, _ONE), *step.eval(*consts, *consts_t, *carry)]

    outs = bind_while(lambda i, *_: lt(i, trips), run, [_ZERO, *init, *init_t])
    return outs[1 + len(init) :]


def _gradient(
    *operands: Any,
    body: ClosedJaxpr,
    num_consts: int,
    consts_on: Flags,
    carry_on: Flags,
    slots: int,
) -> list[Any]:
    """`loop_gradient` as a program that holds so many checkpoints."""
    n = len(carry_on)
    consts, init, (trips,), cts = split_list(operands, num_consts, n, 1)
    consts, init, trips, body = _with_one_count(consts, init, trips, body)
    consts_on = consts_on + (False,) * (len(consts) - num_consts)
    carry_on = carry_on + (False,) * (len(init) - n)
    return backwards(body, consts, init, trips, cts, consts_on, carry_on, slots)


def bind_gradient(
    consts: Sequence[Any],
    init: Sequence[Any],
    trips: Any,
    cts: Sequence[Any],
    *,
    body: ClosedJaxpr,
    consts_on: Flags,
    carry_on: Flags,
) -> list[Any]:
    """Cotangents of the marked constants and carries; `cts` has one per marked carry."""
    return bind_lifted(
        loop_gradient_p,
        *consts,
        *init,
        trips,
        *cts,
        body=body,
        num_consts=len(consts),
        consts_on=consts_on,
        carry_on=carry_on,
        slots=slots_for(init, trips),
    )


def _curvature(
    *operands: Any,
    body: ClosedJaxpr,
    num_consts: int,
    along: tuple[Flags, Flags],
    of: tuple[Flags, Flags],
    cts_on: Flags,
) -> list[Any]:
    """`loop_curvature` as the gradient of the loop with tangents."""
    n = len(cts_on)
    consts, init, (trips,), cts, cts_t, consts_t, init_t = split_list(
        operands, num_consts, n, 1, sum(cts_on), sum(cts_on), sum(along[0])
    )
    # Tangents that there are none of are zeros, where cotangents of them are asked for.
    consts_flags = either(along[0], of[0])
    carry_flags = list(carries_that_vary(body, num_consts, consts_flags, either(along[1], of[1])))
    step = _pushed(body, num_consts, consts_flags, carry_flags)
    consts_t = _with_zeros(consts, consts_t, along[0], consts_flags)
    init_t = _with_zeros(init, init_t, along[1], carry_flags)
    on_consts = [*of[0], *[False] * len(consts_t)]
    on_carry = [*of[1], *[False] * len(init_t)]
    carry_on = carries_that_vary(step, num_consts + len(consts_t), on_consts, on_carry)
    zeros = [ad.Zero(a) for a in _tangents(init, [True] * n)]
    first = merge(cts_on, cts_t, pick(zeros, cts_on, False))
    second = pick(merge(cts_on, cts, pick(zeros, cts_on, False)), carry_flags)
    dense = [ad.instantiate_zeros(ct) for ct in pick([*first, *second], carry_on)]
    found = bind_gradient(
        [*consts, *consts_t],
        [*init, *init_t],
        trips,
        dense,
        body=step,
        consts_on=tuple(on_consts),
        carry_on=carry_on,
    )
    of_consts, of_carry = split_list(found, sum(of[0]))
    wanted = pick(of[1], carry_on[:n]) + [False] * sum(carry_on[n:])
    return of_consts + pick(of_carry, wanted)


def _with_zeros(
    values: Sequence[Any], tangents: Sequence[Any], have: Sequence[bool], want: Sequence[bool]
) -> list[Any]:
    found = iter(tangents)
    every = [
        next(found) if h else ad.Zero(aval_of(x).to_tangent_aval()) for x, h in zip(values, have)
    ]
    return [ad.instantiate_zeros(t) for t in pick(every, want)]


# -- shapes ----------------------------------------------------------------------------------------


def _tangent_aval(*avals: Any, num_consts: int, carry_on: Flags, **params: Any) -> list[Any]:
    init = avals[num_consts : num_consts + len(carry_on)]
    return [a.to_tangent_aval() for a in pick(init, carry_on)]


def _avals_of(avals: Sequence[Any], num_consts: int, flags: tuple[Flags, Flags]) -> list[Any]:
    marked = [*flags[0], *flags[1]]
    return [a.to_tangent_aval() for a in pick(avals[: len(marked)], marked)]


def _gradient_aval(
    *avals: Any, num_consts: int, consts_on: Flags, carry_on: Flags, **params: Any
) -> list[Any]:
    return _avals_of(avals, num_consts, (consts_on, carry_on))


def _curvature_aval(
    *avals: Any, num_consts: int, of: tuple[Flags, Flags], **params: Any
) -> list[Any]:
    return _avals_of(avals, num_consts, of)


# -- rules -----------------------------------------------------------------------------------------


def _by_definition(fun: Callable[..., list[Any]]) -> dict[str, Any]:
    """Rules of a primitive that is what a function of other primitives says."""

    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        return ad.jvp(lambda *xs: fun(*xs, **params), primals, tangents)

    def batching(
        axis_size: int, args: Sequence[Any], dims: Sequence[Any], **params: Any
    ) -> tuple[list[Any], list[Any]]:
        outs = batch(lambda *xs: fun(*xs, **params), args, dims, 0, axis_size)
        return outs, [0] * len(outs)

    return {"jvp": FullJvp(jvp), "batching": batching, "lowering": lower_fun(fun)}


def _tangent_transpose(
    cts: Sequence[Any],
    *args: Any,
    body: ClosedJaxpr,
    num_consts: int,
    consts_on: Flags,
    carry_on: Flags,
) -> list[Any]:
    n = len(carry_on)
    consts, init, (trips,), linear = split_list(args, num_consts, n, 1)
    if any(map(ad.is_undefined_primal, [*consts, *init])):
        fail(
            ValueError, "the derivative of a loop is linear in tangents, not in the loop's values."
        )
    found = bind_gradient(
        consts,
        init,
        trips,
        [ad.instantiate_zeros(ct) for ct in cts],
        body=body,
        consts_on=consts_on,
        carry_on=carry_on,
    )
    wanted = [ct if ad.is_undefined_primal(x) else None for ct, x in zip(found, linear)]
    return [None] * (num_consts + n + 1) + wanted


def _gradient_transpose(
    cts: Sequence[Any],
    *args: Any,
    body: ClosedJaxpr,
    num_consts: int,
    consts_on: Flags,
    carry_on: Flags,
    slots: int,
) -> list[Any]:
    n = num_consts + len(carry_on) + 1
    outs = bind_lifted(
        loop_tangent_p,
        *args[:n],
        *map(ad.instantiate_zeros, cts),
        body=body,
        num_consts=num_consts,
        consts_on=consts_on,
        carry_on=carry_on,
    )
    return [None] * n + [ct if ad.is_undefined_primal(x) else None for ct, x in zip(outs, args[n:])]


def _of_curvature(
    args: Sequence[Any],
    num_consts: int,
    cts_on: Flags,
    cts_t: Sequence[Any],
    tangents: Sequence[Any],
    *,
    body: ClosedJaxpr,
    along: tuple[Flags, Flags],
    of: tuple[Flags, Flags],
) -> tuple[list[Any], dict[str, Any]]:
    """Operands and parameters; `args` are those of the gradient."""
    n = len(cts_on)
    operands = [*args, *[ad.instantiate_zeros(t) for t in cts_t], *tangents]
    assert len(args) == num_consts + n + 1 + sum(cts_on)
    return operands, {
        "body": body,
        "num_consts": num_consts,
        "along": along,
        "of": of,
        "cts_on": cts_on,
    }


def _gradient_derivative(
    primals: Sequence[Any],
    tangents: Sequence[Any],
    *,
    body: ClosedJaxpr,
    num_consts: int,
    consts_on: Flags,
    carry_on: Flags,
    slots: int,
) -> tuple[list[Any], Primitive, list[Any], dict[str, Any]]:
    """The gradient; primitive, operands and parameters of its derivative."""
    params = {
        "body": body,
        "num_consts": num_consts,
        "consts_on": consts_on,
        "carry_on": carry_on,
        "slots": slots,
    }
    outs = loop_gradient_p.bind(*primals, **params)
    n = num_consts + len(carry_on)
    cts_t = [ad.instantiate_zeros(t) for t in tangents[n + 1 :]]
    along = [type(t) is not ad.Zero for t in tangents[:n]]
    if not any(along):
        return outs, loop_gradient_p, [*primals[: n + 1], *cts_t], params
    operands, params = _of_curvature(
        primals,
        num_consts,
        carry_on,
        cts_t,
        pick(tangents[:n], along),
        body=body,
        along=(tuple(along[:num_consts]), tuple(along[num_consts:])),
        of=(consts_on, carry_on),
    )
    return outs, loop_curvature_p, operands, params


def _gradient_jvp(
    primals: Sequence[Any], tangents: Sequence[Any], **params: Any
) -> tuple[list[Any], list[Any]]:
    outs, primitive, operands, derived = _gradient_derivative(primals, tangents, **params)
    return outs, bind_lifted(primitive, *operands, **derived)


def _has_only_reverse_mode(value: Any) -> bool:
    """Whether a program calls a function with a rule for reverse mode alone (custom_vjp)."""
    if isinstance(value, (tuple, list)):
        return any(map(_has_only_reverse_mode, value))
    if not isinstance(value, (ClosedJaxpr, Jaxpr)):
        return False
    return any(
        eqn.primitive.name == "custom_vjp_call"
        or any(map(_has_only_reverse_mode, eqn.params.values()))
        for eqn in value.eqns
    )


def _gradient_linearize(
    tape: Any, primals: Sequence[Any], tangents: Sequence[Any], **params: Any
) -> tuple[list[Any], list[Any]]:
    if _has_only_reverse_mode(params["body"]):
        # Second derivatives as of any program: the loops of the gradient have checkpoints, too.
        program = trace_to_jaxpr(lambda *xs: _gradient(*xs, **params), [*map(aval_of, primals)])[0]
        nonzero = [type(t) is not ad.Zero for t in tangents]
        primal, linear, _, _ = linearize_jaxpr(program, nonzero, True)
        outs, residuals = split_list(primal.eval(*primals), len(program.out_avals))
        return outs, tape.run(linear.eval, *residuals, *pick(tangents, nonzero))
    outs, primitive, operands, derived = _gradient_derivative(primals, tangents, **params)
    return outs, tape.emit(
        primitive, operands, [aval_of(x).to_tangent_aval() for x in outs], derived
    )


def _gradient_batching(
    axis_size: int,
    args: Sequence[Any],
    dims: Sequence[Any],
    *,
    body: ClosedJaxpr,
    num_consts: int,
    consts_on: Flags,
    carry_on: Flags,
    slots: int,
) -> tuple[list[Any], list[Any]]:
    """Constants and carries that have cotangents have one of each lane."""
    n = len(carry_on)
    batched = [d is not not_mapped for d in dims]
    consts_b, carry_b, (trips_b,), _ = split_list(batched, num_consts, n, 1)
    consts_b, carry_b = either(consts_b, consts_on), either(carry_b, carry_on)
    if trips_b:
        carry_b = [True] * n
    while True:
        new, out_b = batch_jaxpr(body, axis_size, consts_b + carry_b, carry_b)
        if out_b == carry_b:
            break
        carry_b = either(carry_b, out_b)
    if (
        shape_of(args[num_consts + n]) and not trips_b
    ):  # lanes of a batch that is inside of this one
        carry_b, trips_b = [True] * n, True
        new, _ = batch_jaxpr(body, axis_size, consts_b + carry_b, carry_b)
    flags = consts_b + carry_b + [trips_b] + [True] * sum(carry_on)
    moved = [bdim_at_front(x, d, axis_size) if b else x for x, d, b in zip(args, dims, flags)]
    consts, init, (trips,), cts = split_list(moved, num_consts, n, 1)
    outs = bind_gradient(consts, init, trips, cts, body=new, consts_on=consts_on, carry_on=carry_on)
    return outs, [0] * len(outs)


def _curvature_transpose(
    cts: Sequence[Any],
    *args: Any,
    body: ClosedJaxpr,
    num_consts: int,
    along: tuple[Flags, Flags],
    of: tuple[Flags, Flags],
    cts_on: Flags,
) -> list[Any]:
    """Second derivatives are symmetric: what came out along one set goes in along it."""
    n = num_consts + len(cts_on) + 1
    num_cts = sum(cts_on)
    known, linear_cts, linear = split_list(args, n + num_cts, num_cts)
    dense = [ad.instantiate_zeros(ct) for ct in cts]
    found: list[Any] = []
    if any(map(ad.is_undefined_primal, linear)):
        zeros = [ad.Zero(aval_of(ct)) for ct in known[n:]]
        operands, params = _of_curvature(
            known, num_consts, cts_on, zeros, dense, body=body, along=of, of=along
        )
        found = bind_lifted(loop_curvature_p, *operands, **params)
    of_cts: list[Any] = []
    if any(map(ad.is_undefined_primal, linear_cts)):
        of_cts = _push(known[:n], num_consts, dense, of, cts_on, body)
    undefined = [ad.is_undefined_primal(x) for x in args[n + num_cts :]]
    outs = [*(of_cts or [None] * num_cts), *(found or [None] * len(linear))]
    return [None] * (n + num_cts) + [ct if u else None for ct, u in zip(outs, undefined)]


def _push(
    args: Sequence[Any],
    num_consts: int,
    tangents: Sequence[Any],
    along: tuple[Flags, Flags],
    wanted: Flags,
    body: ClosedJaxpr,
) -> list[Any]:
    """Tangents of the wanted carries at the end of the loop, along some at its start."""
    carry_on = carries_that_vary(body, num_consts, *along)
    consts_t, init_t = split_list(tangents, sum(along[0]))
    init = args[num_consts:-1]
    outs = bind_lifted(
        loop_tangent_p,
        *args,
        *consts_t,
        *_with_zeros(init, init_t, along[1], carry_on),
        body=body,
        num_consts=num_consts,
        consts_on=along[0],
        carry_on=carry_on,
    )
    found = iter(outs)
    every = [
        next(found) if on else ad.Zero(aval_of(x).to_tangent_aval())
        for x, on in zip(init, carry_on)
    ]
    return [ad.instantiate_zeros(t) for t in pick(every, wanted)]


def _lift(
    operands: list[Any], params: dict[str, Any], lift: Lift
) -> tuple[list[Any], dict[str, Any]]:
    """Constants of the body become constants of the loop."""
    if not params["body"].consts:
        return operands, params
    body, values = lift(params["body"])
    more = (False,) * len(values)
    changed = {**params, "body": body, "num_consts": params["num_consts"] + len(values)}
    for name in ("along", "of"):
        if name in params:
            changed[name] = (more + params[name][0], params[name][1])
    if "consts_on" in params:
        changed["consts_on"] = more + params["consts_on"]
    return [*values, *operands], changed


loop_tangent_p = define_primitive(
    "loop_tangent",
    multiple_results=True,
    abstract_eval=_tangent_aval,
    transpose=_tangent_transpose,
    **_by_definition(_tangent),
)
loop_gradient_p = define_primitive(
    "loop_gradient",
    multiple_results=True,
    abstract_eval=_gradient_aval,
    jvp=FullJvp(_gradient_jvp),
    linearize=_gradient_linearize,
    transpose=_gradient_transpose,
    batching=_gradient_batching,
    lowering=lower_fun(_gradient),
)
loop_curvature_p = define_primitive(
    "loop_curvature",
    multiple_results=True,
    abstract_eval=_curvature_aval,
    transpose=_curvature_transpose,
    **_by_definition(_curvature),
)
for _primitive in (loop_tangent_p, loop_gradient_p, loop_curvature_p):
    lift_rules[_primitive] = _lift
