"""Functions of pytrees as functions of flat values. Layer: interpreters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyjax.core.errors import new_error
from pyjax.core.source_info import function_name
from pyjax.core.tree_util import PyTreeDef, tree_flatten, tree_unflatten

# Arguments that are no part of the pytree, in ascending order: (position or name, value).
Static = tuple[tuple[int | str, Any], ...]


class FlatFunction:
    """A function of pytrees as a function of flat values; remembers the output's structure.

    Args:
      in_tree: the structure of the tuple of arguments, or, with `kwargs`, of `(args, kwargs)`.
      has_aux: the function returns (output, auxiliary data).
      static: arguments that are no part of `in_tree`.
    Attributes:
      out_tree, aux_tree: set by the last call (aux_tree with `has_aux` only).
    """

    def __init__(
        self,
        fun: Callable[..., Any],
        in_tree: PyTreeDef,
        has_aux: bool = False,
        kwargs: bool = False,
        static: Static = (),
    ) -> None:
        self.fun = fun
        self.in_tree = in_tree
        self.has_aux = has_aux
        self.kwargs = kwargs
        self.static = static
        self.out_tree: PyTreeDef | None = None
        self.aux_tree: PyTreeDef | None = None

    def _call(self, leaves: Sequence[Any]) -> Any:
        tree = tree_unflatten(self.in_tree, leaves)
        args, kwargs = tree if self.kwargs else (tree, {})
        args, kwargs = with_static(args, kwargs, self.static)
        return self.fun(*args, **kwargs)

    def __call__(self, *leaves: Any) -> list[Any]:
        outs, self.out_tree = tree_flatten(self._call(leaves))
        return outs

    def with_aux(self, *leaves: Any) -> tuple[list[Any], list[Any]]:
        """(outputs, auxiliary leaves); the latter are empty without `has_aux`."""
        if not self.has_aux:
            return self(*leaves), []
        result = self._call(leaves)
        if not isinstance(result, (list, tuple)) or len(result) != 2:
            shown = (
                repr(result) if not isinstance(result, (list, tuple)) else f"{len(result)} values"
            )
            raise new_error(
                TypeError,
                "expected function with aux output to return a two-element tuple, but got type "
                f"{type(result)} with value {shown:.80}.",
                "has_aux=True says that the function returns a pair.",
                f"{function_name(self.fun)} must return (output, auxiliary data).",
            )
        outs, self.out_tree = tree_flatten(result[0])
        aux, self.aux_tree = tree_flatten(result[1])
        return outs, aux


def with_static(
    args: Sequence[Any], kwargs: dict[str, Any], static: Static
) -> tuple[Sequence[Any], dict[str, Any]]:
    """All arguments of a call, from those that are traced and the static ones."""
    if not static:
        return args, kwargs
    merged, names = list(args), dict(kwargs)
    for where, value in static:  # ascending positions: inserting keeps later ones right
        if isinstance(where, int):
            merged.insert(where, value)
        else:
            names[where] = value
    return merged, names
