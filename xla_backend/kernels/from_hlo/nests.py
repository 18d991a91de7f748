"""Loop nests of whole outputs: elementwise roots, reductions (split into blocks when there is too
little to run side by side), prefix sums."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.kernels.builder import real_type
from xla_backend.kernels.from_hlo.attribute_access import attrs
from xla_backend.kernels.from_hlo.elemental import Element, ElementalEmitter, Indices, parts
from xla_backend.kernels.from_hlo.first_extremes import direction_of
from xla_backend.kernels.from_hlo.iteration_space import IterationSpace
from xla_backend.kernels.from_hlo.reductions import Reduction, as_elements
from xla_backend.kernels.index import ZERO, Index, delinearize, linearize
from xla_backend.kernels.ir import Buffer, BufferRole, Combiner, Value

# A full reduction is cut into at most this many blocks, by shape alone: the result must not depend
# on threads.
_MAX_BLOCKS = 64
_BLOCK_ELEMENTS = 16384
_ENOUGH_PARALLEL_OUTPUTS = 16
_VECTOR_ELEMENTS = 64


def pointwise_nest(
    e: ElementalEmitter,
    roots: Sequence[Instruction],
    outputs: Sequence[Buffer],
    dimensions: Sequence[int] | None = None,
    place: Any = None,
    edges: set[int] = frozenset(),  # type: ignore
) -> None:
    """One nest that stores an element of each root per iteration. All roots have the same
    dimensions.

    `place(index)` gives the linear index to store at; by default the row-major one. `edges`:
    trailing sizes at which loops must not be merged.
    """
    dims = roots[0].shape.dimensions if dimensions is None else dimensions
    if 0 in dims:
        return
    space = IterationSpace(dims, roots, e.leaves, edges)
    linear, index = _open_over(e, space.groups, dims)
    if len(linear.terms) == 1:
        # (Of several loops, their order in sums would be another one than usual.)
        e.know(index, tuple(dims), linear)
    at = linear if place is None else place(index)
    elements = [e.value(root, index) for root in roots]
    for element, output in zip(elements, outputs):
        e.store(output, at, element)
    close_loops(e, len(space.groups))


def row_edges(sizes: Sequence[int], full: Sequence[int]) -> set[int]:
    """Trailing sizes at which walking through a part of an array is not walking through the
    whole."""
    edges = set()
    size = 1
    for part, whole in zip(reversed(sizes), reversed(full)):
        size *= part
        if part != whole:
            edges.add(size)
    return edges


def open_loops(e: ElementalEmitter, extents: Sequence[int]) -> Index:
    """Independent loops over a row-major space, the last one vectorisable; returns the linear
    index."""
    return _open(e, extents)[0]


def _open(e: ElementalEmitter, extents: Sequence[int]) -> tuple[Index, list[Index]]:
    linear, variables = ZERO, []
    for n, extent in enumerate(extents):
        last = n == len(extents) - 1
        var, _ = e.builder.open_loop(extent, independent=True, may_vectorize=last)
        linear = linear * extent + var if n else var
        variables.append(var)
    return linear, variables


def _open_over(
    e: ElementalEmitter, extents: Sequence[int], dims: Sequence[int]
) -> tuple[Index, Indices]:
    """Loops over all elements of an array; returns the linear index and that of each dimension."""
    linear, variables = _open(e, extents)
    if [d for d in dims if d != 1] != extents:
        return linear, delinearize(linear, dims)
    each = iter(variables)
    return linear, tuple([ZERO if d == 1 else next(each) for d in dims])


def close_loops(e: ElementalEmitter, count: int) -> None:
    for _ in range(count):
        e.builder.close_loop()


class ReductionGroup:
    """Several reductions over the same elements, carried together."""

    def __init__(self, e: ElementalEmitter, nodes: Sequence[Instruction]) -> None:
        self.e = e
        self.nodes = nodes
        self.operands = [n.operands[: len(n.operands) // 2] for n in nodes]
        self.members = [
            Reduction(e, n.called[0], [o.shape.element_type for o in operands], direction_of(n))
            for n, operands in zip(nodes, self.operands)
        ]
        self.reals = [t for m in self.members for t in m.reals]
        self.carried = [t for m in self.members for t in m.carried]

    @property
    def lanes_allowed(self) -> bool:
        return all(m.lanes_allowed for m in self.members)

    def inits(self) -> list[Value]:
        result: list[Value] = []
        for node, member in zip(self.nodes, self.members):
            starts = node.operands[len(node.operands) // 2 :]
            result += member.widen([self.e.value(s, ()) for s in starts])
        return result

    def block_inits(self) -> list[Value]:
        """Neutral starts of partial results; the true initial value where a reduction has no
        neutral element."""
        identities = self.identities()
        return [
            init if identity is None else self.e.builder.constant(t, identity)
            for init, identity, t in zip(self.inits(), identities, self.reals)
        ]

    def identities(self) -> list[Any]:
        return [i for m in self.members for i in m.identities()]

    def elements(self, index: Indices) -> list[Value]:
        result: list[Value] = []
        for member, operands in zip(self.members, self.operands):
            result += member.widen([self.e.value(o, index) for o in operands])
        return result

    def combine(self, lhs: Sequence[Value], rhs: Sequence[Value]) -> list[Value]:
        return self._each(Reduction.combine, lhs, rhs)

    def accumulate(self, carried: Sequence[Value], elements: Sequence[Value]) -> list[Value]:
        """What has been reduced and elements that come after all of that."""
        return self._each(Reduction.accumulate, carried, elements)

    def _each(
        self,
        combine: Callable[[Reduction, Sequence[Value], Sequence[Value]], list[Value]],
        lhs: Sequence[Value],
        rhs: Sequence[Value],
    ) -> list[Value]:
        result: list[Value] = []
        start = 0
        for member in self.members:
            stop = start + len(member.reals)
            result += combine(member, lhs[start:stop], rhs[start:stop])
            start = stop
        return result

    def combiner(self) -> Combiner:
        commutes = all(m.commutes for m in self.members)
        return self.e.builder.combiner(self.reals, self.combine, commutes=commutes)

    def narrow(self, values: Sequence[Value]) -> list[list[Element]]:
        result = []
        start = 0
        for member in self.members:
            stop = start + len(member.reals)
            result.append(member.narrow(values[start:stop]))
            start = stop
        return result


def kept_reduced_edges(dims: Sequence[int], reduced: set[int]) -> set[int]:
    """Trailing sizes between kept and reduced dimensions, where loops must not be merged."""
    edges = set()
    size = 1
    previous: bool | None = None
    for i in range(len(dims) - 1, -1, -1):
        if dims[i] == 1:
            continue
        is_reduced = i in reduced
        if previous is not None and is_reduced != previous:
            edges.add(size)
        previous = is_reduced
        size *= dims[i]
    return edges


def reduced_groups(dims: Sequence[int], reduced: set[int], groups: Sequence[int]) -> list[bool]:
    """Whether each merged loop runs over reduced dimensions."""
    # (trailing size at the outer edge, reduced), inner to outer
    owners: list[tuple[int, bool]] = []
    size = 1
    for i in range(len(dims) - 1, -1, -1):
        if dims[i] != 1:
            size *= dims[i]
            owners.append((size, i in reduced))
    flags = []
    size = 1
    for extent in reversed(groups):
        size *= extent
        flags.append(next(r for edge, r in owners if size <= edge))
    return flags[::-1]


class ReductionNest:
    """The nest of reduce instructions over operands of equal dimensions, with equal reduced
    dimensions."""

    def __init__(
        self,
        e: ElementalEmitter,
        nodes: Sequence[Instruction],
        outputs: Sequence[Sequence[Buffer | None]],
    ) -> None:
        self.e = e
        self.outputs = outputs  # per node, per reduced operand; None: not wanted
        self.group = ReductionGroup(e, nodes)
        first = nodes[0]
        self.dims = first.operands[0].shape.dimensions
        self.reduced = set(attrs(first).dimensions)
        self.kept_dims = [d for i, d in enumerate(self.dims) if i not in self.reduced]

    def emit(self, in_parts: bool) -> None:
        """`in_parts`: few large ones as partial results of blocks."""
        if 0 in self.kept_dims:
            return
        if 0 in self.dims:
            self._emit_initial_values()
            return
        operands = [o for member in self.group.operands for o in member]
        edges = kept_reduced_edges(self.dims, self.reduced)
        space = IterationSpace(self.dims, operands, self.e.leaves, edges)
        flags = reduced_groups(self.dims, self.reduced, space.groups)
        kept = [g for g, r in zip(space.groups, flags) if not r]
        reduced = [g for g, r in zip(space.groups, flags) if r]
        blocks = self._blocks(kept, reduced, kept_minor=not flags or not flags[-1])
        if blocks == 1 or not in_parts:
            self._emit_plain(space.groups, flags)
        else:
            self._emit_blocked(space.groups, flags, blocks)

    def _emit_initial_values(self) -> None:
        linear = open_loops(self.e, [math.prod(self.kept_dims)])
        self._store(self.group.inits(), linear)
        close_loops(self.e, 1)

    def _blocks(self, kept: Sequence[int], reduced: Sequence[int], kept_minor: bool) -> int:
        outputs = math.prod(kept)
        side_by_side = outputs // _VECTOR_ELEMENTS if kept_minor and kept else outputs
        total = outputs * math.prod(reduced)
        if (
            not reduced
            or side_by_side >= _ENOUGH_PARALLEL_OUTPUTS
            or total < 4 * _BLOCK_ELEMENTS
            or not self.group.lanes_allowed
        ):
            return 1
        wanted = min(_MAX_BLOCKS, total // _BLOCK_ELEMENTS, reduced[0])
        for blocks in range(wanted, wanted // 2, -1):
            if reduced[0] % blocks == 0:
                return blocks
        return max(1, wanted)

    def _loops(
        self,
        groups: Sequence[int],
        flags: Sequence[bool],
        inits: Sequence[Value],
        block: tuple[int, Index] | None,
    ) -> tuple[list[Value], Index]:
        """Kept loops, then reduced loops inside; returns the reduced values and the kept linear
        index, with the kept loops still open. `block`: (extent, start) of the outermost reduced
        loop instead of all of it."""
        b = self.e.builder
        strides = [math.prod(groups[i + 1 :]) for i in range(len(groups))]
        kept = [i for i, r in enumerate(flags) if not r]
        along = [i for i, r in enumerate(flags) if r]
        linear = ZERO
        for i in kept:
            var, _ = b.open_loop(groups[i], independent=True, may_vectorize=i == kept[-1])
            linear = linear + var * strides[i]
        carried = list(inits)
        full = linear
        for n, i in enumerate(along):
            extent, start = block if block and n == 0 else (groups[i], ZERO)
            var, carried = b.open_loop(
                extent, inits=carried, may_vectorize=i == along[-1] and self.group.lanes_allowed
            )
            full = full + (var + start) * strides[i]
        elements = self.group.elements(delinearize(full, self.dims))
        result = self.group.accumulate(carried, elements)
        combiner = self.group.combiner()
        identities = self.group.identities()
        for _ in along:
            result = b.close_loop(result, combiner, identities, elements)
            elements = []
        kept_index = [
            x for i, x in enumerate(delinearize(linear, self.dims)) if i not in self.reduced
        ]
        return result, linearize(kept_index, self.kept_dims)

    def _store(self, values: Sequence[Value], linear: Index) -> None:
        for outputs, elements in zip(self.outputs, self.group.narrow(values)):
            for output, element in zip(outputs, elements):
                if output is not None:
                    self.e.store(output, linear, element)

    def _emit_plain(self, groups: Sequence[int], flags: Sequence[bool]) -> None:
        inits = self.group.inits()
        if not any(flags):  # all reduced dimensions have size 1
            linear = open_loops(self.e, groups)
            index = delinearize(linear, self.dims)
            self._store(self.group.combine(inits, self.group.elements(index)), linear)
            close_loops(self.e, len(groups))
            return
        result, at = self._loops(groups, flags, inits, None)
        self._store(result, at)
        close_loops(self.e, flags.count(False))

    def _emit_blocked(self, groups: Sequence[int], flags: Sequence[bool], blocks: int) -> None:
        """Partial results of equal blocks of the outermost reduced loop (and of what is left over),
        then their sum."""
        b = self.e.builder
        axis = flags.index(True)
        chunk = groups[axis] // blocks
        rest = groups[axis] - chunk * blocks
        kept_total = math.prod(self.kept_dims)
        count = blocks + (1 if rest else 0)
        serial = sum(1 for buffer in b.kernel.buffers if buffer.role is BufferRole.SCRATCH)
        types = self.group.carried
        sizes = [count * kept_total * (2 if t.is_complex else 1) for t in types]
        partials = [
            b.buffer(f"partial{i}", real_type(t), size, BufferRole.SCRATCH, i)
            for i, (t, size) in enumerate(zip(types, sizes), serial)
        ]
        starts = self.group.block_inits()
        block, _ = b.open_loop(blocks, independent=True)
        values, at = self._loops(groups, flags, starts, (chunk, block * chunk))
        for partial, element in zip(partials, as_elements(types, values)):
            self.e.store(partial, block * kept_total + at, element)
        close_loops(self.e, flags.count(False) + 1)
        if rest:
            start = Index({}, chunk * blocks)
            values, at = self._loops(groups, flags, starts, (rest, start))
            for partial, element in zip(partials, as_elements(types, values)):
                self.e.store(partial, at + blocks * kept_total, element)
            close_loops(self.e, flags.count(False))
        linear = open_loops(self.e, [kept_total])
        block, carried = b.open_loop(count, inits=self.group.inits())
        place = block * kept_total + linear
        loaded = [self.e.load(p, place, t, mutable=True) for p, t in zip(partials, types)]
        result = b.close_loop(self.group.combine(carried, parts(loaded)))
        self._store(result, linear)
        close_loops(self.e, 1)


def scan_axis(node: Instruction) -> tuple[int, bool] | None:
    """(axis, reverse) if a reduce-window is a prefix (or suffix) reduction along one axis."""
    if node.opcode is not Opcode.REDUCE_WINDOW:
        return None
    dims = node.operands[0].shape.dimensions
    axis: int | None = None
    for d, w in enumerate(attrs(node).window):
        plain = w.stride == 1 and w.base_dilation == 1 and (w.window_dilation == 1 or w.size == 1)
        if not plain:
            return None
        if w.size == 1:
            if w.padding_low or w.padding_high:
                return None
            continue
        if axis is not None or w.size != dims[d] or w.padding_low + w.padding_high != w.size - 1:
            return None
        if w.padding_low and w.padding_high:
            return None
        axis = d
    if axis is None:
        return None
    reverse = attrs(node).window[axis].padding_high != 0
    return axis, reverse


def scan_nest(
    e: ElementalEmitter,
    node: Instruction,
    outputs: Sequence[Buffer | None],
    axis: int,
    reverse: bool,
) -> None:
    """Prefix reduction: a loop along `axis` that stores what it has carried so far."""
    b = e.builder
    count = len(node.operands) // 2
    operands, starts = node.operands[:count], node.operands[count:]
    dims = operands[0].shape.dimensions
    if 0 in dims:
        return
    reduction = Reduction(e, node.called[0], [o.shape.element_type for o in operands])
    inner = math.prod(dims[axis + 1 :])
    outer = math.prod(dims[:axis])
    inits = reduction.widen([e.value(s, ()) for s in starts])
    i, _ = b.open_loop(outer, independent=True, may_vectorize=inner == 1)
    j, _ = b.open_loop(inner, independent=True, may_vectorize=inner > 1)
    k, carried = b.open_loop(dims[axis], inits=inits)
    position = Index({}, dims[axis] - 1) - k if reverse else k
    linear = (i * dims[axis] + position) * inner + j
    index = delinearize(linear, dims)
    here = reduction.widen([e.value(o, index) for o in operands])
    # From the end, what is carried stands behind the others.
    turned = reverse and not reduction.commutes
    values = reduction.combine(*((here, carried) if turned else (carried, here)))
    for output, element in zip(outputs, reduction.narrow(values)):
        if output is not None:
            e.store(output, linear, element)
    b.close_loop(values)
    close_loops(e, 2)
