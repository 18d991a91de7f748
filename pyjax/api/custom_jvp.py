"""custom_jvp: functions with a user's own forward-mode rule. Layer: api."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from pyjax.api.flat import as_arrays, check_arrays, take_attributes
from pyjax.api.recorded_calls import define_recorded_call, record
from pyjax.core.avals import abstractify
from pyjax.core.errors import fail, new_error
from pyjax.core.jaxpr import ClosedJaxpr, JaxprEqn
from pyjax.core.signatures import parameters_of, signature_of
from pyjax.core.source_info import function_name, unwrapped
from pyjax.core.trace import CustomCall, state
from pyjax.core.traceback_filter import api_boundary
from pyjax.core.tree_util import PyTreeDef, tree_flatten, tree_leaves, tree_map, tree_unflatten
from pyjax.interpreters import ad
from pyjax.interpreters.batching import MappedCall
from pyjax.interpreters.rules import (
    Unsupported,
)
from pyjax.interpreters.staging import StagingTrace
from pyjax.interpreters.tangents import Zero


class SymbolicZero:
    """A tangent or cotangent known to be zero, as user rules with symbolic_zeros=True see it.

    >>> @pyjax.custom_jvp
    ... def product(x, y):
    ...     return x * y
    >>> def rule(primals, tangents):
    ...     print(tangents[1])
    ...     return product(*primals), tangents[0] * primals[1]
    >>> _ = product.defjvp(rule, symbolic_zeros=True)
    >>> float(pyjax.grad(product)(2.0, 3.0))
    SymbolicZero(float32[])
    3.0
    """

    def __init__(self, aval: Any) -> None:
        self.aval = aval

    @property
    def shape(self) -> tuple[int, ...]:
        return self.aval.shape

    @property
    def dtype(self) -> Any:
        return self.aval.dtype

    def __repr__(self) -> str:
        return f"SymbolicZero({self.aval.str_short()})"


def _stands_still(tangent: Any) -> bool:
    return all(isinstance(t, SymbolicZero) for t in tree_leaves(tangent))


def _instantiated(tangent: Any) -> Any:
    return ad.zero_tangent_array(tangent.aval) if isinstance(tangent, SymbolicZero) else tangent


def zero_from_primal(val: Any, symbolic_zeros: bool = False) -> Any:
    """The tangent that is zero, of the values of a pytree.

    Args:
      val: pytree of arrays; the tangents of integers and bools have the dtype float0.
      symbolic_zeros: give a `SymbolicZero` in place of each array of zeros.

    >>> zero_from_primal({"a": 2.0}, symbolic_zeros=True)
    {'a': SymbolicZero(float32[])}
    """
    if symbolic_zeros:
        return tree_map(lambda x: SymbolicZero(abstractify(x).to_tangent_aval()), val)
    return tree_map(lambda x: Zero.from_primal_value(x).instantiate(), val)


class custom_jvp:
    """Give a function its own rule for forward-mode (and so reverse-mode) differentiation.

    Args:
      fun: function of pytrees of arrays.
      nondiff_argnums: positions of arguments that are not differentiated, such as functions; they
        are passed to the rule first.
      nondiff_argnames: the same by name.

    >>> import pyjax.numpy as jnp
    >>> @custom_jvp
    ... def f(x):
    ...     return jnp.sin(x)
    >>> @f.defjvp
    ... def f_jvp(primals, tangents):
    ...     return f(*primals), 2.0 * tangents[0]
    """

    def __init__(
        self,
        fun: Callable[..., Any],
        nondiff_argnums: Sequence[int] = (),
        nondiff_argnames: Sequence[str] = (),
    ) -> None:
        functools.update_wrapper(self, fun, updated=())
        take_attributes(self, fun)
        self.fun = fun
        self.nondiff_argnums = nondiff_positions(fun, nondiff_argnums, nondiff_argnames)
        self.jvp: Callable[..., Any] | None = None
        self.symbolic_zeros = False

    def defjvp(self, jvp: Callable[..., Any], symbolic_zeros: bool = False) -> Callable[..., Any]:
        """Set the rule: `jvp(*nondiff_args, primals, tangents) -> (output, tangent of output)`.

        With `symbolic_zeros`, zero tangents come as SymbolicZero objects.
        """
        self.jvp = jvp
        self.symbolic_zeros = symbolic_zeros
        return jvp

    def defjvps(self, *jvps: Callable[..., Any] | None) -> None:
        """Set one rule per argument: `rule(tangent, output, *primals) -> tangent`; None: zero.

        The rule of an argument that has no tangent is not called.
        """
        if self.nondiff_argnums:
            raise new_error(TypeError, "Can't use ``defjvps`` with ``nondiff_argnums``.")

        def jvp(primals: Any, tangents: Any) -> Any:
            out = self(*primals)
            # Zero times an infinite slope along an argument that stands still would be nan.
            terms = [
                rule(tree_map(_instantiated, t), out, *primals)
                for rule, t in zip(jvps, tangents)
                if rule is not None and not _stands_still(t)
            ]
            if not terms:
                return out, tree_map(lambda x: ad.zero_tangent_array(abstractify(x)), out)
            total = terms[0]
            for term in terms[1:]:
                total = tree_map(ad.add_jaxvals, total, term)
            return out, total

        self.defjvp(jvp, symbolic_zeros=True)

    @api_boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        name = function_name(self.fun)
        if self.jvp is None:
            raise new_error(
                AttributeError,
                f"No JVP defined for custom_jvp function {name} using defjvp.",
                "A custom_jvp function has its derivative from a rule.",
                f"@{name}.defjvp above a function of (primals, tangents) that returns two outputs.",
            )
        args = resolve_kwargs(self.fun, args, kwargs)
        dynamic_positions = [i for i in range(len(args)) if i not in self.nondiff_argnums]
        nondiff = [args[i] for i in self.nondiff_argnums if i < len(args)]
        dynamic = tuple(args[i] for i in dynamic_positions)
        check_arrays(f"custom_jvp function {name}", dynamic)
        leaves, in_tree = tree_flatten(dynamic)
        jvp_rule = self.jvp
        fun = self.fun
        out_trees: list[PyTreeDef] = []

        def flat_fun(*flat: Any) -> list[Any]:
            full = list(args)
            for i, x in zip(dynamic_positions, tree_unflatten(in_tree, as_arrays(flat))):
                full[i] = x
            outs, tree = tree_flatten(fun(*full))
            out_trees.append(tree)
            return outs

        def flat_jvp(*flat: Any) -> list[Any]:
            n = len(flat) // 2
            primals = tree_unflatten(in_tree, as_arrays(flat[:n]))
            tangents = tree_unflatten(in_tree, as_arrays([symbolic(t) for t in flat[n:]]))
            result = jvp_rule(*nondiff, primals, tangents)
            return _check_jvp_output(name, jvp_rule, result, out_trees)

        flat_rule = JvpRule(flat_jvp, function_name(jvp_rule))
        call = CallWithJvp(flat_fun, flat_rule, name, self.symbolic_zeros)
        outs = state.traces[0].process_custom_call(call, leaves)
        return tree_unflatten(out_trees[0], outs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self

        def bound(*args: Any, **kwargs: Any) -> Any:
            return self(instance, *args, **kwargs)

        return bound


def nondiff_positions(
    fun: Callable[..., Any], argnums: Sequence[int], argnames: Sequence[str]
) -> tuple[int, ...]:
    """Positions of the arguments that are not differentiated.

    Raises:
      ValueError: a name is that of no parameter.
    """
    numbers = [argnums] if isinstance(argnums, int) else list(argnums)
    if argnames:
        names = [argnames] if isinstance(argnames, str) else list(argnames)
        parameters = [p.name for p in parameters_of(fun)]
        for name in names:
            if name not in parameters:
                raise new_error(
                    ValueError,
                    f"nondiff_argnames names {name!r}, but {function_name(fun)} has no such "
                    f"parameter; its parameters are {', '.join(parameters) or 'none'}",
                )
        numbers += [parameters.index(n) for n in names]
    return tuple(sorted(set(numbers)))


def resolve_kwargs(
    fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, ...]:
    """Positional form of a call: keywords and defaults in their places.

    Raises:
      TypeError: the call does not fit, or uses keyword-only arguments.
    """
    if not kwargs and not _has_defaults(fun):
        return args
    signature = signature_of(fun)
    if signature is None:
        if kwargs:
            raise new_error(TypeError, f"{function_name(fun)} takes no keyword arguments")
        return args
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    if bound.kwargs:
        raise new_error(
            TypeError,
            f"keyword arguments could not be resolved to positions: {sorted(bound.kwargs)} of "
            f"{function_name(fun)}. Custom derivative rules need positional arguments.",
        )
    return bound.args


def _has_defaults(fun: Callable[..., Any]) -> bool:
    fun = unwrapped(fun)
    return not hasattr(fun, "__code__") or bool(getattr(fun, "__defaults__", None))


def symbolic(t: Any) -> Any:
    """What user rules see of a tangent or cotangent."""
    return SymbolicZero(t.aval) if type(t) is Zero else t


def _check_jvp_output(
    name: str, rule: Callable[..., Any], result: Any, out_trees: list[PyTreeDef]
) -> list[Any]:
    rule_name = function_name(rule)
    if not isinstance(result, (list, tuple)) or len(result) != 2:
        raise new_error(
            TypeError,
            f"Custom JVP rule {rule_name} for function {name} must produce a pair (list or tuple "
            f"of length two) representing primal and tangent outputs, but got {result!r:.80}.",
            "The rule computes the function's output and the derivative of it.",
            "return primal_out, tangent_out",
        )
    outs, out_tree = tree_flatten(result[0])
    tangents, tangent_tree = tree_flatten(result[1], is_leaf=lambda x: isinstance(x, SymbolicZero))
    if out_tree != tangent_tree:
        raise new_error(
            TypeError,
            f"Custom JVP rule {rule_name} for function {name} must produce primal and tangent "
            f"outputs with equal container (pytree) structures, but got {out_tree} and "
            f"{tangent_tree} respectively.",
        )
    if out_trees and out_trees[0] != out_tree:
        raise new_error(
            TypeError,
            f"Custom JVP rule {rule_name} for function {name} must produce a pair (list or tuple "
            "of length two) where the first element represents the primal output (equal in value "
            f"to the output of the custom_jvp-decorated function {name}, and in particular of the "
            "same container/pytree structure), but instead the JVP rule output's first element "
            f"had container/pytree structure {out_tree} while {name} returns {out_trees[0]}.",
        )
    out_trees.append(out_tree)
    fixed = []
    for p, t in zip(outs, tangents):
        fixed.append(_check_tangent(name, rule_name, p, t))
    return outs + fixed


def _check_tangent(name: str, rule_name: str, primal: Any, tangent: Any) -> Any:
    aval = abstractify(primal)
    expected = aval.to_tangent_aval()
    if isinstance(tangent, SymbolicZero):
        return ad.zero_tangent_array(aval)
    got = abstractify(tangent)
    if got.shape == expected.shape and got.dtype == expected.dtype:
        return tangent
    fail(
        TypeError,
        f"Custom JVP rule {rule_name} for function {name} must produce primal and tangent outputs "
        f"with corresponding shapes and dtypes: primal {aval.str_short()} with tangent "
        f"{got.str_short()}, expecting tangent {expected.str_short()}.",
        "A tangent is a small change of the output: it has its shape and dtype.",
        "Compute it elementwise, or broadcast it: jnp.broadcast_to(t, primal_out.shape).",
    )


# -- the primitive --------------------------------------------------------------------------------


class JvpRule:
    """A flat rule, from primals and tangents to outputs and theirs, in the parameters of an
    equation; printed by the user's name for it.

    `refuse_closed_over` raises, if the rule would pass over the derivative in a value that the
    function closes over.
    """

    def __init__(
        self,
        fun: Callable[..., list[Any]],
        name: str,
        refuse_closed_over: Callable[[], None] | None = None,
    ) -> None:
        self.fun = fun
        self.__name__ = name
        self.refuse_closed_over = refuse_closed_over


class CallWithJvp(CustomCall):
    """A flat function and its flat rule."""

    __slots__ = ("closed_over", "fun", "name", "rule", "symbolic_zeros")

    def __init__(
        self,
        fun: Callable[..., list[Any]],
        rule: JvpRule,
        name: str,
        symbolic_zeros: bool,
        closed_over: Sequence[Any] = (),
    ) -> None:
        self.closed_over = closed_over
        self.fun = fun
        self.rule = rule
        self.name = name
        self.symbolic_zeros = symbolic_zeros

    def batched(self, mapped: MappedCall) -> CallWithJvp:
        rule = self.rule
        rule = JvpRule(mapped.batched(rule.fun, copies=2), rule.__name__, rule.refuse_closed_over)
        fun, closed_over = mapped.batched(self.fun), mapped.values(self.closed_over)
        return CallWithJvp(fun, rule, self.name, self.symbolic_zeros, closed_over)

    def check_closed_over(self) -> None:
        if self.rule.refuse_closed_over is not None:
            self.rule.refuse_closed_over()

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        if not self.symbolic_zeros:
            tangents = [ad.instantiate_zeros(t) for t in tangents]
        outs = self.rule.fun(*primals, *tangents)
        n = len(outs) // 2
        return outs[:n], outs[n:]

    def stage(self, trace: StagingTrace, args: Sequence[Any]) -> list[Any]:
        rules = {"jvp": self.rule, "symbolic_zeros": self.symbolic_zeros}
        return record(trace, custom_jvp_call_p, "custom_jvp", self, args, **rules)


def with_more_results(
    params: dict[str, Any], program: ClosedJaxpr, more: Sequence[Any]
) -> dict[str, Any]:
    """The parameters of a call of a program with more results, whose derivatives are zero.

    Args:
      program: gives what the function gives, and more.
      more: what the rule gives for these: NumPy arrays.
    """
    rule = params["jvp"]

    def jvp(*args: Any) -> list[Any]:
        results = rule.fun(*args)
        n = len(results) // 2
        zeros = [ad.zero_tangent_array(abstractify(x)) for x in more]
        return [*results[:n], *more, *results[n:], *zeros]

    return {
        **params,
        "call_jaxpr": program,
        "jvp": JvpRule(jvp, rule.__name__, rule.refuse_closed_over),
    }


def _remake(
    fun: Callable[..., list[Any]],
    consts: Sequence[Any],
    call_jaxpr: ClosedJaxpr,
    name: str,
    jvp: JvpRule,
    symbolic_zeros: bool,
) -> CallWithJvp:
    return CallWithJvp(fun, jvp, name, symbolic_zeros, consts)


def _dce(used_outputs: Sequence[bool], eqn: JaxprEqn) -> tuple[list[bool], JaxprEqn | None]:
    if not any(used_outputs) and not eqn.effects:
        return [False] * len(eqn.invars), None
    return [True] * len(eqn.invars), eqn


custom_jvp_call_p = define_recorded_call(
    "custom_jvp_call",
    _remake,
    transpose=Unsupported(
        "the function is not linear; its jvp rule must be made of linear operations"
    ),
    dce=_dce,
)

__all__ = [
    "CallWithJvp",
    "JvpRule",
    "SymbolicZero",
    "custom_jvp",
    "custom_jvp_call_p",
    "nondiff_positions",
    "resolve_kwargs",
    "symbolic",
    "with_more_results",
]
