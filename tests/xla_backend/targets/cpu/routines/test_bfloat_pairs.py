"""Products of bf16 are fused multiply-adds in f32, one after the other, also where the machine adds
two at a time and takes subnormal numbers for zero."""

from __future__ import annotations

import ctypes

import ml_dtypes
import numpy as np
import pytest

from xla_backend.llvm.objects import assembly
from xla_backend.llvm.target import make_target
from xla_backend.llvm.writer import ModuleWriter
from xla_backend.targets.cpu.routines.gemm import emit_group
from xla_backend.targets.cpu.routines.gemm_paths import Path
from xla_backend.targets.cpu.routines.gemm_tiles import GEMM_TYPES
from xla_backend.targets.cpu.routines.library import kernel_library

BF16 = np.dtype(ml_dtypes.bfloat16)
KIND = "bf16_f32"
# One piece of K on every machine.
SIZES = [(9, 17, 2), (8, 48, 64), (17, 33, 65), (29, 130, 190), (400, 50, 41), (3, 5, 191)]
LINUX = "x86_64-unknown-linux-gnu"
PAIRED = make_target(LINUX, "x86-64-v4", "+avx512bf16")
PLAIN = make_target(LINUX, "x86-64-v4")


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    c = np.empty((a.shape[0], b.shape[1]), np.float32)
    numbers: list[int] = [a.shape[0], b.shape[1], a.shape[1]]
    for each in (a, b):
        numbers += [each.ctypes.data, *(step // each.itemsize for step in each.strides)]
    numbers += [c.ctypes.data, c.shape[1], 0]
    routine = kernel_library()[f"pyjax_gemm_{KIND}"]
    ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * len(numbers))(routine)(*numbers)
    return c


def one_after_the_other(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Products must be exact in f32: then a sum rounds once, as a fused multiply-add does."""
    total = np.zeros((a.shape[0], b.shape[1]), np.float32)
    with np.errstate(invalid="ignore", over="ignore"):
        for column, row in zip(a.astype(np.float32).T, b.astype(np.float32), strict=True):
            total = total + column[:, None] * row
    return total


def same_bits(got: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))
    known = ~np.isnan(expected)
    np.testing.assert_array_equal(got[known].view(np.int32), expected[known].view(np.int32))


def laid_out(matrix: np.ndarray, layout: str) -> np.ndarray:
    return np.asfortranarray(matrix) if layout == "column" else np.ascontiguousarray(matrix)


@pytest.mark.parametrize("layout_b", ["row", "column"])
@pytest.mark.parametrize("layout_a", ["row", "column"])
@pytest.mark.parametrize("special", [False, True])
def test_order_of_additions(layout_a: str, layout_b: str, special: bool) -> None:
    rng = np.random.default_rng(0)
    for m, n, k in SIZES:
        a, b = rng.normal(size=(m, k)).astype(BF16), rng.normal(size=(k, n)).astype(BF16)
        if special:
            a[rng.random(a.shape) < 0.1] = 0
            b[rng.random(b.shape) < 0.1] = -0.0
            a[0, 0], b[k - 1, n - 1] = np.inf, np.nan
            a[m - 1, k - 1] = 3e38
        a, b = laid_out(a, layout_a), laid_out(b, layout_b)
        same_bits(product(a, b), one_after_the_other(a, b))


@pytest.mark.parametrize("which", ["a", "b", "both"])
@pytest.mark.parametrize("everywhere", [False, True])
def test_small_numbers(which: str, everywhere: bool) -> None:
    """Small integers times powers of two: products and sums are exact, many of them subnormal."""
    rng = np.random.default_rng(1)
    for m, n, k in [*SIZES, (29, 130, 700), (3, 5, 1025)]:
        a = rng.integers(-3, 4, (m, k)).astype(np.float64)
        b = rng.integers(-3, 4, (k, n)).astype(np.float64)
        scales = {"a": (-132, -8), "b": (-3, -131), "both": (-72, -72)}[which]
        if everywhere:
            a, b = a * 2.0 ** scales[0], b * 2.0 ** scales[1]
        else:  # one row or column of them, as the last
            a[-1] *= 2.0 ** scales[0]
            b[:, -1] *= 2.0 ** scales[1]
        narrow = [each.astype(BF16) for each in (a, b)]
        assert all((x.astype(np.float64) == y).all() for x, y in zip(narrow, (a, b), strict=True))
        same_bits(product(*narrow), one_after_the_other(*narrow))


def test_at_the_limit() -> None:
    """The smallest numbers that pairs are for, and the next ones below; their sums cancel."""
    for exponents in ((-55, -56), (-56, -56), (-56, -57), (-57, -57), (-100, -11), (-13, -100)):
        ones = np.array([1, 1 + 2**-7, -1, -1 - 2**-7] * 16)
        a = np.tile(ones * 2.0 ** exponents[0], (8, 1)).astype(BF16)
        b = np.tile(ones[:, None] * 2.0 ** exponents[1] * (1 + 2**-7), (1, 16)).astype(BF16)
        b[1::4] = b[0::4]
        same_bits(product(a, b), one_after_the_other(a, b))


def test_instructions() -> None:
    """Pairs where there is an instruction for them; beside it kernels for small numbers, with as
    many multiply-adds as elsewhere."""
    counts = {}
    for target in (PAIRED, PLAIN):
        module = ModuleWriter(target)
        emit_group(GEMM_TYPES[KIND], module, Path("packed", even=True, narrow=True))
        code = assembly(module.to_text(), target)
        counts[target.features] = code.count("vdpbf16ps"), code.count("vfmadd")
    assert counts["+avx512bf16"] == (8, 16)
    assert counts[""] == (0, 8)
