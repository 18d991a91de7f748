"""Values that the program itself has cut: between `SPMDFullToShardShape` and
`SPMDShardToFullShape` shapes are those of a device's part along some axes, the manual ones, and
collectives along these are written out. Along the others such values are cut as all values are.
"""

from __future__ import annotations

from xla_backend.hlo.attributes import CustomCallAttributes
from xla_backend.hlo.exchanges import COLLECTIVES
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.spmd.annotations import Annotations, sharding_of
from xla_backend.spmd.specs import Axes, PrimeMesh, Spec
from xla_backend.spmd.values import ArrayValue, Values

TO_PARTS, TO_WHOLE, CONSTRAINT = "SPMDFullToShardShape", "SPMDShardToFullShape", "Sharding"
# What guides propagation; as configuration the direction that it lets through, or a number.
BARRIER, GROUP = "PropagationBarrier", "ShardingGroup"

# What differs from device to device by itself.
SOURCES = frozenset({Opcode.PARTITION_ID, Opcode.REPLICA_ID, *COLLECTIVES})


_TARGETS = (TO_PARTS, TO_WHOLE, CONSTRAINT, BARRIER, GROUP)


def annotation(node: Instruction) -> str:
    """The target of a custom call that says of its operand how it is cut; "" for all else."""
    a = node.attributes
    return a.target if isinstance(a, CustomCallAttributes) and a.target in _TARGETS else ""


def manual_axes(values: Values, annotations: Annotations) -> dict[ArrayValue, frozenset[int]]:
    """The axes along which devices have each their own of a value; those of what is computed from
    such a value are at least the same. Values that have none are left out."""
    found: dict[ArrayValue, frozenset[int]] = {}
    none: frozenset[int] = frozenset()

    def grow(value: ArrayValue, axes: frozenset[int]) -> bool:
        before = found.get(value, none)
        if axes <= before:
            return False
        found[value] = before | axes
        return True

    changed = True
    while changed:
        changed = False
        for computation in values.computations:
            for node in computation.post_order():
                if node.opcode in _OF_OTHERS:
                    continue
                given = [found.get(v, none) for x in node.operands for v in values.of(x)]
                axes = _axes_of(node, none.union(*given), annotations)
                for value in values.of(node) if axes else ():
                    changed |= grow(value, axes)
        for source, target in values.links:
            changed |= grow(target, found.get(source, none))
    return found


# Their values are those of others.
_OF_OTHERS = frozenset(
    {
        Opcode.TUPLE, Opcode.GET_TUPLE_ELEMENT, Opcode.OPT_BARRIER, Opcode.WHILE,
        Opcode.CONDITIONAL, Opcode.PARAMETER,
    }
)  # fmt: skip


def _axes_of(
    node: Instruction, of_operands: frozenset[int], annotations: Annotations
) -> frozenset[int]:
    said = sharding_of(node)
    own = frozenset() if said is None else annotations.manual_axes(said)
    if annotation(node) in (TO_PARTS, TO_WHOLE):
        return own
    if node.opcode in SOURCES and not own | of_operands:
        return frozenset(range(len(annotations.mesh.sizes)))
    return own | of_operands


def inner_spec(spec: Spec, array: Shape, part: Shape, mesh: PrimeMesh) -> Spec | None:
    """How a part is cut further, of an array that is cut as `spec` says; None: the array is not
    cut into such parts."""
    dims: list[Axes] = []
    for axes, size, own in zip(spec.dims, array.dimensions, part.dimensions):
        count = 0
        while count < len(axes) and mesh.count(axes[:count]) * own < size:
            count += 1
        if mesh.count(axes[:count]) * own != size:
            return None
        dims.append(axes[count:])
    return Spec(tuple(dims))


def outer_spec(spec: Spec, array: Shape, part: Shape, inner: Spec, mesh: PrimeMesh) -> Spec:
    """How an array is cut whose parts, which `spec` says, are cut further as `inner` says."""
    rest = inner_spec(spec, array, part, mesh)
    assert rest is not None
    return Spec(
        tuple(
            own[: len(own) - len(after)] + new
            for own, after, new in zip(spec.dims, rest.dims, inner.dims)
        )
    )
