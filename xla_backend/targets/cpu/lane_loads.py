"""Lanes that each read a place of their own, one by one, where that is quicker than the instruction
for it: a Zen 4 takes some 21 cycles to gather 16 lanes, and does little else meanwhile.

What takes longest is to get the places out of a vector, so they leave it two at a time:

    v5 = (p2[v4 & 0xffffffff], p2[v4 >> 32])
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from xla_backend.kernels.index import Index
from xla_backend.kernels.ir import Load, Statement, Value
from xla_backend.llvm.target import TargetInfo
from xla_backend.llvm.types import bits_of, element, lanes, vector
from xla_backend.llvm.writer import FunctionWriter
from xla_backend.targets.cpu.small_tables import LARGEST_TABLE_BYTES

# Where most of what lanes reach is in the first cache. (What comes from the second or the third one
# takes as long to gather, 1.09 and 1.17 times as long one by one.)
_NEAR_BYTES = 3 << 14
# Loads of one array at computed places: most are near others of them, as those of an
# interpolation.
_MANY = 4
# Of a register that elements are put into from memory.
_REGISTER_BITS = 128
_LOWER = (1 << 32) - 1


def goes_one_by_one(statements: Sequence[Statement]) -> bool:
    """Whether loads among statements are done so where that is quicker, and no tables are in
    registers in their place."""
    near = near_others(statements)
    for s in _computed_loads(statements):
        part = Index({a: c for a, c in s.index.terms.items() if isinstance(a, Value)})
        reach = _reach(part, s.buffer.element_type.byte_size)
        if reach >= LARGEST_TABLE_BYTES and (s in near or reach < _NEAR_BYTES):
            return True
    return False


def near_others(statements: Sequence[Statement]) -> set[Load]:
    """The loads whose lanes most likely read near what others among the statements read."""
    loads = _computed_loads(statements)
    count = Counter(s.buffer for s in loads)
    return {s for s in loads if count[s.buffer] >= _MANY}


def _computed_loads(statements: Sequence[Statement]) -> list[Load]:
    return [
        s
        for s in statements
        if isinstance(s, Load) and any(isinstance(atom, Value) for atom in s.index.terms)
    ]


def loads_are_quicker(
    target: TargetInfo, ty: str, index_ty: str, varying: Index, is_near: bool
) -> bool:
    """Whether a gather of all lanes is better done so. `varying`: the part of its index that
    differs between lanes; `is_near`: whether something else says that the first cache has it."""
    size = bits_of(element(ty)) // 8
    if not target.gathers_slowly or element(index_ty) != "i32" or size < 4:
        return False
    return is_near or _reach(varying, size) < _NEAR_BYTES


def _reach(index: Index, size: int) -> int:
    """How many bytes there are from the first to the last element of so many bytes."""
    low, high = index.bounds
    return (high - low) * size


def loaded_lanes(w: FunctionWriter, ty: str, base: str, index_ty: str, indices: str) -> str:
    """Lane j is element indices[j] of the array at base, which is not negative."""
    elem, count = element(ty), lanes(ty)
    pairs = vector("i64", count // 2)
    both = w.cast("bitcast", index_ty, indices, pairs)
    loaded: list[str] = []
    for k in range(count // 2):
        pair = w.extract(pairs, both, k)
        for place in (w.op("and", "i64", pair, str(_LOWER)), w.op("lshr", "i64", pair, "32")):
            pointer = w.pure(f"getelementptr inbounds {elem}, ptr {base}, i64 {place}", base, place)
            loaded.append(w.load(elem, pointer))
    size = min(count, _REGISTER_BITS // bits_of(elem))
    parts = [_together(w, vector(elem, size), loaded[k : k + size]) for k in range(0, count, size)]
    while len(parts) > 1:  # a power of two of them
        joined = vector(elem, size)
        size *= 2
        parts = [w.shuffle(joined, a, b, range(size)) for a, b in zip(parts[::2], parts[1::2])]
    return parts[0]


def _together(w: FunctionWriter, ty: str, elements: list[str]) -> str:
    result = "poison"
    for lane, text in enumerate(elements):
        result = w.insert(ty, result, text, lane)
    return result
