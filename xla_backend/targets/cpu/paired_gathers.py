"""Neighbours in memory that each lane reads at a place of its own, such as the two parts of a
complex number: they are gathered as one element of twice the size, and come apart in registers.

    v6 = p2[2*v5]
    v7 = p2[2*v5 + 1]
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from xla_backend.kernels.ir import Load, Statement
from xla_backend.llvm.types import bits_of, element, vector
from xla_backend.llvm.types import lanes as lanes_of
from xla_backend.llvm.writer import FunctionWriter

# Bits of elements of which an instruction gathers two as one, and of those that are loaded in twos.
_GATHERED, _LOADED = 32, 64


def next_ones(statements: Sequence[Statement]) -> dict[Load, Load]:
    """The loads behind which another one reads the next element, and that."""
    return {
        first: second
        for first, second in pairwise(statements)
        if isinstance(first, Load)
        and isinstance(second, Load)
        and first.buffer is second.buffer
        and first.guard is second.guard
        and second.index.constant - first.index.constant == 1
        and first.index.terms == second.index.terms
    }


def gathered_pair(
    w: FunctionWriter, ty: str, base: str, index_ty: str, indices: str, mask: str | None
) -> tuple[str, str] | None:
    """Lane j of the first is element indices[j] of the array at base, and of the second the next
    one; both are zero in lanes outside the mask. None: to gather them apart is as good."""
    elem, lanes = element(ty), lanes_of(ty)
    whole = vector(elem, 2 * lanes)
    if bits_of(elem) == _GATHERED:
        wide = vector("i64", lanes)
        found = w.gather(wide, base, index_ty, indices, mask, step=ty)
        both = w.cast("bitcast", wide, found, whole)
    elif bits_of(elem) == _LOADED and mask is None:
        both = _loaded(w, ty, base, index_ty, indices)
    else:
        return None
    evens, odds = (w.shuffle(whole, both, "poison", range(k, 2 * lanes, 2)) for k in (0, 1))
    return evens, odds


def _loaded(w: FunctionWriter, ty: str, base: str, index_ty: str, indices: str) -> str:
    """The pairs of all lanes, one behind the other: each is loaded by itself."""
    elem, lanes = element(ty), lanes_of(ty)
    pointer_ty, pointers = w.pointers(ty, base, index_ty, indices)
    pair, align = vector(elem, 2), bits_of(elem) // 8
    parts = [w.load(pair, w.extract(pointer_ty, pointers, j), align) for j in range(lanes)]
    count = 2
    while len(parts) > 1:  # a power of two of them
        joined = vector(elem, count)
        parts = [w.shuffle(joined, a, b, range(2 * count)) for a, b in zip(parts[::2], parts[1::2])]
        count *= 2
    return parts[0]
