"""Primitive: an operation that transformations know. Layer: core."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyjax.core.effects import Effects, no_effects
from pyjax.core.trace_state import state as _state


def _no_abstract_eval(*avals: Any, **params: Any) -> list[Any]:
    raise NotImplementedError(
        "this primitive is declared but has no rules: the module that defines them is not imported"
    )


class Primitive:
    """A named operation. `bind` applies it under the current trace and always returns a list.

    Attributes:
      abstract_eval_rule: `(*avals, **params) -> aval or list of avals`; `abstract_eval` asks it.
      effects_of: None, or `(*avals, **params) -> frozenset of effects`.
      impl: None, or a function that runs it eagerly instead of compiling (Python-level primitives).
      exact_params: parameters may be numbers that are equal and not the same (0.0 and -0.0, 1 and
        1.0): keys of caches take them apart, which takes longer than comparing them.
    """

    __slots__ = (
        "abstract_eval_rule",
        "effects_of",
        "exact_params",
        "impl",
        "multiple_results",
        "name",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.abstract_eval_rule: Callable[..., Any] = _no_abstract_eval
        self.effects_of: Callable[..., Effects] | None = None
        self.impl: Callable[..., list[Any]] | None = None
        self.exact_params = True
        self.multiple_results = False  # of interest to printing and stages only

    def abstract_eval(self, *avals: Any, **params: Any) -> list[Any]:
        """Output avals; a rule may return one aval or a list."""
        out = self.abstract_eval_rule(*avals, **params)
        return out if type(out) is list else list(out) if isinstance(out, tuple) else [out]

    def effects(self, *avals: Any, **params: Any) -> Effects:
        return no_effects if self.effects_of is None else self.effects_of(*avals, **params)

    def bind(self, *args: Any, **params: Any) -> list[Any]:
        """Apply to values under the current trace."""
        return _state.traces[0].process_primitive(self, args, params)

    def bind1(self, *args: Any, **params: Any) -> Any:
        """`bind` for primitives with one output: that output."""
        return _state.traces[0].process_primitive(self, args, params)[0]

    def __repr__(self) -> str:
        return self.name
