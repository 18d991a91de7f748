"""Shape rules of collectives, of their -start and -done halves, and of transfers between memories,
host and devices. Which participants form a group is the verifier's and the evaluator's concern;
here only group sizes count."""

from __future__ import annotations

from collections.abc import Sequence

from xla_backend.hlo.attributes import (
    CollectiveAttributes,
    CollectivePermuteAttributes,
    OutfeedAttributes,
)
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.shape_checks import TOKEN, U32, Rule, RuleContext, one_or_tuple, set_text
from xla_backend.hlo.types import PrimitiveType

P = PrimitiveType


def _collective(c: RuleContext) -> CollectiveAttributes:
    a = c.attributes
    assert isinstance(a, CollectiveAttributes)
    # collective_c1
    c.require(c.shapes, "needs at least one operand")
    c.require_array()
    sizes = {len(group) for group in a.replica_groups}
    # collective_c2
    c.require(len(sizes) <= 1, "replica groups must have equal sizes")
    # collective_c3
    c.require(0 not in sizes, "a replica group is empty")
    # collective_c4
    c.require(
        not a.use_global_device_ids or a.channel_id is not None,
        "use_global_device_ids needs a channel_id",
    )
    return a


def _group_size(a: CollectiveAttributes) -> int | None:
    """Participants of a group; None: a number only the module knows, because groups are left out
    (all there are) or count replicas with all their partitions."""
    if a.channel_id is not None and not a.use_global_device_ids:
        return None
    return len(a.replica_groups[0]) if a.replica_groups else None


def _dimension(c: RuleContext, a: CollectiveAttributes) -> int:
    # collective_c5
    c.require(len(a.dimensions) == 1, f"needs exactly one dimension, got {set_text(a.dimensions)}")
    for shape in c.shapes:
        # collective_c6
        c.require_dimension(a.dimensions[0], shape.rank, "dimension")
    return a.dimensions[0]


def _members(shape: Shape | None, count: int) -> Sequence[Shape | None]:
    """The result shape of each of `count` operands, as given."""
    if shape is None:
        return [None] * count
    return shape.tuple_shapes if count > 1 and shape.is_tuple else [shape] * count


def _factor(
    c: RuleContext, a: CollectiveAttributes, small: Sequence[int], big: Sequence[int], d: int
) -> int:
    """How many shards of size `small` make `big`, when the groups do not say."""
    # collective_c7
    c.require(
        len(small) == len(big) and small[d] and big[d] % small[d] == 0,
        f"cannot tell the number of participants from sizes {small[d]} and "
        f"{big[d] if d < len(big) else '-'} of dimension {d}",
        "Write replica_groups",
    )
    return big[d] // small[d]


def _gathered(c: RuleContext, a: CollectiveAttributes, results: Shape | None) -> list[Shape]:
    d = _dimension(c, a)
    count = _group_size(a)
    shapes = []
    for operand, given in zip(c.shapes, _members(results, len(c.shapes))):
        if count is None:
            given = given if given is not None else c.require_given()
            factor = _factor(c, a, operand.dimensions, given.dimensions, d)
        else:
            factor = count
        # all_gather_c6
        dims = list(operand.dimensions)
        dims[d] *= factor
        shapes.append(operand.with_dimensions(dims))
    return shapes


def _all_gather(c: RuleContext) -> Shape:
    return one_or_tuple(_gathered(c, _collective(c), c.given))


def _all_gather_start(c: RuleContext) -> Shape:
    """(operands, results); each a tuple when there are several."""
    a = _collective(c)
    given = c.given
    # all_gather_start_c1
    if given is not None:
        c.require(
            given.is_tuple and len(given.tuple_shapes) == 2,
            f"the result must be (operands, results), is {given}",
        )
    results = given.tuple_shapes[1] if given is not None else None
    return Shape.tuple([one_or_tuple(c.shapes), one_or_tuple(_gathered(c, a, results))])


def _reduce_scatter(c: RuleContext) -> Shape:
    a = _collective(c)
    _require_reducer(c)
    d = _dimension(c, a)
    count = _group_size(a)
    shapes = []
    for operand, given in zip(c.shapes, _members(c.given, len(c.shapes))):
        if count is None:
            given = given if given is not None else c.require_given()
            factor = _factor(c, a, given.dimensions, operand.dimensions, d)
        else:
            factor = count
        # reduce_scatter_c2
        c.require(
            operand.dimensions[d] % factor == 0,
            f"dimension {d} of {operand} does not divide among {factor} participants",
        )
        dims = list(operand.dimensions)
        dims[d] //= factor
        shapes.append(operand.with_dimensions(dims))
    return one_or_tuple(shapes)


