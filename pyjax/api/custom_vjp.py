"""custom_vjp: functions with a user's own reverse-mode rule. Layer: api."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pyjax._config import options
from pyjax.api.custom_jvp import (
    CallWithJvp,
    JvpRule,
    SymbolicZero,
    nondiff_positions,
    resolve_kwargs,
    symbolic,
)
from pyjax.api.flat import as_arrays, check_arrays, take_attributes
from pyjax.api.linear_call import LinearCall, TransposeRule
from pyjax.api.recorded_calls import define_recorded_call, record
from pyjax.core import axis_env, dtypes
from pyjax.core.avals import abstractify
from pyjax.core.debug_info import DebugInfo
from pyjax.core.errors import UnexpectedTracerError, fail, new_error
from pyjax.core.jaxpr import ClosedJaxpr
from pyjax.core.refs import is_ref
from pyjax.core.source_info import function_name
from pyjax.core.structural import pvary
from pyjax.core.trace import CustomCall, Tracer, state
from pyjax.core.traceback_filter import api_boundary
from pyjax.core.tree_util import (
    PyTreeDef,
    keystr,
    tree_flatten,
    tree_flatten_with_path,
    tree_structure,
    tree_unflatten,
)
from pyjax.interpreters import ad
from pyjax.interpreters.batching import MappedCall, running_split
from pyjax.interpreters.ref_checks import check_aliases, check_no_refs
from pyjax.interpreters.rules import (
    FullJvp,
    Unsupported,
    define_primitive,
    keep_refs,
)
from pyjax.interpreters.staging import StagingTrace
from pyjax.interpreters.tangents import Zero
from pyjax.interpreters.varying import as_typed, varying_rules
from pyjax.lax.convert import convert_element_type

_NUMBERS = frozenset({bool, int, float, complex})


class CustomVJPPrimal:
    """What `fwd` sees of an argument with symbolic_zeros=True.

    Attributes:
      value: the argument; perturbed: whether it is differentiated.

    >>> @pyjax.custom_vjp
    ... def scale(x, y):
    ...     return x * y
    >>> def fwd(x, y):
    ...     print(x.perturbed, y.perturbed)
    ...     return x.value * y.value, y.value
    >>> scale.defvjp(fwd, lambda y, ct: (ct * y, None), symbolic_zeros=True)
    >>> float(pyjax.grad(scale)(2.0, 3.0))
    True False
    3.0
    """

    def __init__(self, value: Any, perturbed: bool) -> None:
        self.value = value
        self.perturbed = perturbed


class custom_vjp:
    """Give a function its own rule for reverse-mode differentiation.

    Args:
      fun: function of pytrees of arrays.
      nondiff_argnums: positions of arguments that are not differentiated; `bwd` gets them first.
      nondiff_argnames: the same by name.

    >>> import pyjax.numpy as jnp
    >>> @custom_vjp
    ... def clip_gradient(x):
    ...     return x
    >>> clip_gradient.defvjp(lambda x: (x, None), lambda _, g: (jnp.clip(g, -1, 1),))
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
        self.fwd: Callable[..., Any] | None = None
        self.bwd: Callable[..., Any] | None = None
        self.symbolic_zeros = False
        self.optimize_remat = False

    def defvjp(
        self,
        fwd: Callable[..., Any],
        bwd: Callable[..., Any],
        symbolic_zeros: bool = False,
        optimize_remat: bool = False,
    ) -> None:
        """Set the rules.

        Args:
          fwd: takes the arguments of the function; returns (output, residuals).
          bwd: `bwd(*nondiff_args, residuals, cotangent)` returns a tuple with one cotangent (or
            None for zero) per differentiable argument.
          symbolic_zeros: `fwd` gets CustomVJPPrimal objects, `bwd` SymbolicZero cotangents.
          optimize_remat: accepted; programs are the same.
        """
        self.fwd = fwd
        self.bwd = bwd
        self.symbolic_zeros = symbolic_zeros
        self.optimize_remat = optimize_remat

    @api_boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        name = function_name(self.fun)
        if self.fwd is None or self.bwd is None:
            raise new_error(
                AttributeError,
                f"No VJP defined for custom_vjp function {name} using defvjp.",
                "A custom_vjp function has its derivative from two rules.",
                f"{name}.defvjp(forward, backward): forward returns the output and residuals, "
                "backward(residuals, cotangent) a tuple of cotangents.",
            )
        args = resolve_kwargs(self.fun, args, kwargs)
        positions = [i for i in range(len(args)) if i not in self.nondiff_argnums]
        for i in self.nondiff_argnums:
            if i < len(args):
                _check_nondiff(name, args[i])
        nondiff = [args[i] for i in self.nondiff_argnums if i < len(args)]
        dynamic = tuple(args[i] for i in positions)
        check_arrays(f"custom_vjp function {name}", dynamic)
        leaves, in_tree = tree_flatten(dynamic)
        if any(map(is_ref, leaves)):
            tree = tree_structure((dynamic, {}))
            check_aliases(DebugInfo("custom_vjp", self.fun, tree, self.nondiff_argnums), leaves)
        call = _Call(self, name, args, positions, nondiff, in_tree)
        by_transpose = options.enable_custom_vjp_by_custom_transpose.value
        traced: Any = (_CallByTranspose if by_transpose else _CallWithRules)(
            name,
            call.flat_fun,
            _Rule(call.flat_fwd, function_name(self.fwd), call.set_perturbed),
            _Rule(call.flat_bwd, function_name(self.bwd)),
            lambda: call.num_outs,
            self.symbolic_zeros,
        )
        if by_transpose:
            traced = traced.as_call_with_jvp()
        outs = state.traces[0].process_custom_call(traced, leaves)
        check_no_refs(f"custom_vjp function {name}", outs)
        return tree_unflatten(call.out_trees[0], outs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self

        def bound(*args: Any, **kwargs: Any) -> Any:
            return self(instance, *args, **kwargs)

        return bound


def _check_nondiff(name: str, arg: Any) -> None:
    if any(isinstance(leaf, Tracer) for leaf in tree_flatten(arg)[0]):
        fail(
            UnexpectedTracerError,
            f"Found a JAX Tracer object passed as an argument to a custom_vjp function {name} in "
            "a position indicated by nondiff_argnums as non-differentiable. Tracers cannot be "
            "passed as non-differentiable arguments to custom_vjp functions; instead, "
            "nondiff_argnums should only be used for arguments that can't be or contain JAX "
            "tracers.",
            None,
            "Make it a differentiable argument and return None for its cotangent in bwd.",
        )


class _Call:
    """The three functions of one call, flat; remembers structures between them."""

    def __init__(
        self,
        rule: custom_vjp,
        name: str,
        args: tuple[Any, ...],
        positions: list[int],
        nondiff: list[Any],
        in_tree: PyTreeDef,
    ) -> None:
        self._rule = rule
        self._name = name
        self._args = args
        self._positions = positions
        self._nondiff = nondiff
        self._in_tree = in_tree
        self.out_trees: list[PyTreeDef] = []
        self._residual_tree: PyTreeDef | None = None
        # Residuals that are Python's numbers, by position: `bwd` gets them as they are.
        self._numbers: dict[int, Any] = {}
        self._in_avals: list[Any] = []
        self._perturbed: Sequence[bool] = ()
        self.num_outs = 0

    def set_perturbed(self, perturbed: Sequence[bool]) -> None:
        """Which flat arguments the next call of `flat_fwd` differentiates (symbolic_zeros only)."""
        self._perturbed = perturbed

    def _full(self, flat: Sequence[Any]) -> list[Any]:
        """All arguments of the user's function, with `flat` in the places of the dynamic ones."""
        full = list(self._args)
        for i, x in zip(self._positions, tree_unflatten(self._in_tree, flat)):
            full[i] = x
        return full

    def flat_fun(self, *flat: Any) -> list[Any]:
        outs, tree = tree_flatten(self._rule.fun(*self._full(as_arrays(flat))))
        self.out_trees.append(tree)
        return outs

    def flat_fwd(self, *flat: Any) -> list[Any]:
        """Residuals and outputs, as one list: outputs first."""
        flat = tuple(as_arrays(flat))
        self._in_avals = [abstractify(x) for x in flat]
        assert self._rule.fwd is not None
        if self._rule.symbolic_zeros:
            flat = tuple(CustomVJPPrimal(x, d) for x, d in zip(flat, self._perturbed))
        fwd_name = function_name(self._rule.fwd)
        result = self._rule.fwd(*self._full(flat))
        if not isinstance(result, (list, tuple)) or len(result) != 2:
            raise new_error(
                TypeError,
                f"Custom VJP fwd rule {fwd_name} for function {self._name} must produce a pair "
                "(list or tuple of length two) where the first element represents the primal "
                f"output (equal to those of the custom_vjp-decorated function {self._name}) and "
                "the second element represents residuals (i.e. values stored from the forward "
                "pass for use on the backward pass), but instead of a pair the fwd rule "
                f"{fwd_name} produced {result!r:.80}.",
                "The backward rule gets the residuals, and nothing else of the forward pass.",
                "return output, residuals; None as residuals if there are none.",
            )
        outs, tree = tree_flatten(result[0])
        if self.out_trees and self.out_trees[0] != tree:
            raise new_error(
                TypeError,
                f"Custom VJP fwd rule {fwd_name} for function {self._name} must produce a pair "
                "whose first element has the same container (pytree) structure as the primal "
                f"output, but it had {tree}, and {self._name} returns {self.out_trees[0]}.",
            )
        self.out_trees.append(tree)
        residuals, self._residual_tree = tree_flatten(result[1])
        self._numbers = {i: x for i, x in enumerate(residuals) if type(x) in _NUMBERS}
        self.num_outs = len(outs)
        return outs + [x for i, x in enumerate(residuals) if i not in self._numbers]

    def flat_bwd(self, *flat: Any) -> list[Any]:
        """From residuals and cotangents to cotangents of all flat arguments."""
        assert self._residual_tree is not None and self._rule.bwd is not None
        size = self._residual_tree.num_leaves
        n = size - len(self._numbers)
        arrays = iter(as_arrays(flat[:n]))
        leaves = [self._numbers[i] if i in self._numbers else next(arrays) for i in range(size)]
        residuals = tree_unflatten(self._residual_tree, leaves)
        cts = tree_unflatten(self.out_trees[0], as_arrays([symbolic(ct) for ct in flat[n:]]))
        result = self._rule.bwd(*self._nondiff, residuals, cts)
        return self._check_bwd_output(result)

    def _check_bwd_output(self, result: Any) -> list[Any]:
        bwd_name = function_name(self._rule.bwd)
        example = tree_unflatten(self._in_tree, list(range(self._in_tree.num_leaves)))
        if isinstance(result, list):
            result = tuple(result)
        if not isinstance(result, tuple) or len(result) != len(example):
            shape = (
                f"a tuple of length {len(result)}"
                if isinstance(result, tuple)
                else f"{result!r:.80}"
            )
            raise new_error(
                TypeError,
                f"Custom VJP bwd rule {bwd_name} for function {self._name} must produce a tuple "
                f"of length equal to the primal args tuple, i.e. {len(example)}, but it produced "
                f"{shape}.",
                "The structure of the cotangents is that of the arguments.",
                "Return one for each argument; None stands for zero.",
            )
        avals = iter(self._in_avals)
        leaves: list[Any] = []
        for position, (arg, ct) in enumerate(zip(example, result)):
            tree = tree_flatten(arg)[1]
            arg_avals = [next(avals) for _ in range(tree.num_leaves)]
            leaves += self._argument_cts(bwd_name, position, tree, arg_avals, ct)
        return leaves

    def _argument_cts(
        self, bwd_name: str, position: int, tree: PyTreeDef, avals: list[Any], ct: Any
    ) -> list[Any]:
        if ct is None or isinstance(ct, (Zero, SymbolicZero)):
            return [ad.zero_tangent_array(a) for a in avals]
        example = tree_unflatten(tree, list(range(tree.num_leaves)))
        paths = [p for p, _ in tree_flatten_with_path(example)[0]]
        try:
            found = tree.flatten_up_to(ct)
        except ValueError as error:
            raise new_error(
                TypeError,
                f"Custom VJP bwd rule {bwd_name} for function {self._name} must produce an output "
                "with the same container (pytree) structure as the args tuple of the primal "
                f"function; at argument {position}: {error}",
            ) from None
        return [
            self._leaf_ct(bwd_name, position, path, aval, x)
            for path, aval, x in zip(paths, avals, found)
        ]

    def _leaf_ct(self, bwd_name: str, position: int, path: Any, aval: Any, ct: Any) -> Any:
        if ct is None or isinstance(ct, (Zero, SymbolicZero)):
            return ad.zero_tangent_array(aval)
        expected = aval.to_tangent_aval()
        got = abstractify(ct)
        if expected.dtype == dtypes.float0:
            return np.zeros(aval.shape, dtypes.float0)
        if got.shape == expected.shape and got.dtype == expected.dtype:
            return ct
        if options.custom_vjp_disable_shape_check.value:
            return ct
        if got.shape == expected.shape and got.dtype == dtypes.canonicalize_dtype(expected.dtype):
            return convert_element_type(ct, expected.dtype)  # the rule runs without 64-bit types
        fail(
            ValueError,
            f"Custom VJP bwd rule {bwd_name} for function {self._name} must produce an output "
            "with the same shapes and dtypes as the args tuple of the primal function, but at "
            f"output[{position}]{keystr(path)} the bwd rule produced an output of type "
            f"{got.str_short()} corresponding to an input of type {aval.str_short()}.",
            "A cotangent has the shape and dtype of its argument.",
            "Sum what was broadcast, broadcast what was summed: jnp.full_like(x, g).",
        )


# -- differentiation ------------------------------------------------------------------------------


def _custom_lin_abstract_eval(*avals: Any, out_avals: tuple[Any, ...], **_: Any) -> list[Any]:
    return list(out_avals)


def _cotangents(
    bwd: Callable[..., list[Any]],
    bwd_name: str,
    residuals: Sequence[Any],
    cts: Sequence[Any],
    linear: Sequence[int],
    linear_avals: Sequence[Any],
    all_out_avals: Sequence[Any],
    symbolic_zeros: bool,
) -> list[Any]:
    """What bwd gives for the differentiable arguments; `cts` are those of outputs that have any."""
    found = iter(cts)
    full = [next(found) if a.dtype != dtypes.float0 else Zero(a) for a in all_out_avals]
    if not symbolic_zeros:
        full = [ad.instantiate_zeros(ct) for ct in full]
    results = bwd(*residuals, *full)
    return [
        _along_the_same_axes(results[i], aval, bwd_name, i) for i, aval in zip(linear, linear_avals)
    ]


def _aval_of(operand: Any) -> Any:
    # Zeros may be known.
    return operand.aval if ad.is_undefined_primal(operand) else abstractify(operand)


def _custom_lin_transpose(
    cts: Sequence[Any],
    *args: Any,
    num_residuals: int,
    bwd: Callable[..., list[Any]],
    linear: tuple[int, ...],
    all_out_avals: tuple[Any, ...],
    symbolic_zeros: bool,
    bwd_name: str,
    **_: Any,
) -> list[Any]:
    residuals, avals = args[:num_residuals], [_aval_of(x) for x in args[num_residuals:]]
    found = _cotangents(bwd, bwd_name, residuals, cts, linear, avals, all_out_avals, symbolic_zeros)
    return [None] * num_residuals + found


def _along_the_same_axes(ct: Any, primal: Any, bwd_name: str, index: int) -> Any:
    """A cotangent that varies along the mesh axes along which its argument does."""
    if type(ct) is Zero:
        return ct
    aval = abstractify(ct)
    more = axis_env.in_order(aval.vma - primal.vma)
    if more:
        fail(
            ValueError,
            f"Custom VJP bwd rule {bwd_name} must produce cotangents of the types of the "
            f"arguments, but that of argument {index} has type {aval.str_short()} for an argument "
            f"of type {primal.str_short()}: the manual axis types do not match.",
            "the argument is the same on all devices along these mesh axes, and its cotangent is "
            "the sum of theirs.",
            f"sum it in the rule: lax.psum(..., {more}); or cast the argument of the function: "
            f"lax.pcast(..., {more}, to='varying').",
        )
    return pvary(ct, primal.vma)


def _no_forward_mode(*args: Any, **params: Any) -> Any:
    raise new_error(
        TypeError,
        "can't apply forward-mode autodiff (jvp) to a custom_vjp function."
        "\n  Its rule only says how cotangents flow back. Use grad, vjp or jacrev, or define the "
        "function "
        "with custom_jvp, which serves both modes.",
    )


custom_lin_p = define_primitive(
    "custom_lin",
    abstract_eval=_custom_lin_abstract_eval,
    jvp=FullJvp(_no_forward_mode),
    transpose=_custom_lin_transpose,
    batching=_no_forward_mode,
    lowering=_no_forward_mode,
    impl=_no_forward_mode,
    multiple_results=True,
)
varying_rules[custom_lin_p] = as_typed
keep_refs.add(custom_lin_p)  # what a rule writes to is a residual


def _unknown_batching(
    axis_size: int, args: Sequence[Any], dims: Sequence[Any], *, out_avals: tuple[Any, ...]
) -> tuple[list[Any], list[Any]]:
    avals = tuple([a.with_dim(0, axis_size, running_split()) for a in out_avals])
    return unknown_p.bind(*args, out_avals=avals), [0] * len(avals)


# The linear function whose transpose a bwd rule is: it can be traced, not run.
unknown_p = define_primitive(
    "unknown_linear_function",
    abstract_eval=_custom_lin_abstract_eval,
    jvp=FullJvp(_no_forward_mode),
    transpose=Unsupported("bwd is its transpose"),
    batching=_unknown_batching,
    lowering=_no_forward_mode,
    impl=_no_forward_mode,
    multiple_results=True,
)
varying_rules[unknown_p] = as_typed


# -- the primitive --------------------------------------------------------------------------------


class _Rule:
    """A flat function in the parameters of an equation, printed by the user's name for it."""

    def __init__(
        self,
        fun: Callable[..., list[Any]],
        name: str,
        set_perturbed: Callable[[Sequence[bool]], None] | None = None,
    ) -> None:
        self.fun = fun
        self.__name__ = name
        self.set_perturbed = set_perturbed


class _CallWithRules(CustomCall):
    """A flat function with its two flat rules, as it goes through the traces.

    `num_outs()`: how many of the last results of `fwd` are outputs.
    """

    __slots__ = ("bwd", "closed_over", "fun", "fwd", "name", "num_outs", "symbolic_zeros")

    def __init__(
        self,
        name: str,
        fun: Callable[..., list[Any]],
        fwd: _Rule,
        bwd: _Rule,
        num_outs: Callable[[], int],
        symbolic_zeros: bool,
        closed_over: Sequence[Any] = (),
    ) -> None:
        self.closed_over = closed_over
        self.name = name
        self.fun = fun
        self.fwd = fwd
        self.bwd = bwd
        self.num_outs = num_outs
        self.symbolic_zeros = symbolic_zeros

    def batched(self, mapped: MappedCall) -> _CallWithRules:
        fwd, bwd = self.fwd, self.bwd
        return _CallWithRules(
            self.name,
            mapped.batched(self.fun),
            _Rule(mapped.batched(fwd.fun), fwd.__name__, fwd.set_perturbed),
            _Rule(mapped.batched_bwd(bwd.fun), bwd.__name__),
            self.num_outs,
            self.symbolic_zeros,
            mapped.values(self.closed_over),
        )

    def check_closed_over(self) -> None:
        fail(
            TypeError,
            f"custom_vjp function {self.name} is differentiated with respect to a value that it "
            "closes over.",
            "Its rule says how cotangents flow back to its arguments, not to closed-over values: "
            "the derivative would lack their part.",
            "Make the value an argument, with a cotangent from bwd; or, to take it for constant, "
            "close over lax.stop_gradient of it.",
        )

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        outs, residuals = self._forward(primals, tangents)
        return outs, self._tangents_of(outs, residuals, primals, tangents)

    def linearize(
        self, tape: Any, primals: Sequence[Any], tangents: Sequence[Any]
    ) -> tuple[list[Any], list[Any]]:
        outs, residuals = self._forward(primals, tangents)
        return outs, tape.run(self._tangents_of, outs, residuals, primals, tangents)

    def _forward(
        self, primals: Sequence[Any], tangents: Sequence[Any]
    ) -> tuple[list[Any], list[Any]]:
        """Run fwd: outputs and residuals."""
        if self.symbolic_zeros:
            assert self.fwd.set_perturbed is not None
            self.fwd.set_perturbed([type(t) is not Zero for t in tangents])
        results = self.fwd.fun(*primals)
        num_outs = self.num_outs()
        return results[:num_outs], results[num_outs:]

    def _tangents_of(
        self,
        outs: Sequence[Any],
        residuals: Sequence[Any],
        primals: Sequence[Any],
        tangents: Sequence[Any],
    ) -> list[Any]:
        """Tangents go through `custom_lin`, which only transposition can take apart."""
        out_avals = tuple([abstractify(x).to_tangent_aval() for x in outs])
        wanted = tuple([a for a in out_avals if a.dtype != dtypes.float0])
        # References have no tangents here: what flows back through them, the rule writes itself.
        dense = [None if is_ref(x) else ad.instantiate_zeros(t) for x, t in zip(primals, tangents)]
        linear = tuple(
            [
                i
                for i, t in enumerate(dense)
                if t is not None and abstractify(t).dtype != dtypes.float0
            ]
        )
        operands = [*residuals, *[dense[i] for i in linear]]
        found = iter(self._bind_linear(operands, len(residuals), linear, out_avals, wanted))
        return [next(found) if a.dtype != dtypes.float0 else Zero(a) for a in out_avals]

    def _bind_linear(
        self,
        operands: Sequence[Any],
        num_residuals: int,
        linear: tuple[int, ...],
        all_out_avals: tuple[Any, ...],
        out_avals: tuple[Any, ...],
    ) -> list[Any]:
        return custom_lin_p.bind(
            *operands,
            num_residuals=num_residuals,
            bwd=self.bwd.fun,
            bwd_name=self.bwd.__name__,
            linear=linear,
            all_out_avals=all_out_avals,
            out_avals=out_avals,
            symbolic_zeros=self.symbolic_zeros,
        )

    def stage(self, trace: StagingTrace, args: Sequence[Any]) -> list[Any]:
        rules = {"fwd": self.fwd, "bwd": self.bwd, "symbolic_zeros": self.symbolic_zeros}
        return record(trace, custom_vjp_call_p, "custom_vjp", self, args, **rules)


class _CallByTranspose(_CallWithRules):
    """The same with a linear call for what only transposition can take apart."""

    __slots__ = ()

    def _bind_linear(
        self,
        operands: Sequence[Any],
        num_residuals: int,
        linear: tuple[int, ...],
        all_out_avals: tuple[Any, ...],
        out_avals: tuple[Any, ...],
    ) -> list[Any]:
        bwd, zeros = self.bwd, self.symbolic_zeros
        avals = [abstractify(x) for x in operands[num_residuals:]]

        def transposed(*flat: Any) -> list[Any]:
            residuals, cts = flat[:num_residuals], flat[num_residuals:]
            return _cotangents(
                bwd.fun, bwd.__name__, residuals, cts, linear, avals, all_out_avals, zeros
            )

        def unknown(*flat: Any) -> list[Any]:
            return unknown_p.bind(*flat, out_avals=out_avals)

        rule = TransposeRule(transposed, bwd.__name__)
        call = LinearCall(unknown, rule, self.name, num_residuals, zeros)
        return state.traces[0].process_custom_call(call, operands)

    def as_call_with_jvp(self) -> CallWithJvp:
        """The call as one with a rule for jvp, which runs fwd and makes the linear call."""

        def rule(*flat: Any) -> list[Any]:
            n = len(flat) // 2
            outs, tangents = self.jvp(flat[:n], flat[n:])
            return [*outs, *tangents]

        named = JvpRule(rule, self.fwd.__name__, self.check_closed_over)
        return CallWithJvp(self.fun, named, self.name, self.symbolic_zeros)


def with_more_results(
    params: dict[str, Any], program: ClosedJaxpr, more: Sequence[Any]
) -> dict[str, Any]:
    """The parameters of a call of a program with more results, whose cotangents are ignored.

    Args:
      program: gives what the function gives, and more.
      more: what the rule gives for these: NumPy arrays.
    """
    fwd, bwd = params["fwd"], params["bwd"]
    n = len(params["call_jaxpr"].out_avals)

    def forward(*args: Any) -> list[Any]:
        results = fwd.fun(*args)
        return [*results[:n], *more, *results[n:]]

    def backward(*args: Any) -> list[Any]:
        return bwd.fun(*args[: len(args) - len(more)])

    return {
        **params,
        "call_jaxpr": program,
        "fwd": _Rule(forward, fwd.__name__, fwd.set_perturbed),
        "bwd": _Rule(backward, bwd.__name__),
    }


def _remake(
    fun: Callable[..., list[Any]],
    consts: Sequence[Any],
    call_jaxpr: ClosedJaxpr,
    name: str,
    fwd: _Rule,
    bwd: _Rule,
    symbolic_zeros: bool,
) -> _CallWithRules:
    n = len(call_jaxpr.out_avals)
    return _CallWithRules(name, fun, fwd, bwd, lambda: n, symbolic_zeros, consts)


custom_vjp_call_p = define_recorded_call(
    "custom_vjp_call", _remake, transpose=Unsupported("the function is not linear")
)

__all__ = [
    "CustomVJPPrimal",
    "SymbolicZero",
    "custom_vjp",
    "custom_vjp_call_p",
    "with_more_results",
]
