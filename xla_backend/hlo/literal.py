"""Literals: constant values inside a module."""

from __future__ import annotations

import numpy as np

from xla_backend.hlo.shape import Shape


class Literal:
    """An immutable array constant. Equal when shape and bits are equal (NaN payloads and signs of
    zero count).
    """

    __slots__ = ("_hash", "array", "shape")

    def __init__(self, array: np.ndarray, shape: Shape | None = None) -> None:
        array = np.array(
            array, copy=True, order="C"
        )  # also detaches from a buffer the caller may change
        array.flags.writeable = False
        self.array = array
        self.shape = shape if shape is not None else Shape.of(array)
        self._hash: int | None = None

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Literal)
            and self.shape == other.shape
            and self.array.tobytes() == other.array.tobytes()
        )

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash((self.shape, self.array.tobytes()))
        return self._hash

    @property
    def is_splat(self) -> bool:
        """All elements have the same bits (an empty array is no splat)."""
        flat = self.array.reshape(-1)
        if flat.size == 0:
            return False
        raw = np.ascontiguousarray(flat).view(np.uint8).reshape(flat.size, -1)
        return bool((raw == raw[0]).all())

    def __repr__(self) -> str:
        return f"Literal({self.shape}, {self.array!r})"
