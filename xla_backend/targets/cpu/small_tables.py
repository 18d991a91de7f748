"""Lanes that read at places of their own in few elements, as in a table for each value of a byte:
all of these are loaded into registers, which are permuted by the places.

    v3 = p1[v2]  # of f32[16]
"""

from __future__ import annotations

from typing import NamedTuple

from xla_backend.kernels.index import Index
from xla_backend.llvm.registers import chosen, permuted_type
from xla_backend.llvm.types import bits_of, element, int_of, vector, vector_const
from xla_backend.llvm.types import lanes as lanes_of
from xla_backend.llvm.writer import FunctionWriter

_REGISTER_BITS = 512
# Registers of a table, at most, for each one of lanes, and in all: with more of them a gather is as
# quick on a Zen 4, which takes 21 cycles for 16 lanes.
_FOR_EACH, _IN_ALL = 4, 16
LARGEST_TABLE_BYTES = _IN_ALL * _REGISTER_BITS // 8


class SmallTable(NamedTuple):
    """`size` elements of a buffer from `first` on, of which lanes read those at `places`."""

    first: Index
    places: Index
    size: int


def small_table(w: FunctionWriter, ty: str, index: Index, varying: Index) -> SmallTable | None:
    """What a vector is loaded from, `varying` being what differs between lanes in the index; None
    where a gather is as good."""
    if permuted_type(w, ty) is None:
        return None
    low, high = varying.bounds
    own = bits_of(ty) * lanes_of(ty) // _REGISTER_BITS
    if high - low >= min(_FOR_EACH * own, _IN_ALL) * _REGISTER_BITS // bits_of(ty):
        return None
    return SmallTable(index - varying + low, varying - low, high - low + 1)


def places_type(ty: str) -> str:
    """The elements of an index that `looked_up` takes."""
    return "i64" if bits_of(ty) == 64 else "i32"


def looked_up(w: FunctionWriter, ty: str, first: str, size: int, places: str) -> str:
    """The elements of a table at these places."""
    found = permuted_type(w, ty)
    assert found is not None, "no small table"
    elem, count = element(found), _REGISTER_BITS // bits_of(found)
    register = vector(elem, count)
    parts = []
    for start in range(0, size, count):
        place = w.gep(elem, first, start)
        if start + count <= size:
            parts.append(w.load(register, place))
        else:
            own = vector_const("i1", [start + lane < size for lane in range(count)])
            parts.append(w.masked_load(register, place, own))
    given = vector(places_type(ty), lanes_of(ty))
    if given != int_of(found):
        places = w.cast("trunc", given, places, int_of(found))
    return w.cast("bitcast", found, chosen(w, found, parts, places), ty)
