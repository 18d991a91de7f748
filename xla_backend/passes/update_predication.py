"""A select between an array and updates of it becomes updates that happen where the predicate
holds."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from xla_backend.hlo.attributes import DynamicSliceAttributes
from xla_backend.hlo.instruction import Computation, Instruction, clone_instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType
from xla_backend.passes.base import HloPass, topological_order
from xla_backend.passes.emit import Emit
from xla_backend.passes.lanes import Dims, Lanes, confined, mask_of, scatter_lanes
from xla_backend.passes.loop_lanes import (
    LoopPlan,
    carried,
    elements,
    gate,
    loop_of,
    plan_loop,
    set_start,
)
from xla_backend.passes.patterns import depend_on_any

_MAX_UPDATES = 64


class UpdatePredication(HloPass):
    """select(p, update(x), x) -> an update of x that leaves things as they are where p is false.

    Why: a loop whose lanes stop one by one selects between the new and the old state in every
    step, and so does a vectorized `cond`: where a step changes a few elements of an array, the
    select, and the copy without which the old array would be gone, walk through all of it.
    An update of a slice writes select(p, u, x[i]); a scatter sends its dead lanes out of bounds,
    where nothing is written. Both branches may be updates: those of one go where p holds, then
    those of the other where it does not. Steps in between may read the array: dead lanes of what
    they compute change, which must not show (`lanes.confined`).
    Needs: nothing.
    Leaves: no select between two arrays of which one results from updates of the other, or both
    from updates of a third, that write at most half of it, where p is uniform along what the
    updates mix.
    """

    name = "update-predication"
    opcodes = frozenset({Opcode.SELECT})
    module_opcodes = frozenset({Opcode.DYNAMIC_UPDATE_SLICE, Opcode.SCATTER, Opcode.WHILE})

    def run(self, module: HloModule) -> bool:
        """Callers first: a loop inside shows by its selects which lanes it leaves alone."""
        changed = False
        for computation in reversed(list(module.computations)):
            changed |= self.run_on_computation(computation)
        return changed

    def run_on_computation(self, computation: Computation) -> bool:
        changed = False
        for node in topological_order(computation):
            if node.opcode is not Opcode.SELECT or not (node.users or node.is_root):
                continue
            if node.parent is not computation or not self.may_rewrite():
                continue
            found = _predicated(node)
            if found is not None:
                computation.replace(node, found)
                self.rewritten()
                changed = True
        return changed


def _predicated(node: Instruction) -> Instruction | None:
    chains = _chains(node)
    if chains is None:
        return None
    base, when_true, when_false = chains
    predicate, dims = mask_of(node)
    plans: dict[Instruction, LoopPlan] = {}
    for update in (*when_true, *when_false):
        if _is_update(update):
            if not _maskable(update, dims):
                return None
            continue
        plan = plan_loop(update, dims, _updates_in_step(update, dims))
        if plan is None:
            return None
        plans[update] = plan
    if len({plan.loop for plan in plans.values()}) < len(plans):
        return None
    # A loop is given the predicate, and each update what happened before it: neither may come
    # from its result, not even in lanes that do not show.
    loops = {plan.loop for plan in plans.values()}
    later = {*when_false, *(plans[update].loop for update in when_false if update in plans)}
    if depend_on_any([predicate], loops) or depend_on_any(when_true, later):
        return None
    sides = ((Lanes(predicate), when_true), (Lanes(predicate, False), when_false))
    # What happens second starts with what happened first, which so must not depend on it.
    if not _confined(when_true, dims, plans, sides[0][0], never=()):
        return None
    if not _confined(when_false, dims, plans, sides[1][0], never=when_true):
        return None
    return _rebuilt(node, base, sides, plans)


def _confined(
    chain: list[Instruction],
    dims: Dims,
    plans: dict[Instruction, LoopPlan],
    lanes: Lanes,
    never: Sequence[Instruction],
) -> bool:
    starts: list[tuple[Instruction, Dims]] = []
    entries: dict[Instruction, dict[int, Dims]] = {}
    for update in chain:
        plan = plans.get(update)
        if plan is None:
            starts.append((update, dims))
            continue
        entries[plan.loop.operands[0]] = plan.leaves
        for reader in plan.loop.users:
            if reader.tuple_index in plan.leaves:
                starts.append((reader, plan.leaves[reader.tuple_index]))
    return confined(starts, lanes, entries=entries, never=never)


def _rebuilt(
    node: Instruction,
    base: Instruction,
    sides: Sequence[tuple[Lanes, list[Instruction]]],
    plans: dict[Instruction, LoopPlan],
) -> Instruction:
    """The updates again, from `base` on, masked."""
    dims = mask_of(node)[1]
    result = base
    for lanes, chain in sides:
        for update in chain:
            plan = plans.get(update)
            if plan is not None:
                _keep_out(node, plan, result, lanes)
                result = update
                continue
            masked = _masked(node, update, result, lanes, dims)
            assert node.parent is not None
            # Everything that reads the update may read the masked one: dead lanes do not show.
            node.parent.replace_uses(update, masked)
            result = masked
    return result


def _keep_out(select: Instruction, plan: LoopPlan, x: Instruction, lanes: Lanes) -> None:
    """Keep a loop, which starts with `x`, out of dead lanes."""
    b = Emit(select)
    set_start(plan.loop, plan.leaf, x)
    if plan.flag is not None:
        gate(b, plan, lanes)
        return
    body = plan.loop.called[1]
    predicate = carried(plan.loop, lanes.predicate)
    assert body.root is not None
    new, (old, *_) = body.root.operands[plan.leaf], elements(body)[plan.leaf]
    inner = Emit(new)
    mask = inner.broadcast(predicate, new.shape.dimensions, plan.leaves[plan.leaf])
    branches = (new, old) if lanes.value else (old, new)
    chosen = inner.add(Opcode.SELECT, (mask, *branches), shape=new.shape)
    sides = [(Lanes(predicate, lanes.value), list(plan.updates))]
    result = _rebuilt(chosen, old, sides, {})
    body.remove_if_dead(chosen)
    body.replace_operand(body.root, plan.leaf, result)


def _updates_in_step(element: Instruction, dims: Dims) -> list[Instruction] | None:
    """The updates that lead through a step of a loop to an element of its state."""
    loop = loop_of(element)
    if loop is None:
        return None
    body = loop.called[1]
    assert body.root is not None
    number = element.tuple_index
    *updates, start = _walk(body.root.operands[number])
    if start not in elements(body).get(number, ()) or not updates:
        return None
    if not all(_is_update(u) and _maskable(u, dims) for u in updates):
        return None
    if 2 * sum(map(_written, updates)) > element.shape.num_elements:
        return None
    return updates[::-1]


def _chains(node: Instruction) -> tuple[Instruction, list[Instruction], list[Instruction]] | None:
    """(x, updates that lead from x to the first branch, to the second), in the order in which
    they happen; None where there is no such x, or much of it is updated."""
    on_true, on_false = node.operands[1:]
    if on_true is on_false or not node.shape.is_array:
        return None
    first, second = _walk(on_true), _walk(on_false)
    common = next((x for x in second if x in first), None)
    if common is None:
        return None
    when_true = first[: first.index(common)][::-1]
    when_false = second[: second.index(common)][::-1]
    both = (*when_true, *when_false)
    written = sum(_written(update) for update in both if _is_update(update))
    if 2 * written > node.shape.num_elements:
        return None
    return common, when_true, when_false


def _walk(node: Instruction) -> list[Instruction]:
    """The array, what it is an update of, and so on; a loop updates an element of its state."""
    result = [node]
    while len(result) <= _MAX_UPDATES:
        loop = loop_of(node)
        if loop is not None:
            node = loop.operands[0].operands[node.tuple_index]
        elif _is_update(node):
            node = node.operands[0]
        else:
            break
        result.append(node)
    return result


def _is_update(node: Instruction) -> bool:
    if node.opcode is Opcode.SCATTER:
        return len(node.operands) == 3
    return node.opcode is Opcode.DYNAMIC_UPDATE_SLICE


def _written(update: Instruction) -> int:
    part = update.operands[1 if update.opcode is Opcode.DYNAMIC_UPDATE_SLICE else 2]
    return part.shape.num_elements


def _maskable(update: Instruction, dims: Dims) -> bool:
    if update.opcode is Opcode.DYNAMIC_UPDATE_SLICE:
        return True
    return scatter_lanes(update, dims) is not None and _outside(update) is not None


def _masked(
    select: Instruction, update: Instruction, x: Instruction, lanes: Lanes, dims: Dims
) -> Instruction:
    """The update, of `x`, in the lanes that are alive."""
    b = Emit(select)
    if update.opcode is Opcode.DYNAMIC_UPDATE_SLICE:
        _, new, *starts = update.operands
        window = new.shape.dimensions
        mask = _window_of_mask(b, select, window, starts, lanes, dims)
        attributes = DynamicSliceAttributes(window)
        old = b.add(Opcode.DYNAMIC_SLICE, (x, *starts), attributes, shape=new.shape)
        operands = [x, _choose(b, lanes, mask, new, old), *starts]
    else:
        _, indices, new = update.operands
        in_indices = scatter_lanes(update, dims)
        outside = _outside(update)
        assert in_indices is not None and outside is not None
        mask = b.broadcast(lanes.predicate, indices.shape.dimensions, in_indices[0])
        nowhere = b.splat(indices.shape, outside)
        operands = [x, _choose(b, lanes, mask, indices, nowhere), new]
    masked = clone_instruction(update, operands)
    assert update.parent is not None
    return update.parent.add(masked)


def _choose(
    b: Emit, lanes: Lanes, mask: Instruction, alive: Instruction, dead: Instruction
) -> Instruction:
    branches = (alive, dead) if lanes.value else (dead, alive)
    return b.add(Opcode.SELECT, (mask, *branches), shape=alive.shape)


def _window_of_mask(
    b: Emit,
    select: Instruction,
    window: Dims,
    starts: list[Instruction],
    lanes: Lanes,
    dims: Dims,
) -> Instruction:
    """The part of a select's mask that belongs to a window of its result."""
    full = select.shape.dimensions
    if all(window[d] == full[d] for d in dims):
        return b.broadcast(lanes.predicate, window, dims) if window else lanes.predicate
    mask = select.operands[0]
    shape = mask.shape.with_dimensions(window)
    return b.add(Opcode.DYNAMIC_SLICE, (mask, *starts), DynamicSliceAttributes(window), shape=shape)


def _outside(scatter: Instruction) -> int | None:
    """An index at which a scatter drops its window, whatever the others are: below zero, or
    beyond the end if indices have no sign; None where there is none."""
    indices = scatter.operands[1].shape
    a = scatter.attributes
    targets = a.scatter_dims_to_operand_dims  # type: ignore[attr-defined]
    if not targets or not prod(indices.dimensions):
        return None
    if indices.element_type.is_signed_integral:
        return -1
    if not indices.element_type.is_unsigned_integral or indices.element_type is PrimitiveType.PRED:
        return None
    largest = int(np.iinfo(indices.element_type.numpy_dtype).max)
    dimensions = scatter.shape.dimensions
    return largest if any(largest >= dimensions[d] for d in targets) else None
