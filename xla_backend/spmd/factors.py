"""Which dimensions of an instruction's operands and results belong together: its *factors*.

Along a factor, participants that each have a part of every array that has it can compute their part
of the results: dimensions of a product that are kept, batches, the dimensions of elementwise
operations. A dimension that a reshape splits has several factors. Participants that have parts
along a *reduced* factor compute parts of a sum. Along a *moved* factor, a part of the result is
made of elements that others have: of their neighbours for windows, of anybody for slices. A
dimension without a factor must be whole.

(The idea of factors is Shardy's, https://github.com/openxla/shardy.)
"""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from collections.abc import Sequence

from xla_backend.hlo.attributes import Value
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.spmd.specs import Axes, PrimeMesh, Spec, common_prefix, fitting

Dims = tuple[int, ...]
Mapping = tuple[Dims, ...]  # of each dimension of an array its factors, major to minor


class Factors(Value):
    """The factors of one instruction.

    Fields:
      operands, results: the mapping of each operand and of each leaf of the result.
      sizes: of the factors; a moved one has others in some arrays.
      reduced: factors that no result has, because values along them are combined...
      combiner: ...by this operation, on scalars.
      moved: factors along which elements are not where they are needed.
      few_terms: whether what is summed is less than the result, so that it is better to gather that
        than to combine parts of sums.
      undivided: moved factors along which an array that cannot be cut along all axes is not cut.
    """

    operands: tuple[Mapping, ...]
    results: tuple[Mapping, ...]
    sizes: Dims
    reduced: frozenset[int] = frozenset()
    combiner: Opcode | None = None
    moved: frozenset[int] = frozenset()
    few_terms: bool = False
    undivided: frozenset[int] = frozenset()

    @property
    def mappings(self) -> tuple[Mapping, ...]:
        """Of the operands, then of the results."""
        return self.operands + self.results

    def axes(self, k: int, spec: Spec, shape: Shape, mesh: PrimeMesh) -> dict[int, Axes]:
        """The axes that the spec of the k-th array gives to each of its factors: as many as these
        can take."""
        found: dict[int, Axes] = {}
        for axes, size, own in zip(spec.dims, shape.dimensions, self.mappings[k]):
            if self._is_one(own, size):
                if axes:
                    found[own[0]] = axes
                continue
            left = list(axes)
            for factor in own:
                rest, taken = self.sizes[factor], []
                while left and rest % mesh.sizes[left[0]] == 0:
                    taken.append(left.pop(0))
                    rest //= mesh.sizes[taken[-1]]
                if taken:
                    found[factor] = tuple(taken)
                if rest != 1:
                    break  # what follows would be cut within parts of this one
        return found

    def spec(self, k: int, chosen: MappingOf[int, Axes], shape: Shape, mesh: PrimeMesh) -> Spec:
        """The spec of the k-th array if the factors are cut along these axes, as far as one spells
        that."""
        dims: list[Axes] = []
        for size, own in zip(shape.dimensions, self.mappings[k]):
            if self._is_one(own, size):
                dims.append(self.fitting(own[0], size, chosen.get(own[0], ()), mesh))
                continue
            axes: Axes = ()
            for factor in own:
                taken = chosen.get(factor, ())
                while self.sizes[factor] % mesh.count(taken):
                    taken = taken[:-1]
                axes += taken
                if mesh.count(taken) != self.sizes[factor]:
                    break
            dims.append(axes)
        return Spec(tuple(dims))

    def fitting(self, factor: int, size: int, axes: Axes, mesh: PrimeMesh) -> Axes:
        """Of these axes those that a dimension which is one factor can be cut along."""
        found = fitting(size, axes, mesh)
        return () if factor in self.undivided and found != axes else found

    def _is_one(self, own: Dims, size: int) -> bool:
        """Whether a dimension is one factor: then parts of it may be padded."""
        return len(own) == 1 and (own[0] in self.moved or self.sizes[own[0]] == size)


