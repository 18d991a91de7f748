"""What contracts of several kinds of routines say, how they are made, and how their references find
elements."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from xla_backend.program.routines import Kind, Parameter, Routine

Array = np.ndarray


def numbers(names: str) -> list[Parameter]:
    return [Parameter(name, Kind.NUMBER) for name in names.split()]


def grid(*axes: tuple[int, int]) -> Array:
    """Indices of an array with the given (extent, stride) axes in flat memory."""
    index: Array = np.zeros((), np.int64)
    for extent, stride in axes:
        index = index[..., None] + np.arange(extent) * stride
    return index


class OnDemand(Mapping[str, Routine]):
    """Contracts of many routines, each made for who asks for it: a program calls one or two."""

    def __init__(self, makers: Mapping[str, Callable[[], Routine]]) -> None:
        self._makers = makers
        self._made: dict[str, Routine] = {}

    def __getitem__(self, name: str) -> Routine:
        made = self._made.get(name)
        if made is None:
            made = self._made[name] = self._makers[name]()
        return made

    def __contains__(self, name: object) -> bool:
        return name in self._makers

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)
