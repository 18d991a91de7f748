"""The nest of a fusion that reduces rows and uses the results for the elements of the same rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xla_backend.hlo.instruction import Instruction
from xla_backend.kernels.from_hlo.elemental import Element, ElementalEmitter, Indices
from xla_backend.kernels.from_hlo.iteration_space import IterationSpace
from xla_backend.kernels.from_hlo.nests import ReductionGroup, kept_reduced_edges, reduced_groups
from xla_backend.kernels.index import ZERO, Index, delinearize, linearize
from xla_backend.kernels.ir import Buffer, BufferRole, Combiner, Value
from xla_backend.passes.fusion_records import RowPlan


class RowNest:
    """Loops over the rows; inside, one loop over the elements of the row for each step of the plan.

    What a step keeps for a later one goes into local buffers: memory of the thread, overwritten by
    the next row.
    """

    def __init__(
        self,
        e: ElementalEmitter,
        plan: RowPlan,
        roots: Sequence[Instruction],
        outputs: Sequence[Buffer],
    ) -> None:
        self.e = e
        self.plan = plan
        self.outputs: dict[Instruction, list[Buffer]] = {}
        for root, output in zip(roots, outputs):
            self.outputs.setdefault(root, []).append(output)
        self.dims = plan.space.dimensions
        self.reduced = set(plan.space.reduced)
        edges = kept_reduced_edges(self.dims, self.reduced)
        reduces = [n for group in plan.reduces for n in group]
        walked = [n.operands[0] for n in reduces]
        walked += [r for r in self.outputs if r.shape.dimensions == self.dims]
        leaves = {*e.leaves, *reduces}
        self.groups = IterationSpace(self.dims, walked, leaves, edges).groups
        self.flags = reduced_groups(self.dims, self.reduced, self.groups)
        self.strides = _strides(self.groups)
        self.local: dict[Instruction, Buffer] = {}

    def emit(self) -> None:
        kept = self._open_rows()
        for step in range(self.plan.loops):
            self._step(step, kept)
        row = [x for i, x in enumerate(delinearize(kept, self.dims)) if i not in self.reduced]
        at = linearize(row, [d for i, d in enumerate(self.dims) if i not in self.reduced])
        for root in self.plan.row_roots:
            element = self.e.value(root, delinearize(at, root.shape.dimensions))
            for output in self.outputs[root]:
                self.e.store(output, at, element)
        for _ in range(max(1, self.flags.count(False))):
            self.e.builder.close_loop()
        for node in self.local:
            del self.e.provided[node]  # the nest and its emitter would hold each other

    def _open_rows(self) -> Index:
        """The loops over rows. Lanes may hold rows unless elements are kept for one row only."""
        b = self.e.builder
        kept = [i for i, reduced in enumerate(self.flags) if not reduced]
        if not kept:
            b.open_loop(1, independent=True)  # the steps of a single row belong together, too
            return ZERO
        lanes = kept[-1] == len(self.flags) - 1 or not any(self.plan.keeps)
        at = ZERO
        for i in kept:
            last = i == kept[-1]
            var, _ = b.open_loop(self.groups[i], independent=True, may_vectorize=last and lanes)
            at = at + var * self.strides[i]
        return at

    def _step(self, step: int, kept: Index) -> None:
        """One walk over the elements of a row: reduce, keep, store."""
        b, plan = self.e.builder, self.plan
        group = ReductionGroup(self.e, plan.reduces[step])
        lanes = group.lanes_allowed
        along = [i for i, reduced in enumerate(self.flags) if reduced]
        carried = group.inits()
        at = kept
        for i in along:
            var, carried = b.open_loop(
                self.groups[i],
                inits=carried,
                independent=not carried,
                may_vectorize=i == along[-1] and lanes,
            )
            at = at + var * self.strides[i]
        index = delinearize(at, self.dims)
        elements = group.elements(index)
        results = group.accumulate(carried, elements)
        stores = [
            (output, self.e.value(root, delinearize(at, root.shape.dimensions)))
            for root in plan.stores[step]
            for output in self.outputs[root]
        ]
        for node in plan.keeps[step]:
            self._keep(node, at)
        for output, element in stores:
            self.e.store(output, at, element)
        self._close(len(along), group, results, elements)
        for node in plan.keeps[step]:
            self.e.provided[node] = self._kept_element

    def _close(
        self, count: int, group: ReductionGroup, results: list[Value], elements: list[Value]
    ) -> None:
        b = self.e.builder
        combiner: Combiner | None = group.combiner() if group.nodes else None
        identities = group.identities()
        for _ in range(count):
            results = b.close_loop(results, combiner, identities, elements)
            elements = []
        for node, values in zip(group.nodes, group.narrow(results)):
            self.e.provided[node] = _given(values[0])

    def _keep(self, node: Instruction, at: Index) -> None:
        b = self.e.builder
        buffer = self.local.get(node)
        if buffer is None:
            type = node.shape.element_type
            number = sum(1 for x in b.kernel.buffers if x.role is BufferRole.LOCAL)
            buffer = b.buffer(f"row{number}", type, self.plan.space.plane, BufferRole.LOCAL, number)
            self.local[node] = buffer
        element = self.e.value(node, delinearize(at, node.shape.dimensions))
        self.e.store(buffer, self._place(at), element)

    def _kept_element(self, node: Instruction, index: Sequence[Index]) -> Element:
        at = linearize(index, node.shape.dimensions)
        type = node.shape.element_type
        return self.e.load(self.local[node], self._place(at), type, mutable=True)

    def _place(self, at: Index) -> Index:
        """Position of an element in the local buffers: within the stretch that holds the row."""
        return at % self.plan.space.plane


def _strides(extents: Sequence[int]) -> list[int]:
    strides = [1] * len(extents)
    for i in range(len(extents) - 2, -1, -1):
        strides[i] = strides[i + 1] * extents[i + 1]
    return strides


def _given(element: Element) -> Callable[[Instruction, Indices], Element]:
    return lambda node, index: element
