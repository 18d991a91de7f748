"""Loops and branches without mutable references: what those hold that are written to is carried
along, what is only read is a constant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyjax.core.errors import fail
from pyjax.core.jaxpr import ClosedJaxpr, Var
from pyjax.core.primitive import Primitive
from pyjax.interpreters.discharge import (
    Rule,
    are_cells,
    discharged,
    same_ref,
    store,
    values_of,
)
from pyjax.interpreters.lift_constants import bind_lifted
from pyjax.lax.control_flow.tracing import either, pick, reordered, split_list


def _check_carry(primitive: Primitive, carry: Sequence[Any]) -> None:
    if any(are_cells(carry)):
        fail(
            TypeError,
            f"{primitive} got a Ref in its carry.",
            "a carry is a value that each step makes anew; a Ref stays the same",
            "Close over the Ref, and leave it out of the carry.",
        )


def scan_discharge(primitive: Primitive) -> Rule:
    def rule(args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
        num_consts, num_carry = params["num_consts"], params["num_carry"]
        consts, carry, xs = split_list(args, num_consts, num_carry)
        _check_carry(primitive, carry)
        body, written = discharged(params["jaxpr"], are_cells(args))
        consts_written, _, xs_written = split_list(written, num_consts, num_carry)
        num_outs, num_new = len(params["jaxpr"].out_avals), sum(consts_written)
        numbers = range(len(args))
        of_consts, of_carry, of_xs = split_list(numbers, num_consts, num_carry)
        kept = pick(of_consts, consts_written, False)
        ins = [*kept, *of_carry, *pick(of_consts, consts_written), *of_xs]
        outs = [*range(num_carry), *range(num_outs, num_outs + num_new)]
        outs += [*range(num_carry, num_outs), *range(num_outs + num_new, len(body.out_avals))]
        values = values_of(args)
        results = bind_lifted(
            primitive,
            *[values[i] for i in ins],
            **{
                **params,
                "jaxpr": reordered(body, ins, outs),
                "num_consts": len(kept),
                "num_carry": num_carry + num_new,
            },
        )
        new_carry, new_consts, rest = split_list(results, num_carry, num_new)
        ys, new_xs = split_list(rest, num_outs - num_carry)
        store(consts, consts_written, new_consts)
        store(xs, xs_written, new_xs)
        return [*new_carry, *ys]

    return rule


def while_discharge(primitive: Primitive) -> Rule:
    def rule(args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
        cond_nconsts, body_nconsts = params["cond_nconsts"], params["body_nconsts"]
        cond_consts, body_consts, carry = split_list(args, cond_nconsts, body_nconsts)
        _check_carry(primitive, carry)
        cond, cond_written = discharged(params["cond_jaxpr"], are_cells([*cond_consts, *carry]))
        if any(cond_written):
            fail(
                NotImplementedError,
                "the condition of a while_loop writes to a Ref.",
                "a condition says whether to go on, and nothing else",
                "Write in the body, or make the condition a part of the carry.",
            )
        body, written = discharged(params["body_jaxpr"], are_cells([*body_consts, *carry]))
        written = written[:body_nconsts]
        targets = pick(body_consts, written)
        of_consts, of_carry = split_list(range(body_nconsts + len(carry)), body_nconsts)
        ins = [*pick(of_consts, written, False), *of_carry, *pick(of_consts, written)]
        cond, cond_kept = _reading(cond, cond_consts, targets)
        results = bind_lifted(
            primitive,
            *values_of(cond_kept),
            *values_of(pick(body_consts, written, False)),
            *values_of(carry),
            *values_of(targets),
            cond_nconsts=len(cond_kept),
            cond_jaxpr=cond,
            body_nconsts=body_nconsts - len(targets),
            body_jaxpr=reordered(body, ins, range(len(body.out_avals))),
        )
        results, finals = split_list(results, len(carry))
        store(body_consts, written, finals)
        return results

    return rule


def _reading(
    cond: ClosedJaxpr, consts: Sequence[Any], targets: Sequence[Any]
) -> tuple[ClosedJaxpr, list[Any]]:
    """A condition that gets what the body writes to behind the carry, and the constants that are
    left to it."""
    jaxpr = cond.jaxpr
    own = jaxpr.invars[: len(consts)]
    last: list[Var] = []
    taken: list[Var] = []
    for target in targets:
        found = [v for v, x in zip(own, consts) if same_ref(x, target)]
        last.append(found[0] if found else Var(target.aval.inner_aval))
        taken += found
    kept = [v not in taken for v in own]
    invars = [*pick(own, kept), *jaxpr.invars[len(consts) :], *last]
    return ClosedJaxpr(jaxpr.replace(invars=invars), cond.consts), pick(consts, kept)


def cond_discharge(primitive: Primitive) -> Rule:
    def rule(args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
        index, *operands = args
        cells = are_cells(operands)
        branches: tuple[ClosedJaxpr, ...] = params["branches"]
        written = [False] * len(operands)
        for branch in branches:
            written = either(written, discharged(branch, cells)[1])
        pure = tuple(discharged(branch, cells, written)[0] for branch in branches)
        results = bind_lifted(
            primitive, index, *values_of(operands), **{**params, "branches": pure}
        )
        results, finals = split_list(results, len(branches[0].out_avals))
        store(operands, written, finals)
        return results

    return rule
