"""shard_map under its older name, with positional mesh and specs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyjax.parallel.shard_map import shard_map as _shard_map


def shard_map(
    f: Callable[..., Any], mesh: Any, in_specs: Any, out_specs: Any, check_rep: bool = True
) -> Callable[..., Any]:
    """`pyjax.shard_map` with its older signature; `check_rep` is `check_vma`.

    >>> mesh = pyjax.make_mesh((1,), ("i",), axis_types=(pyjax.sharding.AxisType.Auto,))
    >>> shard_map(lambda x: x + 1, mesh, pyjax.P("i"), pyjax.P("i"))(jnp.arange(2)).tolist()
    [1, 2]
    """
    return _shard_map(f, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=check_rep)


__all__ = ["shard_map"]
