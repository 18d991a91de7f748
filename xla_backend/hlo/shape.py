"""Shapes: the types of HLO values; equal by content, hashable, never mutated."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from xla_backend.hlo.layout import LayoutDetails
from xla_backend.hlo.types import PrimitiveType, from_numpy_dtype

Dims = tuple[int, ...]  # inside the class, `tuple` is the constructor of tuple shapes
Flags = tuple[bool, ...]

# The size of a dimension written `?`: known at run time only, without a bound.
UNBOUNDED = -1


class Shape:
    """An array, tuple, buffer, token or opaque type.

    `layout` is minor-to-major; None means the default, row-major. Tuples keep their members in
    `tuple_shapes` and have element_type TUPLE; a buffer keeps the array it holds there.

    `dynamic` tells which dimensions have a size known at run time only: `dimensions` then holds
    the bound (`f32[<=5]`) or UNBOUNDED (`f32[?]`). None, the usual case: all sizes are known.
    `layout_details` is what else the layout says (tiles, memory space ...), None for nothing.
    """

    __slots__ = (
        "_hash",
        "dimensions",
        "dynamic",
        "element_type",
        "layout",
        "layout_details",
        "leaf_starts",
        "tuple_shapes",
    )

    element_type: PrimitiveType
    dimensions: Dims
    layout: Dims | None
    tuple_shapes: tuple[Shape, ...]
    dynamic: Flags | None
    layout_details: LayoutDetails | None
    # Number of the first leaf of each member, then the number of leaves.
    leaf_starts: Dims
    _hash: int

    def __init__(
        self,
        element_type: PrimitiveType,
        dimensions: Dims = (),
        layout: Dims | None = None,
        tuple_shapes: tuple[Shape, ...] = (),
        dynamic: Flags | None = None,
        layout_details: LayoutDetails | None = None,
    ) -> None:
        # The slots' own setters: assigning through a __setattr__ that may raise costs twice that.
        _set_element_type(self, element_type)
        _set_dimensions(self, dimensions)
        _set_layout(self, layout)
        _set_tuple_shapes(self, tuple_shapes)
        _set_dynamic(self, dynamic)
        _set_layout_details(self, layout_details)
        is_tuple = element_type is PrimitiveType.TUPLE
        _set_leaf_starts(self, _leaf_starts(tuple_shapes) if is_tuple else _ONE_LEAF)
        # Shapes are dictionary keys everywhere (cse, kernel cache): hash once.
        _set_hash(self, hash((element_type, dimensions, layout, tuple_shapes)))

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a Shape is immutable: cannot set {name}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a Shape is immutable: cannot delete {name}")

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Shape):
            return NotImplemented
        return (
            self._hash == other._hash
            and self.element_type is other.element_type
            and self.dimensions == other.dimensions
            and self.layout == other.layout
            and self.dynamic == other.dynamic
            and self.layout_details == other.layout_details
            and self.tuple_shapes == other.tuple_shapes
        )

    def __reduce__(self) -> Any:
        return Shape, (
            self.element_type,
            self.dimensions,
            self.layout,
            self.tuple_shapes,
            self.dynamic,
            self.layout_details,
        )

    def __repr__(self) -> str:
        return f"Shape({self.to_text(layout=True)})"

    @staticmethod
    def array(element_type: PrimitiveType, dimensions: Sequence[int] = ()) -> Shape:
        return Shape(element_type, tuple(dimensions))

    @staticmethod
    def tuple(shapes: Sequence[Shape]) -> Shape:
        return Shape(PrimitiveType.TUPLE, (), None, tuple(shapes))

    @staticmethod
    def buffer(held: Shape) -> Shape:
        """`b(f32[2])`: memory that holds an array."""
        return Shape(PrimitiveType.BUFFER, (), None, (held,))

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
    def is_static(self) -> bool:
        """No dimension, of a tuple no member's, has a size known at run time only."""
        return self.dynamic is None and all(s.is_static for s in self.tuple_shapes)

    @property
    def dynamic_dimensions(self) -> Flags:
        """For each dimension, whether its size is known at run time only."""
        return self.dynamic if self.dynamic is not None else (False,) * len(self.dimensions)

    @property
    def num_elements(self) -> int:
        """Elements of an array; where a dimension is bounded, as many as there can be."""
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
        return Shape(element_type, self.dimensions, self.layout, (), self.dynamic)

    def with_dynamic(self, dynamic: Sequence[bool]) -> Shape:
        """The same array with the sizes of the flagged dimensions known at run time only."""
        flags = tuple(dynamic) if any(dynamic) else None
        return Shape(
            self.element_type, self.dimensions, self.layout, (), flags, self.layout_details
        )

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

    @property
    def leaf_count(self) -> int:
        """How many leaves `flatten` lists."""
        return self.leaf_starts[-1]

    def leaf_number(self, index: Sequence[int]) -> int:
        """Number of the first leaf of the member of a nested tuple at `index`: 3 for the last of
        ((a, b), (c, d)), at (1, 1)."""
        shape, number = self, 0
        for i in index:
            number += shape.leaf_starts[i]
            shape = shape.tuple_shapes[i]
        return number

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
        if self.element_type is PrimitiveType.BUFFER:
            return f"b({self.tuple_shapes[0].to_text(layout=layout)})"
        text = f"{self.element_type}[{self._dimensions_text()}]"
        if layout:
            text += self._layout_text()
        return text

    def _dimensions_text(self) -> str:
        if self.dynamic is None:
            return ",".join(map(str, self.dimensions))
        return ",".join(
            "?" if size == UNBOUNDED else f"<={size}" if flag else str(size)
            for size, flag in zip(self.dimensions, self.dynamic)
        )

    def _layout_text(self) -> str:
        order = ",".join(map(str, self.minor_to_major))
        if self.layout_details is not None:
            return f"{{{order}:{self.layout_details}}}"
        return f"{{{order}}}" if self.dimensions else ""

    def __str__(self) -> str:
        return self.to_text()


def _leaf_starts(members: Sequence[Shape]) -> Dims:
    return tuple(accumulate((m.leaf_starts[-1] for m in members), initial=0))


_ONE_LEAF = (1,)  # of what has no members
_set_element_type = Shape.__dict__["element_type"].__set__
_set_dimensions = Shape.__dict__["dimensions"].__set__
_set_layout = Shape.__dict__["layout"].__set__
_set_tuple_shapes = Shape.__dict__["tuple_shapes"].__set__
_set_dynamic = Shape.__dict__["dynamic"].__set__
_set_layout_details = Shape.__dict__["layout_details"].__set__
_set_leaf_starts = Shape.__dict__["leaf_starts"].__set__
_set_hash = Shape.__dict__["_hash"].__set__
