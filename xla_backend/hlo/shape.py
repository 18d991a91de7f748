"""Shapes: the types of HLO values; equal by content, hashable, never mutated."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from xla_backend.hlo.types import PrimitiveType, from_numpy_dtype

Dims = tuple[int, ...]  # inside the class, `tuple` is the constructor of tuple shapes


@dataclass(frozen=True, slots=True)
class Shape:
    """An array, tuple, token or opaque type.

    `layout` is minor-to-major; None means the default, row-major. Tuples keep their members in
    `tuple_shapes` and have element_type TUPLE.
    """

    element_type: PrimitiveType
    dimensions: tuple[int, ...] = ()
    layout: tuple[int, ...] | None = None
    tuple_shapes: tuple[Shape, ...] = ()
    _hash: int = field(init=False, repr=False, compare=False, default=0)

    def __post_init__(self) -> None:
        # Shapes are dictionary keys everywhere (cse, kernel cache): hash once.
        object.__setattr__(
            self,
            "_hash",
            hash((self.element_type, self.dimensions, self.layout, self.tuple_shapes)),
        )

    def __hash__(self) -> int:
        return self._hash

    @staticmethod
    def array(element_type: PrimitiveType, dimensions: Sequence[int] = ()) -> Shape:
        return Shape(element_type, tuple(dimensions))

    @staticmethod
    def tuple(shapes: Sequence[Shape]) -> Shape:
        return Shape(PrimitiveType.TUPLE, (), None, tuple(shapes))

    @staticmethod
    def token() -> Shape:
        return Shape(PrimitiveType.TOKEN)

    @staticmethod
    def of(value: np.ndarray) -> Shape:
        """The shape of a NumPy array (or anything with `.dtype` and `.shape`)."""
        return Shape(from_numpy_dtype(value.dtype), tuple(value.shape))

    @property
    def is_tuple(self) -> bool:
        return self.element_type is PrimitiveType.TUPLE

    @property
    def is_token(self) -> bool:
        return self.element_type is PrimitiveType.TOKEN

    @property
    def is_array(self) -> bool:
        return self.element_type.is_array

    @property
    def is_scalar(self) -> bool:
        return self.is_array and not self.dimensions

    @property
    def rank(self) -> int:
        return len(self.dimensions)

    @property
    def num_elements(self) -> int:
        return math.prod(self.dimensions)

    @property
    def byte_size(self) -> int:
        """Bytes of the array; of a tuple, the sum of its members; 0 for tokens."""
        if self.is_tuple:
            return sum(s.byte_size for s in self.tuple_shapes)
        if not self.is_array:
            return 0
        return self.num_elements * self.element_type.byte_size

    @property
    def minor_to_major(self) -> Dims:
        if self.layout is not None:
            return self.layout
        return tuple(range(self.rank - 1, -1, -1))

    def with_type(self, element_type: PrimitiveType) -> Shape:
        return Shape(element_type, self.dimensions, self.layout)

    def with_dimensions(self, dimensions: Sequence[int]) -> Shape:
        """Same element type, other dimensions, default layout."""
        return Shape(self.element_type, tuple(dimensions))

    def same_dimensions(self, other: Shape) -> bool:
        return self.dimensions == other.dimensions

    def compatible(self, other: Shape) -> bool:
        """Equal but for layouts."""
        return (
            self.element_type is other.element_type
            and self.dimensions == other.dimensions
            and len(self.tuple_shapes) == len(other.tuple_shapes)
            and all(a.compatible(b) for a, b in zip(self.tuple_shapes, other.tuple_shapes))
        )

    def flatten(self) -> list[Shape]:
        """Leaves of a nested tuple in order; a non-tuple is its own only leaf."""
        if not self.is_tuple:
            return [self]
        return [leaf for member in self.tuple_shapes for leaf in member.flatten()]

    def member(self, index: Sequence[int]) -> Shape | None:
        """The member of a nested tuple at `index` (the shape itself for an empty index); None if
        there is none."""
        shape = self
        for i in index:
            if not 0 <= i < len(shape.tuple_shapes):
                return None
            shape = shape.tuple_shapes[i]
        return shape

    def to_text(self, *, layout: bool = False) -> str:
        """HLO text; `layout=True` prints `f32[2,3]{1,0}`."""
        if self.is_tuple:
            parts = []
            for i, member in enumerate(self.tuple_shapes):
                comment = f"/*index={i}*/" if i and i % 5 == 0 else ""
                parts.append(comment + member.to_text(layout=layout))
            return f"({', '.join(parts)})"
        text = f"{self.element_type}[{','.join(map(str, self.dimensions))}]"
        if layout and self.dimensions:
            text += "{" + ",".join(map(str, self.minor_to_major)) + "}"
        return text

    def __str__(self) -> str:
        return self.to_text()
