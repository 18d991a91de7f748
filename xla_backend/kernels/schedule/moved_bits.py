"""Elements of narrow types that are only moved, as integers of as many bits.

    v0 = p0[i]                          # f16      v0 = p0[i]                          # u16
    out[i] = v0 if v1 else nan          # f16  ->  out[i] = v0 if v1 else 32256        # u16

Registers have them in another form (float32, masks), into which they would be converted and back.
Truth values are bytes of 0 and 1, of which `or`, the larger of two, and so on are such bytes again,
so those that are only combined so, as any of a column are, stay bytes, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.kernels.ir import (
    ACCESSES,
    BODIES,
    INDEXED,
    Buffer,
    Carry,
    Compute,
    Constant,
    If,
    Kernel,
    Load,
    Loop,
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
_LOGIC = frozenset({Opcode.AND, Opcode.OR, Opcode.XOR, Opcode.MAXIMUM, Opcode.MINIMUM})


def move_bits(kernel: Kernel) -> bool:
    """Make integers of narrow elements of a kernel that are loaded, chosen and stored, and no more,
    or truth values that are combined. True iff there were any."""
    narrow = [b for b in kernel.buffers if _integer_for(b.element_type) is not None]
    statements = list(walk(kernel.stages)) if narrow else []
    for loop in [s for s in statements if isinstance(s, Loop) and s.combiner is not None]:
        assert loop.combiner is not None
        statements += walk(loop.combiner.body)
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
        for value in (*results_of(s), *_given(s)):
            integer = _integer_for(value.type)
            if integer is not None and moves.root(value) in found:
                if isinstance(s, Constant):
                    s.value = np.asarray(s.value).view(integer.numpy_dtype)[()]
                value.type = integer
        for carry in s.carries if isinstance(s, BODIES) else ():
            if carry.identity is not None and moves.root(carry.phi) in found:
                carry.identity = int(carry.identity)
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
        elif isinstance(s, Compute) and s.opcode in _LOGIC and s.result.type is P.PRED:
            for value in s.operands:
                self._join(s.result, value)
        elif isinstance(s, BODIES) and _carries_truth(s):
            for place, carry in enumerate(s.carries):
                for value in _carried(s, place, carry):
                    self._join(carry.phi, value)
        elif not isinstance(s, Constant):
            self._otherwise += [*operands_of(s), *results_of(s), *_given(s)]

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


def _carries_truth(s: Loop | If) -> bool:
    """Whether all that a loop carries is truth values, in lanes of their own: masks are combined
    sooner than the bytes of a register."""
    if isinstance(s, Loop):
        if s.combination is not None:
            return False
        reads = [x for x in s.body if isinstance(x, Load)]
        if any(x.index.coefficient(s.var) == 1 for x in reads):
            return False
    return all(c.phi.type is P.PRED for c in s.carries)


def _carried(s: Loop | If, place: int, carry: Carry) -> Iterator[Value]:
    """The values that one of those that are carried has."""
    yield from (carry.init, carry.result)
    if carry.next is not None:
        yield carry.next
    if isinstance(s, Loop) and s.combiner is not None:
        for values in (s.combiner.lhs, s.combiner.rhs, s.combiner.results):
            yield values[place]


def _given(s: Statement) -> Iterator[Value]:
    """The values that statements in a body, or that combine its results, may use."""
    if isinstance(s, BODIES):
        yield from (carry.phi for carry in s.carries)
        if isinstance(s, Loop) and s.combiner is not None:
            yield from (*s.combiner.lhs, *s.combiner.rhs)


def _integer_for(type: P) -> P | None:
    """The integer that has the bits of an element in memory, if registers have another form."""
    if type is P.PRED:
        return P.U8
    return _INTEGERS.get(type.bits) if type.is_floating else None
