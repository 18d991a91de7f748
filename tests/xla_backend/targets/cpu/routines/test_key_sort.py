"""Sorts of keys on each instruction set: sizes around the thresholds, and inputs that sorts find
hard."""

import ctypes

import numpy as np
import pytest

from xla_backend.llvm.jit import Library
from xla_backend.llvm.objects import compile_object
from xla_backend.llvm.target import host_target, make_target
from xla_backend.llvm.writer import ModuleWriter
from xla_backend.runtime.host_threads import num_threads, set_num_threads
from xla_backend.targets.cpu.routines.key_sort import KEY_TYPES, emit_heap_sort
from xla_backend.targets.cpu.routines.library import kernel_library
from xla_backend.targets.cpu.routines.merging_networks import merged_capacity

I64, PTR = ctypes.c_int64, ctypes.c_void_p
DTYPES = {"i32": np.dtype(np.int32), "i64": np.dtype(np.int64)}
_LEVELS = {512: "x86-64-v3", 256: "x86-64-v2", 128: "x86-64"}


def targets():
    """This machine, and what it has of older ones."""
    found, bits = [host_target()], host_target().vector_bits
    if host_target().is_x86:
        levels = [level for width, level in _LEVELS.items() if width <= bits]
        found += [make_target(host_target().triple, level) for level in levels]
    return found


@pytest.fixture(params=targets(), ids=lambda t: t.cpu)
def target(request):
    return request.param


@pytest.fixture(params=KEY_TYPES)
def sort(request, target):
    """Sorts a copy, with guards on both sides."""
    dtype = DTYPES[request.param]
    symbol = kernel_library(target)[f"pyjax_sort_keys_{request.param}"]
    fn = ctypes.CFUNCTYPE(None, PTR, I64, I64, I64)(symbol)

    def run(keys, lo=0, hi=None):
        assert keys.dtype == dtype
        memory = np.full(keys.size + 2, 77, dtype)
        memory[1:-1] = keys
        fn(memory.ctypes.data + dtype.itemsize, keys.size, lo, keys.size if hi is None else hi)
        assert memory[0] == memory[-1] == 77
        return memory[1:-1]

    run.dtype, run.most = dtype, merged_capacity(target, request.param)
    return run


def patterns(n, dtype):
    rng = np.random.default_rng(n)
    ends = np.iinfo(dtype)
    up = np.arange(n)
    yield from (up, up[::-1], np.zeros(n), np.minimum(up, up[::-1]), up % 7, up // 7 % 3)
    yield rng.integers(0, 2, n)
    yield np.where(rng.integers(0, 2, n) == 1, ends.max, ends.min)
    yield np.full(n, ends.max)
    yield np.r_[rng.permutation(up[: n // 2]), np.full(n - n // 2, 3)]
    yield rng.integers(ends.min, ends.max, n, dtype, endpoint=True)


def test_every_size_of_networks(sort):
    rng = np.random.default_rng(0)
    for n in range(1, sort.most + 3):
        keys = rng.integers(0, max(2, n), n).astype(sort.dtype)
        np.testing.assert_array_equal(sort(keys), np.sort(keys))


@pytest.mark.parametrize("n", [511, 3000, 40_000])
def test_patterns(sort, n):
    before = num_threads()
    try:
        for threads in (1, 3):
            set_num_threads(threads)
            for keys in patterns(n, sort.dtype):
                keys = keys.astype(sort.dtype)
                np.testing.assert_array_equal(sort(keys), np.sort(keys))
    finally:
        set_num_threads(before)


def test_some_places_only(sort):
    for keys in patterns(5000, sort.dtype):
        keys = keys.astype(sort.dtype)
        wanted = np.sort(keys)
        for lo, hi in [(0, 1), (4999, 5000), (2500, 2501), (100, 900), (0, 5000)]:
            found = sort(keys, lo, hi)
            np.testing.assert_array_equal(found[lo:hi], wanted[lo:hi])
            np.testing.assert_array_equal(np.sort(found[:lo]), wanted[:lo])
            np.testing.assert_array_equal(np.sort(found[hi:]), wanted[hi:])


@pytest.mark.parametrize("ty", KEY_TYPES)
def test_heap(ty):
    """What bad pivots end in, which no input of these tests makes."""
    module = ModuleWriter(host_target())
    heap = emit_heap_sort(module, ty)
    w = module.function("test_heap", [("ptr", "keys"), ("i64", "n")])
    w.call(heap, "void", [("ptr", "%keys"), ("i64", "%n")])
    w.ret()
    library = Library(compile_object(module.to_text(), host_target()))
    fn = library.function("test_heap", None, PTR, I64)
    for n in [1, 2, 3, 4, 100, 2001]:
        for keys in patterns(n, DTYPES[ty]):
            keys = keys.astype(DTYPES[ty])
            wanted = np.sort(keys)
            fn(keys.ctypes.data, n)
            np.testing.assert_array_equal(keys, wanted)
