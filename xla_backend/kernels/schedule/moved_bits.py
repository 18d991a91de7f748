"""Elements of narrow types that are only moved, as integers of as many bits.

    v0 = p0[i]                          # f16      v0 = p0[i]                          # u16
    out[i] = v0 if v1 else nan          # f16  ->  out[i] = v0 if v1 else 32256        # u16

Registers have them in another form (float32, masks), into which they would be converted and back.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.kernels.ir import (
    ACCESSES,
    BODIES,
    INDEXED,
    Buffer,
    Compute,
    Constant,
    Kernel,
    Statement,
    Store,
    Value,
    walk,
)
from xla_backend.kernels.schedule.copying import operands_of
from xla_backend.kernels.schedule.dependence import results_of

_Part = Buffer | Value
_INTEGERS = {8: P.U8, 16: P.U16}
# Fewer may be held in registers while a loop of the program runs, in the form of their type.
_FEWEST = 1 << 10
_KNOWN = (*INDEXED, *BODIES, Compute, Constant)


def move_bits(kernel: Kernel) -> bool:
    """Make integers of narrow elements of a kernel that are loaded, chosen and stored, and no more.
    True iff there were any."""
    narrow = [b for b in kernel.buffers if _integer_for(b.element_type) is not None]
    statements = list(walk(kernel.stages)) if narrow else []
    if not narrow or not all(isinstance(s, _KNOWN) for s in statements):
        return False
    moves = _Moves()
    for s in statements:
        moves.add(s)
    found = moves.of_nothing_else(narrow)
    for buffer in narrow:
        integer = _integer_for(buffer.element_type)
        if integer is not None and moves.root(buffer) in found:
            buffer.element_type = integer
            if buffer.data is not None:
                buffer.data = buffer.data.view(integer.numpy_dtype)
    for s in statements:
        for value in results_of(s):
            integer = _integer_for(value.type)
            if integer is not None and moves.root(value) in found:
                if isinstance(s, Constant):
                    s.value = np.asarray(s.value).view(integer.numpy_dtype)[()]
                value.type = integer
    return bool(found)


class _Moves:
    """Buffers and values that are moved between each other, and which are anything else, too."""

    def __init__(self) -> None:
        self._next: dict[_Part, _Part] = {}
        self._otherwise: list[Value] = []

    def add(self, s: Statement) -> None:
        """Note what a statement moves."""
        if isinstance(s, ACCESSES):
            for value in s.values if isinstance(s, Store) else (s.result,):
                self._join(s.buffer, value)
            if s.guard is not None:
                self._otherwise.append(s.guard)
        elif isinstance(s, Compute) and s.opcode is Opcode.SELECT:
            for value in s.operands[1:]:
                self._join(s.result, value)
            self._otherwise.append(s.operands[0])
        elif not isinstance(s, Constant):
            self._otherwise += [*operands_of(s), *results_of(s)]
            if isinstance(s, BODIES):
                self._otherwise += [c.phi for c in s.carries]

    def root(self, part: _Part) -> _Part:
        """The same for all that is moved between each other."""
        while part in self._next:
            part = self._next[part]
        return part

    def of_nothing_else(self, buffers: Iterable[Buffer]) -> set[_Part]:
        """The roots of buffers whose elements are moved, and no more, all of them large."""
        found: set[_Part] = set()
        others = {self.root(v) for v in self._otherwise}
        for buffer in buffers:
            (found if buffer.size >= _FEWEST else others).add(self.root(buffer))
        return found - others

    def _join(self, a: _Part, b: _Part) -> None:
        first, second = self.root(a), self.root(b)
        if first is not second:
            self._next[first] = second


def _integer_for(type: P) -> P | None:
    """The integer that has the bits of an element in memory, if registers have another form."""
    if type is P.PRED:
        return P.U8
    return _INTEGERS.get(type.bits) if type.is_floating else None
