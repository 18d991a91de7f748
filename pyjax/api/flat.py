"""From functions of pytrees to flat functions and back; checks shared by the transformations.

Layer: api.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pyjax.core import dtypes
from pyjax.core.avals import is_valid_value
from pyjax.core.errors import InvalidInputException, fail, new_error
from pyjax.core.source_info import function_name
from pyjax.core.trace import Tracer
from pyjax.core.traceback_filter import api_boundary
from pyjax.core.tree_util import (
    keystr,
    tree_flatten,
    tree_flatten_with_path,
)
from pyjax.runtime.dispatch import constant_array


def check_callable(fun: Any) -> None:
    """Raise TypeError unless `fun` can be transformed."""
    if not callable(fun):
        raise new_error(TypeError, f"Expected a callable value, got {fun}")
    if inspect.isgeneratorfunction(fun):
        raise new_error(TypeError, f"Expected a function, got a generator function: {fun}")


def wraps(
    fun: Callable[..., Any], prefix: str = "", doc: str | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Like functools.wraps, for any callable, with a prefix for the name ("grad" -> grad_f)."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        wrapper = api_boundary(function)
        name = function_name(fun)
        wrapper.__name__ = f"{prefix}_{name}" if prefix else name
        wrapper.__qualname__ = wrapper.__name__
        wrapper.__module__ = getattr(fun, "__module__", None) or __name__
        inner_doc = getattr(fun, "__doc__", None) or ""
        wrapper.__doc__ = f"{doc}\n\n{inner_doc}" if doc and inner_doc else doc or inner_doc
        take_attributes(wrapper, fun)
        return wrapper

    return decorate


def take_attributes(wrapper: Any, fun: Callable[..., Any]) -> None:
    """What a user has attached to a function, for what stands for it; and `__wrapped__`."""
    if inspect.isfunction(fun):
        vars(wrapper).update(vars(fun))
        wrapper.__annotations__ = fun.__annotations__
    wrapper.__wrapped__ = fun


def check_arrays(name: str, tree: Any, what: str = "Argument") -> None:
    """Raise TypeError, with the pytree path, for a leaf that is not an array or a scalar."""
    check_leaves(name, tree_flatten(tree)[0], tree, what)


def check_leaves(name: str, leaves: Sequence[Any], tree: Any, what: str = "Argument") -> None:
    """`check_arrays` for a pytree that is flattened already."""
    for leaf in leaves:
        if not is_valid_value(leaf):
            path = next(p for p, x in tree_flatten_with_path(tree)[0] if x is leaf)
            place = f" at path {keystr(path)}" if path else ""
            text = f"'{leaf}'" if isinstance(leaf, str) else repr(leaf)
            fail(
                InvalidInputException,
                f"{what} {text:.80} of type {type(leaf)}{place} is not a valid JAX type.",
                f"{name} works on arrays, NumPy values, Python numbers and pytrees of them.",
                "Close over it (functools.partial), or convert it to an array.",
            )


def as_arrays(values: Sequence[Any]) -> list[Any]:
    """Python and NumPy numbers and NumPy arrays as arrays; tracers, arrays and what stands for
    zeros (float0, symbolic zeros) as they are.

    A replayed program has its constants as plain numbers; users' rules see arrays.
    """
    return [
        constant_array(x) if isinstance(x, _NUMBERS) and not _is_float0(x) else x for x in values
    ]


_NUMBERS = (int, float, complex, np.generic, np.ndarray)


def _is_float0(x: Any) -> bool:
    return getattr(x, "dtype", None) == dtypes.float0


def normalize_argnums(argnums: Any, n: int, name: str) -> tuple[int, ...]:
    """Positions as a tuple of distinct non-negative integers."""
    numbers = (argnums,) if isinstance(argnums, (int, np.integer)) else tuple(argnums)
    result = []
    for i in numbers:
        i = int(i.__index__())
        if not -n <= i < n:
            raise new_error(
                ValueError,
                f"Positional argument indices, e.g. for `static_argnums`, must have value greater "
                f"than or equal to -len(args) and less than len(args), but got value {i} for "
                f"len(args) == {n} in {name}.",
            )
        result.append(i % n)
    if len(set(result)) != len(result):
        raise new_error(ValueError, f"{name}: duplicate entries in argnums {argnums}")
    return tuple(result)


def partial_args(
    fun: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], argnums: Sequence[int]
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """`fun` as a function of the arguments at `argnums` alone, and those arguments."""
    chosen = tuple(args[i] for i in argnums)

    @functools.wraps(fun, updated=())
    def inner(*dynamic: Any) -> Any:
        full = list(args)
        for i, x in zip(argnums, dynamic):
            full[i] = x
        return fun(*full, **kwargs)

    return inner, chosen


def dtype_of(x: Any) -> Any:
    """dtype of a value."""
    return x.aval.dtype if isinstance(x, Tracer) else dtypes.dtype(x)