def _require_reducer(c: RuleContext) -> None:
    """to_apply of one scalar type; all operands of one collective share it, so theirs may differ
    only for a reducer that is never given other types."""
    c.require_called(1)
    scalar = Shape(c.shapes[0].element_type)
    # all_reduce_c5
    c.require_signature(c.called[0], [scalar, scalar], scalar, "to_apply")
    for shape in c.shapes:
        # all_reduce_c7
        c.require(
            shape.element_type is scalar.element_type,
            "all operands must have the element type of the reducer",
            "Use one all-reduce per element type",
        )


def _all_reduce(c: RuleContext) -> Shape:
    _collective(c)
    _require_reducer(c)
    # all_reduce_c6
    return one_or_tuple(c.shapes)


def _collective_broadcast(c: RuleContext) -> Shape:
    _collective(c)
    return one_or_tuple(c.shapes)


def _all_to_all(c: RuleContext) -> Shape:
    a = _collective(c)
    count = len(a.replica_groups[0]) if a.replica_groups else None
    if a.dimensions:
        # all_to_all_c4
        c.require_arity(1)
        operand, d = c.shapes[0], _dimension(c, a)
        # all_to_all_c2
        c.require(
            count is None or operand.dimensions[d] % count == 0,
            f"dimension {d} of {operand} does not divide among {count} participants",
        )
        return operand.with_dimensions(operand.dimensions)
    # all_to_all_c8
    c.require(
        count is None or count == len(c.shapes),
        f"without dimensions= there must be one operand for each of {count} participants",
    )
    for shape in c.shapes:
        # all_to_all_c9
        c.require(
            shape.compatible(c.shapes[0]), "operands without dimensions= must have equal shapes"
        )
    return Shape.tuple(c.shapes)


def _ragged_all_to_all(c: RuleContext) -> Shape:
    """input, output, then input offsets, send sizes, output offsets, receive sizes."""
    _collective(c)
    # ragged_all_to_all_c1
    c.require_arity(6)
    source, target, *slices = c.shapes
    # ragged_all_to_all_c2
    c.require(
        source.element_type is target.element_type, "input and output must have one element type"
    )
    # ragged_all_to_all_c3
    c.require(
        source.rank == target.rank >= 1 and source.dimensions[1:] == target.dimensions[1:],
        "input and output may differ in dimension 0 only",
    )
    for s in slices:
        # ragged_all_to_all_c4
        c.require(
            s.rank == 1 and s.element_type.is_integral,
            f"offsets and sizes must be vectors of integers, got {s}",
        )
        # ragged_all_to_all_c5
        c.require(s.compatible(slices[0]), "offsets and sizes must have equal shapes")
    return target


def _permute(c: RuleContext) -> CollectivePermuteAttributes:
    a = c.attributes
    assert isinstance(a, CollectivePermuteAttributes)
    # collective_permute_c1
    c.require(c.shapes, "needs at least one operand")
    c.require_array()
    for what, ids in (
        ("source", [s for s, _ in a.source_target_pairs]),
        ("target", [t for _, t in a.source_target_pairs]),
    ):
        # collective_permute_c2, collective_permute_c3
        c.require(
            len(set(ids)) == len(ids), f"source_target_pairs name a {what} twice: {set_text(ids)}"
        )
        # collective_permute_c4
        c.require(all(i >= 0 for i in ids), f"a {what} of source_target_pairs is negative")
    return a


def _collective_permute(c: RuleContext) -> Shape:
    _permute(c)
    # collective_permute_c5
    return one_or_tuple(c.shapes)


def _collective_permute_start(c: RuleContext) -> Shape:
    """(operands, results), or that with two u32 contexts."""
    _permute(c)
    value = one_or_tuple(c.shapes)
    contexts = c.given.tuple_shapes[2:] if c.given is not None else ()
    # collective_permute_start_c1
    c.require(
        all(s.compatible(U32) for s in contexts), f"contexts must be u32[], result is {c.given}"
    )
    return Shape.tuple([value, value, *contexts])


# -- the -done halves ------------------------------------------------------------------------------


def _member_of_start(index: int) -> Rule:
    """The result is one member of the tuple the -start half returns."""

    def rule(c: RuleContext) -> Shape:
        c.require_arity(1)
        shape = c.shapes[0]
        # all_gather_done_c1, collective_permute_done_c1, copy_done_c1, async_done_c1
        c.require(
            shape.is_tuple and len(shape.tuple_shapes) >= 2,
            f"the operand must be what the -start half returns, is {shape}",
        )
        return shape.tuple_shapes[index]

    return rule


def _all_reduce_done(c: RuleContext) -> Shape:
    c.require_arity(1)
    return c.shapes[0]


def _copy_start(c: RuleContext) -> Shape:
    """(copy, original, context)."""
    c.require_arity(1)
    return Shape.tuple([c.shapes[0], c.shapes[0], U32])


