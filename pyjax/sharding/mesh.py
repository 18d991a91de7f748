"""Meshes: devices in a grid whose axes have names, and the mesh in context."""

from __future__ import annotations

import enum
import math
import threading
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import ContextDecorator
from typing import Any

import numpy as np

from pyjax._config import options
from pyjax._config.blocks import Leaving, take_out
from pyjax.core.errors import fail, new_error
from xla_backend.runtime.client import Device


class _Context(threading.local):
    # `_in_context` of what the open blocks set, the innermost first. Such methods are equal if they
    # are of one object, whatever its own `==` says.
    stack: list[Any]

    def __init__(self) -> None:
        self.stack = []


_context = _Context()
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
        raise new_error(TypeError, f"axis_types must hold AxisType values, got {axis_types}")
    if len(axis_types) != len(names):
        raise new_error(
            ValueError,
            f"Number of axis names must match the number of axis_types. Got axis_names={names} "
            f"and axis_types={axis_types}",
        )
    return axis_types


class _NamedAxes:
    """What meshes with and without devices share."""

    axis_names: tuple[Any, ...]
    axis_types: tuple[AxisType, ...]

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

    def __init__(
        self,
        axis_sizes: tuple[int, ...],
        axis_names: tuple[str, ...],
        axis_types: AxisType | tuple[AxisType, ...] | None = None,
        *,
        abstract_device: Any = None,
    ) -> None:
        if len(axis_sizes) != len(axis_names):
            raise new_error(
                ValueError,
                f"AbstractMesh: {len(axis_sizes)} sizes for {len(axis_names)} axis names",
            )
        self._sizes = tuple(int(s) for s in axis_sizes)
        self.axis_names = tuple(axis_names)
        self.axis_types = _types(axis_types, self.axis_names)
        self.abstract_device = abstract_device

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

    def _key(self) -> tuple[Any, ...]:
        return self._sizes, self.axis_names, self.axis_types

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, AbstractMesh) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"AbstractMesh({self._text() or '(), axis_types=()'})"


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

    def __init__(
        self,
        devices: np.ndarray | Sequence[Device],
        axis_names: str | Sequence[Any],
        axis_types: tuple[AxisType, ...] | None = None,
    ) -> None:
        grid = np.array(devices, dtype=object)
        names = (axis_names,) if isinstance(axis_names, str) else tuple(axis_names)
        if grid.ndim != len(names):
            raise new_error(
                ValueError,
                "Mesh requires the ndim of its first argument (`devices`) to equal the length of "
                f"its second argument (`axis_names`), but got devices.ndim == {grid.ndim} and "
                f"len(axis_names) == {len(names)}.",
            )
        if None in names or len(set(names)) != len(names):
            raise new_error(
                ValueError, f"Mesh: axis names must be distinct and not None, got {names}"
            )
        grid.flags.writeable = False
        self.devices = grid
        self.axis_names = names
        self.axis_types = _types(axis_types, names)

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
        return list(self.devices.flat)

    @property
    def local_mesh(self) -> Mesh:
        return self

    @property
    def is_multi_process(self) -> bool:
        return len({d.process_index for d in self.devices.flat}) > 1

    @property
    def abstract_mesh(self) -> AbstractMesh:
        return AbstractMesh(self.axis_sizes, self.axis_names, self.axis_types)

    def update(self, devices: Any = None, axis_names: Any = None, axis_types: Any = None) -> Mesh:
        """A copy with some fields replaced."""
        return Mesh(
            self.devices if devices is None else devices,
            self.axis_names if axis_names is None else axis_names,
            self.axis_types if axis_types is None else axis_types,
        )

    def _key(self) -> tuple[Any, ...]:
        devices = tuple(id(d) for d in self.devices.flat)
        return devices, self.devices.shape, self.axis_names, self.axis_types

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Mesh) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __enter__(self) -> Mesh:
        if options.disallow_mesh_context_manager.value:
            fail(
                RuntimeError,
                "the mesh context manager is disabled: `with mesh:`",
                "the option jax_disallow_mesh_context_manager is on",
                "write `with pyjax.set_mesh(mesh):`, or pass the mesh (shard_map(..., mesh=mesh), "
                "NamedSharding(mesh, spec))",
            )
        stack, entry = _context.stack, self._in_context
        stack[:0] = (entry,)
        return self

    __exit__ = Leaving(lambda manager: take_out(_context.stack, manager._in_context))

    def _in_context(self) -> Mesh:
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
_NO_BLOCK = object()


def context_mesh() -> Mesh | AbstractMesh | None:
    """The innermost mesh set by `set_mesh`, `use_abstract_mesh` or `with mesh:`."""
    stack = _context.stack
    if not stack:
        return None
    return next((entry() for entry in (*stack,) if _in_force(entry, stack)), None)


def _in_force(entry: Any, stack: list[Any]) -> bool:
    """Whether what a statement has set is still in force: until the block around it ends."""
    statement_in = getattr(entry.__self__, "_statement_in", None)
    return statement_in is None or statement_in is _NO_BLOCK or statement_in in stack


def get_mesh() -> Mesh:
    """The devices' mesh in context; an empty mesh outside.

    >>> get_mesh().empty
    True
    """
    stack = _context.stack
    for entry in (*stack,):
        if not _in_force(entry, stack):
            continue
        mesh = entry()
        if mesh is None:
            break
        if isinstance(mesh, Mesh):
            return mesh
    return _EMPTY


def get_abstract_mesh() -> AbstractMesh:
    """The mesh in context without its devices; an empty one outside.

    >>> get_abstract_mesh().empty
    True
    """
    found = context_mesh()
    return AbstractMesh((), ()) if found is None else found.abstract_mesh


class set_mesh:
    """Make `mesh` the mesh in context: until changed (a statement), or for a block (`with`)."""

    def __init__(self, mesh: Mesh | None) -> None:
        if mesh is not None and not isinstance(mesh, Mesh):
            raise new_error(ValueError, f"set_mesh takes a Mesh, got {type(mesh).__name__}")
        self._mesh = mesh
        stack, entry = _context.stack, self._in_context
        for other in [*stack]:
            if not _in_force(other, stack):
                stack.remove(other)
        # Of a block, None; it is taken for a statement until it begins.
        self._statement_in: Any = stack[0] if stack else _NO_BLOCK
        around = [getattr(e.__self__, "_statement_in", None) for e in stack[:2]]
        if around and around[0] is not None:
            self._statement_in = around[0]
            if len(around) == 2 and around[1] is not None:
                del stack[1]  # hidden for good
        stack[:0] = (entry,)

    def __enter__(self) -> Mesh | None:
        self._statement_in = None
        stack, entry = _context.stack, self._in_context
        if entry not in stack:  # a block with it has ended already
            stack[:0] = (entry,)
        return self._mesh

    __exit__ = Leaving(lambda manager: take_out(_context.stack, manager._in_context))

    def _in_context(self) -> Mesh | None:
        return self._mesh


class use_abstract_mesh(ContextDecorator):
    """Make an abstract mesh the one in context for a block."""

    def __init__(self, mesh: AbstractMesh) -> None:
        if not isinstance(mesh, AbstractMesh):
            raise new_error(
                ValueError, f"use_abstract_mesh takes an AbstractMesh, got {type(mesh).__name__}"
            )
        self._mesh = mesh

    def __enter__(self) -> None:
        stack, entry = _context.stack, self._in_context
        stack[:0] = (entry,)

    __exit__ = Leaving(lambda manager: take_out(_context.stack, manager._in_context))

    def _in_context(self) -> AbstractMesh:
        return self._mesh
