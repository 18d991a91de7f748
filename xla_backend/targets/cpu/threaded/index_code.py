"""Index arithmetic of threaded code: the same numbers as optimised code computes.

An index that is the same in all lanes is a slot (of an i64) and a constant; one that differs
between lanes is a vector of i32 or i64 (`IndexCode.lanes_of_index`).
"""

from __future__ import annotations

from xla_backend.codegen.in_lanes import InLanes
from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.kernels.index import Atom, FloorDiv, Index, Mod, Parameter, Var
from xla_backend.kernels.ir import Buffer, Value
from xla_backend.targets.cpu.routines.threaded_names import (
    LANES,
    WIDE_LANES,
    element_bytes,
    value_bytes,
)
from xla_backend.targets.cpu.threaded.assembler import Assembler, Frame
from xla_backend.targets.cpu.threaded.code import Code, chunks
from xla_backend.targets.cpu.threaded.errors import NoThreadedCode

# Terms that one instruction adds up.
MOST_TERMS = 4
_ELEMENTS = {"i32": P.S32, "i64": P.S64}
_AT_ONCE = {"i32": LANES, "i64": WIDE_LANES}


class IndexCode(Code, InLanes):
    """Code with variables and values.

    Attributes:
      pointers: slots of the addresses of buffers.
      env, lanes_of: slots of values, and how many lanes they have if it is not one.
      var_slots, var_numbers: of variables and parameters: slots, or what they are for now.
      steps: variables of which the slots have a multiple.
    """

    def __init__(self, asm: Assembler, frame: Frame, pointers: dict[Buffer, int]) -> None:
        Code.__init__(self, asm, frame)
        InLanes.__init__(self)
        self.pointers = pointers
        self.env: dict[Value, int] = {}
        self.lanes_of: dict[Value, int] = {}
        self.var_numbers: dict[Var | Parameter, int] = {}
        self.var_slots: dict[Var | Parameter, int] = {}
        self.steps: dict[Atom, int] = {}

    # -- values ------------------------------------------------------------------------------------

    def new(self, type: P, lanes: int = 1) -> int:
        """A slot for a value that is computed here."""
        return self.slot(value_bytes(type, lanes))

    def bind(self, value: Value, slot: int, lanes: int = 1) -> None:
        """Let a value be what is in a slot."""
        self.env[value] = slot
        if self.reuses:
            self.hold(slot)
        if lanes > 1:
            self.lanes_of[value] = lanes
        else:
            self.lanes_of.pop(value, None)

    def release(self, value: Value) -> None:
        """Let a value be one that nobody needs any more."""
        slot = self.env.get(value)
        if slot is not None:  # it is in no branch that is left out
            self.let_go(slot)

    def lanes_in(self, value: Value) -> int:
        """How many lanes a value has: 1 if it is the same in all."""
        return self.lanes_of.get(value, 1)

    def is_vector(self, value: Value) -> bool:
        return value in self.lanes_of

    def spread(self, value: Value, lanes: int | None = None) -> int:
        """The slot of a value in lanes; by default in all of the present loop."""
        slot, lanes = self.env[value], lanes or self.lanes
        if lanes == 1 or value in self.lanes_of:
            return slot
        return self.spread_slot(slot, value.type, lanes)

    def spread_slot(self, slot: int, type: P, lanes: int) -> int:
        """The slot of a vector with a scalar in all of its lanes."""
        size = value_bytes(type, lanes)
        name = f"spread.{element_bytes(type)}"
        return self.pure(name, size, (slot, chunks(lanes)), (slot,), size / 64)

    # -- indices -----------------------------------------------------------------------------------

    def uniform(self, index: Index) -> tuple[int | None, int]:
        """An index that is the same in all lanes (of others, that of the first lane), as the slot
        of an integer, if there is one, and a number to add to it."""
        terms, number = self._terms(index)
        return self._sum(terms), number

    def _terms(self, index: Index) -> tuple[list[tuple[int, int]], int]:
        """Slots and what they are multiplied by, and the rest."""
        number = index.constant
        terms: list[tuple[int, int]] = []
        var_slots, steps = self.var_slots, self.steps
        for atom, c in index.terms.items():
            if atom.__class__ is Var and atom in var_slots:
                terms.append((var_slots[atom], c // steps.get(atom, 1)))  # type: ignore[index]
                continue
            slot, more = self._uniform_atom(atom)
            number += c * more
            if slot is not None:
                terms.append((slot, c // steps.get(atom, 1)))
        return terms, number

    def _sum(self, terms: list[tuple[int, int]]) -> int | None:
        """The slot of the sum of slots times numbers."""
        if not terms:
            return None
        if len(terms) == 1:
            only, factor = terms[0]
            return only if factor == 1 else self.pure("index1", 8, (0, only, factor), (only,))
        # Those of outer loops first, so that these have the sum of theirs.
        terms.sort(key=lambda term: self._depth_of.get(term[0], 0))
        slot = None
        while terms:
            some = terms[: MOST_TERMS if slot is None else MOST_TERMS - 1]
            terms = terms[len(some) :]
            if slot is not None:
                some = [(slot, 1), *some]
            words = tuple([word for term in some for word in term])
            slot = self.pure(f"index{len(some)}", 8, (0, *words), [s for s, _ in some])
        return slot

    def _uniform_atom(self, atom: object) -> tuple[int | None, int]:
        kind = atom.__class__
        if kind is Var or kind is Parameter:
            slot = self.var_slots.get(atom)  # type: ignore[call-overload]
            return (None, self.var_numbers.get(atom, 0)) if slot is None else (slot, 0)  # type: ignore[call-overload]
        if isinstance(atom, Value):
            slot = self.env[atom]
            size = element_bytes(atom.type)
            if size != 8:
                slot = self.pure(f"widen.{size}", 8, (slot,), (slot,))
            return slot, 0
        assert isinstance(atom, FloorDiv | Mod)
        slot, number = self.uniform(atom.index)
        divisor, quotient = atom.divisor, isinstance(atom, FloorDiv)
        if slot is None:
            return None, number // divisor if quotient else number % divisor
        name, operand = _division(divisor, quotient)
        return self.pure(f"index_{name}", 8, (slot, number, operand), (slot,), 8), 0

    def uniform_slot(self, index: Index) -> int:
        """The slot of an index that is the same in all lanes."""
        return self.sum_slot(*self.uniform(index))

    def sum_slot(self, slot: int | None, number: int) -> int:
        """The slot of a sum of a slot and a number."""
        if slot is None:
            return self.number(number)
        return self.pure("index1", 8, (number, slot, 1), (slot,)) if number else slot

    def lanes_of_index(self, index: Index, element: str) -> int:
        """The slot of the index in every lane, as a vector of `element`, which is i32 or i64."""
        same: dict[Atom, int] = {}
        others: list[tuple[object, int]] = []
        along = 0
        for atom, c in index.terms.items():
            if atom is self.vector_var:
                along = c
                same[atom] = c  # that of the first lane
            elif self.atom_varies(atom):
                others.append((atom, c))
            else:
                same[atom] = c
        slot, number = self.uniform(Index(same, index.constant))
        size = value_bytes(_ELEMENTS[element], self.lanes)
        count = chunks(self.lanes, _AT_ONCE[element])
        total = None
        if along or not others:
            total = self._along(element, slot, number, along)
        elif slot is not None or number:
            total = self._along(element, slot, number, 0)
        for atom, c in others:
            vector = self._lane_atom(atom, element)
            if total is None and c == 1:
                total = vector
                continue
            if total is None:
                words, uses = (vector, c, count), (vector,)
                total = self.pure(f"lanes_times.{element}", size, words, uses, count)
                continue
            total = self.pure(
                f"lanes_sum.{element}", size, (total, vector, c, count), (total, vector), count
            )
        assert total is not None
        return total

    def _along(self, element: str, slot: int | None, number: int, along: int) -> int:
        """slot + number + along * lane."""
        slot = self.number(0) if slot is None else slot
        count = chunks(self.lanes, _AT_ONCE[element])
        size = value_bytes(_ELEMENTS[element], self.lanes)
        return self.pure(
            f"lanes_along.{element}", size, (slot, number, along, count), (slot,), count
        )

    def _lane_atom(self, atom: object, element: str) -> int:
        """The slot of a part of an index that differs between lanes."""
        size = value_bytes(_ELEMENTS[element], self.lanes)
        count = chunks(self.lanes, _AT_ONCE[element])
        if isinstance(atom, Value):
            slot = self.env[atom]
            own = element_bytes(atom.type)
            if own == element_bytes(_ELEMENTS[element]):
                return slot
            if own not in (4, 8):
                raise NoThreadedCode(f"an index of {atom.type} in lanes")
            source = P.S32 if own == 4 else P.S64
            name = f"convert.{source.value}.{_ELEMENTS[element].value}.n"
            count = chunks(self.lanes, WIDE_LANES)
            return self.pure(name, size, (slot, count), (slot,), count)
        assert isinstance(atom, FloorDiv | Mod)
        inner = self.lanes_of_index(atom.index, element)
        name, operand = _division(atom.divisor, isinstance(atom, FloorDiv))
        cycles = count * (2 if name in ("shift", "and") else 40)
        words = (inner, operand, count)
        return self.pure(f"lanes_{name}.{element}", size, words, (inner,), cycles)

    def address(self, buffer: Buffer, index: Index, size: int) -> tuple[int, int, int]:
        """Where an element of a buffer is whose index is the same in all lanes (of others, that of
        the first lane): the slot of an address, the slot of an element number, and bytes: so that
        the address is the sum of the first, of `size` bytes times the second, and of the third.
        What does not change in the innermost loop is in the first."""
        pointer = self.pointers[buffer]
        terms, number = self._terms(index)
        depth = len(self._scopes) - 1
        if depth and len(terms) > 1:
            inner = [term for term in terms if self._depth_of.get(term[0], 0) == depth]
            if inner and len(inner) < len(terms):
                outer = self._sum([term for term in terms if term not in inner])
                assert outer is not None
                pointer = self.pure("point", 8, (pointer, outer, size), (pointer, outer))
                terms = inner
        slot = self._sum(terms)
        return pointer, self.number(0) if slot is None else slot, number * size


def _division(divisor: int, quotient: bool) -> tuple[str, int]:
    """The handler of a quotient or remainder of integers that are not negative, and its operand."""
    if divisor & (divisor - 1):
        return ("div" if quotient else "mod"), divisor
    return ("shift", divisor.bit_length() - 1) if quotient else ("and", divisor - 1)
