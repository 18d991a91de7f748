"""PartitionSpec: which mesh axes split which dimension of an array."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyjax.core.errors import new_error


class _Unconstrained:
    """The compiler chooses how this dimension is split."""

    def __repr__(self) -> str:
        return "UNCONSTRAINED"

    def __reduce__(self) -> str:
        return "UNCONSTRAINED"


UNCONSTRAINED = _Unconstrained()


def _canonical(entry: Any) -> Any:
    """An empty tuple is None, a tuple of one name is that name."""
    if isinstance(entry, (list, tuple)):
        entry = tuple(entry)
        return None if not entry else entry[0] if len(entry) == 1 else entry
    return entry


class PartitionSpec:
    """One entry per dimension: None (not split), a mesh axis name, or a tuple of names.

    Dimensions beyond the entries are not split. `unreduced`, `reduced`: mesh axes over which the
    array is a sum that is still to be made, or that its cotangent will be.

    >>> PartitionSpec("x", None, ("y", "z"))
    P('x', None, ('y', 'z'))
    """

    __slots__ = ("_partitions", "reduced", "unreduced")
    UNCONSTRAINED = UNCONSTRAINED

    def __init__(
        self, *partitions: Any, unreduced: Any = frozenset(), reduced: Any = frozenset()
    ) -> None:
        for entry in partitions:
            names = entry if isinstance(entry, (list, tuple)) else (entry,)
            if UNCONSTRAINED in names and len(names) > 1:
                raise new_error(
                    ValueError, f"UNCONSTRAINED stands alone in a dimension, got {entry!r}"
                )
        self._partitions = tuple(map(_canonical, partitions))
        self.unreduced = frozenset(unreduced)
        self.reduced = frozenset(reduced)

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
        return self._partitions.index(_canonical(value))

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
        if isinstance(other, tuple):
            return self.update(partitions=(*self, *other))
        return NotImplemented

    def __radd__(self, other: Any) -> PartitionSpec:
        if isinstance(other, tuple):
            return self.update(partitions=(*other, *self))
        return NotImplemented

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

    def __eq__(self, other: Any) -> bool:
        if isinstance(other, tuple):
            plain = not self.unreduced and not self.reduced
            return plain and self._partitions == tuple(map(_canonical, other))
        if not isinstance(other, PartitionSpec):
            return NotImplemented
        return (self._partitions, self.unreduced, self.reduced) == (
            other._partitions,
            other.unreduced,
            other.reduced,
        )

    def __hash__(self) -> int:
        return hash((self._partitions, self.unreduced, self.reduced))

    def __reduce__(self) -> Any:
        return _rebuild, (self._partitions, self.unreduced, self.reduced)

    def __repr__(self) -> str:
        parts = [repr(p) for p in self._partitions]
        for name in ("unreduced", "reduced"):
            if axes := getattr(self, name):
                parts.append(f"{name}={{{', '.join(sorted(map(repr, axes)))}}}")
        trailing = "," if parts == [repr(p) for p in self._partitions] and len(parts) == 1 else ""
        return f"P({', '.join(parts)}{trailing})"


def _rebuild(partitions: Any, unreduced: Any, reduced: Any) -> PartitionSpec:
    return PartitionSpec(*partitions, unreduced=unreduced, reduced=reduced)
