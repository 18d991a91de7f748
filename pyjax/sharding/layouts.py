"""Layouts, and formats: layouts with shardings."""

from __future__ import annotations

from typing import Any

from pyjax.core.avals import abstractify
from pyjax.core.errors import fail, new_error
from pyjax.sharding.shardings import Sharding
from xla_backend.process.light_dataclasses import dataclass


class _AutoLayout:
    """The compiler chooses."""

    def __repr__(self) -> str:
        return "AUTO"


@dataclass(frozen=True)
class Layout:
    """The dimensions from the one whose elements are farthest apart to the one whose are together.

    Args:
      major_to_minor: a permutation of the dimensions.
      tiling: of tiles in tiles; CPUs and GPUs have none.
    `Layout.AUTO` leaves the choice to the compiler.

    >>> Layout((0, 1)).major_to_minor
    (0, 1)
    """

    major_to_minor: tuple[int, ...]
    tiling: tuple[tuple[int, ...], ...] | None = None
    sub_byte_element_size_in_bits: int = 0

    AUTO = _AutoLayout()

    def __post_init__(self) -> None:
        object.__setattr__(self, "major_to_minor", tuple(self.major_to_minor))

    def check(self, name: str, value: Any) -> None:
        """Refuse what arrays do not lie in.

        Raises:
          ValueError: another number of dimensions.
          NotImplementedError: another order than NumPy's, or tiles.
        """
        shape, order = abstractify(value).shape, self.major_to_minor
        if sorted(order) != list(range(len(shape))):
            raise new_error(
                ValueError,
                f"One of {name} arguments is incompatible with its layout annotation {self}: "
                "Length of major_to_minor and the rank of the value should match. Got "
                f"major_to_minor={order} and shape={shape}",
            )
        self.check_order(name)

    def check_order(self, name: str) -> None:
        """Refuse another order than NumPy's, whatever is to lie so.

        Raises:
          NotImplementedError: it is one, or has tiles.
        """
        if self.major_to_minor != tuple(range(len(self.major_to_minor))) or self.tiling:
            fail(
                NotImplementedError,
                f"{name}: {self}.",
                "arrays lie in the order of NumPy; inside programs the compiler chooses",
                "Leave it out: values do not depend on it. Transpose an array for another order.",
            )


class Format:
    """A layout and a sharding.

    Raises:
      TypeError: one of them is of another kind.
      ValueError: a layout without a sharding.

    >>> Format()
    Format(layout=None, sharding=None)
    """

    __slots__ = ("layout", "sharding")

    def __init__(self, layout: Any = None, sharding: Sharding | None = None) -> None:
        if not (layout is None or isinstance(layout, (Layout, _AutoLayout))):
            raise new_error(
                TypeError,
                "Invalid value received for the layout argument. Expected values are `None`, "
                f"`Layout.AUTO` or an instance of `Layout`. Got {layout} of type {type(layout)}",
            )
        if not (sharding is None or isinstance(sharding, Sharding)):
            raise new_error(
                TypeError,
                "Invalid value received for the sharding argument. Expected values are `None` or "
                f"an instance of `Sharding`. Got {sharding} of type {type(sharding)}",
            )
        if isinstance(layout, Layout) and sharding is None:
            raise new_error(
                ValueError,
                f"Sharding has to be concrete when layout is of type {Layout}. Please pass a "
                "`NamedSharding` or `SingleDeviceSharding` to the sharding argument. Got sharding "
                "None",
            )
        self.layout = layout
        self.sharding = sharding

    def __repr__(self) -> str:
        return f"Format(layout={self.layout}, sharding={self.sharding})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Format):
            return NotImplemented
        return self.layout == other.layout and self.sharding == other.sharding

    def __hash__(self) -> int:
        return hash((self.layout, self.sharding))
