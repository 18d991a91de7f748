"""pmap and shard_map: one program on each device of a mesh, talking through collectives.

Each mesh axis is a mapped axis of size one for now, so collectives are those of vmap.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from pyjax.api.jit import jit
from pyjax.api.vmap import vmap
from pyjax.core.tree_util import tree_broadcast, tree_leaves
from pyjax.runtime.devices import devices as all_devices
from xla_backend.runtime.client import Device


def pmap(
    fun: Callable[..., Any],
    axis_name: Any = None,
    *,
    in_axes: Any = 0,
    out_axes: Any = 0,
    static_broadcasted_argnums: int | Iterable[int] = (),
    devices: Sequence[Device] | None = None,
    backend: str | None = None,
    axis_size: int | None = None,
    donate_argnums: int | Iterable[int] = (),
) -> Any:
    """Compile `fun` and run it on each device, mapped over an axis of the arguments.

    Args:
      axis_name: name for collectives.  in_axes, out_axes, axis_size: as in vmap.
      static_broadcasted_argnums: positions of arguments that are compile-time constants.
      devices, backend: where to run; default all devices of the default platform. An array has
        one device: the program runs on the first of `devices`, and its results lie there.
    Raises:
      ValueError: the mapped axis is larger than the number of devices.
    """
    static = static_broadcasted_argnums
    static = (static,) if isinstance(static, int) else tuple(static)
    donated = (donate_argnums,) if isinstance(donate_argnums, int) else tuple(donate_argnums)

    def mapped(*args: Any, **kwargs: Any) -> Any:
        fixed = {i % len(args): args[i] for i in static}
        dynamic = [a for i, a in enumerate(args) if i not in fixed]
        axes = in_axes
        if isinstance(in_axes, (tuple, list)):
            axes = tuple(a for i, a in enumerate(in_axes) if i not in fixed)

        def call(*parts: Any, **named: Any) -> Any:
            rest = iter(parts)
            return fun(*(fixed[i] if i in fixed else next(rest) for i in range(len(args))), **named)

        _check_devices(axes, dynamic, kwargs, axis_size, devices, backend)
        name = object() if axis_name is None else axis_name
        return vmap(call, axes, out_axes, axis_name=name, axis_size=axis_size)(*dynamic, **kwargs)

    functools.update_wrapper(mapped, fun)
    first = None if devices is None else devices[0]
    return jit(mapped, static_argnums=static, donate_argnums=donated, device=first, backend=backend)


def _check_devices(
    axes: Any, args: Any, kwargs: Any, axis_size: Any, devices: Any, backend: Any
) -> None:
    available = len(all_devices(backend)) if devices is None else len(devices)
    if axis_size is None:
        spread = tree_broadcast(
            axes if isinstance(axes, tuple) else (axes,) * len(args),
            tuple(args),
            is_leaf=lambda a: a is None,
        )
        leaves = zip(tree_leaves(spread, is_leaf=lambda a: a is None), tree_leaves(tuple(args)))
        sizes = [x.shape[a] for a, x in leaves if a is not None and np.ndim(x)]
        sizes += [x.shape[0] for x in tree_leaves(kwargs) if np.ndim(x)]
        axis_size = max(sizes, default=1)
    if axis_size > available:
        raise ValueError(
            f"compiling computation that requires {axis_size} logical devices, but only "
            f"{available} devices are available.\n  pmap runs one example on each device; use "
            "vmap to run several on one."
        )
