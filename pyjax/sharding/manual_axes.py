"""What values are along the manual axes of a mesh, and kinds of devices."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from xla_backend.process.light_dataclasses import dataclass


@dataclass(frozen=True)
class AbstractDevice:
    """The kind of devices that a mesh without devices is for.

    >>> AbstractDevice("cpu", None, "cpu").platform
    'cpu'
    """

    device_kind: str
    num_cores: int | None
    platform: str

    def __repr__(self) -> str:
        return (
            f"AbstractDevice(device_kind={self.device_kind}, num_cores={self.num_cores}, "
            f"platform={self.platform})"
        )


class ManualAxisType:
    """Along which manual mesh axes a value differs from device to device, is one summand of a sum
    that is still to be made, or is what such a sum's cotangent is.

    Args:
      varying, unreduced, reduced: names of axes; no name is in two of them.
    Raises:
      ValueError: a name is.

    >>> ManualAxisType(varying={"i"}).varying
    frozenset({'i'})
    """

    __slots__ = ("reduced", "unreduced", "varying")

    def __init__(
        self,
        *,
        varying: Iterable[Any] = frozenset(),
        unreduced: Iterable[Any] = frozenset(),
        reduced: Iterable[Any] = frozenset(),
    ) -> None:
        self.varying = frozenset(varying)
        self.unreduced = frozenset(unreduced)
        self.reduced = frozenset(reduced)
        for i, a in enumerate(("varying", "unreduced", "reduced")):
            for b in ("varying", "unreduced", "reduced")[i + 1 :]:
                if getattr(self, a) & getattr(self, b):
                    raise ValueError(
                        f"{a} and {b} cannot have common mesh axes. Got "
                        f"{a}={set(getattr(self, a))} and {b}={set(getattr(self, b))}"
                    )

    @property
    def empty(self) -> bool:
        """Whether no axis is named."""
        return not (self.varying or self.unreduced or self.reduced)

    @property
    def invarying(self) -> bool:
        """Whether the value is the same along all axes."""
        return not self.varying

    @property
    def vur(self) -> frozenset[Any]:
        """All axes that are named."""
        return self.varying | self.unreduced | self.reduced

    def update(self, **changes: Any) -> ManualAxisType:
        """A copy with some fields replaced."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        return ManualAxisType(**(fields | changes))

    def to_ct_mat(self) -> ManualAxisType:
        """Of the cotangent: sums that are made there are to be made here, and the other way."""
        return self.update(unreduced=self.reduced, reduced=self.unreduced)

    def _key(self) -> tuple[Any, ...]:
        return self.varying, self.unreduced, self.reduced

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ManualAxisType) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return (
            f"ManualAxisType(varying={self.varying!r}, unreduced={self.unreduced!r}, "
            f"reduced={self.reduced!r})"
        )
