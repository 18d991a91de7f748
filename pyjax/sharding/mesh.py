"""Meshes: devices in a grid whose axes have names, and the mesh in context."""

from __future__ import annotations

import enum
import math
import operator
import threading
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import ContextDecorator
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np

from pyjax._config import options
from pyjax._config.blocks import Leaving, take_out
from pyjax._config.registry import Override, forget_keys, unlisted_option
from pyjax.core.errors import fail, new_error
from pyjax.core.trace_queries import trace_state_clean
from pyjax.sharding.manual_axes import AbstractDevice
from xla_backend.process.bounded_cache import InternTable
from xla_backend.runtime.client import Device


class _Entered(threading.local):
    # `_entered_here` of the meshes of the open `with mesh:`, the innermost first. Such methods are
    # equal if they are of one object, whatever its own `==` says.
    stack: list[Any]

    def __init__(self) -> None:
        self.stack = []


_entered = _Entered()
MeshAxisName = Any


class AxisType(enum.Enum):
    """Who decides how arrays are split over a mesh axis: the compiler (Auto), the types of the
    arrays (Explicit), or the program itself (Manual).

    >>> AxisType.Auto
    Auto
    """

    Auto = enum.auto()
    Explicit = enum.auto()
    Manual = enum.auto()

    def __repr__(self) -> str:
        return self.name


def _types(
    axis_types: Any, names: tuple[Any, ...], default: AxisType = AxisType.Auto
) -> tuple[AxisType, ...]:
    if axis_types is None:
        return (default,) * len(names)
    if isinstance(axis_types, AxisType):
        return (axis_types,) * len(names)
    axis_types = tuple(axis_types)
    if not all(isinstance(t, AxisType) for t in axis_types):
        raise new_error(
            TypeError,
            f"axis_types must hold AxisType values, got {axis_types}",
            "an axis is the compiler's, of the types of arrays, or of the program",
            "write AxisType.Auto, AxisType.Explicit or AxisType.Manual for each axis",
        )
    if len(axis_types) != len(names):
        raise new_error(
            ValueError,
            f"Number of axis names must match the number of axis_types. Got axis_names={names} "
            f"and axis_types={axis_types}",
        )
    return axis_types


# Why, and what to write instead, where there are more of one than of the other.
NAMES_AND_SIZES = ("each axis has a name and a size.", "pass as many names as sizes.")


def _check_names(kind: str, names: tuple[Any, ...]) -> None:
    if None in names or len(set(names)) != len(names):
        raise new_error(
            ValueError,
            f"{kind}: axis names must be distinct and not None, got {names}",
            "specs and collectives name an axis to say which one they mean",
            "give each axis a name of its own",
        )


# Equal meshes are one object, as long as somebody holds it.
_meshes: InternTable[tuple[Any, ...], Any] = InternTable()
_Made = TypeVar("_Made", bound="_NamedAxes")


def _interned(cls: type[_Made], key: tuple[Any, ...], fields: dict[str, Any]) -> _Made:
    """The one mesh of a class with this key."""
    found = _meshes.find((cls, *key))
    if found is not None:
        return found
    made = object.__new__(cls)
    for name, value in fields.items():
        object.__setattr__(made, name, value)
    return _meshes.intern((cls, *key), made)


def _rebuild(sizes: Any, names: Any, types: Any, device: Any) -> AbstractMesh:
    return AbstractMesh(sizes, names, types, abstract_device=device)


class _NamedAxes:
    """What meshes with and without devices share."""

    axis_names: tuple[Any, ...]
    axis_types: tuple[AxisType, ...]

    def __setattr__(self, name: str, value: Any) -> None:
        raise new_error(
            AttributeError,
            f"cannot assign to field {name!r} of {self}",
            "equal meshes are one object",
            "mesh.update(...) gives another one",
        )

    def __delattr__(self, name: str) -> None:
        raise new_error(AttributeError, f"cannot delete field {name!r} of {self}")

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: Any) -> Self:
        return self

    @property
    def axis_sizes(self) -> tuple[int, ...]:
        raise NotImplementedError

    @property
    def shape_tuple(self) -> tuple[tuple[Any, int], ...]:
        return tuple(zip(self.axis_names, self.axis_sizes))

    @property
    def shape(self) -> OrderedDict[Any, int]:
        """Size of each axis, by name."""
        return OrderedDict(self.shape_tuple)

    @property
    def size(self) -> int:
        return math.prod(self.axis_sizes) if self.axis_names else 0

    @property
    def empty(self) -> bool:
        return self.size == 0

    def _axes_of(self, kind: AxisType) -> tuple[Any, ...]:
        return tuple(n for n, t in zip(self.axis_names, self.axis_types) if t is kind)

    @property
    def auto_axes(self) -> tuple[Any, ...]:
        return self._axes_of(AxisType.Auto)

    @property
    def explicit_axes(self) -> tuple[Any, ...]:
        return self._axes_of(AxisType.Explicit)

    @property
    def manual_axes(self) -> tuple[Any, ...]:
        return self._axes_of(AxisType.Manual)

    @property
    def are_all_axes_auto(self) -> bool:
        return bool(self.axis_types) and set(self.axis_types) == {AxisType.Auto}

    @property
    def are_all_axes_explicit(self) -> bool:
        return bool(self.axis_types) and set(self.axis_types) == {AxisType.Explicit}

    @property
    def are_all_axes_manual(self) -> bool:
        return bool(self.axis_types) and set(self.axis_types) == {AxisType.Manual}

    def _text(self) -> str:
        axes = ", ".join(f"{n!r}: {s}" for n, s in self.shape_tuple)
        return f"{axes}, axis_types={self.axis_types}" if axes else ""


