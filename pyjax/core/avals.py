"""Abstract values: what a tracer knows about an array. Interned: equal avals are one object.

Layer: core.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pyjax._config import options
from pyjax.core.dtypes import (
    ALL_DTYPES,
    PYTHON_SCALARS,
    canonicalize_dtype,
    float0,
    issubdtype,
    short_dtype_name,
)
from pyjax.core.errors import InvalidInputException, new_error
from pyjax.core.extended_dtypes import is_extended
from pyjax.core.source_info import called_function
from pyjax.core.symbolic_dims import SymbolicDim
from pyjax.core.traced_sizes import Dimension, ElementCount, TracedSize, is_known
from xla_backend.process.bounded_cache import InternTable


class Split(NamedTuple):
    """How an array is split over the axes of type Explicit of a mesh, which types say.

    Attributes:
      mesh: without devices.
      entries: of each dimension the axes that split it: None, a name, or a tuple of names.
      unreduced: axes over which the array is a sum that is still to be made.
      reduced: axes over which its cotangent will be one.
    """

    mesh: Any
    entries: tuple[Any, ...]
    unreduced: frozenset[Any] = frozenset()
    reduced: frozenset[Any] = frozenset()

    @property
    def summed_axes(self) -> tuple[Any, ...]:
        """Those of `unreduced`, in the order of the mesh, along which summands are stored: inside
        of shard_map a device has its own only."""
        manual = self.mesh.manual_axes
        return tuple(
            name for name in self.mesh.axis_names if name in self.unreduced and name not in manual
        )

    @property
    def manual_sums(self) -> tuple[frozenset[Any], frozenset[Any]]:
        """`unreduced` and `reduced`, of the axes that a shard_map around has made manual."""
        manual = self.mesh.manual_axes
        return self.unreduced.intersection(manual), self.reduced.intersection(manual)

    def says_something(self) -> bool:
        """Whether the array is not whole along all axes."""
        return bool(
            self.unreduced or self.reduced or any(entry is not None for entry in self.entries)
        )


class AbstractValue:
    """Base of avals.

    Attributes:
      vma: mesh axes along which a value varies inside of shard_map (of a `MeshArray`, some).
      split: how it is split over mesh axes of type Explicit; None: it is whole along all of them.
      is_wide: the elements are of 64 bits (complex: twice 64), as only `jax_enable_x64` keeps them.

    >>> isinstance(pyjax.typeof(1.0), AbstractValue)
    True
    """

    __slots__ = ()
    vma: frozenset[Any] = frozenset()
    split: Split | None = None
    is_wide: bool = False

    def str_short(self, short_dtypes: bool = False) -> str:
        raise NotImplementedError

    def to_tangent_aval(self) -> AbstractValue:
        raise NotImplementedError

    def to_cotangent_aval(self) -> AbstractValue:
        return self.to_tangent_aval()

    def strip_weak_type(self) -> AbstractValue:
        return self


class AbstractToken(AbstractValue):
    """Aval of a token: orders side effects, holds no data.

    >>> pyjax.make_jaxpr(lax.create_token)().out_avals
    [AbstractToken()]
    """

    __slots__ = ()

    def str_short(self, short_dtypes: bool = False) -> str:
        return "Tok" if short_dtypes else "token"

    def to_tangent_aval(self) -> AbstractValue:
        return self

    def __repr__(self) -> str:
        return "AbstractToken()"


abstract_token = AbstractToken()


class ShapedArray(AbstractValue):
    """Aval of an array.

    `ShapedArray(...) is ShapedArray(...)` for equal arguments, so avals hash and compare by
    identity.

    >>> ShapedArray((2, 3), "float32") is pyjax.typeof(jnp.ones((2, 3)))
    True
    """

    __slots__ = (
        "__weakref__",
        "_tangent",
        "dtype",
        "is_wide",
        "ndim",
        "shape",
        "size",
        "weak_type",
    )
    shape: tuple[int, ...]
    dtype: Any
    weak_type: bool
    ndim: int
    size: int
    is_wide: bool
    _tangent: ShapedArray | None

    def __new__(
        cls, shape: Any, dtype: Any, weak_type: bool = False, *, sharding: Any = None
    ) -> ShapedArray:
        key = (shape, dtype, weak_type)
        try:
            aval = _known_avals[key]()
        except (KeyError, TypeError):
            aval = None
        if aval is None:
            aval = _new_shaped_array(shape, dtype, weak_type)
        return aval if sharding is None else aval.update(sharding=sharding)

    def __reduce__(self) -> Any:
        return (ShapedArray, (self.shape, self.dtype, self.weak_type))

    def __copy__(self) -> ShapedArray:
        return self

    def __deepcopy__(self, memo: Any) -> ShapedArray:
        return self

    def update(
        self,
        shape: Any = None,
        dtype: Any = None,
        weak_type: bool | None = None,
        vma: frozenset[Any] | None = None,
        sharding: Any = None,
        **_: Any,
    ) -> ShapedArray:
        """The same aval with some fields replaced. With another number of dimensions it is split
        only if `sharding` says so."""
        plain = ShapedArray(
            self.shape if shape is None else shape,
            self.dtype if dtype is None else dtype,
            self.weak_type if weak_type is None else weak_type,
        )
        vma = self.vma if vma is None else vma
        split = self.split
        if sharding is not None:
            split = _split_of[0](sharding, plain.ndim)
        elif split is not None and plain.ndim != self.ndim:
            split = None
        return plain if split is None and not vma else _on_mesh(plain, vma, split)

    def cotangent_split(self) -> Split | None:
        """How the cotangent is split: sums that are made there are to be made here, and the other
        way."""
        split = self.split
        if split is None or not (split.unreduced or split.reduced):
            return split
        return split._replace(unreduced=split.reduced, reduced=split.unreduced)

    def with_split(self, split: Split | None) -> ShapedArray:
        """The same aval, split so."""
        if split is not None and not split.says_something():
            split = None
        if split is self.split:
            return self
        plain = ShapedArray(self.shape, self.dtype, self.weak_type)
        return plain if split is None and not self.vma else _on_mesh(plain, self.vma, split)

    def without_dim(self, dim: int) -> ShapedArray:
        """The aval of what an index into a dimension gives."""
        shape, split = self.shape, self.split
        aval = self.update(shape=shape[:dim] + shape[dim + 1 :])
        if split is None:
            return aval
        entries = split.entries
        return aval.with_split(split._replace(entries=entries[:dim] + entries[dim + 1 :]))

    def with_dim(self, dim: int, size: int, along: Split | None = None) -> ShapedArray:
        """The aval with one more dimension, which is split as the only one of `along`."""
        shape, split = self.shape, self.split
        aval = self.update(shape=(*shape[:dim], size, *shape[dim:]))
        if split is None:
            if along is None:
                return aval
            split = Split(along.mesh, (None,) * len(shape))
        entry = None if along is None else along.entries[0]
        entries = (*split.entries[:dim], entry, *split.entries[dim:])
        return aval.with_split(split._replace(entries=entries))

    @property
    def sharding(self) -> Any:
        """How the array is split over the axes of type Explicit of a mesh."""
        return _sharding_of[0](self)

    @property
    def manual_axis_type(self) -> Any:
        """What the array is along the manual axes of a mesh."""
        return _manual_axis_type_of[0](self)

    @property
    def mat(self) -> Any:
        """`manual_axis_type`."""
        return self.manual_axis_type

    def _dims_text(self) -> str:
        return ",".join(map(str, self.shape))

    def strip_weak_type(self) -> ShapedArray:
        return self.update(weak_type=False) if self.weak_type else self

    def to_tangent_aval(self) -> ShapedArray:
        """Aval of tangents: the same for inexact types, float0 for integers, booleans and keys."""
        tangent = self._tangent
        if tangent is None:
            if issubdtype(self.dtype, np.inexact):
                tangent = self
            else:
                tangent = self.update(dtype=float0, weak_type=False)
            self._tangent = tangent
        return tangent

    at_least_vspace = to_tangent_aval

    def to_cotangent_aval(self) -> ShapedArray:
        """Aval of cotangents: that of tangents, but for what types say of sums over mesh axes."""
        tangent = self.to_tangent_aval()
        return tangent if self.split is None else tangent.with_split(self.cotangent_split())

    def str_short(self, short_dtypes: bool = False) -> str:
        """`float32[2,3]`, or with `short_dtypes` (jaxprs) `f32[2,3]`."""
        name = short_dtype_name(self.dtype) if short_dtypes else dtype_name(self.dtype)
        return f"{name}[{self._dims_text()}]"

    def __str__(self) -> str:
        return f"{'~' if self.weak_type else ''}{self.str_short()}"

    def __len__(self) -> int:
        if not self.shape:
            raise new_error(TypeError, "len() of unsized object")
        return self.shape[0]

    def __repr__(self) -> str:
        weak = ", weak_type=True" if self.weak_type else ""
        return f"ShapedArray({self.str_short()}{weak})"


def _no_shardings(*_: Any) -> Any:
    raise new_error(
        RuntimeError, "pyjax.sharding, which knows how arrays are split, is not imported"
    )


# Shardings lie above this layer: theirs puts itself here.
_sharding_of: list[Callable[[ShapedArray], Any]] = [_no_shardings]
_manual_axis_type_of: list[Callable[[ShapedArray], Any]] = [_no_shardings]
_split_of: list[Callable[[Any, int], Split | None]] = [_no_shardings]
_named_sharding_of: list[Callable[[Split], Any]] = [_no_shardings]


def set_sharding_of_avals(
    rule: Callable[[ShapedArray], Any],
    manual_axis_type: Callable[[ShapedArray], Any],
    split: Callable[[Any, int], Split | None],
    named: Callable[[Split], Any],
) -> None:
    """What `aval.sharding` is, and `aval.manual_axis_type` of one that varies along some axes; how
    arrays of so many dimensions with a sharding are split, and the sharding of a split."""
    _sharding_of[0] = rule
    _manual_axis_type_of[0] = manual_axis_type
    _split_of[0] = split
    _named_sharding_of[0] = named


def sharding_of_split(split: Split) -> Any:
    """A split as a NamedSharding, over a mesh without devices; None where it is of manual axes
    only, of which shardings say nothing."""
    return _named_sharding_of[0](split) if split.mesh.explicit_axes else None


class HasAval:
    """What values with a type say of it themselves."""

    __slots__ = ()

    @property
    def aval(self) -> Any:
        raise NotImplementedError

    @property
    def shape(self) -> tuple[int, ...]:
        return self.aval.shape

    @property
    def dtype(self) -> Any:
        return self.aval.dtype

    @property
    def ndim(self) -> int:
        return self.aval.ndim

    @property
    def size(self) -> int:
        return self.aval.size

    @property
    def weak_type(self) -> bool:
        return self.aval.weak_type


class MeshArray(ShapedArray):
    """Aval of an array of which types say what it is along the axes of a mesh: along which axes,
    `vma`, it differs inside of shard_map, and how axes of type Explicit split it.

    A class of its own, so that avals elsewhere are as small as they were. Made by
    `aval.update(vma=...)` and `aval.with_split(...)`.
    """

    __slots__ = ("split", "vma")
    vma: frozenset[Any]
    split: Split | None

    def __reduce__(self) -> Any:
        plain = ShapedArray(self.shape, self.dtype, self.weak_type)
        return (_on_mesh, (plain, self.vma, self.split))

    def str_short(self, short_dtypes: bool = False) -> str:
        """`float32[2]{V:i}`, `float32[8@x,4]{U:y}`."""
        kinds = [("V", self.vma)]
        if self.split is not None:
            kinds += [("U", self.split.unreduced), ("R", self.split.reduced)]
        named = [f"{kind}:{_axes_text(sorted(map(str, axes)))}" for kind, axes in kinds if axes]
        text = super().str_short(short_dtypes)
        return f"{text}{{{', '.join(named)}}}" if named else text

    def _dims_text(self) -> str:
        if self.split is None:
            return super()._dims_text()
        texts = [
            str(size)
            if entry is None
            else f"{size}@{_axes_text(entry if isinstance(entry, tuple) else (entry,))}"
            for size, entry in zip(self.shape, self.split.entries)
        ]
        return ",".join(texts)


def _axes_text(names: Sequence[Any]) -> str:
    return str(names[0]) if len(names) == 1 else f"({','.join(map(str, names))})"


def unsplit(aval: Any) -> Any:
    """The type without what it says of axes of type Explicit."""
    return aval if aval.split is None else aval.with_split(None)


_WIDE = frozenset(map(np.dtype, ("i8", "u8", "f8", "c16")))

_interned: InternTable[Any, ShapedArray] = InternTable()
_known_avals = _interned.refs
_of_scalars: list[ShapedArray] = []


def _on_mesh(plain: ShapedArray, vma: frozenset[Any], split: Split | None) -> ShapedArray:
    key = (plain, vma, split)
    ref = _known_avals.get(key)
    aval = None if ref is None else ref()
    if aval is None:
        aval = object.__new__(MeshArray)
        aval.shape, aval.dtype, aval.weak_type = plain.shape, plain.dtype, plain.weak_type
        aval.ndim, aval.size, aval.is_wide = plain.ndim, plain.size, plain.is_wide
        aval._tangent = None
        aval.vma = vma
        aval.split = split
        aval = _interned.intern(key, aval)
    return aval


def _new_shaped_array(shape: Any, dtype: Any, weak_type: bool) -> ShapedArray:
    shape = checked_shape(shape)
    if not isinstance(dtype, np.dtype) and not is_extended(dtype):
        dtype = np.dtype(dtype)
    weak_type = bool(weak_type)
    key = (shape, dtype, weak_type)
    ref = _known_avals.get(key)
    aval = None if ref is None else ref()
    if aval is None:
        aval = object.__new__(ShapedArray)
        aval.shape = shape
        aval.dtype = dtype
        aval.weak_type = weak_type
        aval.ndim = len(shape)
        count: Any = math.prod(shape) if is_known(shape) else ElementCount(shape)
        aval.size = count
        aval.is_wide = dtype in _WIDE
        aval._tangent = None
        aval = _interned.intern(key, aval)
        if shape == () and dtype in ALL_DTYPES:
            _of_scalars.append(aval)  # few, which come and go with each literal
    return aval


def checked_shape(shape: Any) -> tuple[int, ...]:
    """A shape as a tuple of Python integers, symbolic sizes, and dimensions of traced size.

    Raises:
      TypeError: a size is not an integer.   ValueError: a size is negative.
    """
    return tuple(_dimension(d, shape) for d in shape)


def _dimension(size: Any, shape: Any) -> Any:
    if type(size) is SymbolicDim:
        return size
    if type(size) is not int:
        if type(size) is Dimension:
            return size
        try:
            size = size.__index__()
        except AttributeError:
            raise new_error(
                TypeError,
                f"Shapes must be 1D sequences of concrete values of integer type, got {shape}.",
            ) from None
    if size < 0:
        raise new_error(ValueError, f"sizes must not be negative, got shape {tuple(shape)}")
    return size


def dtype_name(dtype: Any) -> str:
    """Long name of a dtype in messages: `float32`, `key<fry>`, `float0`."""
    if is_extended(dtype):
        return dtype.name
    return "float0" if dtype == float0 else dtype.name


# -- from values to avals -------------------------------------------------------------------------

_AvalRule = Callable[[Any], AbstractValue]
_aval_rules: dict[type, _AvalRule] = {}
# The same table under the name that libraries know: they add types of theirs.
pytype_aval_mappings = _aval_rules
# How values of such a type become NumPy arrays, where `np.asarray` is not what does it.
host_conversions: dict[type, Callable[[Any], Any]] = {}


def register_aval_rule(cls: type, rule: _AvalRule) -> None:
    """Tell how a type of array value becomes an aval (array.py registers Array)."""
    _aval_rules[cls] = rule


def _scalar_rule(kind: type) -> _AvalRule:
    dtype64 = PYTHON_SCALARS[kind]

    def rule(x: Any) -> AbstractValue:
        return ShapedArray((), canonicalize_dtype(dtype64), kind is not bool)

    return rule


def _numpy_rule(x: Any) -> AbstractValue:
    if type(x) is not np.ndarray:
        _check_unmasked(x)
    dtype = x.dtype
    if dtype == float0:
        return ShapedArray(x.shape, dtype)
    try:
        dtype = canonicalize_dtype(dtype)
    except TypeError:
        raise _not_a_value(x, f"its dtype {x.dtype} cannot be held by an array") from None
    return ShapedArray(x.shape, dtype)


def _check_unmasked(x: Any) -> None:
    # NumPy imports `numpy.ma` only for those who have masked arrays: that takes a while.
    # Another thread may be in the middle of that import: then nobody has one yet.
    masked = getattr(sys.modules.get("numpy.ma"), "MaskedArray", None)
    if masked is not None and isinstance(x, masked):
        raise new_error(
            ValueError,
            "numpy masked arrays are not supported as direct inputs to JAX functions.",
            "The mask would be lost, and elements that it hides would be used.",
            "Use x.filled(value) for an array without a mask, or pass x.data and x.mask.",
        )


# Avals of NumPy scalars by type, for 64-bit types off and on.
_scalar_avals: tuple[dict[type, AbstractValue], dict[type, AbstractValue]] = ({}, {})


def _numpy_scalar_rule(x: Any) -> AbstractValue:
    table = _scalar_avals[options.enable_x64.here()[0].value]
    aval = table.get(type(x))
    if aval is None:
        aval = table[type(x)] = _numpy_rule(x)
    return aval


def _int_rule(x: Any) -> AbstractValue:
    dtype = canonicalize_dtype(np.int64)
    limit = 1 << (8 * dtype.itemsize - 1)
    if not -limit <= x < limit:
        raise new_error(
            OverflowError,
            f"An overflow was encountered while parsing an argument: Python int {x} too large to "
            f"convert to {dtype}.",
            f"A Python integer stands for one of {dtype}, which ends at {limit - 1}.",
            "Write a float, or np.uint32(...)"
            + ("." if options.enable_x64.value else ", or set jax_enable_x64 for 64-bit integers."),
        )
    return ShapedArray((), dtype, True)


for _kind in (bool, float, complex):
    register_aval_rule(_kind, _scalar_rule(_kind))
register_aval_rule(int, _int_rule)
register_aval_rule(np.ndarray, _numpy_rule)
register_aval_rule(SymbolicDim, _scalar_rule(int))
for _scalar in {np.dtype(d).type for d in ALL_DTYPES} | {np.longlong, np.ulonglong}:
    register_aval_rule(_scalar, _numpy_scalar_rule)


def abstractify(x: Any) -> Any:
    """The aval of a value: Python scalars (weak), NumPy values, Array, Tracer.

    Raises:
      TypeError: anything else.
    """
    rule = _aval_rules.get(type(x))
    if rule is not None:
        return rule(x)
    aval = getattr(x, "aval", None)
    if aval is not None and not isinstance(x, type):
        return aval
    for cls in type(x).__mro__[1:]:
        rule = _aval_rules.get(cls)
        if rule is not None:
            return rule(x)
    if isinstance(x, TracedSize):
        return abstractify(x.value())
    if hasattr(x, "__jax_array__"):
        raise _not_converted(x)
    raise _not_a_value(x)


typeof = abstractify


def aval_described(x: Any) -> Any:
    """The aval of a value, or of what describes one: an aval, or an object with shape and dtype.

    Raises:
      TypeError: anything else.
    """
    if isinstance(x, AbstractValue):
        return x
    if type(x) not in _aval_rules and not isinstance(x, np.ndarray) and not hasattr(x, "aval"):
        if hasattr(x, "shape") and hasattr(x, "dtype"):
            dtype = canonicalize_dtype(x.dtype)
            weak = bool(getattr(x, "weak_type", False))
            return ShapedArray(x.shape, dtype, weak, sharding=getattr(x, "sharding", None))
    return abstractify(x)


def is_valid_value(x: Any) -> bool:
    """Whether `abstractify` accepts `x`.

    >>> valid_jaxtype(1.0), valid_jaxtype("text")
    (True, False)
    """
    if getattr(x, "aval", None) is not None:
        return True
    if isinstance(x, np.ndarray):
        return x.dtype == float0 or x.dtype in ALL_DTYPES
    return any(cls in _aval_rules for cls in type(x).__mro__) or hasattr(x, "__jax_array__")


def _not_a_value(x: Any, why: str | None = None) -> InvalidInputException:
    text = repr(x)
    text = text if len(text) <= 80 else text[:77] + "..."
    return new_error(
        InvalidInputException,
        f"{called_function()}Value {text} of type {type(x)} is not a valid JAX type.",
        why
        or "Traced functions take and return arrays, NumPy values, Python scalars and "
        "pytrees of them.",
        "Convert it with jnp.asarray(...), or close over it / mark the argument static.",
    )


def _not_converted(x: Any) -> Exception:
    return new_error(
        ValueError,
        f"{called_function()}A value of type {type(x)} has a __jax_array__ method, which is not "
        "called here.",
        "Functions of jnp convert what they are given; lax, jit and other transformations take "
        "arrays, NumPy values, Python scalars and pytrees of them.",
        "Convert it with jnp.asarray(...), or register its class as a pytree.",
    )


def physical_aval(aval: Any) -> Any:
    """The aval under which an array is stored: a key array becomes uint32 with trailing
    key_shape; a sum that is still to be made has a leading dimension of summands for each axis over
    which it is."""
    split = aval.split
    if split is not None and (summed := split.summed_axes):
        sizes = [split.mesh.shape[name] for name in summed]
        return ShapedArray((*sizes, *aval.shape), aval.dtype, aval.weak_type)
    if isinstance(aval, ShapedArray) and is_extended(aval.dtype):
        return ShapedArray(aval.shape + aval.dtype.key_shape, aval.dtype.physical_dtype)
    return aval


def typecompat(a: Any, b: Any) -> bool:
    """Equal but for weak types."""
    return a is b or a.strip_weak_type() is b.strip_weak_type()
