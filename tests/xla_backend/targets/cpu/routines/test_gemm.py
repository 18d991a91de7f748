"""GEMM kernels against NumPy: every element type, layout, edge size, accumulation, batches."""

import ctypes
import itertools
import re

import numpy as np
import pytest

from xla_backend import compile, parse_hlo
from xla_backend.hlo.types import PrimitiveType
from xla_backend.llvm.objects import assembly
from xla_backend.llvm.target import host_target, make_target
from xla_backend.llvm.writer import ModuleWriter
from xla_backend.runtime import host_threads
from xla_backend.runtime.host_threads import num_threads
from xla_backend.targets.cpu.routines.gemm import emit_group
from xla_backend.targets.cpu.routines.gemm_paths import (
    ANY_WIDTH_PATHS,
    PATHS,
    Path,
    path_of,
    paths_of,
)
from xla_backend.targets.cpu.routines.gemm_tiles import GEMM_TYPES, tile_for
from xla_backend.targets.cpu.routines.library import kernel_library
from xla_backend.targets.cpu.routines.registry import group_module
from xla_backend.targets.cpu.routines.subjects import declare_kernels
from xla_backend.targets.cpu.routines.variants import variant

P = PrimitiveType
I64, PTR = ctypes.c_int64, ctypes.c_void_p
KINDS = [
    "f32",
    "f64",
    "bf16_f32",
    "bf16_bf16",
    "f16_f16",
    "s8_s32",
    "s32_s32",
    "u64_u64",
    "c64_c64",
]
TOLERANCE = {"f32": 2e-6, "f64": 1e-14, "bf16": 1e-2, "f16": 2e-3, "c64": 2e-6, "c128": 1e-14}


def function(kind, batched=False):
    batch = [I64] if batched else []
    step = [I64] if batched else []
    types = [
        *batch,
        I64,
        I64,
        I64,
        PTR,
        *step,
        I64,
        I64,
        PTR,
        *step,
        I64,
        I64,
        PTR,
        *step,
        I64,
        I64,
    ]
    name = f"pyjax_gemm_{'batched_' if batched else ''}{kind}"
    return ctypes.CFUNCTYPE(None, *types)(kernel_library()[name])


