"""Loops whose carries would be copied in every iteration run two iterations at a time."""

from __future__ import annotations

from xla_backend.hlo.cost_analysis import known_trip_count
from xla_backend.hlo.instruction import Computation, Instruction, clone_instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.passes.base import HloPass
from xla_backend.passes.buffer_values import ConflictKind, conflicts_of, invariant_carries
from xla_backend.passes.scheduler import schedule
from xla_backend.passes.while_iterations import WITH_BODIES, iterate
from xla_backend.passes.while_trip_count import set_trip_count

# Smaller carries stay in the first level of cache, where a copy costs next to nothing.
_MIN_COPY_BYTES = 2048
_MAX_BODY = 256  # instructions of a body that is worth having twice


class WhileDoubleBuffering(HloPass):
    """A body that computes a carry from its old value elsewhere, or swaps carries, is unrolled by
    two.

    Why: a carry has one place in memory, so the new value of `u = f(u)` (f a stencil or a matrix
    product) and the rotation of `(u, v) = (f(u, v), u)` are copied back each time; over two
    iterations the values return to where they started and no copy is left.
    Needs: a schedule, trip counts annotated (an odd count peels one iteration off first).
    Leaves: each loop it unrolls with fewer copied bytes per iteration; others as they were.
    """

    name = "while-double-buffering"
    opcodes = frozenset({Opcode.WHILE})

    def run(self, module: HloModule) -> bool:
        invariant: dict[Computation, set[int]] = {}
        loops = [
            node
            for computation in module.computations
            for node in computation.instructions
            if node.opcode is Opcode.WHILE and _is_candidate(node, invariant)
        ]
        if not loops:
            return False
        # Inner loops first: a body is copied as it is in the end.
        levels: dict[int, list[Instruction]] = {}
        nesting = _Nesting(set(loops))
        for loop in loops:
            levels.setdefault(nesting.inside(loop.called[1]), []).append(loop)
        changed = False
        for level in sorted(levels):
            changed |= _double(module, levels[level], _copied_bytes(module))
        return changed


class _Nesting:
    """How deep some loops are nested."""

    def __init__(self, loops: set[Instruction]) -> None:
        self._loops = loops
        self._known: dict[Computation, int] = {}

    def inside(self, body: Computation) -> int:
        """How many of the loops are inside one another in a computation, at most."""
        found = self._known.get(body)
        if found is None:
            found = 0
            for node in body.instructions:
                if node.opcode in WITH_BODIES:
                    inner = max(self.inside(c) for c in node.called)
                    found = max(found, inner + (node in self._loops))
            self._known[body] = found
        return found


def _double(module: HloModule, loops: list[Instruction], before: dict[Instruction, int]) -> bool:
    """Unroll those of the loops, none inside another, that have copies to lose: `before` says how
    many bytes each copies."""
    doubled: dict[Instruction, Computation] = {}
    for loop in loops:
        if loop in before:
            doubled[loop] = loop.called[1]
            loop.called[1] = _twice(module, loop.called[1])
    if not doubled:
        return False
    after = _copied_bytes(module)
    changed = False
    for loop, body in doubled.items():
        if after.get(loop, 0) < 2 * before[loop]:
            _halve_trips(module, loop, body)
            changed = True
        else:
            loop.called[1] = body
    module.remove_unreachable()
    return changed


def _is_candidate(loop: Instruction, known: dict[Computation, set[int]]) -> bool:
    """`known`: see `invariant_carries`."""
    body = loop.called[1]
    trips = known_trip_count(loop)
    if trips is None or trips < 2 or len(body) > _MAX_BODY:
        return False
    root, initial = body.root, loop.operands[0]
    assert root is not None
    if root.opcode is not Opcode.TUPLE or initial.opcode is not Opcode.TUPLE:
        return False
    if any(s.is_tuple for s in loop.shape.tuple_shapes):
        return False
    if any(u.opcode is not Opcode.GET_TUPLE_ELEMENT for u in body.parameters[0].users):
        return False
    invariant = invariant_carries(body, known)
    return any(
        i not in invariant and shape.is_array and shape.byte_size >= _MIN_COPY_BYTES
        for i, shape in enumerate(loop.shape.tuple_shapes)
    )


def _copied_bytes(module: HloModule) -> dict[Instruction, int]:
    """Bytes of carries that each loop's body would have to copy, small ones left out."""
    copied: dict[Instruction, int] = {}
    for conflict in conflicts_of(module):
        loop = conflict.instruction
        if conflict.kind is ConflictKind.WHILE_BODY and loop is not None:
            size = loop.shape.flatten()[conflict.leaf].byte_size
            if size >= _MIN_COPY_BYTES:
                copied[loop] = copied.get(loop, 0) + size
    return copied


def _twice(module: HloModule, body: Computation) -> Computation:
    """A body that does the work of two iterations."""
    new = Computation(body.name)
    old_parameter = body.parameters[0]
    parameter = new.add(clone_instruction(old_parameter, []))
    start: dict[int, Instruction] = {}
    for node in old_parameter.users:
        if node.tuple_index not in start:
            start[node.tuple_index] = new.add(clone_instruction(node, [parameter]))
    middle = iterate(module, new, body, start)
    end = iterate(module, new, body, dict(enumerate(middle)))
    root = body.root
    assert root is not None
    new.root = new.add(clone_instruction(root, end))
    new.reorder(schedule(new))
    return module.add_computation(new)


def _halve_trips(module: HloModule, loop: Instruction, body: Computation) -> None:
    """Count pairs of iterations; one that is left over runs before the loop."""
    trips = known_trip_count(loop)
    computation = loop.parent
    assert trips is not None and computation is not None
    if trips % 2:
        initial = loop.operands[0]
        values = iterate(module, computation, body, dict(enumerate(initial.operands)))
        first = Instruction(
            Opcode.TUPLE, Shape.tuple([v.shape for v in values]), values, metadata=loop.metadata
        )
        computation.replace_operand(loop, 0, computation.add(first))
        computation.remove_if_dead(initial)
        computation.reorder(schedule(computation))
    set_trip_count(loop, trips // 2)
