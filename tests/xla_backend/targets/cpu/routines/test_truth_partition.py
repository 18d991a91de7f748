"""Partitions of a row by truth values on each instruction set: ends of vectors and parts, all on
one side, threads. Nothing beside the result is written."""

import ctypes

import numpy as np
import pytest

from xla_backend.llvm.target import host_target, make_target
from xla_backend.runtime.host_threads import num_threads, set_num_threads
from xla_backend.targets.cpu.routines.library import kernel_library
from xla_backend.targets.cpu.routines.row_types import PARTITIONED_BYTES

I64, PTR = ctypes.c_int64, ctypes.c_void_p
DTYPES = {1: "u1", 2: "u2", 4: "u4", 8: "u8", 16: "c16"}
SIZES = [0, 1, 15, 64, 130, 1 << 15, 3 * (1 << 15) + 77]


def partitioned(kind, arrays, out, flags, target):
    """The result, with a guard on both sides of which nothing changes."""
    around = np.full(out.size + 128, 77, out.dtype)
    inside = around[64:-64]
    call = kernel_library(target)[f"pyjax_partition_{kind}"]
    given = [a.ctypes.data for a in (*arrays, inside)]
    numbers = (arrays[0].size, flags)
    ctypes.CFUNCTYPE(None, *[PTR] * len(given), I64, I64)(call)(*given, *numbers)
    assert np.all(around[:64] == 77) and np.all(around[-64:] == 77)
    return inside


def check(target):
    rng = np.random.default_rng(0)
    for n in SIZES:
        for share in (0, 0.02, 0.5, 1):
            truth = rng.random(n) < share
            for flags in (0, 1):
                order = np.argsort(truth ^ bool(flags), kind="stable")
                for places in (np.int32, np.int64):
                    kind = f"s{8 * np.dtype(places).itemsize}"
                    found = partitioned(kind, (truth,), np.empty(n, places), flags, target)
                    np.testing.assert_array_equal(found, order)
                for size in PARTITIONED_BYTES:
                    words = rng.integers(0, 256, (n, size), np.uint8)
                    x = words.view(DTYPES[size])[:, 0]
                    out = np.empty(n, x.dtype)
                    found = partitioned(f"b{size}", (truth, x), out, flags, target)
                    assert found.tobytes() == words[order].tobytes()


def test_every_size_and_number_of_threads():
    before = num_threads()
    try:
        for threads in (1, 2, 7):
            set_num_threads(threads)
            check(host_target())
    finally:
        set_num_threads(before)


@pytest.mark.skipif(not host_target().is_x86, reason="instruction sets of x86")
@pytest.mark.parametrize("level", ["x86-64-v4", "x86-64-v3", "x86-64"])
def test_older_processors(level):
    target = make_target(host_target().triple, level)
    if target.vector_bits > host_target().vector_bits:
        pytest.skip("this processor is older")
    check(target)
