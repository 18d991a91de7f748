"""custom_vmap: functions with a user's own rule for vmap. Layer: api."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from pyjax.api.custom_jvp import resolve_kwargs
from pyjax.api.flat import as_arrays, check_arrays, check_callable
from pyjax.api.recorded_calls import define_recorded_call, record
from pyjax.core import dtypes
from pyjax.core.avals import abstractify
from pyjax.core.errors import fail, new_error
from pyjax.core.jaxpr import ClosedJaxpr
from pyjax.core.source_info import function_name
from pyjax.core.trace import CustomCall, Tracer, state
from pyjax.core.traceback_filter import api_boundary
from pyjax.core.tree_util import PyTreeDef, tree_flatten, tree_map, tree_unflatten
from pyjax.interpreters import ad
from pyjax.interpreters.batching import MappedCall, broadcast_bdim
from pyjax.interpreters.partial_eval import PartialTrace
from pyjax.interpreters.staging import StagingTrace
from pyjax.interpreters.tangents import Zero
from pyjax.interpreters.traced_function import trace_function
from pyjax.lax.control_flow.loops import map as lax_map
from pyjax.runtime.dispatch import constant_array


class custom_vmap:
    """Give a function its own rule for `vmap`.

    Args:
      fun: function of pytrees of arrays.
    What `def_vmap` sets runs in the place of `fun` where `vmap` maps an argument. Derivatives of
    the mapped function are those of the rule; `vmap` of a derivative has its values from the rule,
    tangents from the rule's (`jvp`), cotangents from those of `fun` (`grad`, `vjp`).

    >>> import pyjax.numpy as jnp
    >>> from pyjax.api.vmap import vmap
    >>> @custom_vmap
    ... def f(x, y):
    ...     return x + y
    >>> @f.def_vmap
    ... def f_vmap(axis_size, in_batched, x, y):
    ...     return 100 * x + y, any(in_batched)
    >>> vmap(f, in_axes=(0, None))(jnp.arange(3), 7).tolist()
    [7, 107, 207]
    """

    def __init__(self, fun: Callable[..., Any]) -> None:
        check_callable(fun)
        functools.update_wrapper(self, fun)
        self.fun = fun
        self.vmap_rule: Callable[..., Any] | None = None

    def def_vmap(self, vmap_rule: Callable[..., Any]) -> Callable[..., Any]:
        """Set the rule: `rule(axis_size, in_batched, *args) -> (output, out_batched)`.

        `in_batched` is a list of booleans, one pytree per argument: whether a leaf has the mapped
        axis, which is its first then. `out_batched` says the same of the output, in its structure.
        The rule may use `fun` itself.
        """
        self.vmap_rule = vmap_rule
        return vmap_rule

    @api_boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        name = function_name(self.fun)
        if self.vmap_rule is None:
            raise AttributeError(
                f"No batching rule defined for custom_vmap function {name} using def_vmap."
            )
        args = resolve_kwargs(self.fun, args, kwargs)
        check_arrays(f"custom_vmap function {name}", args)
        leaves, in_tree = tree_flatten((args, {}))
        avals = [abstractify(x) for x in leaves]
        traced = trace_function("custom_vmap", self.fun, in_tree, avals)
        captured = traced.operands(constant_array)
        rule = VmapRule(self.vmap_rule, name, len(captured), in_tree, traced.out_tree)
        call = CallWithVmap(traced.closed.eval, rule, name, len(captured))
        outs = state.traces[0].process_custom_call(call, [*captured, *leaves])
        return tree_unflatten(traced.out_tree, outs)


def sequential_vmap(f: Callable[..., Any]) -> custom_vmap:
    """A function that `vmap` calls for one element after the other, with `lax.map`.

    Args:
      f: function of pytrees of arrays; a call of foreign code that knows no batches, say.

    >>> import pyjax.numpy as jnp
    >>> from pyjax.api.vmap import vmap
    >>> vmap(sequential_vmap(lambda x: x * (x.ndim + 1)))(jnp.arange(3)).tolist()
    [0, 1, 2]
    """
    function = custom_vmap(f)

    @function.def_vmap
    def one_after_the_other(axis_size: int, in_batched: Any, *args: Any) -> tuple[Any, Any]:
        leaves, tree = tree_flatten(args)
        flags = tree_flatten(tuple(in_batched))[0]

        def one(batched: list[Any]) -> Any:
            found = iter(batched)
            flat = [next(found) if f else x for x, f in zip(leaves, flags)]
            return function(*tree_unflatten(tree, flat))

        outs = lax_map(one, [x for x, f in zip(leaves, flags) if f])
        return outs, tree_map(lambda _: True, outs)

    return function


class VmapRule:
    """A user's rule as a function of flat values, in the parameters of an equation; printed by the
    user's name for it."""

    def __init__(
        self,
        rule: Callable[..., Any],
        name: str,
        num_captured: int,
        in_tree: PyTreeDef,
        out_tree: PyTreeDef,
    ) -> None:
        self.rule = rule
        self.name = name
        self.num_captured = num_captured
        self.in_tree = in_tree
        self.out_tree = out_tree
        self.__name__ = function_name(rule)

    def __call__(
        self, axis_size: int, in_batched: Sequence[bool], *flat: Any
    ) -> tuple[list[Any], list[bool]]:
        n = self.num_captured
        transformed = state.traces[0]
        if any(in_batched[:n]) or any(
            isinstance(x, Tracer) and x._trace is transformed and transformed.parent is not None
            for x in flat[:n]
        ):
            fail(
                NotImplementedError,
                f"The custom_vmap function {self.name} closes over a value that vmap maps, or that "
                "is differentiated.",
                f"Its rule {self.__name__} knows the arguments only.",
                "Pass the value as an argument.",
            )
        args = tree_unflatten(self.in_tree, as_arrays(flat[n:]))[0]
        flags = tree_unflatten(self.in_tree, in_batched[n:])[0]
        result = self.rule(axis_size, list(flags), *args)
        if not isinstance(result, (tuple, list)) or len(result) != 2:
            raise new_error(
                ValueError,
                f"The vmap rule {self.__name__} of {self.name} must return a pair: the output, and "
                f"which of its leaves are batched; got {result!r:.80}.",
            )
        outs, out_tree = tree_flatten(result[0])
        out_batched, spec_tree = tree_flatten(result[1])
        if out_tree != spec_tree:
            raise new_error(
                ValueError,
                "structure of output value and output batching specification returned by custom "
                f"vmap rule ({self.__name__}) do not match.\n"
                f"Output values: {out_tree}\nBatching spec: {spec_tree}",
            )
        if out_tree != self.out_tree:
            raise new_error(
                ValueError,
                f"structure of output returned by custom vmap rule ({self.__name__}) does not "
                f"match that of original custom-vmapped function.\n"
                f"Original output: {self.out_tree}\nRule output: {out_tree}",
            )
        for x, batched in zip(outs, out_batched):
            aval = abstractify(x)
            if batched and (aval.ndim == 0 or aval.shape[0] != axis_size):
                raise new_error(
                    ValueError,
                    f"The vmap rule {self.__name__} of {self.name} says that an output of type "
                    f"{aval.str_short()} is batched, but its first axis has not the size "
                    f"{axis_size}. Put the batch in front, or return False for it.",
                )
        return outs, [bool(b) for b in out_batched]


