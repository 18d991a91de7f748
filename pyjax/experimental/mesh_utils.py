"""Devices in the order in which a mesh takes them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pyjax.core.errors import new_error
from pyjax.runtime.devices import devices as all_devices

# By the kind of a device: `handler(mesh_shape, devices, contiguous_submeshes)` gives the array, or
# None where the order of the devices is as good as any. None of the platforms here needs one.
device_kind_handler_dict: dict[str, Callable[..., Any]] = {}


def create_device_mesh(
    mesh_shape: Sequence[int],
    devices: Sequence[Any] | None = None,
    *,
    contiguous_submeshes: bool = False,
    allow_split_physical_axes: bool = False,
) -> np.ndarray:
    """Devices as an array of the shape of a mesh.

    Args:
      mesh_shape: the sizes of the axes.
      devices: default all of the default platform.
      contiguous_submeshes, allow_split_physical_axes: for devices that lie on a grid; CPUs and GPUs
        do not.
    Raises:
      ValueError: there are more devices, or fewer, than the mesh has places.

    >>> create_device_mesh((1, 1), all_devices()[:1]).shape
    (1, 1)
    """
    found = list(all_devices() if devices is None else devices)
    shape = tuple(mesh_shape)
    if math.prod(shape) != len(found):
        raise new_error(
            ValueError,
            f"Number of devices {len(found)} must equal the product of mesh_shape {shape}",
        )
    handler = device_kind_handler_dict.get(found[0].device_kind) if found else None
    if handler is not None:
        made = handler(shape, found, contiguous_submeshes=contiguous_submeshes)
        if made is not None:
            return made
    grid = np.empty(len(found), dtype=object)
    grid[:] = found
    return grid.reshape(shape)


def create_hybrid_device_mesh(
    mesh_shape: Sequence[int],
    dcn_mesh_shape: Sequence[int],
    devices: Sequence[Any] | None = None,
    *,
    process_is_granule: bool = False,
    should_sort_granules_by_key: bool = True,
    allow_split_physical_axes: bool = False,
) -> np.ndarray:
    """Devices of several granules, which slower links join, as one array.

    Args:
      mesh_shape: the sizes of the axes within a granule.
      dcn_mesh_shape: those over granules; axis k of the result is their product.
      process_is_granule: a granule has the devices of one process; else of one slice (of TPUs).
      should_sort_granules_by_key: take them in the order of their numbers.
    Raises:
      ValueError: numbers of axes, granules or devices do not fit; devices know no slice.

    >>> create_hybrid_device_mesh((1,), (1,), all_devices()[:1], process_is_granule=True).shape
    (1,)
    """
    found = list(all_devices() if devices is None else devices)
    if len(mesh_shape) != len(dcn_mesh_shape):
        raise new_error(
            ValueError,
            f"mesh_shape {tuple(mesh_shape)} and dcn_mesh_shape {tuple(dcn_mesh_shape)} must have "
            "the same number of axes",
        )
    key = "process_index" if process_is_granule else "slice_index"
    granules: defaultdict[int, list[Any]] = defaultdict(list)
    for device in found:
        number = getattr(device, key, None)
        if number is None:
            raise new_error(
                ValueError,
                f"Device {device} does not have attribute {key}. See `process_is_granule` option.",
            )
        granules[number].append(device)
    numbers = sorted(granules) if should_sort_granules_by_key else list(granules)
    outer = tuple(dcn_mesh_shape)
    if len(numbers) != math.prod(outer):
        raise new_error(
            ValueError,
            f"Number of slices {len(numbers)} must equal the product of dcn_mesh_shape {outer}",
        )
    blocks = np.empty(len(numbers), dtype=object)
    for i, number in enumerate(numbers):
        blocks[i] = create_device_mesh(
            mesh_shape,
            granules[number],
            allow_split_physical_axes=allow_split_physical_axes,
        )
    return np.block(blocks.reshape(outer).tolist()) if outer else blocks[0]
