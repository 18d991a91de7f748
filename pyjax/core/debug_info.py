"""Names of what is traced: which transformation, which function, what its arguments are called.

Layer: core.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any

from pyjax.core.signatures import parameters_of, positional_names
from pyjax.core.source_info import function_place, is_of_library, place_text
from pyjax.core.tree_util import PyTreeDef, keystr, tree_flatten_with_path, tree_unflatten

# `traced_for` of single operations, which are traced in order to be run.
EAGER = "eager evaluation"


class DebugInfo:
    """For messages and printing; texts are worked out when a message needs them.

    Args:
      traced_for: the transformation.
      fun: the user's function, which is held weakly (or a name).
      in_tree: structure of `(args, kwargs)`, static arguments left out, or None when unknown. Only
        the structure is kept: holding on to arguments would keep their buffers alive.
      static_argnums: the positions that were left out.

    >>> def loss(x, y): ...
    >>> DebugInfo("grad", loss).name()
    'loss'
    """

    __slots__ = ("_fun", "_in_tree", "_place", "_static", "traced_for")

    def __init__(
        self,
        traced_for: str = "jit",
        fun: Any = "<unknown>",
        in_tree: PyTreeDef | None = None,
        static_argnums: Sequence[int] = (),
    ) -> None:
        self.traced_for = traced_for
        self._fun: Callable[[], Any]
        try:
            self._fun = weakref.ref(fun)
        except TypeError:
            self._fun = lambda: fun
        self._in_tree = in_tree
        self._static = static_argnums
        self._place: tuple[str, CodeType | None] | None = None

    @property
    def function(self) -> str:
        """`loss at train.py:12`."""
        fun = self._fun()
        if self._place is not None:
            return place_text(*self._place)
        if fun is None:
            return "<a function that is gone>"
        return fun if isinstance(fun, str) else place_text(*function_place(fun))

    def name(self) -> str:
        """`loss`."""
        return self.function.split(" at ")[0]

    def is_library(self) -> bool:
        """Whether the function is known to be one of pyjax's own, or none at all."""
        fun = self._fun()
        return isinstance(fun, str) or is_of_library(fun)

    def outliving(self) -> DebugInfo:
        """The same, which knows the name of the function also when that is gone."""
        fun = self._fun()
        if fun is not None:
            self._place = (fun, None) if isinstance(fun, str) else function_place(fun)
        return self

    def names(self) -> tuple[str, ...]:
        """Names of the flat arguments (`x`, `params['w']`); empty when unknown."""
        fun = self._fun()
        if fun is None or self._in_tree is None:
            return ()
        return arg_names(fun, self._in_tree, self._static)

    @property
    def arg_names(self) -> tuple[str, ...]:
        return self.names()

    @property
    def func_name(self) -> str:
        return self.name()

    @property
    def func_src_info(self) -> str:
        return self.function

    def describe(self) -> str:
        return f"the function {self.function} is being traced by {self.traced_for}"


def arg_names(fun: Any, in_tree: PyTreeDef, static_argnums: Sequence[int] = ()) -> tuple[str, ...]:
    """Names of the flattened arguments of `fun(*args, **kwargs)`: `x`, `params['w']`."""
    args, kwargs = tree_unflatten(in_tree, range(in_tree.num_leaves))
    positional = positional_names(fun)
    variadic = next((p.name for p in parameters_of(fun) if p.kind is p.VAR_POSITIONAL), "args")
    dynamic = (i for i in itertools.count() if i not in static_argnums)
    names: list[str] = []
    for i, arg in zip(dynamic, args):
        base = positional[i] if i < len(positional) else f"{variadic}[{i - len(positional)}]"
        names.extend(base + keystr(path) for path, _ in tree_flatten_with_path(arg)[0])
    for key in sorted(kwargs):
        names.extend(key + keystr(path) for path, _ in tree_flatten_with_path(kwargs[key])[0])
    return tuple(names)


UNKNOWN = DebugInfo()