class AbstractMesh(_NamedAxes):
    """Axis names, sizes and types, without devices.

    >>> AbstractMesh((2, 4), ("rows", "columns")).shape["columns"]
    4
    """

    _sizes: tuple[int, ...]
    abstract_device: AbstractDevice | None

    def __new__(
        cls,
        axis_sizes: tuple[int, ...],
        axis_names: str | tuple[Any, ...],
        axis_types: AxisType | tuple[AxisType, ...] | None = None,
        *,
        abstract_device: AbstractDevice | None = None,
    ) -> AbstractMesh:
        names = (axis_names,) if isinstance(axis_names, str) else tuple(axis_names)
        sizes = tuple(map(operator.index, axis_sizes))
        if len(sizes) != len(names):
            raise new_error(
                ValueError,
                f"AbstractMesh: {len(sizes)} sizes for {len(names)} axis names",
                *NAMES_AND_SIZES,
            )
        _check_names("AbstractMesh", names)
        if not (abstract_device is None or isinstance(abstract_device, AbstractDevice)):
            raise new_error(
                TypeError,
                f"AbstractMesh: abstract_device must be an AbstractDevice, got {abstract_device!r}",
            )
        fields = {
            "_sizes": sizes,
            "axis_names": names,
            "axis_types": _types(axis_types, names),
            "abstract_device": abstract_device,
        }
        return _interned(cls, tuple(fields.values()), fields)

    def __reduce__(self) -> Any:
        return _rebuild, (self._sizes, self.axis_names, self.axis_types, self.abstract_device)

    @property
    def axis_sizes(self) -> tuple[int, ...]:
        return self._sizes

    @property
    def abstract_mesh(self) -> AbstractMesh:
        return self

    def _needs_devices(self, name: str) -> Any:
        raise ValueError(
            f"AbstractMesh does not implement {name}: it has no devices; a Mesh has them."
        )

    # As properties, so that errors name them where a Mesh is expected.
    devices = property(lambda self: self._needs_devices("devices"))
    device_ids = property(lambda self: self._needs_devices("device_ids"))
    local_devices = property(lambda self: self._needs_devices("local_devices"))
    local_mesh = property(lambda self: self._needs_devices("local_mesh"))
    is_multi_process = property(lambda self: self._needs_devices("is_multi_process"))

    def update(
        self,
        axis_sizes: Any = None,
        axis_names: Any = None,
        axis_types: Any = None,
        **kwargs: Any,
    ) -> AbstractMesh:
        """A copy with some fields replaced."""
        kwargs.setdefault("abstract_device", self.abstract_device)
        return AbstractMesh(
            self._sizes if axis_sizes is None else axis_sizes,
            self.axis_names if axis_names is None else axis_names,
            self.axis_types if axis_types is None else axis_types,
            **kwargs,
        )

    def update_axis_types(self, name_to_type: dict[Any, AxisType]) -> AbstractMesh:
        """A copy in which the named axes have other types."""
        pairs = zip(self.axis_names, self.axis_types)
        return self.update(axis_types=tuple(name_to_type.get(n, t) for n, t in pairs))

    def __repr__(self) -> str:
        device = self.abstract_device
        kind = "" if device is None else f", {str(device).partition('(')[2][:-1]}"
        return f"AbstractMesh({self._text() or '(), axis_types=()'}{kind})"


