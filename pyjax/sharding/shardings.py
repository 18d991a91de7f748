"""Where the parts of an array lie: SingleDeviceSharding, NamedSharding over a mesh, and Shard."""

from __future__ import annotations

import itertools
import math
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from pyjax.core.array import Array
from pyjax.core.errors import new_error
from pyjax.core.tree_util import tree_leaves
from pyjax.sharding.mesh import AbstractMesh, Mesh, devices_in_context, entered_mesh
from pyjax.sharding.partition_spec import UNCONSTRAINED, PartitionSpec
from xla_backend.process.bounded_cache import BoundedCache, Budget, InternTable
from xla_backend.process.light_dataclasses import dataclass
from xla_backend.runtime.client import Device
from xla_backend.runtime.device_group import device_group

Index = tuple[slice, ...]
# What memories of devices are called.
MEMORY_KINDS = ("device", "pinned_host", "unpinned_host")


class Sharding:
    """How an array is laid out over devices (base class).

    >>> isinstance(jnp.ones(2).sharding, Sharding)
    True
    """

    @property
    def device_set(self) -> set[Device]:
        raise self._left_out("device_set")

    @property
    def is_fully_replicated(self) -> bool:
        raise self._left_out("is_fully_replicated")

    @property
    def is_fully_addressable(self) -> bool:
        return self.addressable_devices == self.device_set

    @property
    def addressable_devices(self) -> set[Device]:
        """Those of this process."""
        return {d for d in self.device_set if d.process_index == d.client.process_index()}

    @property
    def has_addressable_devices(self) -> bool:
        return bool(self.addressable_devices)

    @property
    def num_devices(self) -> int:
        return len(self.device_set)

    @property
    def memory_kind(self) -> str | None:
        return None

    def with_memory_kind(self, kind: str) -> Sharding:
        """The same layout in another memory of the devices."""
        raise new_error(
            NotImplementedError,
            f"{type(self).__name__} has no memory kinds",
            "such a sharding names devices only.",
            "Use NamedSharding or SingleDeviceSharding with memory_kind=.",
        )

    def _left_out(self, name: str) -> NotImplementedError:
        return new_error(
            NotImplementedError,
            f"{type(self).__name__} does not define {name}.",
            "Sharding is a base class: a class of shardings says itself where the parts lie.",
            "Use NamedSharding or SingleDeviceSharding.",
        )

    def shard_shape(self, global_shape: tuple[int, ...]) -> tuple[int, ...]:
        """Shape of the part on each device."""
        raise self._left_out("shard_shape")

    def devices_indices_map(self, global_shape: tuple[int, ...]) -> dict[Device, Index]:
        """Which part of the array each device holds."""
        raise self._left_out("devices_indices_map")

    def addressable_devices_indices_map(self, global_shape: tuple[int, ...]) -> dict[Device, Index]:
        """`devices_indices_map` for the devices of this process."""
        here = self.addressable_devices
        indices = self.devices_indices_map(global_shape)
        return {device: index for device, index in indices.items() if device in here}

    def is_equivalent_to(self, other: Sharding, ndim: int) -> bool:
        """Whether arrays with `ndim` dimensions are laid out alike, in the same memory."""
        if not isinstance(other, Sharding):
            raise new_error(
                TypeError, f"is_equivalent_to compares shardings, got {type(other).__name__}"
            )
        if self is other:
            return True
        if self.memory_kind != other.memory_kind:
            return False
        key = (self, other, ndim)
        found = _equivalences.hot.get(key)
        return _equivalences.make(key, lambda: self._is_alike(*key[1:])) if found is None else found

    def _is_alike(self, other: Sharding, ndim: int) -> bool:
        shape = (math.lcm(self.num_devices, other.num_devices) ** 2,) * ndim
        return self._parts_of(shape) == other._parts_of(shape)

    def parts_in_order(self, shape: tuple[int, ...]) -> list[Index]:
        """Which part each device has, in the order of the mesh, which need not have devices."""
        return [*self.devices_indices_map(shape).values()]

    def _parts_of(self, shape: tuple[int, ...]) -> Any:
        """Which part is where, by device, or by place of a mesh without devices."""
        return self.devices_indices_map(shape)


@dataclass(frozen=True)
class _OnOneDevice(Sharding):
    device: Device

    @property
    def device_set(self) -> set[Device]:
        return {self.device}

    @property
    def is_fully_replicated(self) -> bool:
        return True


