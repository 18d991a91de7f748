"""Back through the states of a loop, from checkpoints in a fixed number of slots.

The states a loop went through are wanted last first. Those in slots are at hand; others are
computed anew from the nearest one before, with new checkpoints on the way in slots that are free.
Where those are put is the schedule of A. Griewank and A. Walther (Algorithm 799: revolve, ACM TOMS
26, 2000): with c slots and no state computed more than r times, binomial(c + r, c) rounds can be
reversed, which no other schedule exceeds. As many slots as rounds mean that each state is computed
once; 64 slots reverse 2,000 rounds with two computations of each, a million with four.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pyjax._config import options
from pyjax.core.avals import physical_aval
from pyjax.core.jaxpr import ClosedJaxpr
from pyjax.core.structural import add_jaxvals, zeros_like_aval
from pyjax.core.trace import Tracer
from pyjax.interpreters import ad
from pyjax.interpreters.linearize import vjp
from pyjax.interpreters.partial_eval import trace_to_jaxpr
from pyjax.interpreters.trace_cache import jaxpr_cache
from pyjax.lax.arithmetic import add, div, max, min, sub
from pyjax.lax.common import aval_of
from pyjax.lax.compare import eq, ge, lt, select
from pyjax.lax.control_flow.tracing import pick, split_list
from pyjax.lax.control_flow.while_primitive import bind_while
from pyjax.lax.convert import convert_element_type
from pyjax.lax.creation import full
from pyjax.lax.cumulative import cumprod
from pyjax.lax.indexing.slicing import dynamic_index_in_dim, dynamic_update_index_in_dim
from pyjax.lax.reduce import reduce_sum
from pyjax.lax.shape_extra import broadcast, broadcast_in_dim
from pyjax.lax.shape_join import concatenate

# Slots for a loop of which nothing is known but the size of its state: at least, and at most.
_FEWEST, _MOST = 8, 1024
_I32 = np.dtype(np.int32)


def _i32(value: int) -> Any:
    return np.asarray(value, _I32)


def slots_for(init: Sequence[Any], trips: Any) -> int:
    """How many states to hold: what the option `while_loop_checkpoint_bytes` allows, but eight at
    least; no more than there are rounds, where that is known (to the next power of two, so that
    loops of similar length are one program), or 1024, where it is not."""
    avals = [physical_aval(aval_of(x)) for x in init]
    size = sum(math.prod(a.shape) * a.dtype.itemsize for a in avals)
    fit = np.maximum(options.while_loop_checkpoint_bytes.value // np.maximum(size, 1), _FEWEST)
    if isinstance(trips, Tracer):
        return int(np.minimum(fit, _MOST))
    rounds = int(np.asarray(trips).max(initial=1))
    return int(np.minimum(fit, 1 << (rounds - 1).bit_length() if rounds > 1 else 1))


@jaxpr_cache
def _transposed_step(
    body: ClosedJaxpr, num_consts: int, consts_on: tuple[bool, ...], carry_on: tuple[bool, ...]
) -> ClosedJaxpr:
    """(consts, carry, cts of marked carries) -> cts of marked constants and carries."""
    n = num_consts + len(carry_on)
    flags = [*consts_on, *carry_on]

    def fun(*args: Any) -> list[Any]:
        found = iter(args[n:])
        _, pullback = vjp(body.eval, args[:n], flags, body.jaxpr.debug_info)
        cts = [
            next(found) if on else ad.Zero(a.to_cotangent_aval())
            for a, on in zip(body.out_avals, carry_on)
        ]
        return [ad.instantiate_zeros(ct) for ct in pick(pullback(cts), flags)]

    avals = body.in_avals
    cotangents = [a.to_cotangent_aval() for a in pick(avals[num_consts:], carry_on)]
    return trace_to_jaxpr(fun, [*avals, *cotangents], debug=body.jaxpr.debug_info)[0]


def _next_checkpoint(rounds: Any, slots: Any, highest: int) -> Any:
    """How many rounds to go before the next checkpoint, where so many are to be reversed from a
    checkpoint, which is in the first of so many slots: from 1 to `rounds - 1`.

    A function of int32 scalars. `highest`: a number of repetitions that always suffices.
    """
    f32 = np.dtype(np.float32)
    repetitions = np.arange(1, highest + 1, dtype=f32)

    def reversible(slots: Any) -> Any:
        """How many rounds can be, with 0, 1, ... repetitions, and before that 0 with -1. To float
        precision: another place is no better, but not wrong."""
        c = broadcast_in_dim(convert_element_type(slots, f32), (highest,), ())
        numbers = cumprod(add(div(c, repetitions), np.ones(highest, f32)))
        return concatenate([np.asarray([0, 1], f32), numbers], 0)

    wanted = convert_element_type(rounds, f32)
    with_all, without_one = reversible(slots), reversible(sub(slots, _i32(1)))
    short = lt(with_all, broadcast_in_dim(wanted, (highest + 2,), ()))
    # The position of the least number of repetitions that suffices.
    r = reduce_sum(convert_element_type(short, _I32), (0,))
    rest = sub(wanted, dynamic_index_in_dim(without_one, r, 0, False))
    least = dynamic_index_in_dim(with_all, sub(r, _i32(2)), 0, False, allow_negative_indices=False)
    go = convert_element_type(max(rest, least), _I32)
    return max(min(go, sub(rounds, _i32(1))), _i32(1))


def _repetitions(slots: int) -> int:
    """How many suffice for every number of rounds that an int32 counts."""
    r = 1
    while math.comb(slots + r, r) < 1 << 31:
        r += 1
        if r == 64:  # of three slots or fewer
            break
    return r


def backwards(
    body: ClosedJaxpr,
    consts: Sequence[Any],
    init: Sequence[Any],
    trips: Any,
    cts: Sequence[Any],
    consts_on: tuple[bool, ...],
    carry_on: tuple[bool, ...],
    slots: int,
) -> list[Any]:
    """Cotangents of marked constants and of marked carries before `trips` rounds of
    `body(*consts, *carry)`, from those of marked carries after."""
    n, num_on = len(init), sum(consts_on)
    highest = _repetitions(slots)
    step_back = _transposed_step(body, len(consts), consts_on, carry_on)
    # One more than there are slots: what is not kept is written there.
    stored = [broadcast(x, (slots + 1,)) for x in init]
    positions = full((slots + 1,), 0, _I32)
    sums = [zeros_like_aval(aval_of(c).to_cotangent_aval()) for c in pick(consts, consts_on)]

    def advance(position: Any, end: Any, carry: Sequence[Any]) -> list[Any]:
        """The state at `end`."""

        def once(i: Any, *carry: Any) -> list[Any]:
            return [add(i, _i32(1)), *body.eval(*consts, *carry)]

        return bind_while(lambda i, *_: lt(i, end), once, [position, *carry])[1:]

    def one_round(last: Any, top: Any, positions: Any, *rest: Any) -> list[Any]:
        """Reverse round `last`. The checkpoint before it is in slot `top`, others below."""
        stored, sums, cts = split_list(rest, n, num_on)
        first = dynamic_index_in_dim(positions, top, 0, False)
        carry = [dynamic_index_in_dim(s, top, 0, False) for s in stored]

        def place(position: Any, top: Any, positions: Any, *rest: Any) -> list[Any]:
            stored, carry = split_list(rest, n)
            left = add(sub(last, position), _i32(1))
            end = add(position, _next_checkpoint(left, sub(_i32(slots), top), highest))
            carry = advance(position, end, carry)
            # The state that is wanted now is needed no more.
            keeps = lt(end, last)
            slot = select(keeps, add(top, _i32(1)), _i32(slots))
            stored = [dynamic_update_index_in_dim(s, x, slot, 0) for s, x in zip(stored, carry)]
            positions = dynamic_update_index_in_dim(positions, end, slot, 0)
            return [end, select(keeps, slot, top), positions, *stored, *carry]

        _, top, positions, *others = bind_while(
            lambda position, *_: lt(position, last),
            place,
            [first, top, positions, *stored, *carry],
        )
        stored, carry = split_list(others, n)
        found = step_back.eval(*consts, *carry, *cts)
        more, cts = split_list(found, num_on)
        sums = [add_jaxvals(total, ct) for total, ct in zip(sums, more)]
        at_top = dynamic_index_in_dim(positions, top, 0, False)
        used = convert_element_type(eq(at_top, last), _I32)
        return [sub(last, _i32(1)), sub(top, used), positions, *stored, *sums, *cts]

    outs = bind_while(
        lambda last, *_: ge(last, _i32(0)),
        one_round,
        [sub(trips, _i32(1)), _i32(0), positions, *stored, *sums, *cts],
    )
    return outs[3 + n :]
