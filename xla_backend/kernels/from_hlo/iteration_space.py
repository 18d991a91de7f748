"""Which dimensions of a loop nest may be one loop.

Adjacent dimensions of the root are merged when everything the fusion reads walks through them as
through one dimension; a dimension that a reshape splits is split first. Merging is only about
speed: index expressions stay right for any choice, they just keep a division where the choice was
poor.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from itertools import pairwise

from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.kernels.from_hlo.attribute_access import attrs

_SAME_ELEMENTS = frozenset({Opcode.RESHAPE, Opcode.BITCAST})


def refine(dimensions: Sequence[int], boundaries: set[int]) -> list[int]:
    """Split `dimensions` at all `boundaries` (sizes of trailing parts) if they fit together; else
    unchanged."""
    if not boundaries:
        return [d for d in dimensions if d != 1]
    own = {1}
    size = 1
    for d in reversed(dimensions):
        size *= d
        own.add(size)
    merged = sorted(own | {b for b in boundaries if size % b == 0})
    for low, high in pairwise(merged):
        if high % low:
            merged = sorted(own)
            break
    return [high // low for low, high in pairwise(merged)][::-1]


def _boundaries(dimensions: Sequence[int]) -> set[int]:
    result = {1}
    size = 1
    for d in reversed(dimensions):
        size *= d
        result.add(size)
    return result


class IterationSpace:
    """Merged loop extents for `root_dimensions`, given what the roots read.

    `fixed_split`: trailing sizes at which loops must not be merged (between kept and reduced
    dimensions).
    """

    def __init__(
        self,
        root_dimensions: Sequence[int],
        roots: Sequence[Instruction],
        leaves: Container[Instruction],
        fixed_split: set[int] = frozenset(),  # type: ignore[assignment]
    ) -> None:
        self._leaves = leaves
        boundaries: set[int] = set()
        plain = self._collect_boundaries(roots, boundaries)
        self.dimensions = refine(root_dimensions, boundaries)
        n = len(self.dimensions)
        self._broken = [False] * max(0, n - 1)  # between refined dimension i and i + 1
        trailing = 1
        for i in range(n - 1, 0, -1):
            trailing *= self.dimensions[i]
            if trailing in fixed_split:
                self._broken[i - 1] = True
        rank = len(root_dimensions)
        if n > 1 and not (plain and all(len(r.shape.dimensions) == rank for r in roots)):
            self._visit_all(roots, tuple(root_dimensions))
        self.groups = self._merge()

    def _merge(self) -> list[int]:
        groups: list[int] = []
        for i, d in enumerate(self.dimensions):
            if i and not self._broken[i - 1]:
                groups[-1] *= d
            else:
                groups.append(d)
        return groups

    def _collect_boundaries(self, roots: Sequence[Instruction], out: set[int]) -> bool:
        """Put the boundaries of what the roots read to `out`. Whether all of it is read in the
        order of the roots."""
        plain = True
        seen: set[Instruction] = set()
        stack = list(roots)
        while stack:
            node = stack.pop()
            if node in seen or node in self._leaves:
                continue
            seen.add(node)
            opcode = node.opcode
            if opcode.is_elementwise:
                stack.extend(node.operands)
                plain = plain and opcode is not Opcode.BITCAST_CONVERT
                continue
            plain = plain and opcode is Opcode.CONSTANT
            if opcode in _SAME_ELEMENTS:
                out |= _boundaries(node.operands[0].shape.dimensions)
                stack.append(node.operands[0])
        return plain

    def _split(self, dimensions: Sequence[int]) -> list[tuple[int, ...]] | None:
        """Refined dimensions that make up each of `dimensions`, for an array with all elements of
        the space."""
        result: list[tuple[int, ...]] = []
        position = len(self.dimensions)
        for d in reversed(dimensions):
            part: list[int] = []
            size = 1
            while size < d and position > 0:
                position -= 1
                size *= self.dimensions[position]
                part.append(position)
            if size != d:
                return None
            result.append(tuple(reversed(part)))
        return result[::-1]

    def _visit_all(self, roots: Sequence[Instruction], root_dimensions: tuple[int, ...]) -> None:
        mapping = self._split(root_dimensions)
        assert mapping is not None
        seen: set[tuple[Instruction, tuple]] = set()
        stack: list[tuple[Instruction, tuple[tuple[int, ...] | None, ...]]] = [
            (root, tuple(mapping)) for root in roots
        ]
        while stack:
            node, m = stack.pop()
            if (node, m) in seen:
                continue
            seen.add((node, m))
            stack.extend(self._operands(node, m))

    def _break(self, parts: Sequence[tuple[int, ...] | None]) -> None:
        for part in parts:
            for r in part or ():
                if r:
                    self._broken[r - 1] = True
                if r < len(self._broken):
                    self._broken[r] = True

    def _keep_adjacent(self, parts: Sequence[tuple[int, ...] | None]) -> None:
        """An array read with these refined dimensions: break where it does not walk linearly."""
        order = [r for part in parts if part is not None for r in part]
        follows = dict(pairwise(order))
        present = set(order)
        for i in range(len(self._broken)):
            if (i in present or i + 1 in present) and follows.get(i) != i + 1:
                self._broken[i] = True
        # A dimension read through something unknown (None) between two known ones separates them.
        previous: int | None = None
        gap = False
        for part in parts:
            if part is None:
                gap = True
            elif part:
                if gap and previous is not None and previous + 1 == part[0]:
                    self._broken[previous] = True
                previous = part[-1]
                gap = False
        if gap and previous is not None and previous < len(self._broken):
            self._broken[previous] = True

    def _operands(self, node: Instruction, m: tuple) -> list[tuple[Instruction, tuple]]:
        """What is read at which refined dimensions, for an instruction read at `m`."""
        opcode = node.opcode
        if node in self._leaves or opcode is Opcode.CONSTANT:
            if node.shape.num_elements > 1:
                self._keep_adjacent(m)
            return []
        if opcode.is_elementwise:
            return [(o, m if o.shape.rank == len(m) else ()) for o in node.operands]
        if opcode is Opcode.BROADCAST:
            return [(node.operands[0], tuple(m[d] for d in attrs(node).dimensions))]
        if opcode is Opcode.TRANSPOSE:
            source: list = [()] * len(m)
            for i, d in enumerate(attrs(node).dimensions):
                source[d] = m[i]
            return [(node.operands[0], tuple(source))]
        if opcode in _SAME_ELEMENTS:
            regrouped = self._regroup(m, node)
            if regrouped is not None:
                return [(node.operands[0], regrouped)]
        elif opcode is Opcode.IOTA:
            self._break([m[attrs(node).dimension]])
            return []
        elif opcode is Opcode.SLICE:
            return [(node.operands[0], self._narrowed(node, m))]
        elif opcode is Opcode.DYNAMIC_SLICE:
            return [
                (node.operands[0], self._narrowed(node, m)),
                *((o, ()) for o in node.operands[1:]),
            ]
        self._break(m)
        return []

    def _narrowed(self, node: Instruction, m: tuple) -> tuple:
        """A slice keeps whole dimensions and unit ones; a dimension it narrows starts a new
        walk."""
        sizes = node.operands[0].shape.dimensions
        for i, (size, part) in enumerate(zip(sizes, m)):
            if node.shape.dimensions[i] != size and part:
                # Inside a narrowed dimension the walk is linear only up to its outer edge.
                if part[0]:
                    self._broken[part[0] - 1] = True
                if node.opcode is Opcode.SLICE and attrs(node).strides[i] != 1:
                    self._break([part])
        return m

    def _regroup(self, m: tuple, node: Instruction) -> tuple | None:
        flat: list[tuple[int, int]] = []  # (refined dimension, extent)
        for part, size in zip(m, node.shape.dimensions):
            if part is None:
                return None
            extent = 1
            for r in part:
                extent *= self.dimensions[r]
            if extent != size:
                return None
            flat.extend((r, self.dimensions[r]) for r in part)
        result: list[tuple[int, ...]] = []
        position = 0
        for size in node.operands[0].shape.dimensions:
            part_list: list[int] = []
            extent = 1
            while extent < size and position < len(flat):
                part_list.append(flat[position][0])
                extent *= flat[position][1]
                position += 1
            if extent != size:
                return None
            result.append(tuple(part_list))
        return tuple(result)
