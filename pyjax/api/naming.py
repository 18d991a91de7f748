"""named_scope and named_call: names that appear in the metadata of operations. Layer: api."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from pyjax.core.errors import new_error
from pyjax.core.source_info import function_name, name_scope


class named_scope(name_scope):
    """Context manager and decorator: operations traced inside carry `name` in their HLO metadata.

    >>> with named_scope("attention"):
    ...     pass
    """

    def __init__(self, name: str) -> None:
        if not isinstance(name, str):
            raise new_error(TypeError, "named_scope name argument must be a string.")
        super().__init__(name)

    def __call__(self, fun: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(fun)
        def scoped(*args: Any, **kwargs: Any) -> Any:
            with named_scope(self._name):
                return fun(*args, **kwargs)

        return scoped


def named_call(fun: Callable[..., Any], *, name: str | None = None) -> Callable[..., Any]:
    """`fun` with its operations in a scope named after it (or `name`).

    >>> pyjax.named_call(jnp.sin, name="my_sine")(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return named_scope(name if name is not None else function_name(fun))(fun)