def strides(a):
    return [s // a.itemsize for s in a.strides]


def draw(rng, shape, dtype):
    dtype = np.dtype(dtype)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return rng.integers(max(info.min, -100), min(info.max, 100), shape).astype(dtype)
    values = rng.standard_normal(shape)
    if dtype.kind == "c":
        values = values + 1j * rng.standard_normal(shape)
    return values.astype(dtype)


def matrix(rng, rows, columns, dtype, layout):
    if layout == "row":
        return draw(rng, (rows, columns), dtype)
    if layout == "column":
        return draw(rng, (columns, rows), dtype).T
    return draw(rng, (2 * rows, 3 * columns), dtype)[::2, ::3]


def split(kind):
    source, _, target = kind.partition("_")
    return source, target or source


def check(kind, m, n, k, layout_a, layout_b, accumulate, seed=0):
    rng = np.random.default_rng(seed)
    source, target = split(kind)
    a = matrix(rng, m, k, P(source).numpy_dtype, layout_a)
    b = matrix(rng, k, n, P(source).numpy_dtype, layout_b)
    c = np.full((m, n + 3), 2, P(target).numpy_dtype)
    args = (m, n, k, a.ctypes.data, *strides(a), b.ctypes.data, *strides(b), c.ctypes.data, n + 3)
    function(kind)(*args, int(accumulate))
    out = P(target).numpy_dtype
    if out.kind in "iu":
        wide = out
    else:
        wide = np.dtype(np.complex128 if target[0] == "c" else np.float64)
    expected = a.astype(wide) @ b.astype(wide)
    if accumulate:
        expected = expected + np.asarray(2, wide)
    got = c[:, :n].astype(wide)
    if out.kind in "iu":
        np.testing.assert_array_equal(got, expected.astype(out).astype(wide))
    else:
        scale = max(1.0, float(k)) ** 0.5 * 6
        np.testing.assert_allclose(
            got, expected, rtol=TOLERANCE[target], atol=TOLERANCE[target] * scale
        )
    assert (c[:, n:] == 2).all(), "wrote beyond the last column"


SIZES = [(1, 1, 1), (8, 48, 4), (3, 5, 7), (17, 33, 65), (5, 10, 0), (40, 70, 300)]


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("layout_b", ["row", "column", "strided"])
@pytest.mark.parametrize("layout_a", ["row", "column", "strided"])
@pytest.mark.parametrize("kind", KINDS)
def test_layouts(kind, layout_a, layout_b, accumulate):
    for m, n, k in SIZES:
        check(kind, m, n, k, layout_a, layout_b, accumulate)


# With tiles of rows that are full and not, one and several vectors of columns, near and far.
PATH_SIZES = [
    (1, 30, 20),
    (30, 1, 20),
    *itertools.product((24, 29), (9, 70), (4, 41)),
    *itertools.product((24, 29), (9, 70), (8300,)),
    *itertools.product((2, 4), (9, 70), (41, 8300)),
    *itertools.product((72, 75), (9, 70), (300, 8300)),
    *itertools.product((24, 29), (5,), (41, 300, 8300)),
    (72, 130, 300),
    (75, 130, 300),
    (72, 9, 900),
    (75, 9, 900),
]


# What each kind takes is the compilation of all paths.
_SLOWLY = [pytest.param(kind, marks=pytest.mark.slow) for kind in ("bf16_bf16", "c64_c64")]


@pytest.mark.parametrize("kind", ["f32", "s8_s32", *_SLOWLY])
def test_a_path_alone_gives_the_bits_of_all_of_them(kind):
    """What a program calls, who knows the sizes, does what the choice at run time does."""
    rng = np.random.default_rng(5)
    taken = set()
    source, target = (P(name).numpy_dtype for name in split(kind))
    layouts = ("row", "column", "strided")
    tile = tile_for(GEMM_TYPES[kind], host_target())
    panels = itertools.product((24, 29), [v * tile.lanes - 1 for v in (2, 3, 4, 5)], (4, 41))
    sizes = [*PATH_SIZES, *panels]
    for (m, n, k), layout_a, layout_b in itertools.product(sizes, layouts, layouts):
        a = matrix(rng, m, k, source, layout_a)
        b = matrix(rng, k, n, source, layout_b)
        names = ("M", "N", "K", "rsA", "csA", "rsB", "csB", "ldc")
        numbers = dict(zip(names, (m, n, k, *strides(a), *strides(b), n)))
        name = variant(f"gemm_{kind}", numbers, host_target())
        taken.add(name)
        results = []
        for routine in (kind, name.removeprefix("gemm_")):
            c = np.full((m, n), 2, target)
            left = (a.ctypes.data, *strides(a))
            function(routine)(m, n, k, *left, b.ctypes.data, *strides(b), c.ctypes.data, n, 1)
            results.append(c.tobytes())
        assert results[0] == results[1], (m, n, k, layout_a, layout_b, name)
    assert taken == {f"gemm_{kind}.{p.name}" for p in paths_of(GEMM_TYPES[kind], host_target())}


def test_names_of_paths():
    every = [*PATHS, *ANY_WIDTH_PATHS]
    assert len({path.name for path in every}) == len(every)
    assert Path("packed", True, True, False, True).name == "split_packed_even_turned"


def test_a_program_gets_one_path_of_a_routine():
    declare_kernels()
    module = parse_hlo("""ENTRY e {
  x = f32[64,64] parameter(0)
  ROOT r = f32[64,64] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}""")
    called = set(re.findall(r"@pyjax_gemm_[\w.]+", compile(module).texts()["llvm"]))
    name = variant("gemm_f32", dict(M=64, N=64, K=64, rsA=64, csA=1, rsB=64, csB=1), host_target())
    assert called == {f"@pyjax_{name}"}
    whole, part = (group_module(g, host_target()).to_text() for g in ("gemm_f32", name))
    assert len(part) < 0.3 * len(whole)


@pytest.mark.parametrize("kind", ["f32", "f64", "bf16_bf16", "bf16_f32", "f16_f16", "c64_c64"])
@pytest.mark.parametrize(
    "size",
    [(1, 100, 50), (100, 1, 50), (1, 1500, 300), (700, 1, 333), (129, 257, 600), (5, 1100, 300)],
)
def test_vectors_and_blocks(kind, size):
    for layout_a in ("row", "column"):
        for layout_b in ("row", "column"):
            check(kind, *size, layout_a, layout_b, 1 in size)


@pytest.mark.parametrize("kind", ["f32", "bf16_bf16", "c64_c64"])
@pytest.mark.parametrize("size", [(1, 40, 50), (40, 1, 50)])
@pytest.mark.parametrize("layout", ["row", "column"])
def test_vectors_of_what_is_not_finite(kind, size, layout):
    """In the result that has it, and nowhere else."""
    m, n, k = size
    rng = np.random.default_rng(3)
    out = P(split(kind)[1]).numpy_dtype
    a, b = (matrix(rng, *shape, out, layout) for shape in ((m, k), (k, n)))
    (a if n == 1 else b.T)[17, 20] = np.nan
    (a if n == 1 else b.T)[38, 49] = np.inf
    c = np.zeros((m, n), out)
    operands = (a.ctypes.data, *strides(a), b.ctypes.data, *strides(b), c.ctypes.data, n)
    function(kind)(m, n, k, *operands, 0)
    found = c.ravel().astype(np.complex64)
    assert np.isnan(found[17]) and not np.isfinite(found[38])
    assert np.isfinite(np.delete(found, [17, 38])).all()


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("size", [(65, 2, 64), (131, 3, 101), (67, 4, 1024), (300, 4, 67)])
@pytest.mark.parametrize("layout", ["row", "column", "strided"])
@pytest.mark.parametrize("accumulate", [False, True])
def test_tall_matrices_by_few_columns(kind, size, layout, accumulate):
    check(kind, *size, "row", layout, accumulate)


def test_tall_matrices_have_a_way_of_their_own():
    sizes = {"rsB": 3, "csB": 1, "N": 3, "csA": 1, "ldc": 3}
    target = make_target("x86_64-unknown-linux-gnu", "x86-64-v4")
    ways = {
        (m, k): path_of(GEMM_TYPES["f32"], target, sizes | {"M": m, "K": k, "rsA": k}).way
        for m, k in [(64, 64), (65, 64), (10000, 512), (10000, 63), (10000, 4000)]
    }
    tall = [shape for shape, way in ways.items() if way == "dots"]
    assert tall == [(65, 64), (10000, 512)]


def test_few_columns_are_shorter_vectors():
    """Where the longest take two cycles."""
    sizes = {"rsB": 1, "csB": 1, "M": 80, "K": 16, "csA": 1, "rsA": 16, "ldc": 1}
    halves = {
        (machine, n): path_of(GEMM_TYPES["f32"], make_target(*machine), sizes | {"N": n}).half
        for machine in [("x86_64-unknown-linux-gnu", f"x86-64-v{level}") for level in (3, 4)]
        for n in (8, 9)
    }
    assert list(halves.values()) == [False, False, True, False]


@pytest.mark.parametrize("threads", [1, 2, 7])
@pytest.mark.parametrize(
    "m, n, k", [(300, 200, 500), (4, 1500, 400), (20001, 3, 77), (20001, 7, 20)]
)
def test_result_does_not_depend_on_threads(m, n, k, threads):
    before = num_threads()
    rng = np.random.default_rng(1)
    a, b = draw(rng, (m, k), np.float32), draw(rng, (k, n), np.float32)
    results = []
    try:
        for count in (1, threads):
            host_threads.set_num_threads(count)
            c = np.empty((m, n), np.float32)
            operands = (a.ctypes.data, k, 1, b.ctypes.data, n, 1)
            function("f32")(m, n, k, *operands, c.ctypes.data, n, 0)
            results.append(c)
    finally:
        host_threads.set_num_threads(before)
    np.testing.assert_array_equal(results[0], results[1])


@pytest.mark.parametrize("batch", [0, 1, 5, 64])
def test_batched(batch):
    rng = np.random.default_rng(2)
    a, b = draw(rng, (batch, 20, 64), np.float32), draw(rng, (batch, 64, 30), np.float32)
    c = np.full((batch, 20, 30), np.nan, np.float32)
    function("f32", batched=True)(
        batch,
        20,
        30,
        64,
        a.ctypes.data,
        1280,
        64,
        1,
        b.ctypes.data,
        1920,
        30,
        1,
        c.ctypes.data,
        600,
        30,
        0,
    )
    np.testing.assert_allclose(c, a @ b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("type", [np.int8, np.uint8])
@pytest.mark.parametrize("m, n, k", [(1, 1, 1), (8, 48, 383), (9, 50, 385), (33, 49, 1001)])
def test_products_of_bytes_are_exact(type, m, n, k):
    """All values, the extremes often, pairs of which are the largest sums; odd and whole K."""
    rng = np.random.default_rng(0)
    info = np.iinfo(type)
    values = np.concatenate([np.arange(info.min, info.max + 1), [info.min, info.max] * 128])
    a, b = (rng.choice(values, size).astype(type) for size in ((m, k), (k, n)))
    kind = f"{np.dtype(type).kind.replace('i', 's')}8_s32"
    for x, y in ((a, b), (np.asfortranarray(a), np.asfortranarray(b))):
        c = np.full((m, n), 5, np.int32)
        function(kind)(
            m, n, k, x.ctypes.data, *strides(x), y.ctypes.data, *strides(y), c.ctypes.data, n, 1
        )
        np.testing.assert_array_equal(c, a.astype(np.int32) @ b.astype(np.int32) + 5)


@pytest.mark.parametrize("cpu", ["x86-64", "x86-64-v3", "x86-64-v4"])
def test_products_of_bytes_are_pairs(cpu):
    """One instruction for two products and their sum; no 32-bit multiplications."""
    target = make_target("x86_64-unknown-linux-gnu", cpu)
    module = ModuleWriter(target)
    emit_group(GEMM_TYPES["s8_s32"], module, Path("packed"))
    code = assembly(module.to_text(), target)
    assert "pmaddwd" in code
    assert not re.search("pmulld|pmuludq", code)


def test_nan_and_infinity_pass_through():
    a = np.array([[np.nan, 1], [np.inf, 1]], np.float32)
    b = np.array([[0, 1], [1, 1]], np.float32)
    c = np.empty((2, 2), np.float32)
    function("f32")(2, 2, 2, a.ctypes.data, 2, 1, b.ctypes.data, 2, 1, c.ctypes.data, 2, 0)
    np.testing.assert_array_equal(c, [[np.nan, np.nan], [np.nan, np.inf]])


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("layout", ["row", "column"])
@pytest.mark.parametrize("size", [(1, 2100, 77), (2100, 1, 77), (1, 7, 9), (1, 40, 0)])
def test_streaming_vectors_accumulate(size, layout, accumulate):
    for kind in ("f32", "f64"):
        check(kind, *size, layout, layout, accumulate)


EPILOGUE = ctypes.CFUNCTYPE(None, PTR, PTR, *[I64] * 6)
# The last one has a large factor that is not packed.
FUSED_SIZES = [
    (1, 1, 4), (1, 2100, 7), (2100, 1, 7), (5, 300, 9), (150, 260, 40), (33, 70, 500),
    (131, 3, 101), (5, 1100, 300),
]  # fmt: skip


@pytest.mark.parametrize("scratch", [False, True])
@pytest.mark.parametrize("kind", ["f32", "bf16_bf16", "s32_s32"])
def test_epilogue_gets_every_element_once_and_complete(kind, scratch):
    source, target = split(kind)
    rng = np.random.default_rng(3)
    types = [I64, I64, I64, PTR, I64, I64, PTR, I64, I64, PTR, I64, I64, PTR, PTR, I64, I64]
    run = ctypes.CFUNCTYPE(None, *types)(kernel_library()[f"pyjax_gemm_fused_{kind}"])
    for m, n, k in FUSED_SIZES:
        if scratch and min(m, n) == 1:
            continue
        a, b = draw(rng, (m, k), P(source).numpy_dtype), draw(rng, (k, n), P(source).numpy_dtype)
        c, seen = np.zeros((m, n), P(target).numpy_dtype), np.zeros((m, n), P(target).numpy_dtype)
        count = np.zeros((m, n), int)

        def epilogue(data, block, ld, row_lo, rows, column_lo, columns, batch):
            assert batch == 7
            for i in range(rows):
                raw = ctypes.string_at(
                    block + i * ld * c.itemsize,  # noqa: B023
                    columns * c.itemsize,  # noqa: B023
                )
                here = row_lo + i, slice(column_lo, column_lo + columns)
                seen[here] = np.frombuffer(raw, c.dtype)  # noqa: B023
                count[here] += 1  # noqa: B023

        callback = EPILOGUE(epilogue)
        place = 0 if scratch else c.ctypes.data
        function_pointer = ctypes.cast(callback, PTR)
        operands = (a.ctypes.data, *strides(a), b.ctypes.data, *strides(b))
        run(m, n, k, *operands, place, n, 0, function_pointer, None, 7, 10)
        assert (count == 1).all()
        expected = np.zeros((m, n), P(target).numpy_dtype)
        function(kind)(m, n, k, *operands, expected.ctypes.data, n, 0)
        if scratch and k > 192:  # one long sum instead of a sum of pieces
            close = {"rtol": 10 * TOLERANCE.get(target, 0), "atol": 100 * TOLERANCE.get(target, 0)}
            np.testing.assert_allclose(seen.astype(float), expected.astype(float), **close)
        else:
            np.testing.assert_array_equal(seen, expected)
