"""Blocks of bytes: LLVM's own way to copy, to clear and to ask for them."""

from __future__ import annotations

from xla_backend.llvm.writer import FunctionWriter

# Of arrays that the last cache may not hold: of others, to ask for them ahead costs more than it
# gains.
FAR_BYTES = 1 << 24


def copy_bytes(w: FunctionWriter, target: str, source: str, count: str) -> None:
    """Copies so many bytes; the two places do not overlap."""
    w.module.declare("llvm.memcpy.p0.p0.i64", "void", ["ptr", "ptr", "i64", "i1"])
    copied = f"ptr {target}, ptr {source}, i64 {count}, i1 false"
    w.line(f"call void @llvm.memcpy.p0.p0.i64({copied})")


def clear_bytes(w: FunctionWriter, target: str, count: str) -> None:
    """Makes so many bytes zero."""
    w.module.declare("llvm.memset.p0.i64", "void", ["ptr", "i8", "i64", "i1"])
    w.line(f"call void @llvm.memset.p0.i64(ptr {target}, i8 0, i64 {count}, i1 false)")


def prefetch(w: FunctionWriter, place: str, writes: bool = False, *, far: bool = False) -> None:
    """Asks for the cache line of a place, which need not be any of the process. An address that may
    lie beyond its array must not claim to be in bounds. `far`: what is read much later comes into
    the second cache only, so that nearer lines do not wait for a place in the first."""
    w.module.declare("llvm.prefetch.p0", "void", ["ptr", "i32", "i32", "i32"])
    locality = 2 if far else 3
    w.line(f"call void @llvm.prefetch.p0(ptr {place}, i32 {int(writes)}, i32 {locality}, i32 1)")