def _memory_of(device: Any, kind: str | None) -> str | None:
    """The kind of memory that is meant, of what is a device.

    Raises:
      ValueError: the device has no such memory.   TypeError: a kind is a name.
    """
    if not (kind is None or isinstance(kind, str)):
        raise new_error(
            TypeError,
            f"memory_kind must be a name, got {kind!r} of type {type(kind).__name__}.",
            fix="device.addressable_memories() has the memories, and their kinds.",
        )
    if not isinstance(device, Device):
        if not (kind is None or kind in MEMORY_KINDS):
            raise new_error(
                ValueError,
                f"Got invalid memory kind: {kind}. Valid memory kinds are: "
                f"{', '.join(MEMORY_KINDS)}",
            )
        return kind
    return (device.default_memory() if kind is None else device.memory(kind)).kind


@dataclass(frozen=True, init=False)
class SingleDeviceSharding(_OnOneDevice):
    """The whole array on one device.

    Args:
      memory_kind: of the device's memories; default the one where its arrays lie.
    Raises:
      ValueError: the device has no such memory.

    >>> import pyjax
    >>> SingleDeviceSharding(pyjax.devices()[0]).shard_shape((4, 2))
    (4, 2)
    """

    memory_kind: str | None = None  # type: ignore[assignment]

    def __init__(self, device: Device, *, memory_kind: str | None = None) -> None:
        object.__setattr__(self, "device", device)
        object.__setattr__(self, "memory_kind", _memory_of(device, memory_kind))

    def check_compatible_aval(self, aval_shape: tuple[int, ...]) -> None:
        """Any shape fits one device."""

    def with_memory_kind(self, kind: str) -> SingleDeviceSharding:
        return SingleDeviceSharding(self.device, memory_kind=kind)

    def shard_shape(self, global_shape: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(global_shape)

    def devices_indices_map(self, global_shape: tuple[int, ...]) -> dict[Device, Index]:
        return {self.device: tuple(slice(None) for _ in global_shape)}

    def __repr__(self) -> str:
        return f"SingleDeviceSharding(device={self.device!r}, memory_kind={self.memory_kind})"


def make_single_device_sharding(
    device: Device, *, memory_kind: str | None = None
) -> SingleDeviceSharding:
    """The sharding of arrays that lie on one device.

    >>> import pyjax
    >>> make_single_device_sharding(pyjax.devices()[0]).num_devices
    1
    """
    return SingleDeviceSharding(device, memory_kind=memory_kind)


@dataclass(frozen=True)
class PmapSharding(_OnOneDevice):
    """One example of a mapped axis on one device, in a part without that axis: what pmap returns
    with `jax_pmap_no_rank_reduction=False`.

    >>> import pyjax
    >>> PmapSharding(pyjax.devices()[0], 0).shard_shape((1, 2))
    (2,)
    """

    axis: int

    def shard_shape(self, global_shape: tuple[int, ...]) -> tuple[int, ...]:
        shape = tuple(global_shape)
        if len(shape) <= self.axis or shape[self.axis] != 1:
            raise new_error(
                ValueError,
                f"{self} has one example on one device, but an array of shape {shape} does not "
                f"have one along axis {self.axis}.",
            )
        return shape[: self.axis] + shape[self.axis + 1 :]

    def devices_indices_map(self, global_shape: tuple[int, ...]) -> dict[Device, Index]:
        self.shard_shape(global_shape)
        index: list[Any] = [slice(None)] * len(global_shape)
        index[self.axis] = 0
        return {self.device: tuple(index)}


class DuplicateSpecError(ValueError):
    """A mesh axis splits two dimensions."""


class IndivisibleError(ValueError):
    """A dimension cannot be split into equal parts."""


# Equal shardings are one object, as long as somebody holds it; as given, and with the memory that
# is meant by none.
_shardings: InternTable[tuple[Any, ...], NamedSharding] = InternTable()


def _new(cls: type[NamedSharding], *args: Any, **kwargs: Any) -> Any:
    return object.__new__(cls)


def _equal(self: NamedSharding, other: object) -> bool:
    return type(other) is type(self) and _fields(self) == _fields(other)


def _hash(self: NamedSharding) -> int:
    return hash((type(self), *_fields(self)))


def _fields(sharding: Any) -> tuple[Any, ...]:
    return sharding.mesh, sharding.spec, sharding.memory_kind


class _Cut(NamedTuple):
    """How a sharding cuts arrays of one shape."""

    part: tuple[int, ...]  # the shape of parts
    places: dict[tuple[int, ...], Index]  # which one each place of the mesh holds


_FACTS = Budget("shardings", entries=4096)
_cuts: BoundedCache[tuple[NamedSharding, tuple[int, ...]], _Cut] = BoundedCache(_FACTS)
_equivalences: BoundedCache[tuple[Sharding, Sharding, int], bool] = BoundedCache(_FACTS)


@dataclass(frozen=True, init=False, eq=False)
class NamedSharding(Sharding):
    """Dimensions split over the named axes of a mesh.

    Args:
      mesh: Mesh, or AbstractMesh for describing only.
      spec: PartitionSpec whose names are axes of the mesh.
    Raises:
      ValueError: an unknown axis, or one that splits two dimensions; an axis to be summed over, or
        UNCONSTRAINED, where the types of the mesh's axes do not allow it; a kind of memory that the
        devices do not have.

    >>> import pyjax
    >>> mesh = Mesh(pyjax.devices()[:1], ("x",))
    >>> NamedSharding(mesh, PartitionSpec("x")).shard_shape((4, 2))
    (4, 2)
    """

    mesh: Mesh | AbstractMesh
    spec: PartitionSpec
    memory_kind: str | None = None  # type: ignore[assignment]

    def __new__(
        cls, mesh: Mesh | AbstractMesh, spec: PartitionSpec, *, memory_kind: str | None = None
    ) -> NamedSharding:
        key = (cls, mesh, spec, memory_kind)
        try:
            known = _shardings.refs.get(key)
        except TypeError:  # what is not hashable is neither a mesh nor a spec
            known = None
        if known is not None and (found := known()) is not None:
            return found
        made = object.__new__(cls)
        made._fill(mesh, spec, memory_kind)
        made = _shardings.intern((cls, mesh, spec, made.memory_kind), made)
        return _shardings.intern(key, made)

    def __init__(
        self, mesh: Mesh | AbstractMesh, spec: PartitionSpec, *, memory_kind: str | None = None
    ) -> None:
        if type(self) is not NamedSharding:  # which `__new__` has made
            self._fill(mesh, spec, memory_kind)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Objects of subclasses, which may take and have more, are each for itself."""
        super().__init_subclass__(**kwargs)
        own = {"__new__": _new, "__eq__": _equal, "__hash__": _hash}
        for name in own.keys() - vars(cls).keys():
            setattr(cls, name, own[name])

    def _fill(self, mesh: Any, spec: Any, memory_kind: str | None) -> None:
        if not isinstance(mesh, (Mesh, AbstractMesh)):
            raise new_error(
                TypeError, f"NamedSharding: mesh must be a Mesh, got {type(mesh).__name__}"
            )
        if not isinstance(spec, PartitionSpec):
            raise new_error(
                TypeError,
                f"NamedSharding: spec must be a PartitionSpec, got {type(spec).__name__}; "
                "write PartitionSpec('x', None).",
            )
        _check_spec(mesh, spec)
        device = None
        if isinstance(mesh, Mesh):
            device = mesh.devices.flat[0] if mesh.devices.size else None
        object.__setattr__(self, "mesh", mesh)
        object.__setattr__(self, "spec", spec)
        object.__setattr__(self, "memory_kind", _memory_of(device, memory_kind))

    def __reduce__(self) -> Any:
        return partial(type(self), memory_kind=self.memory_kind), (self.mesh, self.spec)

    def with_memory_kind(self, kind: str) -> NamedSharding:
        return NamedSharding(self.mesh, self.spec, memory_kind=kind)

    def update(self, **changes: Any) -> NamedSharding:
        """A copy with `mesh`, `spec` or `memory_kind` replaced.

        Raises:
          TypeError: another name.
        """
        fields: dict[str, Any] = {
            "mesh": self.mesh,
            "spec": self.spec,
            "memory_kind": self.memory_kind,
        }
        if unknown := changes.keys() - fields:
            raise new_error(TypeError, f"NamedSharding has no field {', '.join(sorted(unknown))}")
        fields |= changes
        return NamedSharding(fields["mesh"], fields["spec"], memory_kind=fields["memory_kind"])

    def _mesh_of_devices(self) -> Mesh:
        if isinstance(self.mesh, Mesh):
            return self.mesh
        raise new_error(
            ValueError,
            f"{self} has an AbstractMesh, which has no devices.",
            "such a mesh describes how arrays are split, not where their parts lie.",
            "Use a Mesh: pyjax.make_mesh(sizes, names).",
        )

    @property
    def device_set(self) -> set[Device]:
        return set(self._mesh_of_devices().devices.flat)

    @cached_property
    def _here(self) -> frozenset[Device]:
        return frozenset(super().addressable_devices)

    @property
    def addressable_devices(self) -> set[Device]:
        return {*self._here}

    @cached_property
    def group(self) -> Device:
        """The devices of the mesh in their order, together (see `device_group`).

        Raises:
          ValueError: the mesh has no devices, or one of them twice.
        """
        devices = list(self._mesh_of_devices().devices.flat)
        if len({*devices}) < len(devices):
            twice = next(device for device in devices if devices.count(device) > 1)
            raise new_error(
                ValueError,
                f"{twice} is named {devices.count(twice)} times among {len(devices)} devices of "
                f"{self.mesh}.",
                "each device has one part of an array, and runs one part of a program.",
                "name each device once.",
            )
        return device_group(devices)

    @property
    def num_devices(self) -> int:
        return self.mesh.size

    @property
    def replicated_axes(self) -> frozenset[Any]:
        """Mesh axes that split no dimension."""
        used = itertools.chain.from_iterable(map(_names, self.spec))
        return frozenset(self.mesh.axis_names) - set(used)

    @cached_property
    def is_fully_replicated(self) -> bool:  # type: ignore[override]
        return all(self._parts(entry) == 1 for entry in self.spec)

    def _parts(self, entry: Any) -> int:
        return math.prod(self.mesh.shape[name] for name in _names(entry))

    def check_compatible_aval(self, aval_shape: tuple[int, ...]) -> None:
        """ValueError unless arrays of this shape can be laid out so."""
        if len(aval_shape) < len(self.spec):
            raise new_error(
                ValueError,
                f"Sharding {self} is only valid for values of rank at least {len(self.spec)}, but "
                f"was applied to a value of rank {len(aval_shape)}.",
                "Each entry of its spec says how one dimension is split.",
                "For scalars the PartitionSpec should be P(). Elsewhere leave out entries."
                if not aval_shape
                else "Leave out entries of the spec, or give the value another dimension.",
            )

    def shard_shape(self, global_shape: tuple[int, ...]) -> tuple[int, ...]:
        return self._cut(global_shape).part

    def parts_in_order(self, shape: tuple[int, ...]) -> list[Index]:
        return [*self._cut(shape).places.values()]

    def devices_indices_map(self, global_shape: tuple[int, ...]) -> dict[Device, Index]:
        mesh = self._mesh_of_devices()
        return dict(zip(mesh.devices.flat, self._cut(global_shape).places.values()))

    def _parts_of(self, shape: tuple[int, ...]) -> Any:
        abstract = isinstance(self.mesh, AbstractMesh)
        return self._cut(shape).places if abstract else super()._parts_of(shape)

    def _cut(self, shape: Any) -> _Cut:
        key = (self, shape if type(shape) is tuple else tuple(shape))
        found = _cuts.hot.get(key)
        return _cuts.make(key, lambda: self._cut_anew(key[1])) if found is None else found

    def _cut_anew(self, global_shape: tuple[int, ...]) -> _Cut:
        """How arrays of a shape are cut, worked out."""
        mesh = self.mesh
        part = self._part(global_shape)
        sizes = mesh.shape
        places: dict[tuple[int, ...], Index] = {}
        for place in np.ndindex(mesh.axis_sizes):
            at = dict(zip(mesh.axis_names, place))
            index = [slice(None)] * len(global_shape)
            for axis, entry in enumerate(self.spec):
                number = 0
                for name in _names(entry):
                    number = number * sizes[name] + at[name]
                if self._parts(entry) > 1:
                    index[axis] = slice(number * part[axis], (number + 1) * part[axis])
            places[place] = tuple(index)
        return _Cut(part, places)

    def _part(self, global_shape: tuple[int, ...]) -> tuple[int, ...]:
        self.check_compatible_aval(global_shape)
        shape = list(global_shape)
        for axis, entry in enumerate(self.spec):
            parts = self._parts(entry)
            if shape[axis] % parts:
                raise new_error(
                    IndivisibleError,
                    f"Sharding {self} implies that dimension {axis} of shape {global_shape} is "
                    f"split into {parts} parts, but {shape[axis]} is not divisible by {parts}.",
                    "all devices have parts of one shape.",
                    "pad the array, use another mesh, or do not split this dimension.",
                )
            shape[axis] //= parts
        return tuple(shape)

    def __repr__(self) -> str:
        kind = "" if self.memory_kind is None else f", memory_kind={self.memory_kind}"
        return f"NamedSharding(mesh={self.mesh!s}, spec={self.spec}{kind})"


def _check_spec(mesh: Mesh | AbstractMesh, spec: PartitionSpec) -> None:
    """What NamedSharding refuses."""
    seen: set[Any] = set()
    split = itertools.chain.from_iterable(map(_names, spec))
    for name in itertools.chain(split, sorted(spec.unreduced), sorted(spec.reduced)):
        if name not in mesh.axis_names:
            raise new_error(
                ValueError,
                f"Resource axis: {name} of {spec} is not found in mesh: {mesh.axis_names}.",
                "a spec names axes of the mesh.",
                "name one of them, or add the axis to the mesh.",
            )
        if name in seen:
            raise new_error(
                DuplicateSpecError,
                "A single NamedSharding spec specification can map every mesh axis to at most "
                f"one positional dimension, but {spec} has duplicate entries for `{name}`",
                "devices along the axis have parts of one dimension.",
                "name another axis of the mesh, or None.",
            )
        seen.add(name)
    if summed := (spec.unreduced | spec.reduced) - {*mesh.explicit_axes, *mesh.manual_axes}:
        raise new_error(
            ValueError,
            f"Unreduced and reduced axes can only refer to mesh axes of type Explicit; {spec} "
            f"names {', '.join(sorted(map(repr, summed)))} of {mesh}.",
            "along an Auto axis the compiler decides when sums are made.",
            "make the mesh with axis_types=AxisType.Explicit for them.",
        )
    if UNCONSTRAINED in spec.partitions and not mesh.auto_axes and not mesh.empty:
        raise new_error(
            ValueError,
            f"{spec} cannot contain `P.UNCONSTRAINED`: {mesh} has no axis of type Auto.",
            "only along Auto axes the compiler chooses how dimensions are split.",
            "write None, or the name of an axis.",
        )


def _names(entry: Any) -> tuple[Any, ...]:
    """The mesh axes of one entry of a PartitionSpec."""
    if entry is None or entry is UNCONSTRAINED:
        return ()
    return entry if isinstance(entry, tuple) else (entry,)


@dataclass(frozen=True)
class Shard:
    """The part of an array on one device; `data` is None where that is of another process.

    >>> jnp.arange(3).addressable_shards[0].data
    Array([0, 1, 2], dtype=int32)
    """

    device: Device
    index: Index
    replica_id: int
    data: Array | None

    def __repr__(self) -> str:
        return (
            f"Shard(device={self.device!r}, index={self.index}, replica_id={self.replica_id}, "
            f"data={self.data})"
        )


def says_nothing(target: Any) -> bool:
    """Whether it is a sharding over no axis of no mesh."""
    return isinstance(target, NamedSharding) and target.mesh.empty


def resolve_device(target: Any) -> Device | None:
    """The device of a `device=` argument: a Device, that of a Sharding (of several, the group of
    them in the order of the mesh), or None. A sharding of an empty mesh (`typeof(x).sharding` of
    what is laid out over none) says nothing: None, too.

    Raises:
      TypeError: anything else.
    """
    if target is None or isinstance(target, Device):
        return target
    if says_nothing(target):
        return None
    if isinstance(target, NamedSharding):
        return target.group
    if isinstance(target, Sharding):
        return device_group(sorted(target.device_set, key=lambda device: device.id))
    raise new_error(
        ValueError,
        f"expected a Device or a sharding, got {target!r:.60} of type {type(target).__name__}.",
        "Devices are objects: a platform may have several.",
        "Write pyjax.devices('cpu')[0], or a sharding over it.",
    )


def context_sharding(
    name: str, target: Any, missing: type[Exception] = ValueError, entered: bool = False
) -> Any:
    """A PartitionSpec as a NamedSharding over the mesh in context; anything else as it is.

    Args:
      name: of the function that it was given to.
      missing: what to raise for a PartitionSpec where no mesh is in context.
      entered: the mesh of `with mesh:` will do.
    """
    if not isinstance(target, PartitionSpec):
        return target
    mesh = devices_in_context()
    if mesh.empty and entered:
        mesh = entered_mesh()
    if mesh.empty:
        raise new_error(
            missing,
            f"{name} got the PartitionSpec {target}, and no mesh is in context.",
            "A PartitionSpec names axes of a mesh, without saying of which.",
            f"Set a mesh with pyjax.set_mesh(mesh), or pass NamedSharding(mesh, {target}).",
        )
    return NamedSharding(mesh, target)


def common_device(targets: Any) -> Device | None:
    """The one device that a pytree of devices and shardings names, or None if it names none.

    Raises:
      ValueError: the leaves name different devices.
    """
    found = {
        resolve_device(context_sharding("jit", leaf, RuntimeError)) for leaf in tree_leaves(targets)
    }
    found.discard(None)
    if len(found) > 1:
        raise new_error(
            ValueError,
            "in_shardings and out_shardings are over different devices: "
            f"{sorted(map(str, found))}.",
            "a program runs on one device, or on those of one mesh together",
            "name the same devices, in the same order, in all of them",
        )
    return found.pop() if found else None
