"""Primitive: an operation that transformations know. Layer: core."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from pyjax.core.avals import AbstractValue, ShapedArray, abstractify
from pyjax.core.effects import Effects, no_effects
from pyjax.core.errors import InvalidInputException, new_error
from pyjax.core.trace_state import state as _state


def _no_abstract_eval(name: str, *avals: Any, **params: Any) -> list[Any]:
    raise new_error(
        NotImplementedError,
        f"Abstract evaluation for {name!r} not implemented.",
        "nothing says what the results of this primitive look like",
        "Give it a rule, p.def_abstract_eval(lambda *avals, **params: aval); to run it on values "
        "only, p.def_impl(function) will do.",
    )


class Primitive:
    """A named operation. `bind` applies it under the current trace.

    A primitive of one result takes and gives values; with `multiple_results`, `bind`, `impl` and
    the rules of `pyjax.interpreters.{ad, batching, mlir}` give lists. Inside of pyjax rules and
    traces always work on lists (`bind_all`, `process_primitive`).

    Attributes:
      multiple_results: whether results come as a list, however many there are.
      abstract_eval_rule: `(*avals, **params) -> aval or list of avals`; `abstract_eval` asks it.
      effects_of: None, or `(*avals, **params) -> frozenset of effects`.
      impl: None, or a function that runs it eagerly instead of compiling (Python-level primitives).
      exact_params: parameters may be numbers that are equal and not the same (0.0 and -0.0, 1 and
        1.0): keys of caches take them apart, which takes longer than comparing them.

    >>> from pyjax.extend.core import Primitive
    >>> double_p = Primitive("double")
    >>> _ = double_p.def_impl(lambda x: x + x)
    >>> double_p.bind(2.0)
    4.0
    """

    # Of primitives that call a function as if it were written there; none here do.
    call_primitive = map_primitive = False

    __slots__ = (
        "__dict__",
        "__weakref__",
        "abstract_eval_rule",
        "effects_of",
        "exact_params",
        "impl",
        "multiple_results",
        "name",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.abstract_eval_rule: Callable[..., Any] = partial(_no_abstract_eval, name)
        self.effects_of: Callable[..., Effects] | None = None
        self.impl: Callable[..., Any] | None = None
        self.exact_params = True
        self.multiple_results = False

    # -- applying it -----------------------------------------------------------------------------

    def bind(self, *args: Any, **params: Any) -> Any:
        """Apply to values under the current trace; the result, or the list of results."""
        outs = _state.traces[0].process_primitive(self, args, params)
        return outs if self.multiple_results else outs[0]

    def bind_all(self, *args: Any, **params: Any) -> list[Any]:
        """`bind`; the result comes as a list even if it is one."""
        return _state.traces[0].process_primitive(self, args, params)

    def bind1(self, *args: Any, **params: Any) -> Any:
        """`bind` for primitives with one output: that output."""
        return _state.traces[0].process_primitive(self, args, params)[0]

    def bind_with_trace(self, trace: Any, args: Sequence[Any], *avals_and_params: Any) -> Any:
        """`bind` under another trace: `bind_with_trace(trace, args, avals, params)`. The types of
        arguments, which these have anyway, may be left out."""
        params: dict[str, Any] = avals_and_params[-1]
        outs = trace.process_primitive(self, tuple(args), params)
        return outs if self.multiple_results else outs[0]

    def get_bind_params(self, params: dict[str, Any]) -> dict[str, Any]:
        """The parameters of an equation as `bind` takes them, which are the same here."""
        return params

    # -- what it does ----------------------------------------------------------------------------

    def def_impl(self, impl: Callable[..., Any]) -> Callable[..., Any]:
        """How it runs on values, outside of what is compiled; returns the function.

        `impl(*values, **params)` gives the result, or a sequence of results. Without it a primitive
        that can be lowered is compiled.
        """

        def on_values(*args: Any, **params: Any) -> Any:
            return impl(*[_canonical(self, i, x) for i, x in enumerate(args)], **params)

        self.impl = on_values
        return impl

    def def_abstract_eval(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """What results look like; returns the rule.

        `rule(*avals, **params)` gives an aval (`ShapedArray(shape, dtype)`, or whatever has shape
        and dtype), or a sequence of them with `multiple_results`.
        """

        def abstract_eval(*avals: Any, **params: Any) -> list[Any]:
            return _declared_avals(self, rule(*avals, **params))

        self.abstract_eval_rule = abstract_eval
        return rule

    def def_effectful_abstract_eval(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """`def_abstract_eval` by a rule that gives a pair: avals, and the set of effects."""

        def abstract_eval(*avals: Any, **params: Any) -> list[Any]:
            return _declared_avals(self, rule(*avals, **params)[0])

        def effects(*avals: Any, **params: Any) -> Effects:
            return frozenset(rule(*avals, **params)[1])

        self.abstract_eval_rule = abstract_eval
        self.effects_of = effects
        return rule

    def abstract_eval(self, *avals: Any, **params: Any) -> list[Any]:
        """Output avals; a rule may return one aval or a list."""
        return as_list(self.abstract_eval_rule(*avals, **params))

    def effects(self, *avals: Any, **params: Any) -> Effects:
        return no_effects if self.effects_of is None else self.effects_of(*avals, **params)

    def __repr__(self) -> str:
        return self.name


def as_list(out: Any) -> list[Any]:
    """What a rule for abstract evaluation gives, one aval or a sequence of them."""
    return out if type(out) is list else list(out) if isinstance(out, tuple) else [out]


class CallPrimitive(Primitive):
    """A call of a function with rules of its own. Its equations hold the function as a program;
    to bind one is to make the call again.

    Attributes:
      rebind: `(*values, **params of the equation) -> list of results`.
    """

    __slots__ = ("rebind",)

    def __init__(self, name: str, rebind: Callable[..., list[Any]]) -> None:
        super().__init__(name)
        self.multiple_results = True
        self.rebind = rebind

    def bind(self, *args: Any, **params: Any) -> Any:
        return self.rebind(*args, **params)

    bind_all = bind


def _declared_avals(primitive: Primitive, out: Any) -> list[Any]:
    """Avals from what a user's rule says.

    Raises:
      ValueError: a sequence of a primitive of one result, or none of one of several.
    """
    several = isinstance(out, (list, tuple))
    if several != primitive.multiple_results:
        raise new_error(
            ValueError,
            f"{primitive}.abstract_eval() method should return a tuple or a list iff "
            f"{primitive}.multiple_results, got {out!r}.",
            f"{primitive}.multiple_results is {primitive.multiple_results}",
            "Return one aval, or set p.multiple_results = True.",
        )
    return [_declared_aval(x) for x in (out if several else [out])]


def _declared_aval(x: Any) -> Any:
    if isinstance(x, AbstractValue):
        return x
    return ShapedArray(x.shape, x.dtype, getattr(x, "weak_type", False))


def _canonical(primitive: Primitive, position: int, x: Any) -> Any:
    """A value as an implementation in Python gets it: NumPy's 64 bits are 32 where no others are
    enabled."""
    try:
        aval = abstractify(x)
    except InvalidInputException as error:
        raise new_error(
            TypeError,
            f"Error interpreting argument to {primitive} as a JAX value. The problematic value is "
            f"of type {type(x)} and was passed to {primitive} at position {position}.",
            error.why,
            error.fix,
        ) from None
    if isinstance(x, (np.ndarray, np.generic)) and x.dtype != aval.dtype:
        return x.astype(aval.dtype)
    return x
