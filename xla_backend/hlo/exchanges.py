"""What collectives mean: from the arrays of all members of a group to the results of each.

Whoever runs a program on several participants (the evaluator on HLO, the stepper on a program)
brings members of a group together in its own way, and asks here what they get.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from xla_backend.hlo.attributes import CollectiveAttributes, CollectivePermuteAttributes, Value
from xla_backend.hlo.errors import RuntimeFailure, UnimplementedError
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.monoids import monoid
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.topology import Group, Groups, Topology

# The operands, or the results, of each member of a group, in group order.
Members = Sequence[Sequence[np.ndarray]]
# Arrays of one shape, what the members give for the result of a number, as one.
Combine = Callable[[int, list[np.ndarray]], np.ndarray]


class Exchange(Value):
    """Who exchanges values with whom, and what they get.

    Fields:
      opcode: a collective's; for a -start half, that of what it starts.
      groups: participants that exchange values, in the order that counts; for a
        collective-permute, all that give or take.
      pairs: (source, target) of a collective-permute.
      dimension: along which arrays are joined or cut; None: they stay whole.
      channel: exchanges of one opcode and channel may meet wherever they stand in a program.
      combiner: of reductions, the one operation that combines two arrays; None: there are more.
    """

    opcode: Opcode
    groups: Groups
    pairs: tuple[tuple[int, int], ...] = ()
    dimension: int | None = None
    channel: int | None = None
    combiner: Opcode | None = None

    @property
    def reduces(self) -> bool:
        return self.opcode in (Opcode.ALL_REDUCE, Opcode.REDUCE_SCATTER)

    def group_of(self, participant: int, what: object) -> Group | None:
        """The group of a participant; None if it gets zeros without meeting anybody.

        Raises:
          RuntimeFailure: the collective, called `what`, has no result for it.
        """
        group = next((g for g in self.groups if participant in g), None)
        if group is None and self.opcode not in _ZEROS_FOR_OTHERS:
            raise RuntimeFailure(f"participant {participant} is in no replica group of {what}")
        return group

    def results(self, group: Group, members: Members, combine: Combine) -> Members:
        """The results of each member of a group."""
        return _MEANINGS[self.opcode](self, group, members, combine)

    def results_of_nobody(self, operands: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        """What a participant gets that is in no group."""
        return [np.zeros_like(x) for x in operands]


def exchange_of(node: Instruction, topology: Topology) -> Exchange:
    """The exchange of a collective, or of its -start half.

    Raises:
      UnimplementedError: a collective-permute moves slices in place.
    """
    opcode = _STARTED.get(node.opcode, node.opcode)
    a = node.attributes
    if isinstance(a, CollectivePermuteAttributes):
        if "slice_sizes" in (node.annotations or {}):
            raise UnimplementedError(
                f"the in-place form of {node} cannot run; write slices around it"
            )
        pairs = topology.pairs(node)
        everyone = tuple(sorted({number for pair in pairs for number in pair}))
        return Exchange(opcode, (everyone,) if everyone else (), pairs, None, a.channel_id)
    assert isinstance(a, CollectiveAttributes)
    dimension = a.dimensions[0] if a.dimensions else None
    combiner = monoid(node.called[0]) if node.called else None
    return Exchange(opcode, topology.groups(node), (), dimension, a.channel_id, combiner)


def never_come(waiting: Mapping[int, str]) -> RuntimeFailure:
    """The error of participants that can only wait; `waiting`: what each of them waits in."""
    waits = "; ".join(f"{p} in {what}" for p, what in sorted(waiting.items()))
    error = RuntimeFailure(
        f"participants wait for partners that never come: {waits}. All members of a group must run "
        f"the same collectives in the same order"
    )
    error.collectives = tuple(dict.fromkeys(what for _, what in sorted(waiting.items())))
    return error


# -- reductions ------------------------------------------------------------------------------------


def _reduced(members: Members, combine: Combine) -> list[np.ndarray]:
    """Each operand combined over the members, in group order."""
    return [combine(number, list(parts)) for number, parts in enumerate(zip(*members))]


def _all_reduce(x: Exchange, group: Group, members: Members, combine: Combine) -> Members:
    """Every member gets the combination of all."""
    return [_reduced(members, combine)] * len(members)


def _reduce_scatter(x: Exchange, group: Group, members: Members, combine: Combine) -> Members:
    """Member i gets the combination of all i-th parts along the dimension."""
    parts = [[np.split(operand, len(group), _axis(x)) for operand in m] for m in members]
    return [_reduced([[p[i] for p in mine] for mine in parts], combine) for i in range(len(group))]


# -- data movement ---------------------------------------------------------------------------------


def _axis(x: Exchange) -> int:
    assert x.dimension is not None
    return x.dimension


def _all_gather(x: Exchange, group: Group, members: Members, combine: Combine) -> Members:
    """Every member gets the operands of all, joined along the dimension in group order."""
    return [[np.concatenate(parts, _axis(x)) for parts in zip(*members)]] * len(members)


def _all_to_all(x: Exchange, group: Group, members: Members, combine: Combine) -> Members:
    """Part j of member i becomes part i of member j. Parts are the operands, or slices of the one
    operand along the dimension, joined again along it."""
    if x.dimension is None:
        return list(zip(*members))
    parts = [np.split(operand, len(members), x.dimension) for (operand,) in members]
    return [[np.concatenate(received, x.dimension)] for received in zip(*parts)]


def _collective_broadcast(x: Exchange, group: Group, members: Members, combine: Combine) -> Members:
    """Every member gets the operands of the first."""
    return [members[0]] * len(members)


def _collective_permute(x: Exchange, group: Group, members: Members, combine: Combine) -> Members:
    """Each target gets its source's operands; who is no target gets zeros."""
    of = dict(zip(group, members))
    sources = {target: source for source, target in x.pairs}
    nothing = x.results_of_nobody(members[0])
    return [of[sources[p]] if p in sources else nothing for p in group]


