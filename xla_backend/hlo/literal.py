"""Literals: constant values inside a module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xla_backend.hlo.shape import Shape


class Literal:
    """An immutable constant: an array, or a tuple of literals. Equal when shape and bits are equal
    (NaN payloads and signs of zero count).

    An array literal has `array`; a tuple literal has `elements` and no `array`.
    """

    __slots__ = ("_hash", "array", "elements", "shape")

    array: np.ndarray
    elements: tuple[Literal, ...]

    def __init__(self, array: np.ndarray, shape: Shape | None = None) -> None:
        array = np.array(
            array, copy=True, order="C"
        )  # also detaches from a buffer the caller may change
        array.flags.writeable = False
        self.array = array
        self.shape = shape if shape is not None else Shape.of(array)
        self.elements = ()
        self._hash: int | None = None

    @staticmethod
    def tuple(elements: Sequence[Literal]) -> Literal:
        """The literal of a tuple shape."""
        literal = object.__new__(Literal)
        literal.elements = tuple(elements)
        literal.shape = Shape.tuple([e.shape for e in literal.elements])
        literal._hash = None
        return literal

    def __getattr__(self, name: str) -> Any:
        if name == "array":  # the slot is empty
            raise AttributeError(f"a literal of shape {self.shape} has elements, no array")
        raise AttributeError(f"a Literal has no attribute {name!r}")

    def _content(self) -> Any:
        return self.elements if self.shape.is_tuple else self.array.tobytes()

    def leaves(self) -> list[Literal]:
        """Array literals of a nested tuple in order; an array literal is its own only leaf."""
        if not self.shape.is_tuple:
            return [self]
        return [leaf for element in self.elements for leaf in element.leaves()]

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Literal)
            and self.shape == other.shape
            and self._content() == other._content()
        )

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash((self.shape, self._content()))
        return self._hash

    @property
    def is_splat(self) -> bool:
        """All elements have the same bits (an empty array is no splat, nor is a tuple)."""
        if self.shape.is_tuple:
            return False
        flat = self.array.reshape(-1)
        if flat.size == 0:
            return False
        raw = np.ascontiguousarray(flat).view(np.uint8).reshape(flat.size, -1)
        return bool((raw == raw[0]).all())

    def __repr__(self) -> str:
        content = self.elements if self.shape.is_tuple else self.array
        return f"Literal({self.shape}, {content!r})"
