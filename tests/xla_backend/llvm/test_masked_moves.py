"""Loads and stores of some lanes: right on targets with and without mask registers."""

import ctypes

import numpy as np
import pytest

from xla_backend.llvm.jit import Library
from xla_backend.llvm.masked_moves import masked_move
from xla_backend.llvm.objects import compile_object
from xla_backend.llvm.target import host_target, make_target
from xla_backend.llvm.types import bits_of, vector, vector_const
from xla_backend.llvm.writer import ModuleWriter

I64, PTR = ctypes.c_int64, ctypes.c_void_p
# What runs on every x86-64 machine with AVX2, those with mask registers too.
AVX2 = make_target(host_target().triple, "x86-64-v3")
needs_avx2 = pytest.mark.skipif(
    not (host_target().is_x86 and host_target().has_masks), reason="this machine has no AVX2"
)


@needs_avx2
@pytest.mark.parametrize("ty", ["float", "double", "i16", "i32", "i64"])
@pytest.mark.parametrize("known", [0, 1, 3, 4, 5, 8, 15, 16])
@pytest.mark.parametrize("target", [host_target(), AVX2], ids=["host", "avx2"])
def test_lanes_that_are_known_to_be_left_out(ty, known, target):
    """LLVM took a half of a wide masked load whose mask it knew to be false for a whole load, or
    ended the process."""
    m = ModuleWriter(target)
    w = m.function("f", [("ptr", "x"), ("ptr", "y"), ("ptr", "o"), ("i64", "n")])
    full = vector(ty, 16)
    some = vector_const("i1", [int(i < known) for i in range(16)])
    given = w.splat("<16 x i1>", w.cmp("slt", "i64", "0", "%n"))
    mask = w.op("and", "<16 x i1>", given, some)
    for number, source in enumerate(("%x", "%y")):
        value = w.masked_load(full, source, mask)
        w.store(full, value, w.gep(ty, "%o", 32 * number), align=1)
        w.masked_store(full, value, w.gep(ty, "%o", 32 * number + 16), mask)
    w.ret()
    code = compile_object(m.to_text(), target)
    fn = Library(code).function("f", None, PTR, PTR, PTR, I64)
    dtype = {"float": "f4", "double": "f8"}.get(ty, f"i{bits_of(ty) // 8}")
    x, y = np.arange(1, 17).astype(dtype), np.arange(21, 37).astype(dtype)
    for n in (0, 1):
        o = np.full(64, 99, dtype)
        fn(x.ctypes.data, y.ctypes.data, o.ctypes.data, n)
        moved = (np.arange(16) < known) & bool(n)
        for number, source in enumerate((x, y)):
            np.testing.assert_array_equal(o[32 * number :][:16], np.where(moved, source, 0))
            np.testing.assert_array_equal(o[32 * number + 16 :][:16], np.where(moved, source, 99))


@needs_avx2
def test_masked_load_keeps_what_is_left_out():
    m = ModuleWriter(AVX2)
    w = m.function("f", [("ptr", "x"), ("ptr", "o"), ("i64", "n")])
    full = vector("float", 16)
    mask = w.active_mask(16, "0", "%n")
    w.store(full, w.masked_load(full, "%x", mask, w.iota(full)), "%o", align=1)
    w.ret()
    fn = Library(compile_object(m.to_text(), AVX2)).function("f", None, PTR, PTR, I64)
    x, o = np.arange(100, 116, dtype="f4"), np.zeros(16, "f4")
    fn(x.ctypes.data, o.ctypes.data, 5)
    np.testing.assert_array_equal(o, np.where(np.arange(16) < 5, x, np.arange(16)))


@pytest.mark.parametrize(
    "ty, name, lanes",
    [
        ("<16 x float>", "llvm.x86.avx.maskload.ps.256", 8),
        ("<4 x float>", "llvm.x86.avx.maskload.ps", 4),
        ("<8 x double>", "llvm.x86.avx.maskload.pd.256", 4),
        ("<2 x i64>", "llvm.x86.avx2.maskload.q", 2),
        ("<8 x i32>", "llvm.x86.avx2.maskload.d.256", 8),
    ],
)
def test_masked_moves_take_registers(ty, name, lanes):
    move = masked_move(AVX2, ty)
    assert (move.load, move.lanes) == (name, lanes)
    assert move.store == name.replace("load", "store")


@pytest.mark.parametrize("ty", ["<16 x i8>", "<8 x half>", "<2 x float>", "<12 x float>"])
def test_other_masked_moves_are_generic(ty):
    assert masked_move(AVX2, ty) is None


def test_mask_registers_move_generically():
    target = make_target("x86_64-unknown-linux-gnu", "x86-64-v4")
    assert masked_move(target, "<32 x float>") is None


@needs_avx2
@pytest.mark.parametrize("ty", ["float", "double", "i32", "i64"])
@pytest.mark.parametrize("known", [0, 1, 3, 4, 8, 15])
def test_gathered_lanes_that_are_known_to_be_left_out(ty, known):
    m = ModuleWriter(AVX2)
    w = m.function("f", [("ptr", "x"), ("ptr", "i"), ("ptr", "o"), ("i64", "n")])
    full = vector(ty, 16)
    given = w.splat("<16 x i1>", w.cmp("slt", "i64", "0", "%n"))
    some = vector_const("i1", [int(i < known) for i in range(16)])
    mask = w.op("and", "<16 x i1>", given, some)
    indices = w.load("<16 x i64>", "%i", align=8)
    value = w.gather(full, "%x", "<16 x i64>", indices, mask)
    w.store(full, value, "%o", align=1)
    w.scatter(full, value, w.gep(ty, "%o", 16), "<16 x i64>", indices, mask)
    w.ret()
    fn = Library(compile_object(m.to_text(), AVX2)).function("f", None, PTR, PTR, PTR, I64)
    dtype = {"float": "f4", "double": "f8"}.get(ty, f"i{bits_of(ty) // 8}")
    x, at = np.arange(1, 17).astype(dtype), np.arange(16)[::-1].copy()
    for n in (0, 1):
        o = np.full(32, 99, dtype)
        fn(x.ctypes.data, at.ctypes.data, o.ctypes.data, n)
        moved = (np.arange(16) < known) & bool(n)
        np.testing.assert_array_equal(o[:16], np.where(moved, x[at], 0))
        scattered = np.full(16, 99, dtype)
        scattered[at[moved]] = x[at[moved]]
        np.testing.assert_array_equal(o[16:], scattered)
