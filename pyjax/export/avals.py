"""Types of arrays as JSON values."""

from __future__ import annotations

from dataclasses import astuple
from typing import Any

from pyjax.core import dtypes
from pyjax.core.avals import ShapedArray, Split, dtype_name
from pyjax.core.extended_dtypes import KeyDType
from pyjax.core.symbolic_dims import Scope
from pyjax.export.container import malformed
from pyjax.export.shape_specs import parse_size
from pyjax.interpreters.splits import names_of
from pyjax.lax.random_generators import prngs
from pyjax.sharding.manual_axes import AbstractDevice
from pyjax.sharding.mesh import AbstractMesh, AxisType
from pyjax.sharding.partition_spec import PartitionSpec
from pyjax.sharding.shardings import NamedSharding

_BY_NAME: dict[str, Any] = {"float0": dtypes.float0, **{d.name: d for d in dtypes.ALL_DTYPES}}


def aval_to_json(aval: ShapedArray) -> list[Any]:
    """[shape, name of the dtype, whether it is weak]; symbolic sizes are texts. Behind that stands
    how axes of type Explicit split the array, if they do."""
    shape = [d if type(d) is int else str(d) for d in aval.shape]
    plain = [shape, dtype_name(aval.dtype), aval.weak_type]
    return plain if aval.split is None else [*plain, _split_to_json(aval.split)]


def sharding_to_json(sharding: Any) -> dict[str, Any] | None:
    """A NamedSharding over a mesh without devices; or None."""
    if sharding is None:
        return None
    spec = sharding.spec
    return _split_to_json(Split(sharding.mesh, spec.partitions, spec.unreduced, spec.reduced))


def _split_to_json(split: Split) -> dict[str, Any]:
    mesh = split.mesh
    return {
        "axes": [[str(n), s, t.name] for (n, s), t in zip(mesh.shape_tuple, mesh.axis_types)],
        "device": None if mesh.abstract_device is None else [*astuple(mesh.abstract_device)],
        "entries": [[str(name) for name in names_of((entry,))] for entry in split.entries],
        "unreduced": sorted(map(str, split.unreduced)),
        "reduced": sorted(map(str, split.reduced)),
    }


def aval_from_json(value: Any, scope: Scope) -> ShapedArray:
    """The type that `aval_to_json` wrote; `scope` is that of symbolic sizes.

    Raises:
      ValueError: it did not write this, or the dtype is of random keys unknown to this process.
    """
    kinds = [type(v) for v in value] if type(value) is list else []
    if kinds not in ([list, str, bool], [list, str, bool, dict]):
        malformed(f"this is no type of an array: {value!r:.80}")
    shape, name, weak, *split = value
    sharding = sharding_from_json(split[0]) if split else None
    sizes = tuple([_size(size, scope) for size in shape])
    return ShapedArray(sizes, _dtype(name), weak, sharding=sharding)


def sharding_from_json(split: dict[str, Any]) -> NamedSharding:
    """What `sharding_to_json` wrote.

    Raises:
      ValueError: it did not write this.
    """
    try:
        names, sizes, kinds = zip(*split["axes"], strict=True)
        device = None if split["device"] is None else AbstractDevice(*split["device"])
        types = tuple(AxisType[kind] for kind in kinds)
        mesh = AbstractMesh(sizes, names, types, abstract_device=device)
        entries = [tuple(names) for names in split["entries"]]
        sums = {name: frozenset(split[name]) for name in ("unreduced", "reduced")}
        return NamedSharding(mesh, PartitionSpec(*entries, **sums))
    except (KeyError, TypeError, ValueError):
        malformed(f"this does not say how an array is split: {split!r:.80}")


def _size(size: Any, scope: Scope) -> Any:
    if type(size) is str:
        return parse_size(size, scope)
    if type(size) is not int or size < 0:
        malformed(f"this is no size of an array: {size!r:.80}")
    return size


def _dtype(name: str) -> Any:
    known = _BY_NAME.get(name)
    if known is not None:
        return known
    for impl in prngs.values():
        if f"key<{impl.tag}>" == name:
            return KeyDType(impl)
    malformed(f"no dtype has the name {name!r:.80} here")
