"""Where the ones of an integer begin and end: as an index of 64 bits."""

from __future__ import annotations

from xla_backend.llvm.types import bits_of
from xla_backend.llvm.writer import FunctionWriter


def leading_zeros(w: FunctionWriter, value: str) -> str:
    """How many zeros an i64 has in front of its highest one; 64 where it is zero."""
    return _count(w, "ctlz", "i64", value)


def first_one(w: FunctionWriter, ty: str, bits: str, *, is_there: bool = False) -> str:
    """The lowest one of an integer, such as the lanes of a mask; how many bits it has where there
    is none.

    Args:
      is_there: it is known to have one.
    """
    place = _count(w, "cttz", ty, bits, is_there)
    return place if bits_of(ty) == 64 else w.cast("zext", ty, place, "i64")


def _count(w: FunctionWriter, name: str, ty: str, value: str, is_there: bool = False) -> str:
    w.module.declare(f"llvm.{name}.{ty}", ty, [ty, "i1"])
    flag = "true" if is_there else "false"
    return w.pure(f"call {ty} @llvm.{name}.{ty}({ty} {value}, i1 {flag})", value)
