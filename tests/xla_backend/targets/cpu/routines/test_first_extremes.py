"""First extremes of rows on each instruction set: ends of blocks and parts, NaN, zeros, ties."""

import ctypes

import numpy as np
import pytest

from xla_backend.hlo.types import PrimitiveType
from xla_backend.llvm.target import host_target, make_target
from xla_backend.runtime.host_threads import num_threads, set_num_threads
from xla_backend.targets.cpu.routines.library import kernel_library
from xla_backend.targets.cpu.routines.row_types import EXTREME_TYPES, EXTREMES, PART

I64, PTR = ctypes.c_int64, ctypes.c_void_p
P = PrimitiveType
SHAPES = [(1, 1), (3, 31), (2, 3001), (1, 2 * PART), (2, 3 * PART + 77)]


def search(extreme, t, rows, target):
    symbol = kernel_library(target)[f"pyjax_first_{extreme}_{t}"]
    outer, n = rows.shape
    values, places = np.empty(outer, rows.dtype), np.empty(outer, np.int32)
    work = np.empty(outer * -(-n // PART), np.int64)
    arrays = [a.ctypes.data for a in (rows, values, places, work)]
    ctypes.CFUNCTYPE(None, PTR, PTR, PTR, PTR, I64, I64)(symbol)(*arrays, outer, n)
    return values, places


def inputs(shape, dtype, rng):
    if dtype.kind == "b":
        late = np.zeros(shape, dtype)
        late[:, -1] = True
        return [late, ~late, np.zeros(shape, dtype)]
    worst = (
        [np.full(shape, v).astype(dtype) for v in (-np.inf, np.inf)] if dtype.kind == "f" else []
    )
    few = rng.integers(0, 3, shape).astype(dtype)
    found = [
        (rng.normal(size=shape) * 100).astype(dtype),
        few,
        np.sort(few),
        np.zeros(shape, dtype),
    ]
    if dtype.kind == "f":
        zeros = np.where(rng.random(shape) < 0.5, -0.0, 0.0).astype(dtype)
        nan = found[0].copy()
        nan.reshape(-1)[rng.integers(0, nan.size, 5)] = np.nan
        found += [zeros, nan]
    return found + worst


def check(extreme, t, target, rng):
    for shape in SHAPES:
        for rows in inputs(shape, t.numpy_dtype, rng):
            values, places = search(extreme, t, rows, target)
            wanted = rows.argmax(1) if extreme == "max" else rows.argmin(1)
            np.testing.assert_array_equal(places, wanted)
            there = rows[np.arange(shape[0]), wanted]
            assert values.tobytes() == there.tobytes()


@pytest.mark.parametrize("extreme", EXTREMES)
@pytest.mark.parametrize("t", EXTREME_TYPES, ids=str)
def test_every_type(t, extreme):
    before = num_threads()
    try:
        for threads in (1, 2, 7):
            set_num_threads(threads)
            check(extreme, t, host_target(), np.random.default_rng(0))
    finally:
        set_num_threads(before)


@pytest.mark.skipif(not host_target().is_x86, reason="instruction sets of x86")
@pytest.mark.parametrize("t", [P.U8, P.F32, P.S64], ids=str)
@pytest.mark.parametrize("level", ["x86-64-v3", "x86-64"])
def test_older_processors(level, t):
    target = make_target(host_target().triple, level)
    if target.vector_bits > host_target().vector_bits:
        pytest.skip("this processor is older")
    check("max", t, target, np.random.default_rng(0))


@pytest.mark.parametrize("extreme", EXTREMES)
@pytest.mark.parametrize("t", [P.U8, P.F32, P.S64], ids=str)
def test_arrays_that_caches_do_not_hold(t, extreme):
    """Of which what is read later is asked for."""
    rng, dtype = np.random.default_rng(0), t.numpy_dtype
    rows = rng.integers(0, 200, (2, (1 << 23) // dtype.itemsize + 333)).astype(dtype)
    rows[0, -1] = 201
    _, places = search(extreme, t, rows, host_target())
    np.testing.assert_array_equal(places, rows.argmax(1) if extreme == "max" else rows.argmin(1))
