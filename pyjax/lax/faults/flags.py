"""Programs that notice faults: the same program with one more result, a bool that is true if
something happened that the options make an error.

The flag is a hint that costs little: it is made of comparisons that are fused with what they look
at, and it may be set where no fault is (in a lane of a loop that has stopped already). What
happened, and where, is found by running the program again (`faults.search`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pyjax.core.avals import ShapedArray
from pyjax.core.effects import no_effects
from pyjax.core.fault_checks import FaultChecks
from pyjax.core.jaxpr import ClosedJaxpr, JaxprEqn, bind_eqn, eval_jaxpr
from pyjax.core.primitive import Primitive
from pyjax.core.structural import broadcast
from pyjax.interpreters.partial_eval import trace_to_jaxpr
from pyjax.interpreters.rules import called_programs
from pyjax.lax.arithmetic import imag, real
from pyjax.lax.bitwise import bitwise_and, bitwise_not, bitwise_or
from pyjax.lax.common import BOOL_DTYPE, is_complex, is_inexact
from pyjax.lax.compare import eq, full_value, gt, lt, ne
from pyjax.lax.control_flow.cond_rules import cond_p
from pyjax.lax.control_flow.scan_rules import scan_p
from pyjax.lax.control_flow.tracing import split_list
from pyjax.lax.control_flow.while_loop import while_p
from pyjax.lax.elementwise import is_finite
from pyjax.lax.faults.operands import dividing_primitives, indices_of
from pyjax.lax.indexing.gather_scatter_types import bounds_like
from pyjax.lax.reduce import reduce_or

_FLAG = ShapedArray((), BOOL_DTYPE)
_UNSET = np.zeros((), BOOL_DTYPE)
# The results of an equation or program, and its flag, or None if it has nothing to check.
_Flagged = tuple[list[Any], Any]


def flagged_program(closed: ClosedJaxpr, checks: FaultChecks, quiet: bool = False) -> ClosedJaxpr:
    """The program with the flag as its last result.

    Args:
      quiet: leave out what only prints (`debug.print`).
    """

    def fun(*args: Any) -> list[Any]:
        outs, flag = _flagged(closed, args, checks, quiet)
        return [*outs, _or_unset(_either(flag, results_flag(outs, checks)))]

    return trace_to_jaxpr(fun, closed.in_avals, debug=closed.jaxpr.debug_info)[0]


def results_flag(outs: Sequence[Any], checks: FaultChecks) -> Any:
    """Whether one of these values holds what results must not; None if none can."""
    flag = None
    for x in outs:
        if checks.nan_results and _is_checked(x):
            flag = _either(flag, _any(ne(x, x)))
        if checks.inf_results and _is_checked(x):
            flag = _either(flag, _any(_is_inf(x)))
    return flag


def _is_checked(x: Any) -> bool:
    dtype = getattr(x, "dtype", None)
    return isinstance(dtype, np.dtype) and is_inexact(dtype)


def _is_inf(x: Any) -> Any:
    if is_complex(x.dtype):
        return bitwise_or(_is_inf(real(x)), _is_inf(imag(x)))
    return bitwise_and(bitwise_not(is_finite(x)), eq(x, x))


def _any(x: Any) -> Any:
    return reduce_or(x, tuple(range(len(x.shape)))) if x.shape else x


def _either(a: Any, b: Any) -> Any:
    if a is None or b is None:
        return b if a is None else a
    return bitwise_or(a, b)


def _or_unset(flag: Any) -> Any:
    return _UNSET if flag is None else flag


def _flagged(
    closed: ClosedJaxpr, args: Sequence[Any], checks: FaultChecks, quiet: bool
) -> _Flagged:
    """Evaluate a program under the current trace, and check its equations."""
    flag = None

    def apply(eqn: JaxprEqn, values: Sequence[Any]) -> Sequence[Any]:
        nonlocal flag
        outs, raised = _flagged_equation(eqn, values, checks, quiet)
        flag = _either(flag, raised)
        return outs

    outs = eval_jaxpr(closed.jaxpr, closed.consts, *args, apply=apply)
    return outs, flag


def _flagged_equation(
    eqn: JaxprEqn, values: Sequence[Any], checks: FaultChecks, quiet: bool
) -> _Flagged:
    if quiet and only_prints(eqn):
        return [], None
    program = called_programs.get(eqn.primitive)
    if program is not None:
        return _flagged(eqn.params[program], values, checks, quiet)
    rule = _rules.get(eqn.primitive)
    if rule is not None and (checks.of_operations or quiet):
        return rule(eqn, values, checks, quiet)
    flag = None
    if checks.divide and eqn.primitive in dividing_primitives:
        flag = _any(eq(values[1], full_value(values[1], 0)))
    if checks.oob:
        flag = _either(flag, _out_of_bounds(eqn, values))
    outs = bind_eqn(eqn, values)
    if checks.nan:
        for x in outs:
            if _is_checked(x):
                flag = _either(flag, _any(ne(x, x)))
    return list(outs), flag


def only_prints(eqn: JaxprEqn) -> bool:
    """Whether an equation is there for its effects alone."""
    return eqn.effects is not no_effects and bool(eqn.effects) and not eqn.outvars


def _out_of_bounds(eqn: JaxprEqn, values: Sequence[Any]) -> Any:
    found = indices_of(eqn)
    if found is None:
        return None
    if len(found.operands) == 1 and np.shape(values[found.operands[0]]):
        indices = values[found.operands[0]]
        beyond = gt(indices, bounds_like(indices, found.limits))
        return _any(bitwise_or(beyond, lt(indices, full_value(indices, 0))))
    flag = None
    for position, limit in zip(found.operands, found.limits):
        index = values[position]
        flag = _either(flag, gt(index, full_value(index, limit)))
        flag = _either(flag, lt(index, full_value(index, 0)))
    return flag


# -- control flow ----------------------------------------------------------------------------------


def _scan(eqn: JaxprEqn, values: Sequence[Any], checks: FaultChecks, quiet: bool) -> _Flagged:
    """The flag is one more element of the carry."""
    params, body = eqn.params, eqn.params["jaxpr"]
    num_consts = params["num_consts"]

    def flagged_body(*args: Any) -> list[Any]:
        consts, (flag,), rest = split_list(args, num_consts, 1)
        outs, raised = _flagged(body, [*consts, *rest], checks, quiet)
        return [_either(flag, raised), *outs]

    avals = [*body.in_avals[:num_consts], _FLAG, *body.in_avals[num_consts:]]
    new, _ = trace_to_jaxpr(flagged_body, avals, debug=body.jaxpr.debug_info)
    flag, *outs = scan_p.bind(
        *values[:num_consts],
        _UNSET,
        *values[num_consts:],
        **{**params, "jaxpr": new, "num_carry": params["num_carry"] + 1},
    )
    return outs, flag


def _while(eqn: JaxprEqn, values: Sequence[Any], checks: FaultChecks, quiet: bool) -> _Flagged:
    """The flag is one more element of the carry, with an element for each lane. What the condition
    does is checked on its initial operands, and in the body on each new carry."""
    params = eqn.params
    cond, body = params["cond_jaxpr"], params["body_jaxpr"]
    cond_consts, body_consts, init = split_list(
        values, params["cond_nconsts"], params["body_nconsts"]
    )
    lanes = cond.out_avals[0].shape
    n_cond, n_body = len(cond_consts), len(body_consts)

    def flagged_body(*args: Any) -> list[Any]:
        of_cond, of_body, (flag,), carry = split_list(args, n_cond, n_body, 1)
        outs, raised = _flagged(body, [*of_body, *carry], checks, quiet)
        _, in_cond = _flagged(cond, [*of_cond, *outs], checks, quiet)
        raised = _either(raised, in_cond)
        return [flag if raised is None else bitwise_or(flag, broadcast(raised, lanes)), *outs]

    def same_condition(*args: Any) -> list[Any]:
        return cond.eval(*args[:n_cond], *args[n_cond + 1 :])

    flags = ShapedArray(lanes, BOOL_DTYPE)
    new_body, _ = trace_to_jaxpr(
        flagged_body,
        [*cond.in_avals[:n_cond], *body.in_avals[:n_body], flags, *body.in_avals[n_body:]],
        debug=body.jaxpr.debug_info,
    )
    new_cond, _ = trace_to_jaxpr(
        same_condition,
        [*cond.in_avals[:n_cond], flags, *cond.in_avals[n_cond:]],
        debug=cond.jaxpr.debug_info,
    )
    _, at_first = _flagged(cond, [*cond_consts, *init], checks, quiet)
    flag, *outs = while_p.bind(
        *cond_consts,
        *cond_consts,
        *body_consts,
        broadcast(_or_unset(at_first), lanes),
        *init,
        cond_nconsts=n_cond,
        cond_jaxpr=new_cond,
        body_nconsts=n_cond + n_body,
        body_jaxpr=new_body,
    )
    return outs, _any(flag)


def _cond(eqn: JaxprEqn, values: Sequence[Any], checks: FaultChecks, quiet: bool) -> _Flagged:
    branches = eqn.params["branches"]

    def flagged_branch(branch: ClosedJaxpr) -> ClosedJaxpr:
        def fun(*args: Any) -> list[Any]:
            outs, flag = _flagged(branch, args, checks, quiet)
            return [*outs, _or_unset(flag)]

        return trace_to_jaxpr(fun, branch.in_avals, debug=branch.jaxpr.debug_info)[0]

    new = tuple(flagged_branch(b) for b in branches)
    *outs, flag = cond_p.bind(*values, **{**eqn.params, "branches": new})
    return outs, flag


_rules: dict[Primitive, Callable[..., _Flagged]] = {scan_p: _scan, while_p: _while, cond_p: _cond}
