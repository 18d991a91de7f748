"""Kernels of scatters, which may update one place many times.

Where each place is updated once, or the combination is one that memory does on its own, a thread
takes each element of the updates. Where the last update of a place is to stay, a stage finds out
which that is. Any other combination is applied in the order of the updates: a stable sort brings
those of one place together, and a thread applies them.

Windows are moved as units where they cannot overlap in part: the dimensions that a window covers
whole, or begins at 0 of, are "covered"; the others count places, and their updates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType
from xla_backend.kernels.from_hlo.attribute_access import attrs
from xla_backend.kernels.from_hlo.elemental import Element, parts
from xla_backend.kernels.from_hlo.lower import begin
from xla_backend.kernels.from_hlo.scatters import (
    combine_into,
    combined,
    scatter_dims,
    scatter_operands,
    scatter_target,
    window_sizes,
)
from xla_backend.kernels.index import ZERO, Index, delinearize, linearize
from xla_backend.kernels.ir import Buffer, BufferRole, Kernel, Value
from xla_backend.kernels.library.bitonic_sort import longest
from xla_backend.kernels.library.merge_sort import merge_sort
from xla_backend.kernels.library.orders import by_number
from xla_backend.kernels.library.places import (
    Places,
    both,
    for_each,
    guard_of,
    negated,
    power_of_two,
)
from xla_backend.kernels.library.radix_sort import Column, radix_sort
from xla_backend.kernels.library.rows import Rows

P = PrimitiveType
# What memory does on its own. Of truth values, a sum is whether any is true.
_ATOMIC = {
    op: op
    for op in (
        Opcode.ADD,
        Opcode.MAXIMUM,
        Opcode.MINIMUM,
        Opcode.AND,
        Opcode.OR,
        Opcode.XOR,
    )
}
_ATOMIC_OF_TRUTH = {**_ATOMIC, Opcode.ADD: Opcode.OR, Opcode.MAXIMUM: Opcode.OR,
                    Opcode.MINIMUM: Opcode.AND, Opcode.MULTIPLY: Opcode.AND}  # fmt: skip
_ATOMIC_FLOATS = frozenset({P.F16, P.BF16, P.F32, P.F64, P.C64, P.C128})


def scatter_kernel(name: str, node: Instruction, deterministic: bool) -> Kernel:
    """`out0`, `out1` ...: the operands, updated in place. With `deterministic` the bits of sums of
    floats are the same in each run; without it, they are added in any order.

    Raises:
      UnimplementedError: the combination does more than elementwise operations on scalars.
    """
    return _Scatter(name, node).kernel(deterministic)


class _Scatter:
    def __init__(self, name: str, node: Instruction) -> None:
        self.node = node
        self.e, _, self.outputs = begin(node, name)
        self.b = self.e.builder
        self.operands, _, self.updates = scatter_operands(node)
        for i, operand in enumerate(self.operands):
            self.b.kernel.in_place[i] = node.operands.index(operand)
        self.dims = self.operands[0].shape.dimensions
        self.update_dims = self.updates[0].shape.dimensions
        moved = attrs(node).scatter_dims_to_operand_dims
        windows = window_sizes(node)
        self.covered = {
            d: update
            for d, (update, size) in windows.items()
            if d not in moved or size == self.dims[d]
        }
        uncovered = [update for d, (update, _) in windows.items() if d not in self.covered]
        # The dimensions of the updates that count units, and those of one unit.
        self.unit_dims = [*scatter_dims(node), *uncovered]
        self.inner_dims = list(self.covered.values())
        self.units = math.prod(self.update_dims[d] for d in self.unit_dims)
        self.inner = math.prod(self.update_dims[d] for d in self.inner_dims)
        self.place_dims = [d for d in range(len(self.dims)) if d not in self.covered]
        self.places = math.prod(self.dims[d] for d in self.place_dims)
        self.numbers = Places(self.b, max(self.units, self.places) + 1)

    def kernel(self, deterministic: bool) -> Kernel:
        if 0 in self.update_dims or 0 in self.dims:
            return self.b.kernel
        opcodes = _opcodes(self.node)
        atomic = opcodes is not None and (
            not deterministic or all(map(_any_order, opcodes, self.operands))
        )
        if attrs(self.node).unique_indices or self.units == 1:
            self._once()
        elif opcodes is not None and atomic:
            self._atomically(opcodes)
        elif _assigns(self.node.called[0]):
            self._last_one_stays()
        else:
            self._in_order()
        return self.b.kernel

    def _once(self) -> None:
        """Each place is updated once at most."""
        with for_each(self.b, self.units * self.inner) as number:
            at = delinearize(number, self.update_dims)
            target, inside = scatter_target(self.e, self.node, at)
            if inside is not False:
                guard = guard_of(self.b, inside)
                combine_into(self.e, self.node, self.outputs, at, target, guard)

    def _atomically(self, opcodes: Sequence[Opcode]) -> None:
        b = self.b
        with for_each(b, self.units * self.inner) as number:
            at = delinearize(number, self.update_dims)
            target, inside = scatter_target(self.e, self.node, at)
            guard = guard_of(b, inside)
            linear = linearize(target, self.dims)
            for output, opcode, update in zip(self.outputs, opcodes, self.updates):
                values = parts(self.e.value(update, at))
                for i, value in enumerate(values):
                    b.atomic(output, linear * len(values) + i, opcode, value, guard)

    # -- units -------------------------------------------------------------------------------------

    def _at(self, unit: Index, inner: Index) -> tuple[Index, ...]:
        """The element of the updates that is element `inner` of a unit."""
        at: list[Index] = [ZERO] * len(self.update_dims)
        for dims, number in ((self.unit_dims, unit), (self.inner_dims, inner)):
            sizes = [self.update_dims[d] for d in dims]
            for d, place in zip(dims, delinearize(number, sizes)):
                at[d] = place
        return tuple(at)

    def _place_of(self, unit: Index) -> tuple[Index, Value | None]:
        """The number of the place that a unit updates, and where there is one."""
        target, inside = scatter_target(self.e, self.node, self._at(unit, ZERO))
        sizes = [self.dims[d] for d in self.place_dims]
        place = linearize([target[d] for d in self.place_dims], sizes)
        return place, guard_of(self.b, inside)

    def _target(self, place: Index, at: Sequence[Index]) -> Index:
        """Where an element of a unit goes that updates a place."""
        target: list[Index] = [ZERO] * len(self.dims)
        sizes = [self.dims[d] for d in self.place_dims]
        for d, index in zip(self.place_dims, delinearize(place, sizes)):
            target[d] = index
        for d, update in self.covered.items():
            target[d] = at[update]
        return linearize(target, self.dims)

    def _scratch(self, name: str, size: int) -> Buffer:
        return self.b.buffer(name, self.numbers.type, size, BufferRole.SCRATCH)

    # -- assignments -------------------------------------------------------------------------------

    def _last_one_stays(self) -> None:
        b, numbers = self.b, self.numbers
        last = self._scratch("last", self.places)
        with for_each(b, self.places) as place:
            b.store(last, place, (numbers.of(-1),))
        with for_each(b, self.units) as unit:
            place, inside = self._place_of(unit)
            b.atomic(last, place, Opcode.MAXIMUM, numbers.of(unit), inside)
        with for_each(b, self.units * self.inner) as number:
            unit, inner = number // self.inner, number % self.inner
            place, inside = self._place_of(unit)
            stays = numbers.equal(b.load(last, place, inside), numbers.of(unit))
            guard = guard_of(b, inside, stays)
            at = self._at(unit, inner)
            with self.e.guarded(guard):
                new = [self.e.value(u, at) for u in self.updates]
            self._keep(self._target(place, at), combined(self.e, self.node, new, new), guard)

    def _keep(self, at: Index, elements: Sequence[Element], guard: Value | None) -> None:
        for output, element in zip(self.outputs, elements):
            self.e.store(output, at, element, guard)

    # -- anything else -----------------------------------------------------------------------------

    def _in_order(self) -> None:
        b, numbers = self.b, self.numbers
        nowhere = numbers.of(self.places)
        found = self._scratch("place", self.units)
        with for_each(b, self.units) as unit:
            place, inside = self._place_of(unit)
            value = numbers.of(place)
            if inside is not None:
                value = numbers.select(inside, value, nowhere)
            b.store(found, unit, (value,))
        order = self._order(found)
        with for_each(b, self.units * self.inner) as number:
            self._apply_all(found, order, number // self.inner, number % self.inner)

    def _order(self, found: Buffer) -> Buffer:
        """The units in the order of the places that they update."""
        rows = Rows((self.units,), 0)
        order = by_number(self.e, self.numbers.type)
        if self.units <= longest(order):
            return merge_sort(self.e, order, [found], rows)
        width = self.places.bit_length()
        unsigned = P.U32 if width <= 32 else P.U64

        def bits(at: Index, guard: Value | None) -> Value:
            return self.b.compute(Opcode.CONVERT, unsigned, (self.b.load(found, at, guard),))

        return radix_sort(self.b, rows, [Column(bits, width)])

    def _apply_all(self, found: Buffer, order: Buffer, first: Index, inner: Index) -> None:
        """Where the updates in `order` come to a new place: all that are for this place."""
        b, numbers = self.b, self.numbers
        place = self._nth_place(found, order, first, None)
        inside = numbers.less(place, self.places)
        later = b.in_range(first, 1, self.units)
        is_new: Value | bool | None = None
        if later is not False:
            guard = guard_of(b, later)
            same = numbers.equal(self._nth_place(found, order, first - 1, guard), place)
            is_new = negated(b, both(b, same, guard) if guard is not None else same)
        head = guard_of(b, inside, is_new)
        assert head is not None
        end = self._end_of(found, order, first, place, head)
        count = numbers.select(head, numbers.subtract(end, numbers.of(first)), 0)
        # Of threads that do nothing the place may be nowhere.
        where = numbers.index(numbers.smaller(place, self.places - 1), (0, self.places - 1))
        target = self._target(where, self._at(ZERO, inner))
        types = [operand.shape.element_type for operand in self.operands]
        with self.e.guarded(head):
            old = [
                self.e.load(output, target, type, mutable=True)
                for output, type in zip(self.outputs, types)
            ]
        limit = numbers.index(count, (0, self.units))
        turn, carried = b.open_loop(self.units, inits=parts(old), limits=(limit,))
        unit = self._nth(order, first + turn, None)
        at = self._at(unit, inner)
        new = [self.e.value(update, at) for update in self.updates]
        result = combined(self.e, self.node, _elements(types, carried), new)
        self._keep(target, _elements(types, b.close_loop(parts(result))), head)

    def _nth(self, order: Buffer, number: Index, guard: Value | None) -> Index:
        """The unit that is at a place in the order."""
        unit = self.b.load(order, number, guard)
        unit.bounds = (0, self.units - 1)
        return Index.of(unit)

    def _nth_place(self, found: Buffer, order: Buffer, number: Index, guard: Value | None) -> Value:
        return self.b.load(found, self._nth(order, number, guard), guard)

    def _end_of(
        self, found: Buffer, order: Buffer, first: Index, place: Value, head: Value
    ) -> Value:
        """The number of the first update in order, behind `first`, that is for another place."""
        b, numbers = self.b, self.numbers
        low, high = numbers.of(first + 1), numbers.of(self.units)
        steps = power_of_two(self.units).bit_length()
        _, (low, high) = b.open_loop(steps, inits=(low, high))
        searching = both(b, head, numbers.less(low, high))
        half = numbers.down(numbers.add(low, high), 1)
        at = numbers.index(half, (0, self.units - 1))
        same = numbers.equal(self._nth_place(found, order, at, searching), place)
        grows, shrinks = both(b, searching, same), both(b, searching, negated(b, same))
        nexts = (
            numbers.select(grows, numbers.add(half, 1), low),
            numbers.select(shrinks, half, high),
        )
        low, _ = b.close_loop(nexts)
        return low


def _elements(types: Sequence[PrimitiveType], values: Sequence[Value]) -> list[Element]:
    """Values as elements of types, of which complex ones are pairs."""
    result: list[Element] = []
    rest = list(values)
    for type in types:
        if type.is_complex:
            result.append((rest.pop(0), rest.pop(0)))
        else:
            result.append(rest.pop(0))
    return result


def _roots(computation: Computation) -> Sequence[Instruction]:
    root = computation.root
    assert root is not None
    return root.operands if root.opcode is Opcode.TUPLE else [root]


def _assigns(computation: Computation) -> bool:
    """Whether each result is the update."""
    roots = _roots(computation)
    return list(roots) == computation.parameters[len(roots) :]


def _opcodes(node: Instruction) -> list[Opcode] | None:
    """For each operand, the operation that combines it with its update in memory; None if there is
    none."""
    roots = _roots(node.called[0])
    parameters = node.called[0].parameters
    found: list[Opcode] = []
    for i, root in enumerate(roots):
        type = root.shape.element_type
        known = _ATOMIC_OF_TRUTH if type is P.PRED else _ATOMIC
        opcode = known.get(root.opcode)
        if opcode is None or {*root.operands} != {parameters[i], parameters[len(roots) + i]}:
            return None
        if type.is_complex and opcode is not Opcode.ADD:
            return None
        if not (type is P.PRED or type in _ATOMIC_FLOATS or _is_whole(type)):
            return None
        found.append(opcode)
    return found


def _is_whole(type: PrimitiveType) -> bool:
    """Integers of whole bytes."""
    return type.is_integral and type.bits >= 8


def _any_order(opcode: Opcode, operand: Instruction) -> bool:
    """Whether the order of updates makes no difference."""
    type = operand.shape.element_type
    return opcode is not Opcode.ADD or not (type.is_floating or type.is_complex)