class Mesh(_NamedAxes):
    """An array of devices and a name for each of its axes.

    Args:
      devices: array (or nested lists) of devices.
      axis_names: as many names as `devices` has dimensions.
      axis_types: default Auto for all.
    Raises:
      ValueError: numbers of names and dimensions differ, or a name is used twice.

    >>> import pyjax
    >>> Mesh(pyjax.devices()[:1], ("x",)).size
    1
    """

    devices: np.ndarray

    def __new__(
        cls,
        devices: np.ndarray | Sequence[Device],
        axis_names: str | Sequence[Any],
        axis_types: AxisType | tuple[AxisType, ...] | None = None,
    ) -> Mesh:
        grid = np.array(devices, dtype=object)
        names = (axis_names,) if isinstance(axis_names, str) else tuple(axis_names)
        if grid.ndim != len(names):
            raise new_error(
                ValueError,
                "Mesh requires the ndim of its first argument (`devices`) to equal the length of "
                f"its second argument (`axis_names`), but got devices.ndim == {grid.ndim} and "
                f"len(axis_names) == {len(names)}.",
                "each dimension of the array of devices is an axis of the mesh.",
                "name as many axes as it has dimensions: np.array(devices).reshape(2, -1) has two.",
            )
        _check_names("Mesh", names)
        grid.flags.writeable = False
        types = _types(axis_types, names)
        fields = {"devices": grid, "axis_names": names, "axis_types": types}
        return _interned(cls, (tuple(grid.flat), grid.shape, names, types), fields)

    def __reduce__(self) -> Any:
        return Mesh, (self.devices, self.axis_names, self.axis_types)

    @property
    def is_scalar(self) -> bool:
        """Whether it has devices, and no axes."""
        return self.devices.ndim == 0

    @property
    def axis_sizes(self) -> tuple[int, ...]:
        return self.devices.shape

    @property
    def size(self) -> int:
        return self.devices.size if self.axis_names else 0

    @property
    def device_ids(self) -> np.ndarray:
        ids = [d.id for d in self.devices.flat]
        return np.array(ids, dtype=np.int64).reshape(self.devices.shape)

    @property
    def local_devices(self) -> list[Device]:
        """Those of this process."""
        return [device for device in self.devices.flat if device.is_here]

    @property
    def local_mesh(self) -> Mesh:
        """The part of the mesh that is in this process.

        Raises:
          ValueError: it has no part here, or its devices here are no block of it.
        """
        if not self.is_multi_process:
            return self
        here = np.vectorize(lambda device: device.is_here, otypes=[bool])(self.devices)
        block = np.ix_(*[np.unique(places) for places in np.nonzero(here)])
        if not here.any() or not here[block].all():
            raise new_error(
                ValueError,
                f"the devices of this process are no block of {self}",
                "a local mesh has some rows, columns and so on of the whole one",
                "lay the mesh out so that each process has a block: make_mesh over jax.devices()",
            )
        return Mesh(self.devices[block], self.axis_names, self.axis_types)

    @property
    def is_multi_process(self) -> bool:
        return len({d.process_index for d in self.devices.flat}) > 1

    @property
    def abstract_mesh(self) -> AbstractMesh:
        first = next((d for d in self.devices.flat if isinstance(d, Device)), None)
        kind = None if first is None else AbstractDevice(first.device_kind, None, first.platform)
        return AbstractMesh(self.axis_sizes, self.axis_names, self.axis_types, abstract_device=kind)

    def update(self, devices: Any = None, axis_names: Any = None, axis_types: Any = None) -> Mesh:
        """A copy with some fields replaced."""
        return Mesh(
            self.devices if devices is None else devices,
            self.axis_names if axis_names is None else axis_names,
            self.axis_types if axis_types is None else axis_types,
        )

    def __enter__(self) -> Mesh:
        if options.disallow_mesh_context_manager.value:
            fail(
                RuntimeError,
                "the mesh context manager is disabled: `with mesh:`",
                "the option jax_disallow_mesh_context_manager is on",
                "write `with pyjax.set_mesh(mesh):`, or pass the mesh (shard_map(..., mesh=mesh), "
                "NamedSharding(mesh, spec))",
            )
        stack, entry = _entered.stack, self._entered_here
        stack[:0] = (entry,)
        return self

    __exit__ = Leaving(lambda manager: take_out(_entered.stack, manager._entered_here))

    def _entered_here(self) -> Mesh:
        return self

    def __str__(self) -> str:
        return f"Mesh({self._text()})"

    def __repr__(self) -> str:
        if not self.axis_names:
            return "Mesh(axis_sizes=(), axis_names=())"
        return (
            f"Mesh(axis_sizes={self.axis_sizes}, axis_names={self.axis_names}, "
            f"axis_types={self.axis_types})"
        )


# -- the mesh in context ---------------------------------------------------------------------------

_EMPTY = Mesh(np.empty((), dtype=object), ())