FlatRule = Callable[..., tuple[list[Any], list[bool]]]


class CallWithVmap(CustomCall):
    """A flat function and its flat rule; the first operands are what it closes over."""

    __slots__ = ("closed_over", "fun", "name", "num_captured", "rule")

    def __init__(
        self,
        fun: Callable[..., list[Any]],
        rule: FlatRule,
        name: str,
        num_captured: int,
        closed_over: Sequence[Any] = (),
    ) -> None:
        self.fun = fun
        self.rule = rule
        self.name = name
        self.num_captured = num_captured
        self.closed_over = closed_over

    def batched(self, mapped: MappedCall) -> CustomCall:
        if any(mapped.maps(i) for i in range(self.num_captured, mapped.num_operands)):
            return _WithoutRule(mapped.by_rule(self.rule))
        fun = mapped.batched(self.fun)
        if any(map(mapped.maps, range(self.num_captured))):
            return _WithoutRule(fun)  # the rule has no say about what the function closes over
        closed_over = mapped.values(self.closed_over)
        return CallWithVmap(fun, self.rule, self.name, self.num_captured, closed_over)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        nonzero = [type(t) is not Zero for t in tangents]
        zeros = [Zero(abstractify(x).to_tangent_aval()) for x in primals]
        n = len(primals)

        def pairs(flat: Sequence[Any]) -> tuple[list[Any], list[Any]]:
            dense = iter(flat[n:])
            return list(flat[:n]), [next(dense) if nz else z for nz, z in zip(nonzero, zeros)]

        differentiable: list[bool] = []  # per output; known when one of the two has run

        def with_tangents(outs: list[Any], out_tangents: list[Any]) -> list[Any]:
            differentiable[:] = [t.aval.dtype != dtypes.float0 for t in map(_typed, out_tangents)]
            pairs = zip(out_tangents, differentiable)
            return [*outs, *[ad.instantiate_zeros(t) for t, has in pairs if has]]

        def fun(*flat: Any) -> list[Any]:
            return with_tangents(*ad.jvp(self.fun, *pairs(flat)))

        def rule(
            axis_size: int, in_batched: Sequence[bool], *flat: Any
        ) -> tuple[list[Any], list[bool]]:
            xs, ts = pairs(flat)
            flags, of_tangents = pairs(in_batched)
            for i, other in enumerate(of_tangents):  # a tangent is batched as its primal is
                if type(other) is not Zero and other != flags[i]:
                    lacking = xs if other else ts
                    lacking[i] = broadcast_bdim(lacking[i], axis_size, 0)
                    flags[i] = True
            ts = [Zero.from_primal_value(x) if type(t) is Zero else t for x, t in zip(xs, ts)]
            found: list[bool] = []

            def ruled(*values: Any) -> list[Any]:
                outs, out_batched = self.rule(axis_size, flags, *values)
                found.extend(out_batched)
                return outs

            outs = with_tangents(*ad.jvp(ruled, xs, ts))
            return outs, [*found, *[f for f, has in zip(found, differentiable) if has]]

        call = CallWithVmap(fun, rule, self.name, self.num_captured, self.closed_over)
        dense = [t for t, nz in zip(tangents, nonzero) if nz]
        found = state.traces[0].process_custom_call(call, [*primals, *dense])
        k = len(differentiable)
        outs, moving = found[:k], iter(found[k:])
        return outs, [
            next(moving) if has else Zero(abstractify(x).to_tangent_aval())
            for x, has in zip(outs, differentiable)
        ]

    def linearize(
        self, tape: PartialTrace, primals: Sequence[Any], tangents: Sequence[Any]
    ) -> tuple[list[Any], list[Any]]:
        # What is linear of a rule cannot be told from what is not: it makes values only.
        outs = state.traces[0].process_custom_call(self, primals)
        _, out_tangents = tape.run(ad.jvp, self.fun, primals, tangents)
        return outs, out_tangents

    def stage(self, trace: StagingTrace, args: Sequence[Any]) -> list[Any]:
        rules = {"rule": self.rule, "num_captured": self.num_captured}
        return record(trace, custom_vmap_call_p, "custom_vmap", self, args, **rules)


