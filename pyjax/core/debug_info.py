"""Names of what is traced: which transformation, which function, what its arguments are called.

Layer: core.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pyjax.core import source_info
from pyjax.core.tree_util import PyTreeDef, keystr, tree_flatten_with_path, tree_unflatten


@dataclass(frozen=True, slots=True)
class DebugInfo:
    """For messages and printing.

    `arg_names` are the flat arguments ("x", "params['w']"), or None when nobody computed them;
    `make_arg_names` computes them when a message needs them.
    """

    traced_for: str = "jit"
    function: str = "<unknown>"
    arg_names: tuple[str, ...] | None = None
    make_arg_names: Callable[[], tuple[str, ...]] | None = None

    def names(self) -> tuple[str, ...]:
        """Names of the flat arguments; empty when unknown."""
        if self.arg_names is not None:
            return self.arg_names
        return self.make_arg_names() if self.make_arg_names is not None else ()

    def describe(self) -> str:
        return f"the function {self.function} is being traced by {self.traced_for}"


def debug_info(
    traced_for: str, fun: Any, in_tree: PyTreeDef | None = None, static_argnums: Sequence[int] = ()
) -> DebugInfo:
    """DebugInfo of a call.

    Args:
      in_tree: structure of `(args, kwargs)`, static arguments left out. Only the structure is kept
        (holding on to arguments would keep their buffers alive).
      static_argnums: the positions that were left out.
    """
    if in_tree is None:
        return DebugInfo(traced_for, source_info.function_location(fun))

    def make() -> tuple[str, ...]:
        return arg_names(fun, in_tree, static_argnums)

    return DebugInfo(traced_for, source_info.function_location(fun), None, make)


def arg_names(fun: Any, in_tree: PyTreeDef, static_argnums: Sequence[int] = ()) -> tuple[str, ...]:
    """Names of the flattened arguments of `fun(*args, **kwargs)`: `x`, `params['w']`."""
    args, kwargs = tree_unflatten(in_tree, range(in_tree.num_leaves))
    positional: list[str] = []
    variadic = "args"
    try:
        parameters = tuple(inspect.signature(fun).parameters.values())
    except (ValueError, TypeError):
        parameters = ()
    for parameter in parameters:
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            positional.append(parameter.name)
        elif parameter.kind is parameter.VAR_POSITIONAL:
            variadic = parameter.name
    dynamic = (i for i in itertools.count() if i not in static_argnums)
    names: list[str] = []
    for i, arg in zip(dynamic, args):
        base = positional[i] if i < len(positional) else f"{variadic}[{i - len(positional)}]"
        names.extend(base + keystr(path) for path, _ in tree_flatten_with_path(arg)[0])
    for key in sorted(kwargs):
        names.extend(key + keystr(path) for path, _ in tree_flatten_with_path(kwargs[key])[0])
    return tuple(names)


UNKNOWN = DebugInfo()