class _Meshes(NamedTuple):
    """What is in context: the innermost mesh, and the innermost one that has devices."""

    innermost: Mesh | AbstractMesh
    with_devices: Mesh | None


# Programs are traced and compiled for each value.
_in_context = unlisted_option("mesh in context", None)


class _Block(Override):
    """A block, or what a statement outside of all blocks has set, which never ends. A statement
    changes what the innermost block has set: it is in force until that block ends."""

    def __init__(self, meshes: _Meshes | None) -> None:
        super().__init__(_in_context, meshes)

    def change(self, meshes: _Meshes | None) -> None:
        self.value = meshes
        forget_keys(self)


def context_mesh() -> Mesh | AbstractMesh | None:
    """The innermost mesh set by `set_mesh` or `use_abstract_mesh`."""
    meshes = _in_context.value
    return None if meshes is None else meshes.innermost


def devices_in_context() -> Mesh:
    """The mesh with devices that `set_mesh` has set; an empty mesh outside."""
    meshes = _in_context.value
    return _EMPTY if meshes is None or meshes.with_devices is None else meshes.with_devices


def entered_mesh() -> Mesh:
    """The mesh of the innermost `with mesh:`; an empty mesh outside."""
    stack = _entered.stack
    return stack[0]() if stack else _EMPTY


def get_mesh() -> Mesh:
    """The devices' mesh in context; an empty mesh outside.

    Raises:
      ValueError: a function is being traced: its program has no devices yet.

    >>> get_mesh().empty
    True
    """
    _check_not_traced("get_mesh", "jax.sharding.get_abstract_mesh() is the mesh without devices")
    return devices_in_context()


def _check_not_traced(name: str, fix: str) -> None:
    if not trace_state_clean():
        fail(
            ValueError,
            f"`{name}` can only be used outside of `jax.jit`.",
            "a traced function may run on other devices than those of now",
            fix,
        )


def get_abstract_mesh() -> AbstractMesh:
    """The mesh in context without its devices; an empty one outside.

    >>> get_abstract_mesh().empty
    True
    """
    found = context_mesh()
    return AbstractMesh((), ()) if found is None else found.abstract_mesh


_NOTHING = object()


class set_mesh:
    """Make `mesh` the mesh in context: until changed, or until the block around it ends (a
    statement), or for a block (`with`). None: no mesh.

    Raises:
      ValueError: it is no Mesh; a function is being traced.

    >>> import pyjax
    >>> with set_mesh(pyjax.make_mesh((1,), ("x",))):
    ...     get_mesh().axis_names
    ('x',)
    """

    _changed: Any = None
    _before: Any = _NOTHING

    def __init__(self, mesh: Mesh | None) -> None:
        if mesh is not None and not isinstance(mesh, Mesh):
            raise new_error(ValueError, f"set_mesh takes a Mesh, got {type(mesh).__name__}")
        _check_not_traced("set_mesh", "jax.sharding.use_abstract_mesh sets one without devices")
        self._mesh = mesh
        self._block = _Block(None if mesh is None else _Meshes(mesh, mesh))
        # It is taken for a statement until it begins.
        around = _in_context.here()[0]
        if isinstance(around, _Block):
            self._changed, self._before = around, around.value
            around.change(self._block.value)
        else:
            self._changed = _Block(self._block.value)
            self._changed.__enter__()

    def __enter__(self) -> Mesh | None:
        self._undo()
        self._block.__enter__()
        return self._mesh

    def _undo(self) -> None:
        """Before the block begins: what was, as if this had not been a statement."""
        changed, self._changed = self._changed, None
        if changed not in _in_context.here() or changed.value is not self._block.value:
            return  # the block around it has ended, or another statement followed
        if self._before is _NOTHING:
            changed.__exit__(None, None, None)
        else:
            changed.change(self._before)

    __exit__ = Leaving(lambda manager: manager._block.__exit__)


class use_abstract_mesh(ContextDecorator):
    """Make an abstract mesh the one in context for a block.

    Raises:
      ValueError: it is no AbstractMesh.

    >>> with use_abstract_mesh(AbstractMesh((2,), ("x",))):
    ...     get_abstract_mesh().shape["x"]
    2
    """

    def __init__(self, mesh: AbstractMesh) -> None:
        if not isinstance(mesh, AbstractMesh):
            raise new_error(
                ValueError, f"use_abstract_mesh takes an AbstractMesh, got {type(mesh).__name__}"
            )
        self._mesh = mesh
        self._block = _Block(None)

    def __enter__(self) -> None:
        meshes = _in_context.value
        self._block.change(_Meshes(self._mesh, None if meshes is None else meshes.with_devices))
        self._block.__enter__()

    __exit__ = Leaving(lambda manager: manager._block.__exit__)
