"""How elements of an array lie in memory: in the order of NumPy, the last dimension together."""

from __future__ import annotations

from typing import Any

from pyjax.core.errors import new_error
from pyjax.core.tree_util import tree_broadcast, tree_leaves, tree_map
from pyjax.sharding.layouts import Format as Format
from pyjax.sharding.layouts import Layout as Layout


def with_layout_constraint(x: Any, layouts: Any) -> Any:
    """The same values, which lie as `layouts` says.

    Args:
      x: pytree of arrays.   layouts: a pytree prefix of Layout.
    Raises:
      ValueError: no Layout, or one of another rank.
      NotImplementedError: another order than NumPy's.

    >>> import pyjax.numpy as jnp
    >>> with_layout_constraint(jnp.ones((1, 2)), Layout((0, 1))).shape
    (1, 2)
    """
    given = tree_leaves(layouts)
    if not all(isinstance(layout, Layout) for layout in given):
        raise new_error(
            ValueError,
            "layouts passed to `with_layout_constraint` must be of type `Layout`. Got "
            f"{[type(layout) for layout in given]}",
        )
    wanted = tree_broadcast(layouts, x)

    def checked(value: Any, layout: Layout) -> Any:
        layout.check("with_layout_constraint", value)
        return value

    return tree_map(checked, x, wanted)


__all__ = ["Format", "Layout", "with_layout_constraint"]
