"""Values that lie alike."""

from __future__ import annotations

from typing import Any

from pyjax.core.avals import abstractify
from pyjax.core.errors import new_error
from pyjax.core.tree_util import tree_flatten


def shard_alike(x: Any, y: Any) -> tuple[Any, Any]:
    """Ask that two pytrees of arrays lie alike on the devices, whatever else says where one does.
    An array has one device today, so they do.

    Returns:
      Both, unchanged.
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
    return x, y