class FactorMaker:
    """Numbers the factors of an instruction."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def new(self, size: int) -> int:
        self.sizes.append(size)
        return len(self.sizes) - 1

    def dims(self, shape: Shape) -> list[Dims]:
        """A factor for each dimension."""
        return [(self.new(size),) for size in shape.dimensions]

    def made(
        self,
        operands: Sequence[Sequence[Dims]],
        results: Sequence[Sequence[Dims]],
        reduced: Sequence[int] = (),
        combiner: Opcode | None = None,
        moved: Sequence[int] = (),
        few_terms: bool = False,
        undivided: Sequence[int] = (),
    ) -> Factors:
        return Factors(
            tuple(map(tuple, operands)),
            tuple(map(tuple, results)),
            tuple(self.sizes),
            frozenset(reduced),
            combiner,
            frozenset(moved),
            few_terms,
            frozenset(undivided),
        )


def no_factors(shape: Shape) -> list[Dims]:
    """All dimensions whole."""
    return [()] * shape.rank


# -- which axes ------------------------------------------------------------------------------------


def choose(
    factors: Factors,
    known: Sequence[MappingOf[int, Axes]],
    shapes: Sequence[Shape],
    *,
    only_agreed: bool = False,
) -> dict[int, Axes]:
    """The axes of each factor, from what the arrays say: no axis is used twice.

    A sum is done in parts first where all its operands are cut for that, unless its terms are few;
    then come factors that
    results have, whatever operands say of others: it is better to gather weights than to exchange
    what they are applied to. Among arrays the larger one wins.

    `only_agreed`: no sums in parts that some operand does not call for.
    """
    order = sorted(range(len(known)), key=lambda k: -shapes[k].byte_size)
    agreed = {f for f in factors.reduced if _all_say(factors, known, f)}
    first = set() if factors.few_terms else agreed
    chosen: dict[int, Axes] = {}
    used: dict[int, int] = {}  # axis -> its factor
    kept = set(range(len(factors.sizes))) - factors.reduced
    for allowed in (first, kept, agreed if only_agreed else factors.reduced):
        for k in order:
            for factor, axes in known[k].items():
                own = chosen.get(factor, ())
                if factor not in allowed or common_prefix(own, axes) != own:
                    continue  # a larger array says otherwise
                for axis in axes[len(own) :]:
                    if used.setdefault(axis, factor) != factor:
                        break
                    own += (axis,)
                chosen[factor] = own
    return chosen


def _all_say(factors: Factors, known: Sequence[MappingOf[int, Axes]], factor: int) -> bool:
    """Whether all operands with a factor are cut along the same axis first."""
    said = [
        known[k].get(factor, ())[:1]
        for k, mapping in enumerate(factors.operands)
        if any(factor in dim for dim in mapping)
    ]
    return all(said) and len(set(said)) == 1


def make_consistent(
    chosen: dict[int, Axes], factors: Factors, shapes: Sequence[Shape], mesh: PrimeMesh
) -> None:
    """Leave only those axes that every array with a factor can be cut along; along a moved one
    that is what its own size can be, and arrays of other sizes may differ."""
    for factor in factors.moved:
        size = factors.sizes[factor]
        chosen[factor] = factors.fitting(factor, size, chosen.get(factor, ()), mesh)
    changed = True
    while changed:
        changed = False
        for k, shape in enumerate(shapes):
            able = factors.axes(k, factors.spec(k, chosen, shape, mesh), shape, mesh)
            for factor in {f for dim in factors.mappings[k] for f in dim} - factors.moved:
                own = chosen.get(factor, ())
                kept = common_prefix(own, able.get(factor, ()))
                if kept != own:
                    chosen[factor] = kept
                    changed = True


def take_strays(
    chosen: dict[int, Axes],
    factors: Factors,
    own: Sequence[Spec],
    mesh: PrimeMesh,
) -> None:
    """Axes of dimensions that must be whole are taken for another factor, if one can be cut along
    them: then they move from one dimension to the other, and each device still does its share."""
    used = {axis for axes in chosen.values() for axis in axes}

    def is_even(factor: int, axes: Axes) -> bool:
        return factors.sizes[factor] % mesh.count(chosen.get(factor, ()) + axes) == 0

    def is_able(factor: int, axes: Axes) -> bool:
        more = chosen.get(factor, ()) + axes
        return is_even(factor, axes) or fitting(factors.sizes[factor], more, mesh) == more

    for k, spec in enumerate(own):
        mapping = factors.mappings[k]
        for d, axes in enumerate(spec.dims):
            if mapping[d] or not axes or used & set(axes):
                continue
            able = [f for f in sorted(_everywhere(factors)) if is_able(f, axes)]
            if able:
                best = max(able, key=lambda f: (is_even(f, axes), factors.sizes[f]))
                chosen[best] = chosen.get(best, ()) + axes
                used.update(axes)


def _everywhere(factors: Factors) -> set[int]:
    """Those that every array with dimensions has."""
    found = set(range(len(factors.sizes))) - factors.reduced - factors.moved
    for mapping in factors.mappings:
        if mapping:
            found &= {f for dim in mapping for f in dim}
    return found


def where_they_are(
    wanted: Spec,
    own: Spec,
    k: int,
    factors: Factors,
    chosen: MappingOf[int, Axes],
    shape: Shape,
    mesh: PrimeMesh,
) -> Spec:
    """The form of the k-th array, an operand: along moved factors it stays whole where it is, is
    cut as the result is if it can be, and stays cut where the result is not and nobody else uses
    the axes. (What is summed over has the size of its factor, and is cut as that.)"""
    dims = list(wanted.dims)
    used = {axis for axes in chosen.values() for axis in axes}
    for d, (mapping, axes) in enumerate(zip(factors.operands[k], own.dims)):
        if len(mapping) != 1 or mapping[0] not in factors.moved:
            continue
        if mapping[0] in factors.reduced and shape.dimensions[d] == factors.sizes[mapping[0]]:
            continue
        needed = chosen.get(mapping[0], ())
        if needed:
            fits = fitting(shape.dimensions[d], needed, mesh) == needed
            dims[d] = needed if axes and fits else ()
        else:
            dims[d] = () if used & set(axes) else axes
            used.update(dims[d])
    return Spec(tuple(dims))