def _async_start(c: RuleContext) -> Shape:
    """((operands), result, contexts...)."""
    c.require_called(1)
    # async_start_c1
    result = c.require_signature(c.called[0], c.shapes, None, "the called computation")
    contexts = c.given.tuple_shapes[2:] if c.given is not None else ()
    # async_start_c2
    c.require(
        all(s.is_scalar and s.element_type.is_integral for s in contexts),
        f"contexts must be integer scalars, result is {c.given}",
    )
    return Shape.tuple([Shape.tuple(c.shapes), result, *contexts])


def _async_update(c: RuleContext) -> Shape:
    c.require_arity(1)
    return c.shapes[0]


# -- transfers -------------------------------------------------------------------------------------


def _require_token(c: RuleContext, index: int) -> None:
    # send_c1, recv_c1, infeed_c1, outfeed_c1, add_dependency_c1
    c.require(
        index < len(c.shapes) and c.shapes[index].is_token,
        f"operand {index} must be a token",
        "Make one with after-all()",
    )


def _send(c: RuleContext) -> Shape:
    c.require_arity(2)
    _require_token(c, 1)
    return Shape.tuple([c.shapes[0], U32, TOKEN])


def _recv(c: RuleContext) -> Shape:
    c.require_arity(1)
    _require_token(c, 0)
    given = c.require_given()
    # recv_c2
    c.require(
        given.is_tuple and len(given.tuple_shapes) == 3,
        f"the result must be (data, u32[], token[]), is {given}",
    )
    return Shape.tuple([given.tuple_shapes[0], U32, TOKEN])


def _require_transfer(c: RuleContext) -> Shape:
    c.require_arity(1)
    shape = c.shapes[0]
    # send_done_c1, recv_done_c1
    c.require(
        len(shape.tuple_shapes) == 3 and shape.tuple_shapes[2].is_token,
        f"the operand must be (data, u32[], token[]), is {shape}",
    )
    return shape.tuple_shapes[0]


def _send_done(c: RuleContext) -> Shape:
    _require_transfer(c)
    return TOKEN


def _recv_done(c: RuleContext) -> Shape:
    return Shape.tuple([_require_transfer(c), TOKEN])


def _infeed(c: RuleContext) -> Shape:
    c.require_arity(1)
    _require_token(c, 0)
    given = c.require_given()
    # infeed_c2
    c.require(
        len(given.tuple_shapes) == 2 and given.tuple_shapes[1].is_token,
        f"the result must be (data, token[]), is {given}",
    )
    return given


def _outfeed(c: RuleContext) -> Shape:
    c.require_arity(2)
    _require_token(c, 1)
    a = c.attributes
    shape = a.shape if isinstance(a, OutfeedAttributes) else None
    # outfeed_c2
    c.require(
        shape is None or shape.compatible(c.shapes[0]),
        f"outfeed_shape is {shape}, the operand {c.shapes[0]}",
    )
    return TOKEN


def _after_all(c: RuleContext) -> Shape:
    # after_all_c1
    c.require(all(s.is_token for s in c.shapes), "operands must be tokens")
    return TOKEN


def _add_dependency(c: RuleContext) -> Shape:
    c.require_arity(2)
    _require_token(c, 1)
    return c.shapes[0]


COLLECTIVE_RULES: dict[Opcode, Rule] = {
    Opcode.ALL_GATHER: _all_gather,
    Opcode.ALL_GATHER_START: _all_gather_start,
    Opcode.ALL_GATHER_DONE: _member_of_start(1),
    Opcode.ALL_REDUCE: _all_reduce,
    Opcode.ALL_REDUCE_START: _all_reduce,
    Opcode.ALL_REDUCE_DONE: _all_reduce_done,
    Opcode.ALL_TO_ALL: _all_to_all,
    Opcode.COLLECTIVE_BROADCAST: _collective_broadcast,
    Opcode.COLLECTIVE_PERMUTE: _collective_permute,
    Opcode.COLLECTIVE_PERMUTE_START: _collective_permute_start,
    Opcode.COLLECTIVE_PERMUTE_DONE: _member_of_start(1),
    Opcode.RAGGED_ALL_TO_ALL: _ragged_all_to_all,
    Opcode.REDUCE_SCATTER: _reduce_scatter,
    Opcode.COPY_START: _copy_start,
    Opcode.COPY_DONE: _member_of_start(0),
    Opcode.ASYNC_START: _async_start,
    Opcode.ASYNC_UPDATE: _async_update,
    Opcode.ASYNC_DONE: _member_of_start(1),
    Opcode.SEND: _send,
    Opcode.SEND_DONE: _send_done,
    Opcode.RECV: _recv,
    Opcode.RECV_DONE: _recv_done,
    Opcode.INFEED: _infeed,
    Opcode.OUTFEED: _outfeed,
    Opcode.AFTER_ALL: _after_all,
    Opcode.ADD_DEPENDENCY: _add_dependency,
}