def _ragged_all_to_all(x: Exchange, group: Group, members: Members, combine: Combine) -> Members:
    """Member i writes rows input[offset : offset + size] to the place it names in the output of
    member j, for each j (several times when the offsets hold several entries per member)."""
    results = [np.array(member[1]) for member in members]
    for source, _, starts, sizes, places, _ in members:
        per_member = starts.size // len(members)
        for k in range(per_member * len(members)):
            result = results[k // per_member]
            listed = int(starts[k]), int(sizes[k]), int(places[k])
            start, size, place = rows_within(*listed, len(source), len(result))
            result[place : place + size] = source[start : start + size]
    return [[result] for result in results]


def rows_within(
    start: int, size: int, place: int, source_rows: int, result_rows: int
) -> tuple[int, int, int]:
    """Of rows [start, start + size), which go to [place, place + size), those that are rows of
    both arrays: the others are not sent."""
    first = max(0, -start, -place)
    end = min(size, source_rows - start, result_rows - place)
    return (start + first, end - first, place + first) if first < end else (0, 0, 0)


_STARTED = {
    Opcode.ALL_REDUCE_START: Opcode.ALL_REDUCE,
    Opcode.ALL_GATHER_START: Opcode.ALL_GATHER,
    Opcode.COLLECTIVE_PERMUTE_START: Opcode.COLLECTIVE_PERMUTE,
}
_ZEROS_FOR_OTHERS = (Opcode.COLLECTIVE_BROADCAST, Opcode.COLLECTIVE_PERMUTE)
_MEANINGS: dict[Opcode, Callable[[Exchange, Group, Members, Combine], Members]] = {
    Opcode.ALL_GATHER: _all_gather,
    Opcode.ALL_REDUCE: _all_reduce,
    Opcode.ALL_TO_ALL: _all_to_all,
    Opcode.COLLECTIVE_BROADCAST: _collective_broadcast,
    Opcode.COLLECTIVE_PERMUTE: _collective_permute,
    Opcode.RAGGED_ALL_TO_ALL: _ragged_all_to_all,
    Opcode.REDUCE_SCATTER: _reduce_scatter,
}
COLLECTIVES = frozenset(_MEANINGS)
