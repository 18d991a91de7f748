"""Attributes of operations: what a program tells the compiler, or tools that read it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from pyjax.core.tree_util import tree_map
from pyjax.core.xla_attributes import attributes_in_force, attributes_with
from pyjax.lax.xla_metadata import with_metadata


class XlaMetadataContextManager:
    """What `set_xla_metadata(**kwargs)` gives: a context manager, and a decorator."""

    def __init__(self, updates: dict[str, Any]) -> None:
        self.updates = updates
        self._opened: list[ExitStack] = []

    def __enter__(self) -> None:
        block = ExitStack()
        if self.updates:
            outer = attributes_in_force.value
            block.enter_context(attributes_in_force(attributes_with(outer, self.updates)))
        self._opened.append(block)

    def __exit__(self, *exception: Any) -> None:
        self._opened.pop().close()

    def __call__(self, f: Callable[..., Any]) -> XlaMetadataFunction:
        return XlaMetadataFunction(f, self.updates)


class XlaMetadataFunction:
    """A function that runs with attributes in force, as do its methods (`lower`, `trace` ...)."""

    def __init__(self, f: Callable[..., Any], updates: dict[str, Any]) -> None:
        functools.update_wrapper(self, f)
        self._f = f
        self._updates = updates

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with XlaMetadataContextManager(self._updates):
            return self._f(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._f, name)
        return XlaMetadataFunction(attribute, self._updates) if callable(attribute) else attribute


def set_xla_metadata(x: Any = None, **kwargs: Any) -> Any:
    """Give operations attributes: `frontend_attributes` of HLO, `mhlo.frontend_attributes` of
    StableHLO. pyjax's compiler carries them along and heeds none; what programs compute is the
    same.

    Args:
      x: None, or a pytree of arrays.
      kwargs: names and values; written as `str` does, booleans as `true` and `false`.
    Returns:
      Without `x` a context manager, or decorator: operations that are traced inside have the
      attributes, beside those of blocks around; the innermost value of a name holds, and None takes
      the name out. So have their derivatives.
      With `x` its values: the operation that computes each of them has the attributes, but for
      those that it has already. Inputs of a traced function belong to no operation.

    A function is traced anew for other attributes in force.

    >>> @pyjax.jit
    ... def f(x):
    ...     with set_xla_metadata(group=1):
    ...         return jnp.sin(x)
    >>> 'frontend_attributes = {group = "1"}' in f.lower(1.0).as_text()
    True
    """
    if x is None:
        return XlaMetadataContextManager(kwargs)
    return tree_map(lambda leaf: with_metadata(leaf, kwargs), x)


__all__ = ["set_xla_metadata"]
