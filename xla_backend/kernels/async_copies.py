"""Copies that go on beside the threads that began them (`ir.AsyncCopy`), as the interpreter knows
them: what they write is nobody's until the thread has waited for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

import numpy as np

from xla_backend.kernels.ir import Buffer
from xla_backend.process.light_dataclasses import dataclass

# Who makes accesses, and where: the interpreter's business.
Accesses = TypeVar("Accesses")


@dataclass(frozen=True, slots=True, eq=False)
class Copy(Generic[Accesses]):
    """One statement's copies. `element`: what they write, `where`: the place of the statement."""

    target: Buffer
    element: np.ndarray
    written: Accesses
    source: Buffer
    read: Accesses
    where: str


class CopiesUnderWay(Generic[Accesses]):
    """The copies of the threads that run at once. All of them make and await groups together."""

    def __init__(self) -> None:
        self._begun: list[Copy[Accesses]] = []  # and in no group yet
        self._groups: list[list[Copy[Accesses]]] = []
        self._marks: dict[Buffer, np.ndarray] = {}  # one more than the number of the copy
        self._texts: list[str] = []
        self._apart: list[Copy[Accesses]] = []

    def begin(self, copy: Copy[Accesses], size: int) -> None:
        """A copy into a buffer of which all blocks together have `size` elements."""
        self._mark(copy, size)
        self._begun.append(copy)

    def begin_apart(self, copy: Copy[Accesses], size: int) -> None:
        """The same of one that is in no group, and is over when somebody says so (`end`)."""
        self._mark(copy, size)
        self._apart.append(copy)

    def end(self, copy: Copy[Accesses]) -> None:
        """A copy that is in no group is done."""
        self._apart.remove(copy)
        self._marks[copy.target][copy.element] = 0

    @property
    def apart(self) -> Sequence[Copy[Accesses]]:
        """Those in no group that are not over."""
        return self._apart

    def _mark(self, copy: Copy[Accesses], size: int) -> None:
        marks = self._marks.get(copy.target)
        if marks is None:
            marks = self._marks[copy.target] = np.zeros(size, np.int32)
        self._texts.append(copy.where)
        marks[copy.element] = len(self._texts)

    def group(self) -> None:
        """What has been begun is a group."""
        self._groups.append(self._begun)
        self._begun = []

    def wait(self, pending: int) -> list[Copy[Accesses]]:
        """The copies that are done now, when no more than `pending` groups are not."""
        count = max(len(self._groups) - pending, 0)
        done = [copy for group in self._groups[:count] for copy in group]
        del self._groups[:count]
        for copy in done:
            self._marks[copy.target][copy.element] = 0
        return done

    def reaching(self, buffer: Buffer, element: np.ndarray) -> tuple[int, str] | None:
        """The number of an access to an element that a copy is on its way to, and where that was
        begun; None if there is none."""
        marks = self._marks.get(buffer)
        if marks is None:
            return None
        found = marks[element]
        if not found.any():
            return None
        n = int(np.argmax(found != 0))
        return n, self._texts[int(found[n]) - 1]

    def clear(self) -> None:
        """The blocks are over."""
        self._begun.clear()
        self._apart.clear()
        self._groups.clear()
        self._marks.clear()
        self._texts.clear()
