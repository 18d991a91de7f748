"""Where cotangents go: `vjp(f, x)[1].with_refs(...)` adds them to mutable references.

Layer: api.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyjax.core.errors import fail
from pyjax.core.refs import is_ref
from pyjax.core.tree_util import (
    Partial,
    PyTreeDef,
    register_dataclass,
    tree_flatten,
    tree_unflatten,
)
from pyjax.lax.refs.access import addupdate
from xla_backend.process.light_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GradValue:
    """In the place of an argument: return its cotangent.

    >>> pullback = pyjax.vjp(jnp.multiply, 2.0, 3.0)[1].with_refs(DontWant(), GradValue())
    >>> float(pullback(1.0)[1])
    2.0
    """


@dataclass(frozen=True, slots=True)
class DontWant:
    """In the place of an argument: its cotangent is not wanted.

    >>> pullback = pyjax.vjp(jnp.multiply, 2.0, 3.0)[1].with_refs(GradValue(), DontWant())
    >>> float(pullback(1.0)[0])
    3.0
    """


@register_dataclass
@dataclass(frozen=True, slots=True)
class GradRef:
    """In the place of a cotangent: it was added to a reference.

    >>> total = pyjax.new_ref(10.0)
    >>> pullback = pyjax.vjp(jnp.sin, 0.0)[1].with_refs(total)
    >>> pullback(1.0), float(total[...])
    ((GradRef(),), 11.0)
    """


@register_dataclass
@dataclass(frozen=True, slots=True)
class DidntWant:
    """In the place of a cotangent that was not wanted.

    >>> pullback = pyjax.vjp(jnp.multiply, 2.0, 3.0)[1].with_refs(GradValue(), DontWant())
    >>> pullback(1.0)[1]
    DidntWant()
    """


class _Accumulating:
    """The static part of a pullback with places for cotangents; references are passed at each
    call, as residuals are."""

    def __init__(
        self, pullback: Callable[..., Any], tree: PyTreeDef, places: Sequence[Any]
    ) -> None:
        self._pullback = pullback
        self._tree = tree
        self._places = places

    def __call__(self, residuals: list[Any], refs: list[Any], *args: Any) -> Any:
        cotangents, _ = tree_flatten(self._pullback(residuals, *args))
        found = iter(refs)
        results: list[Any] = []
        for place, ct in zip(self._places, cotangents):
            if place is GradRef:
                addupdate(next(found), ..., ct)
            results.append(ct if place is GradValue else place())
        return tree_unflatten(self._tree, results)


def accumulating(
    pullback: Callable[..., Any], residuals: list[Any], in_tree: PyTreeDef, targets: Any
) -> Partial:
    """A pullback that puts cotangents where `targets`, a tree as that of the arguments, says.

    Raises:
      ValueError: another tree.
    """
    leaves, tree = tree_flatten(targets)
    if tree != in_tree:
        fail(
            ValueError,
            f"with_refs got {tree}, for arguments {in_tree}.",
            "there is one place for each leaf of the arguments",
            "Pass a Ref for each, or pyjax.ad.GradValue() for those that are to be returned, or "
            "pyjax.ad.DontWant().",
        )
    refs = [x for x in leaves if is_ref(x)]
    return Partial(_Accumulating(pullback, in_tree, list(map(_place, leaves))), residuals, refs)


def _place(target: Any) -> Any:
    """What stands in the result for a target; GradValue: the cotangent itself."""
    if is_ref(target):
        return GradRef
    return DidntWant if type(target) is DontWant else GradValue
