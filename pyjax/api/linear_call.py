"""linear_call: linear functions with a transpose of their own. Layer: api."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyjax.api.flat import check_arrays, check_callable
from pyjax.api.recorded_calls import define_recorded_call, record
from pyjax.core.avals import abstractify
from pyjax.core.errors import fail
from pyjax.core.jaxpr import ClosedJaxpr
from pyjax.core.source_info import function_name
from pyjax.core.structural import add_jaxvals
from pyjax.core.trace import CustomCall, state
from pyjax.core.tree_util import PyTreeDef, tree_flatten, tree_unflatten
from pyjax.interpreters import ad
from pyjax.interpreters.batching import MappedCall
from pyjax.interpreters.partial_eval import PartialTrace
from pyjax.interpreters.staging import StagingTrace
from pyjax.interpreters.tangents import Zero
from pyjax.interpreters.traced_function import trace_function
from pyjax.runtime.dispatch import constant_array


def linear_call(
    fun: Callable[..., Any], fun_transpose: Callable[..., Any], residual_args: Any, linear_args: Any
) -> Any:
    """Call a linear function that is transposed by a function of yours.

    The transpose is a linear call again, of `fun_transpose`, with `fun` as its transpose.

    Args:
      fun: `fun(residual_args, linear_args)`, linear in the latter.
      fun_transpose: `fun_transpose(residual_args, cotangent of the output)` gives the cotangent of
        linear_args: a pytree of the same structure, shapes and dtypes.
      residual_args, linear_args: pytrees of arrays.
    Returns:
      fun(residual_args, linear_args).
    Raises:
      TypeError: when it is transposed, if the cotangent has another structure or other types.
    Derivatives in linear_args are linear calls; those in residual_args and in what `fun` closes
    over are the derivatives of `fun` itself.

    >>> from pyjax.api.grad import grad
    >>> scale = lambda r, x: x / r
    >>> doubled = lambda r, ct: 2 * ct / r
    >>> float(grad(lambda x: linear_call(scale, doubled, 4.0, x))(1.0))
    0.5
    """
    check_callable(fun)
    check_callable(fun_transpose)
    check_arrays("linear_call", (residual_args, linear_args))
    residuals, res_tree = tree_flatten(residual_args)
    linear, lin_tree = tree_flatten(linear_args)
    leaves, in_tree = tree_flatten(((residual_args, linear_args), {}))
    traced = trace_function("linear_call", fun, in_tree, [abstractify(x) for x in leaves], (), None)
    closed, out_tree = traced.closed, traced.out_tree
    consts = traced.operands(constant_array)
    num_consts, num_residuals = len(consts), len(residuals)
    lin_avals = [abstractify(x).to_tangent_aval() for x in linear]

    def transposed(*flat: Any) -> list[Any]:
        constants = flat[:num_consts]
        values = flat[num_consts:]

        def back(res: Any, lin: Any) -> Any:
            args = [*tree_flatten(res)[0], *tree_flatten(lin)[0]]
            return tree_unflatten(out_tree, closed.eval(*constants, *args))

        res = tree_unflatten(res_tree, values[:num_residuals])
        ct = tree_unflatten(out_tree, values[num_residuals:])
        found = linear_call(fun_transpose, back, res, ct)
        return _checked_cotangents(fun_transpose, found, lin_tree, lin_avals)

    name, rule_name = function_name(fun), function_name(fun_transpose)
    rule = TransposeRule(transposed, rule_name)
    call = LinearCall(closed.eval, rule, name, num_consts + num_residuals, symbolic_zeros=False)
    outs = state.traces[0].process_custom_call(call, [*consts, *residuals, *linear])
    return tree_unflatten(out_tree, outs)


def _checked_cotangents(
    rule: Callable[..., Any], found: Any, tree: PyTreeDef, avals: Sequence[Any]
) -> list[Any]:
    cts, ct_tree = tree_flatten(found)
    if ct_tree != tree:
        fail(
            TypeError,
            f"The transpose {function_name(rule)} of a linear_call gave cotangents with structure "
            f"{ct_tree}, and the linear arguments have structure {tree}.",
            "Each linear argument needs a cotangent.",
            "Return a pytree like linear_args.",
        )
    for i, (ct, aval) in enumerate(zip(cts, avals)):
        got = abstractify(ct)
        if (got.shape, got.dtype) != (aval.shape, aval.dtype):
            fail(
                TypeError,
                f"The transpose {function_name(rule)} of a linear_call gave {got.str_short()} as "
                f"cotangent {i}, of an argument of type {aval.str_short()}.",
                "A cotangent has the shape and dtype of its argument.",
                "Broadcast or sum it to that shape, or convert it with astype.",
            )
    return cts


# -- the call, and its primitive ------------------------------------------------------------------


class TransposeRule:
    """A flat function from residuals and cotangents to cotangents of the linear operands, in the
    parameters of an equation; printed by the user's name for it."""

    def __init__(self, fun: Callable[..., list[Any]], name: str) -> None:
        self.fun = fun
        self.__name__ = name


