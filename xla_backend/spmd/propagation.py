"""Sharding propagation: from the shardings that are given to one for each value.

Specs only grow: a dimension that is cut along some axes may be cut along more, behind those. What
is given is not changed, except in dimensions that are left open. Each round goes over the program
forwards and backwards; at an instruction every factor takes the longest list of axes that an array
with it has, and the other arrays take them over from there. First it is elementwise operations and
those that rearrange that do so, then the others: how a product is cut should follow from how its
operands are used, not the other way round.

Where arrays disagree about a factor, or want the same axis for two factors, the larger one wins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.spmd.factors import Factors, axes_by_factor, factors_of, spec_of_factors
from xla_backend.spmd.specs import Axes, PrimeMesh, Spec, common_prefix, whole
from xla_backend.spmd.values import ArrayValue, Values

_FIRST = frozenset(
    {Opcode.BROADCAST, Opcode.RESHAPE, Opcode.TRANSPOSE, Opcode.COPY, Opcode.REVERSE}
)


@dataclass
class Given:
    """What is given for a value.

    Fields:
      spec: how it is cut at least.
      open: dimensions that may be cut along more axes.
    """

    spec: Spec
    open: tuple[bool, ...]


def propagate(
    values: Values,
    mesh: PrimeMesh,
    given: Mapping[ArrayValue, Given],
    manual: Mapping[ArrayValue, frozenset[int]],
) -> dict[ArrayValue, Spec]:
    """A spec for each value; along its `manual` axes none is cut."""
    return _Propagation(values, mesh, given, manual).run()


@dataclass
class _Tied:
    """Arrays with common factors: those of an instruction, or a value that becomes another."""

    values: list[ArrayValue]
    mappings: list[tuple[tuple[int, ...], ...]]
    sizes: tuple[int, ...]
    manual: frozenset[int] = frozenset()


@dataclass
class _Propagation:
    values: Values
    mesh: PrimeMesh
    given: Mapping[ArrayValue, Given]
    manual: Mapping[ArrayValue, frozenset[int]]
    specs: dict[ArrayValue, Spec] = field(default_factory=dict)

    def run(self) -> dict[ArrayValue, Spec]:
        for value in self.values.all():
            own = self.given.get(value)
            self.specs[value] = whole(value.shape) if own is None else own.spec
        first, others = self._tied()
        self._settle(first)
        self._settle([*first, *others])
        return self.specs

    def _tied(self) -> tuple[list[_Tied], list[_Tied]]:
        first: list[_Tied] = []
        others = [_same(*link) for link in self.values.links if link[0].shape.is_array]
        for computation in self.values.computations:
            for node in computation.post_order():
                factors = factors_of(node)
                if factors is not None:
                    simple = node.opcode.is_elementwise or node.opcode in _FIRST
                    (first if simple else others).append(self._of_instruction(node, factors))
        return first, others

    def _of_instruction(self, node: Instruction, factors: Factors) -> _Tied:
        arrays = [self.values.of(operand)[0] for operand in node.operands]
        results = self.values.of(node)
        mappings = [*factors.operands, *factors.results]
        manual = manual_of_results(node, results, self.manual)
        return _Tied([*arrays, *results], mappings, factors.sizes, manual)

    def _settle(self, tied: Sequence[_Tied]) -> None:
        changed = True
        while changed:
            changed = False
            for each in (*tied, *reversed(tied)):
                changed |= self._spread(each)

    def _spread(self, tied: _Tied) -> bool:
        known = [
            before(axes_by_factor(self.specs[value], mapping, tied.sizes, self.mesh), tied.manual)
            for value, mapping in zip(tied.values, tied.mappings)
        ]
        if not any(known):
            return False
        chosen = choose(known, [value.shape.byte_size for value in tied.values])
        changed = False
        for value, mapping in zip(tied.values, tied.mappings):
            wanted = spec_of_factors(chosen, mapping, tied.sizes, self.mesh)
            changed |= self._extend(value, wanted)
        return changed

    def _extend(self, value: ArrayValue, wanted: Spec) -> bool:
        """Cut a value further, where it may be and that goes on from how it is."""
        own, given = self.specs[value], self.given.get(value)
        dims, used = list(own.dims), {*own.axes, *self.manual.get(value, ())}
        for d, (axes, more) in enumerate(zip(own.dims, wanted.dims)):
            added = more[len(axes) :]
            allowed = given is None or given.open[d]
            if added and allowed and more[: len(axes)] == axes and not used & set(added):
                if value.shape.dimensions[d] % self.mesh.count(more) == 0:
                    dims[d] = more
                    used.update(added)
        new = Spec(tuple(dims))
        if new == own:
            return False
        self.specs[value] = new
        return True


def manual_of_results(
    node: Instruction, results: Sequence[ArrayValue], manual: Mapping[ArrayValue, frozenset[int]]
) -> frozenset[int]:
    """Axes along which an instruction cannot be computed in parts: each device does it with values
    of its own. Those that say where that begins and ends know of parts along them."""
    if node.opcode is Opcode.CUSTOM_CALL:
        return frozenset()
    return frozenset(axis for value in results for axis in manual.get(value, ()))


def before(known: dict[int, Axes], excluded: frozenset[int]) -> dict[int, Axes]:
    """The axes of each factor in front of the first excluded one."""
    if not excluded:
        return known
    found = {}
    for factor, axes in known.items():
        end = next((n for n, axis in enumerate(axes) if axis in excluded), len(axes))
        if end:
            found[factor] = axes[:end]
    return found


def _same(source: ArrayValue, target: ArrayValue) -> _Tied:
    """A value that becomes another."""
    mapping = tuple((d,) for d in range(source.shape.rank))
    return _Tied([source, target], [mapping, mapping], source.shape.dimensions)


def choose(known: Sequence[Mapping[int, Axes]], weights: Sequence[int]) -> dict[int, Axes]:
    """The axes of each factor, from what arrays of these weights say: no axis is used twice."""
    order = sorted(range(len(known)), key=lambda k: -weights[k])
    chosen: dict[int, Axes] = {}
    used: dict[int, int] = {}  # axis -> its factor
    for k in order:
        for factor, axes in known[k].items():
            own = chosen.get(factor, ())
            if common_prefix(own, axes) != own:
                continue  # a larger array says otherwise
            for axis in axes[len(own) :]:
                if used.setdefault(axis, factor) != factor:
                    break
                own += (axis,)
            chosen[factor] = own
    return chosen
