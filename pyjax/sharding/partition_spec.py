"""PartitionSpec: which mesh axes split which dimension of an array."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from typing import Any

from pyjax.core.errors import fail, new_error
from xla_backend.process.bounded_cache import InternTable


class _Unconstrained:
    """The compiler chooses how this dimension is split."""

    def __repr__(self) -> str:
        return "UNCONSTRAINED"

    def __reduce__(self) -> str:
        return "UNCONSTRAINED"


UNCONSTRAINED = _Unconstrained()


def _canonical(entry: Any) -> Any:
    """An empty tuple is None, a tuple of one name is that name.

    Raises:
      ValueError: a tuple in a tuple, or UNCONSTRAINED beside other names.
      TypeError: something that is not hashable.
    """
    if not isinstance(entry, (list, tuple)):
        hash(entry)
        return entry
    names = tuple(entry)
    for name in names:
        if isinstance(name, (list, tuple)):
            raise new_error(
                ValueError,
                f"PartitionSpec: an entry is a name or a tuple of names, got {entry!r} with "
                f"{name!r} in it.",
            )
        hash(name)
    if UNCONSTRAINED in names and len(names) > 1:
        raise new_error(ValueError, f"UNCONSTRAINED stands alone in a dimension, got {entry!r}")
    return None if not names else names[0] if len(names) == 1 else names


class PartitionSpec:
    """One entry per dimension: None (not split), a mesh axis name, or a tuple of names.

    Dimensions beyond the entries are not split. `unreduced`, `reduced`: mesh axes over which the
    array is a sum that is still to be made, or that its cotangent will be.

    >>> PartitionSpec("x", None, ("y", "z"))
    P('x', None, ('y', 'z'))
    """

    __slots__ = ("__weakref__", "_partitions", "reduced", "unreduced")
    UNCONSTRAINED = UNCONSTRAINED
    _partitions: tuple[Any, ...]
    unreduced: frozenset[Any]
    reduced: frozenset[Any]

    def __new__(
        cls, *partitions: Any, unreduced: Any = frozenset(), reduced: Any = frozenset()
    ) -> PartitionSpec:
        try:  # as they are written in most programs
            known = _specs.refs.get((partitions, unreduced, reduced))
        except TypeError:  # lists, and sets
            known = None
        if known is not None and (found := known()) is not None:
            return found
        entries = tuple(map(_canonical, partitions))
        sums = [
            _axes(name, axes) for name, axes in (("unreduced", unreduced), ("reduced", reduced))
        ]
        key = (entries, *sums)
        found = _specs.find(key)
        if found is not None:
            return found
        _check_sums(entries, *sums)
        made = object.__new__(cls)
        for name, value in zip(("_partitions", "unreduced", "reduced"), key):
            object.__setattr__(made, name, value)
        return _specs.intern(key, made)

    def __init_subclass__(cls) -> None:
        fail(
            TypeError,
            "Subclassing `PartitionSpec` is prohibited.",
            "equal specs are one object",
            "hold a PartitionSpec in an attribute of a class of your own",
        )

    def __setattr__(self, name: str, value: Any) -> None:
        raise new_error(
            AttributeError,
            f"cannot assign to field {name!r} of {self}",
            "equal specs are one object",
            "spec.update(...) gives another one",
        )

    def __delattr__(self, name: str) -> None:
        raise new_error(AttributeError, f"cannot delete field {name!r} of {self}")

    @property
    def partitions(self) -> tuple[Any, ...]:
        return self._partitions

    def __iter__(self) -> Iterator[Any]:
        return iter(self._partitions)

    def __len__(self) -> int:
        return len(self._partitions)

    def __getitem__(self, index: Any) -> Any:
        return self._partitions[index]

    def index(self, value: Any) -> int:
        entry = _canonical(value)
        if entry not in self._partitions:
            raise new_error(ValueError, f"{value!r} is no entry of {self}")
        return self._partitions.index(entry)

    def count(self, value: Any) -> int:
        return self._partitions.count(_canonical(value))

    def __add__(self, other: Any) -> PartitionSpec:
        if isinstance(other, PartitionSpec):
            return PartitionSpec(
                *self,
                *other,
                unreduced=self.unreduced | other.unreduced,
                reduced=self.reduced | other.reduced,
            )
        return self._joined(other, lambda own, others: (*own, *others))

    def __radd__(self, other: Any) -> PartitionSpec:
        return self._joined(other, lambda own, others: (*others, *own))

    def _joined(self, other: Any, join: Callable[[Any, Any], tuple[Any, ...]]) -> PartitionSpec:
        if not isinstance(other, tuple):
            return NotImplemented
        if self.unreduced or self.reduced:
            fail(
                TypeError,
                f"{other} is a tuple, and cannot be joined to {self}, which has unreduced or "
                "reduced axes.",
                "a tuple says of dimensions only how they are split",
                "write PartitionSpec(...) around the tuple",
            )
        return self.update(partitions=join(self, other))

    def update(
        self, partitions: Any = None, unreduced: Any = None, reduced: Any = None
    ) -> PartitionSpec:
        """A copy with what is not None replaced."""
        return PartitionSpec(
            *(self._partitions if partitions is None else partitions),
            unreduced=self.unreduced if unreduced is None else unreduced,
            reduced=self.reduced if reduced is None else reduced,
        )

    def to_tangent_spec(self) -> PartitionSpec:
        """Of the tangent: the same."""
        return self

    def to_ct_spec(self) -> PartitionSpec:
        """Of the cotangent: sums that are made there are to be made here, and the other way."""
        return self.update(unreduced=self.reduced, reduced=self.unreduced)

    def to_lo(self) -> list[PartitionSpec]:
        """Of the arrays that an array consists of: itself."""
        return [self]

    def __copy__(self) -> PartitionSpec:
        return self

    def __deepcopy__(self, memo: Any) -> PartitionSpec:
        return self

    def __reduce__(self) -> Any:
        return _rebuild, (self._partitions, self.unreduced, self.reduced)

    def __repr__(self) -> str:
        parts = [repr(p) for p in self._partitions]
        for name in ("unreduced", "reduced"):
            if axes := getattr(self, name):
                parts.append(f"{name}={{{', '.join(sorted(map(repr, axes)))}}}")
        trailing = "," if parts == [repr(p) for p in self._partitions] and len(parts) == 1 else ""
        return f"P({', '.join(parts)}{trailing})"


def _axes(name: str, axes: Any) -> frozenset[Any]:
    """The mesh axes over which an array is a sum, of one kind."""
    if not isinstance(axes, AbstractSet):
        raise new_error(
            TypeError,
            f"the {name} argument of PartitionSpec must be a set or frozenset of mesh axes, got "
            f"{axes!r} of type {type(axes).__name__}.",
            "axes over which is summed have no order",
            f"write {name}={{'x'}}",
        )
    if None in axes:
        raise new_error(ValueError, f"{name} holds names of mesh axes; None is none: {set(axes)}")
    return frozenset(axes)


def _check_sums(
    entries: tuple[Any, ...], unreduced: frozenset[Any], reduced: frozenset[Any]
) -> None:
    """An axis either splits a dimension, or is one of one kind of sum."""
    split = frozenset(n for e in entries for n in (e if isinstance(e, tuple) else (e,)))
    kinds = {"partitions": split, "unreduced": unreduced, "reduced": reduced}
    for first, second in itertools.combinations(kinds, 2):
        if both := kinds[first] & kinds[second]:
            raise new_error(
                ValueError,
                f"PartitionSpec: {first} and {second} cannot overlap; both name "
                f"{', '.join(sorted(map(repr, both)))}.",
            )


# Equal specs are one object, as long as somebody holds it.
_specs: InternTable[tuple[Any, ...], PartitionSpec] = InternTable()


def _rebuild(partitions: Any, unreduced: Any, reduced: Any) -> PartitionSpec:
    return PartitionSpec(*partitions, unreduced=unreduced, reduced=reduced)
