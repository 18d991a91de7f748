"""Which instruction loads and stores some lanes of a vector, where LLVM must be told.

AVX and AVX2 move the lanes whose sign bit is set in a vector of integers, one register at a time.
LLVM (20 to 22 at least) gets this wrong when it has to take apart a masked load of several
registers: a half whose mask it knows to be false becomes a load of the whole half, or an assertion
ends the process. So for such targets wide moves are written as one intrinsic a register. With
AVX-512's mask registers the generic form is right.
"""

from __future__ import annotations

from typing import NamedTuple

from xla_backend.llvm.target import TargetInfo
from xla_backend.llvm.types import bits_of, element, lanes, vector

_REGISTER_BITS = (256, 128)
# Element type -> (intrinsics by width, the integers whose signs are the mask).
_INTRINSICS = {
    "float": ({256: "avx.mask{}.ps.256", 128: "avx.mask{}.ps"}, "i32"),
    "double": ({256: "avx.mask{}.pd.256", 128: "avx.mask{}.pd"}, "i64"),
    "i32": ({256: "avx2.mask{}.d.256", 128: "avx2.mask{}.d"}, "i32"),
    "i64": ({256: "avx2.mask{}.q.256", 128: "avx2.mask{}.q"}, "i64"),
}


class MaskedMove(NamedTuple):
    """One intrinsic that moves `lanes` of a vector's lanes.

    Fields: load, store: names; type: of the moved vector; signs: of the mask vector.
    """

    lanes: int
    load: str
    store: str
    type: str
    signs: str


def masked_move(target: TargetInfo, ty: str) -> MaskedMove | None:
    """How to move lanes of `ty` register by register; None: LLVM's generic intrinsics do it.

    Elements of 8 and 16 bits have no such instructions: LLVM tests lane by lane.
    """
    found = _INTRINSICS.get(element(ty))
    if found is None or not target.masks_by_sign:
        return None
    names, sign = found
    total = bits_of(ty) * lanes(ty)
    width = next((b for b in _REGISTER_BITS if total % b == 0), None)
    if width is None or (total // width).bit_count() != 1:
        return None
    count = width // bits_of(ty)
    name = f"llvm.x86.{names[width]}"
    return MaskedMove(
        count,
        name.format("load"),
        name.format("store"),
        vector(element(ty), count),
        vector(sign, count),
    )
