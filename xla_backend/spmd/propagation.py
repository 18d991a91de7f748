"""Sharding propagation: from the shardings that are given to one for each value.

Specs only grow: a dimension that is cut along some axes may be cut along more, behind those. What
is given is not changed, except in dimensions that are left open. Each round goes over the program
forwards and backwards; at an instruction every factor takes the longest list of axes that an array
with it has, and the other arrays take them over from there. That is done three times, until nothing
changes: first at elementwise operations and those that rearrange; then at all, but no operand of a
product is cut for a sum because the other is; then that too. How a product is cut should follow
from how its operands are used, not the other way round, and weights should not say how activations
are cut.

Where arrays disagree about a factor, or want the same axis for two factors, the larger one wins.

Dimensions may have priorities: all that is done with what is given for those of the lowest number
first. Those of others are open until then, and what they have got meanwhile makes way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.process.light_dataclasses import dataclass, field
from xla_backend.spmd.custom import rule_of
from xla_backend.spmd.factor_rules import factors_of
from xla_backend.spmd.factors import Factors, choose, make_consistent, take_strays
from xla_backend.spmd.specs import Axes, PrimeMesh, Spec, fitting, in_front_of, whole
from xla_backend.spmd.stretches import rotation
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
      priorities: of the dimensions, the lowest first; (): all are 0.
      whole_along: axes along which it is not cut.
    """

    spec: Spec
    open: tuple[bool, ...]
    priorities: tuple[int, ...] = ()
    whole_along: frozenset[int] = frozenset()

    def priority(self, dimension: int) -> int:
        """That of a dimension."""
        return self.priorities[dimension] if self.priorities else 0


def propagate(
    values: Values,
    mesh: PrimeMesh,
    given: Mapping[ArrayValue, Given],
    manual: Mapping[ArrayValue, frozenset[int]],
    infer: Callable[[Instruction, Sequence[Spec]], Sequence[Spec]],
    one_way: Sequence[tuple[ArrayValue, ArrayValue]] = (),
) -> dict[ArrayValue, Spec]:
    """A spec for each value; along its `manual` axes none is cut. `infer` gives the specs of the
    results of a call that says itself how they follow from those of its operands; `one_way`: pairs
    of which the second is cut as the first is, and not the other way round."""
    return _Propagation(values, mesh, given, manual, infer, one_way).run()


@dataclass
class _Tied:
    """Arrays with common factors: those of an instruction, or a value that becomes another."""

    values: list[ArrayValue]
    factors: Factors
    manual: frozenset[int] = frozenset()


@dataclass
class _OneWay:
    """An array that is cut as another one."""

    source: ArrayValue
    target: ArrayValue


@dataclass
class _Inferred:
    """A call whose results follow from its operands."""

    node: Instruction
    values: list[ArrayValue]
    results: list[ArrayValue]


_Ways = _Tied | _OneWay | _Inferred


