"""Names of programs over meshes. Layer: interpreters.

Arrays lie on one device, so a sharding of HLO is replicated or splits into one part; what prepares
programs for several processes is not here.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyjax.core.avals import ShapedArray
from pyjax.core.errors import fail
from xla_backend.process.on_first_use import import_now

MeshAxisName = Any
Index = int | slice | tuple[int | slice, ...]
ArrayMapping = OrderedDict[MeshAxisName, int]


def _sharding() -> Any:
    # Of a higher layer.
    return import_now("pyjax.sharding")


def array_mapping_to_axis_resources(array_mapping: Mapping[MeshAxisName, int]) -> Any:
    """Mesh axis -> dimension, as a spec: dimension -> mesh axes.

    >>> array_mapping_to_axis_resources({"x": 0, "y": 2})
    P('x', None, 'y')
    """
    entries: list[tuple[Any, ...]] = [()] * (max(array_mapping.values(), default=-1) + 1)
    for name, dimension in array_mapping.items():
        entries[dimension] = (*entries[dimension], name)
    return _sharding().PartitionSpec(*entries)


def is_hlo_sharding_replicated(hc: Any) -> bool:
    """Whether a sharding of HLO, as text, puts the whole array on each device.

    >>> is_hlo_sharding_replicated("{replicated}"), is_hlo_sharding_replicated("{devices=[2]<=[2]}")
    (True, False)
    """
    text = str(hc).replace(" ", "")
    return text == "{replicated}" or text.startswith("{maximaldevice=")


def are_hlo_shardings_equal(hc1: Any, hc2: Any) -> bool:
    """Whether two shardings of HLO say the same."""
    if is_hlo_sharding_replicated(hc1) and is_hlo_sharding_replicated(hc2):
        return True
    return str(hc1).replace(" ", "") == str(hc2).replace(" ", "")


def op_sharding_to_indices(
    op_sharding: Any, shape: Sequence[int], num_devices: int
) -> tuple[tuple[slice, ...], ...]:
    """Which part of an array each device has.

    Raises:
      NotImplementedError: the sharding splits the array.

    >>> op_sharding_to_indices("{replicated}", (2,), 1)
    ((slice(None, None, None),),)
    """
    if not is_hlo_sharding_replicated(op_sharding):
        fail(
            NotImplementedError,
            f"op_sharding_to_indices of {op_sharding}, which splits an array.",
            "Arrays lie on one device here.",
            "Ask a NamedSharding: sharding.devices_indices_map(shape).",
        )
    return ((slice(None),) * len(shape),) * num_devices


class _Resources:
    """What the mesh in context has."""

    @property
    def physical_mesh(self) -> Any:
        return _sharding().mesh.entered_mesh()

    @property
    def shape(self) -> Any:
        return _sharding().mesh.entered_mesh().shape


class _ThreadResources:
    @property
    def env(self) -> _Resources:
        return _Resources()


thread_resources = _ThreadResources()


def _array_handler(aval: Any, out_sharding: Any, committed: bool) -> Callable[..., Any]:
    def one_part(arrays: Sequence[Any]) -> Any:
        if len(arrays) != 1:
            raise ValueError(f"{aval.str_short()} lies on one device, and has {len(arrays)} parts")
        return arrays[0]

    return one_part


global_result_handlers: dict[type, Callable[..., Any]] = {ShapedArray: _array_handler}


def global_aval_to_result_handler(
    aval: Any, out_sharding: Any, committed: bool
) -> Callable[[Sequence[Any]], Any]:
    """What makes an array of its parts on devices.

    Raises:
      TypeError: no handler is registered for the class of `aval`.
    """
    handler = global_result_handlers.get(type(aval))
    if handler is None:
        raise TypeError(
            f"No pxla_result_handler for type: {type(aval)}; register one in "
            "global_result_handlers."
        )
    return handler(aval, out_sharding, committed)


def global_avals_to_results_handler(
    global_out_avals: Sequence[Any], shardings: Sequence[Any], committed: bool
) -> Callable[[Sequence[Sequence[Any]]], list[Any]]:
    """The same of several results."""
    handlers = [
        global_aval_to_result_handler(a, s, committed)
        for a, s in zip(global_out_avals, shardings, strict=True)
    ]

    def results(parts: Sequence[Sequence[Any]]) -> list[Any]:
        return [handler(found) for handler, found in zip(handlers, parts, strict=True)]

    return results


def create_compile_options(*args: Any, **kwargs: Any) -> Any:
    """Raises NotImplementedError: options of programs are given where they are compiled."""
    fail(
        NotImplementedError,
        "pxla.create_compile_options makes options of XLA's runtime, which is not here.",
        fix="Pass compiler_options to jit, or to lower(...).compile(compiler_options=...).",
    )
