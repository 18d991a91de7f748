"""Brings together the two loops between which an array is transposed.

    for i in range(128):                        for j in range(256):
        for j in range(256):                        for i in range(128):
            for k in range(128):          ->            for k in range(128):
                out[... + k] = p[i + ...]                   out[... + k] = p[i + ...]

The loop along which a load reads neighbours goes directly around the one along which the store
writes them, so that a schedule can treat both in square tiles. Only nests of independent loops are
touched: their iterations may run in any order.
"""

from __future__ import annotations

from itertools import pairwise

from xla_backend.kernels.ir import Kernel, Load, Loop, Statement, Store
from xla_backend.kernels.schedule.dependence import results_of, varies

# Shorter loops are not worth a tile.
_SHORTEST = 8


def interchange(kernel: Kernel) -> bool:
    """Reorder the nests of a kernel that transpose. True iff any was."""
    changed = False
    for i, stage in enumerate(kernel.stages):
        if isinstance(stage, Loop):
            new = _interchanged(stage)
            if new is not None:
                kernel.stages[i] = new
                changed = True
    return changed


def _interchanged(stage: Loop) -> Loop | None:
    chain = _chain(stage)
    if chain is None or len(chain) < 3:
        return None
    moved = _transposed_with(chain)
    if moved is None:
        return None
    order = [loop for loop in chain if loop is not moved]
    order.insert(len(order) - 1, moved)
    _move_statements(chain, moved)
    for outer, inner in pairwise(order):
        outer.body = [s for s in outer.body if not isinstance(s, Loop)]
        outer.body.append(inner)
    for depth, loop in enumerate(order, 1):
        loop.var.depth = depth
    return order[0]


def _chain(stage: Loop) -> list[Loop] | None:
    """The loops of a nest in which each contains one other and the innermost does the work."""
    chain = [stage]
    while True:
        loop = chain[-1]
        if loop.carries or not loop.independent:
            return None
        inner = [s for s in loop.body if isinstance(s, Loop)]
        if not inner:
            return chain
        if len(inner) > 1 or any(isinstance(s, Store) for s in loop.body):
            return None
        chain.append(inner[0])


def _transposed_with(chain: list[Loop]) -> Loop | None:
    """The loop along which most loads of the innermost body read neighbours, if the stores do so
    along the innermost and another loop lies between the two."""
    inner = chain[-1]
    stores = [s for s in inner.body if isinstance(s, Store)]
    if inner.var.extent < _SHORTEST or not stores:
        return None
    if any(s.index.coefficient(inner.var) != len(s.values) for s in stores):
        return None
    counts: dict[Loop, int] = {}
    for s in inner.body:
        if isinstance(s, Load) and abs(s.index.coefficient(inner.var)) > 2:
            for loop in chain[:-1]:
                if s.index.coefficient(loop.var) == 1 and loop.var.extent >= _SHORTEST:
                    counts[loop] = counts.get(loop, 0) + 1
    if not counts:
        return None
    best = max(counts, key=lambda loop: counts[loop])
    return None if best is chain[-2] else best


def _move_statements(chain: list[Loop], moved: Loop) -> None:
    """What depends on a loop that moves inwards moves with it."""
    varying: set[object] = {moved.var}
    start = chain.index(moved)
    together: list[Statement] = []
    for loop in chain[start:-1]:
        stay: list[Statement] = []
        for s in loop.body:
            if isinstance(s, Loop):
                stay.append(s)
            elif loop is moved or varies(s, varying):
                varying.update(results_of(s))
                together.append(s)
            else:
                stay.append(s)
        loop.body = stay
    moved.body = [*together, *moved.body]