class LinearCall(CustomCall):
    """A flat function of residuals and linear operands, and its transpose.

    With `symbolic_zeros`, cotangents may be Zero.
    """

    __slots__ = ("closed_over", "fun", "name", "num_residuals", "rule", "symbolic_zeros")

    def __init__(
        self,
        fun: Callable[..., list[Any]],
        rule: TransposeRule,
        name: str,
        num_residuals: int,
        symbolic_zeros: bool,
        closed_over: Sequence[Any] = (),
    ) -> None:
        self.fun = fun
        self.rule = rule
        self.name = name
        self.num_residuals = num_residuals
        self.symbolic_zeros = symbolic_zeros
        self.closed_over = closed_over

    def batched(self, mapped: MappedCall) -> LinearCall:
        rule = TransposeRule(
            mapped.batched_transpose(self.rule.fun, self.num_residuals), self.rule.__name__
        )
        fun, closed_over = mapped.batched(self.fun), mapped.values(self.closed_over)
        return LinearCall(
            fun, rule, self.name, self.num_residuals, self.symbolic_zeros, closed_over
        )

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        n = self.num_residuals
        trace = state.traces[0]
        outs = trace.process_custom_call(self, primals)
        found: list[Any] = [Zero.from_primal_value(x) for x in outs]
        if any(type(t) is not Zero for t in tangents[n:]):
            dense = [ad.instantiate_zeros(t) for t in tangents[n:]]
            found = trace.process_custom_call(self, [*primals[:n], *dense])
        if any(type(t) is not Zero for t in tangents[:n]):
            still = [Zero(abstractify(x).to_tangent_aval()) for x in primals[n:]]
            terms = ad.jvp(self.fun, primals, [*tangents[:n], *still])[1]
            found = [_sum(a, b) for a, b in zip(found, terms)]
        return outs, found

    def partial_eval(self, tape: PartialTrace, args: Sequence[Any]) -> list[Any]:
        return self.stage(tape.recorder, args)

    def stage(self, trace: StagingTrace, args: Sequence[Any]) -> list[Any]:
        rules = {
            "transpose": self.rule,
            "num_residuals": self.num_residuals,
            "symbolic_zeros": self.symbolic_zeros,
        }
        return record(trace, linear_call_p, "linear_call", self, args, **rules)


def _sum(a: Any, b: Any) -> Any:
    if type(a) is Zero or type(b) is Zero:
        return b if type(a) is Zero else a
    return add_jaxvals(a, b)


def _remake(
    fun: Callable[..., list[Any]],
    consts: Sequence[Any],
    call_jaxpr: ClosedJaxpr,
    name: str,
    transpose: TransposeRule,
    num_residuals: int,
    symbolic_zeros: bool,
) -> LinearCall:
    return LinearCall(fun, transpose, name, num_residuals, symbolic_zeros, consts)


def _transpose(
    cts: Sequence[Any],
    *args: Any,
    name: str,
    transpose: TransposeRule,
    num_consts: int,
    num_residuals: int,
    symbolic_zeros: bool,
    **_: Any,
) -> list[Any]:
    first = num_consts + num_residuals
    if any(map(ad.is_undefined_primal, args[:first])):
        fail(
            NotImplementedError,
            f"Transposition of linear_call of {name} in its residual arguments.",
            "Its transpose is that in linear_args; nobody has said what it is in the others.",
            "Pass what the function is linear in as linear_args.",
        )
    dense = list(cts) if symbolic_zeros else [ad.instantiate_zeros(ct) for ct in cts]
    found = transpose.fun(*args[num_consts:first], *dense)
    linear = [ct if ad.is_undefined_primal(x) else None for x, ct in zip(args[first:], found)]
    return [*[None] * first, *linear]


linear_call_p = define_recorded_call("linear_call", _remake, transpose=_transpose)

__all__ = ["LinearCall", "TransposeRule", "linear_call", "linear_call_p"]