class _WithoutRule(CustomCall):
    """What a rule has made of a call: a function like others."""

    __slots__ = ("closed_over", "fun")

    def __init__(self, fun: Callable[..., list[Any]]) -> None:
        self.fun = fun
        self.closed_over = ()

    def batched(self, mapped: MappedCall) -> CustomCall:
        return _WithoutRule(mapped.batched(self.fun))

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        return ad.jvp(self.fun, primals, tangents)

    def stage(self, trace: StagingTrace, args: Sequence[Any]) -> list[Any]:
        return self.fun(*args)


def _typed(tangent: Any) -> Any:
    """Something with the aval of a tangent."""
    return tangent if hasattr(tangent, "aval") else Zero(abstractify(tangent))


def _remake(
    fun: Callable[..., list[Any]],
    consts: Sequence[Any],
    call_jaxpr: ClosedJaxpr,
    name: str,
    rule: FlatRule,
    num_captured: int,
) -> CallWithVmap:
    return CallWithVmap(fun, rule, name, num_captured, consts)


def _transpose(
    cts: Sequence[Any], *args: Any, call_jaxpr: ClosedJaxpr, num_consts: int, **_: Any
) -> list[Any]:
    return ad.transpose_call(call_jaxpr, cts, args, ClosedJaxpr.eval)


custom_vmap_call_p = define_recorded_call("custom_vmap_call", _remake, transpose=_transpose)

__all__ = ["custom_vmap", "custom_vmap_call_p", "sequential_vmap"]