@dataclass
class _Propagation:
    values: Values
    mesh: PrimeMesh
    given: Mapping[ArrayValue, Given]
    manual: Mapping[ArrayValue, frozenset[int]]
    infer: Callable[[Instruction, Sequence[Spec]], Sequence[Spec]]
    one_way: Sequence[tuple[ArrayValue, ArrayValue]]
    specs: dict[ArrayValue, Spec] = field(default_factory=dict)
    priority: int = 0  # of what is acted on, at most

    def run(self) -> dict[ArrayValue, Spec]:
        for value in self.values.all():
            self.specs[value] = whole(value.shape)
        links = [link for link in self.values.links if link[0].shape.is_array]
        tied: list[_Ways] = [_same(*link) for link in links]
        tied += [_OneWay(*pair) for pair in self.one_way if pair[0].shape.is_array]
        first: list[_Ways] = []
        for computation in self.values.computations:
            for node in computation.post_order():
                factors = factors_of(node)
                turned = rotation(node)
                if turned is not None:
                    arrays = (turned.source, node)
                    tied.append(_same(*(self.values.of(array)[0] for array in arrays)))
                if factors is not None:
                    tied.append(self._of_instruction(node, factors))
                    if node.opcode.is_elementwise or node.opcode in _FIRST:
                        first.append(tied[-1])
                elif rule_of(node) is not None:
                    operands = [self.values.of(operand)[0] for operand in node.operands]
                    tied.append(_Inferred(node, operands, self.values.of(node)))
        known = self.given.items()
        for priority in sorted({0, *(p for _, own in known for p in own.priorities)}):
            self.priority = priority
            for value, own in known:
                if value in self.specs:
                    self.specs[value] = self._with_given(value, own)
            self._settle(first, only_agreed=True)
            self._settle(tied, only_agreed=True)
            self._settle(tied, only_agreed=False)
        changed = False
        for each in tied:
            if isinstance(each, _Tied):
                changed |= self._takes_strays(each) or (changed and self._spread(each, False))
        if changed:
            self._settle(tied, only_agreed=False)
        return self.specs

    def _takes_strays(self, tied: _Tied) -> bool:
        """Where an operand is cut along a dimension that must be whole, and another is cut instead,
        so are results of which nothing is known: else they would be gathered at once."""
        factors, results = tied.factors, len(tied.factors.results)
        if not any(
            axes and not own
            for value, mapping in zip(tied.values, factors.operands)
            for axes, own in zip(self.specs[value].dims, mapping)
        ) or not all(self.specs[value].is_whole for value in tied.values[-results:]):
            return False
        own = [in_front_of(self.specs[value], tied.manual) for value in tied.values]
        shapes = [value.shape for value in tied.values]
        known = [factors.axes(k, spec, shapes[k], self.mesh) for k, spec in enumerate(own)]
        chosen = choose(factors, known, shapes)
        take_strays(chosen, factors, own, self.mesh)
        make_consistent(chosen, factors, shapes, self.mesh)
        changed = False
        for k in range(len(tied.values) - results, len(tied.values)):
            value = tied.values[k]
            changed |= self._extend(value, factors.spec(k, chosen, value.shape, self.mesh))
        return changed

    def _with_given(self, value: ArrayValue, own: Given) -> Spec:
        """What is given for the dimensions whose turn it is, and what others have got, as far as
        they are not cut along the same axes."""
        found = self.specs[value].dims
        now = {d for d in range(len(found)) if own.priority(d) == self.priority}
        dims: list[Axes] = []
        for d, (axes, wanted) in enumerate(zip(found, own.spec.dims)):
            goes_on = own.open[d] and axes[: len(wanted)] == wanted
            dims.append(axes if d not in now or goes_on else wanted)
        for d in range(len(dims)):
            others = {a for e in now for a in own.spec.dims[e] if e != d}
            while others & set(dims[d]):
                dims[d] = dims[d][:-1]
        return Spec(tuple(dims))

    def _of_instruction(self, node: Instruction, factors: Factors) -> _Tied:
        arrays = [self.values.of(operand)[0] for operand in node.operands]
        results = self.values.of(node)
        manual = manual_of_results(node, results, self.manual)
        return _Tied([*arrays, *results], factors, manual)

    def _settle(self, tied: Sequence[_Ways], *, only_agreed: bool) -> None:
        changed = True
        while changed:
            changed = False
            for each in (*tied, *reversed(tied)):
                if isinstance(each, _Inferred):
                    changed |= self._infer(each)
                elif isinstance(each, _OneWay):
                    changed |= self._extend(each.target, self.specs[each.source])
                else:
                    changed |= self._spread(each, only_agreed)

    def _infer(self, call: _Inferred) -> bool:
        wanted = self.infer(call.node, [self.specs[value] for value in call.values])
        changed = False
        for value, spec in zip(call.results, wanted):
            changed |= self._extend(value, spec)
        return changed

    def _spread(self, tied: _Tied, only_agreed: bool) -> bool:
        factors, mesh, shapes = tied.factors, self.mesh, [value.shape for value in tied.values]
        known = [
            factors.axes(k, in_front_of(self.specs[value], tied.manual), value.shape, mesh)
            for k, value in enumerate(tied.values)
        ]
        if not any(known):
            return False
        chosen = choose(factors, known, shapes, only_agreed=only_agreed)
        changed = False
        for k, value in enumerate(tied.values):
            changed |= self._extend(value, factors.spec(k, chosen, value.shape, mesh))
        return changed

    def _extend(self, value: ArrayValue, wanted: Spec) -> bool:
        """Cut a value further, where it may be and that goes on from how it is."""
        own, given = self.specs[value], self.given.get(value)
        dims, used = list(own.dims), {*own.axes, *self.manual.get(value, ())}
        if given is not None:
            used |= given.whole_along
        for d, (axes, more) in enumerate(zip(own.dims, wanted.dims)):
            added = more[len(axes) :]
            allowed = given is None or given.open[d] or given.priority(d) > self.priority
            if added and allowed and more[: len(axes)] == axes and not used & set(added):
                if fitting(value.shape.dimensions[d], more, self.mesh) == more:
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


def _same(source: ArrayValue, target: ArrayValue) -> _Tied:
    """A value that becomes another."""
    mapping = tuple((d,) for d in range(source.shape.rank))
    return _Tied([source, target], Factors((mapping,), (mapping,), source.shape.dimensions))
