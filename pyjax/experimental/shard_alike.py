"""Values that lie alike."""

from __future__ import annotations

from typing import Any

from pyjax.core.avals import abstractify
from pyjax.core.errors import new_error
from pyjax.core.tree_util import tree_flatten, tree_unflatten
from pyjax.lax.shard_alike import shard_alike_p


def shard_alike(x: Any, y: Any) -> tuple[Any, Any]:
    """Ask that two pytrees of arrays lie alike over the devices of a program: where something says
    how an array lies, the other one does, too.

    Returns:
      Both, with the same values.
    Raises:
      ValueError: structures or shapes differ.

    >>> import numpy as np
    >>> shard_alike(np.float32(1), np.float32(2))[1].item()
    2.0
    """
    xs, x_tree = tree_flatten(x)
    ys, y_tree = tree_flatten(y)
    if x_tree != y_tree:
        raise new_error(
            ValueError,
            "Trees should match in both arguments of `shard_alike`; the arguments have the "
            f"structures {x_tree} and {y_tree}",
        )
    for a, b in zip(map(abstractify, xs), map(abstractify, ys)):
        if a.shape != b.shape:
            raise new_error(
                ValueError,
                f"The leaves shapes of `x` and `y` should match. Got `x` leaf shape: {a.shape} and "
                f"`y` leaf shape: {b.shape}. Give them one shape.",
            )
    pairs = [shard_alike_p.bind(a, b) for a, b in zip(xs, ys)]
    return tuple(tree_unflatten(x_tree, list(leaves)) for leaves in zip(*pairs)) or (x, y)
