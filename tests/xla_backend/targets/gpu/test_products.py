"""Matrix products of GPUs: own kernels against the evaluator, with tensor cores and without."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest
from product_checks import check, kernels_of, planned, random_arrays

import xla_backend
from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.errors import UnimplementedError
from xla_backend.hlo.parser import parse_module
from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.kernels.builder import LoopBuilder
from xla_backend.kernels.from_hlo.elemental import ElementalEmitter
from xla_backend.kernels.index import Index
from xla_backend.kernels.interpreter import GridOrder, Interpreter
from xla_backend.kernels.ir import (
    AsyncGroup,
    AsyncWait,
    Barrier,
    BufferRole,
    If,
    Kernel,
    Loop,
    MatrixTile,
    Statement,
    Value,
    walk,
)
from xla_backend.kernels.library.dots import sizes_of
from xla_backend.kernels.library.factors import Sizes, factor
from xla_backend.kernels.library.matrix_product import Tiling, matrix_product
from xla_backend.kernels.library.recipes import Recipe, recipe_for
from xla_backend.kernels.library.skinny_product import SkinnyTiling, skinny_product
from xla_backend.kernels.races import RaceError
from xla_backend.kernels.verifier import verify_kernel
from xla_backend.program.ir import Launch, Library
from xla_backend.targets.emulator import EmulatorExecutable
from xla_backend.targets.gpu import product_rules
from xla_backend.targets.gpu.architectures import ARCHITECTURES
from xla_backend.targets.gpu.product_candidates import (
    Loops,
    candidates,
    estimated_cycles,
    fastest,
)

F32, BF16, F16 = P.F32, P.BF16, P.F16
ROWS = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
TILES = Tiling(32, 32, 32, 2, 2)


def product(
    sizes: Sizes,
    type: P,
    recipe: Recipe,
    tiling: Tiling | SkinnyTiling,
    layouts: tuple[bool, bool] = (True, False),
) -> Kernel:
    """A bare product. `layouts`: whether the sum is the last dimension of each operand."""
    b = LoopBuilder("product")
    e = ElementalEmitter(b, {})
    batch, m, n, k = sizes
    sources = [
        b.buffer(f"p{i}", type, batch * outer * k, BufferRole.OPERAND, i)
        for i, outer in enumerate((m, n))
    ]
    out = b.buffer("out0", recipe.sums, batch * m * n, BufferRole.OUTPUT)
    factors = []
    for source, outer, last in zip(sources, (m, n), layouts):

        def element(e, at, row, inner, source=source, outer=outer, last=last):  # type: ignore[no-untyped-def]
            place = (at * outer + row) * k + inner if last else (at * k + inner) * outer + row
            return e.load(source, place, source.element_type)

        factors.append(factor(element, (batch, outer, k), {}, recipe, zero=True))

    def finish(at: Index, i: Index, j: Index, total: Value, guard: Value | bool | None) -> None:
        where = guard if isinstance(guard, Value) else None
        b.store(out, (at * m + i) * n + j, (total,), where)

    build = matrix_product if isinstance(tiling, Tiling) else skinny_product
    build(e, sizes, *factors, recipe, tiling, finish)  # type: ignore[arg-type]
    verify_kernel(b.kernel)
    return b.kernel


def run(
    kernel: Kernel,
    sizes: Sizes,
    type: P,
    layouts: tuple[bool, bool] = (True, False),
    order: GridOrder = range,
) -> tuple[np.ndarray, np.ndarray]:
    """The result and what it should be, in f64."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((sizes.batch, sizes.m, sizes.k)).astype(type.numpy_dtype)
    y = rng.standard_normal((sizes.batch, sizes.k, sizes.n)).astype(type.numpy_dtype)
    lhs = x if layouts[0] else x.swapaxes(1, 2)
    rhs = y.swapaxes(1, 2) if layouts[1] else y
    (got,) = Interpreter(kernel, [lhs, rhs], grid_order=order).run()
    return got.reshape(sizes[:3]), x.astype(np.float64) @ y.astype(np.float64)


ORDERS = list(itertools.product((True, False), repeat=2))
SHAPES = [
    (17, 33, 40),
    *(
        pytest.param(s, marks=pytest.mark.slow)
        for s in ((16, 16, 16), (1, 33, 40), (17, 7, 33), (33, 40, 257), (100, 33, 7))
    ),
]


@pytest.mark.parametrize("layouts", ORDERS, ids=str)
@pytest.mark.parametrize("type", [F32, BF16, F16], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_tiles(shape, type, layouts):
    """Edges of all kinds, each order of both operands, and the widest accesses that it allows."""
    sizes = Sizes(1, *shape)
    recipe = recipe_for(type, type, F32)
    assert recipe is not None and recipe.tile is not None
    kernel = product(sizes, type, recipe, TILES, layouts)
    got, want = run(kernel, sizes, type, layouts)
    np.testing.assert_allclose(got, want, atol=3e-2 if type is F32 else 1e-4)
    assert any(isinstance(s, MatrixTile) for s in walk(kernel.stages))


@pytest.mark.parametrize(
    ("algorithm", "error"),
    [
        ("dot_tf32_tf32_f32", 3e-2),
        ("dot_tf32_tf32_f32_x3", 2e-5),
        ("dot_bf16_bf16_f32", 2e-1),
        ("dot_bf16_bf16_f32_x3", 5e-4),
        ("dot_bf16_bf16_f32_x6", 2e-5),
        ("dot_bf16_bf16_f32_x9", 2e-5),
        ("dot_f32_f32_f32", 2e-5),
    ],
)
def test_algorithms_have_their_precision(algorithm, error):
    sizes = Sizes(1, 32, 32, 100)
    recipe = recipe_for(F32, F32, F32, algorithm=algorithm)
    assert recipe is not None
    tiling = TILES if recipe.tile else Tiling(32, 32, 8, 8, 8)
    got, want = run(product(sizes, F32, recipe, tiling), sizes, F32)
    found = np.abs(got - want).max()
    assert found < error
    # And no more work than that takes.
    assert found > error / 100


def without(kernel: Kernel, kind: type[Statement]) -> Kernel:
    """A kernel that lacks statements of a kind."""
    for s in list(walk(kernel.stages)):
        if isinstance(s, Loop | If):
            s.body[:] = [x for x in s.body if not isinstance(x, kind)]
    return kernel


@pytest.mark.parametrize("kind", [AsyncWait, AsyncGroup, Barrier])
def test_a_pipeline_that_does_not_wait_is_found(kind):
    """Slabs are multiplied before they are there, or while they are written."""
    sizes = Sizes(1, 32, 32, 256)
    recipe = recipe_for(BF16, BF16, F32)
    assert recipe is not None
    tiling = Tiling(32, 32, 32, 2, 2, stages=4)
    got, want = run(product(sizes, BF16, recipe, tiling), sizes, BF16)
    np.testing.assert_allclose(got, want, atol=1e-4)
    with pytest.raises(RaceError):
        run(without(product(sizes, BF16, recipe, tiling), kind), sizes, BF16)


@pytest.mark.parametrize("stages", [2, 3, 5])
def test_slabs_ahead(stages):
    sizes = Sizes(1, 32, 32, 100)
    recipe = recipe_for(F16, F16, F32)
    assert recipe is not None
    kernel = product(sizes, F16, recipe, Tiling(32, 32, 32, 2, 2, stages=stages))
    got, want = run(kernel, sizes, F16)
    np.testing.assert_allclose(got, want, atol=1e-4)
    shared = sum(b.size for b in kernel.buffers if b.role is BufferRole.SHARED)
    assert shared == min(stages, 4) * 2 * 32 * 32


def test_parts_of_what_is_not_finite():
    """inf - inf would make nan of an infinite result."""
    recipe = recipe_for(F32, F32, F32, algorithm="dot_bf16_bf16_f32_x3")
    assert recipe is not None
    sizes = Sizes(1, 16, 16, 16)
    kernel = product(sizes, F32, recipe, Tiling(16, 16, 16, 1, 1))
    x = np.ones((16, 16), np.float32)
    x[3, 5] = np.inf
    (got,) = Interpreter(kernel, [x, np.ones((16, 16), np.float32)]).run()
    want = np.full((16, 16), 16.0)
    want[3] = np.inf
    np.testing.assert_array_equal(got.reshape(16, 16), want)


def test_unknown_algorithm():
    with pytest.raises(UnimplementedError, match="dot_of_tomorrow of a dot has no code for GPUs"):
        recipe_for(F32, F32, F32, algorithm="dot_of_tomorrow")


@pytest.mark.parametrize("splits", [3, pytest.param(8, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["tiles", "threads", "skinny"])
def test_split_sums_are_the_same_bits_each_time(kind, splits):
    sizes = Sizes(2, 17, 3 if kind == "skinny" else 12, 257)
    recipe = recipe_for(F32, F32, F32, few=kind != "tiles")
    assert recipe is not None
    tiling = {
        "tiles": Tiling(32, 16, 32, 2, 2, splits),
        "threads": Tiling(32, 16, 32, 16, 8, splits),
        "skinny": SkinnyTiling(4, 32, splits),
    }[kind]
    kernel = product(sizes, F32, recipe, tiling)
    assert len([s for s in kernel.stages if isinstance(s, Loop)]) == 2
    got, want = run(kernel, sizes, F32)
    np.testing.assert_allclose(got, want, atol=3e-2 if kind == "tiles" else 3e-5)
    backwards, _ = run(kernel, sizes, F32, order=lambda n: range(n - 1, -1, -1))
    np.testing.assert_array_equal(got, backwards)


@pytest.mark.parametrize("layouts", ORDERS, ids=str)
@pytest.mark.parametrize("shape", [(40, 1, 257), (3, 17, 100)], ids=str)
def test_few_rows_or_columns(shape, layouts):
    sizes = Sizes(1, *shape)
    recipe = recipe_for(F32, F32, F32, few=True)
    assert recipe is not None
    for tiling in (SkinnyTiling(8, 32), SkinnyTiling(4, 64), SkinnyTiling(32, 8)):
        got, want = run(product(sizes, F32, recipe, tiling, layouts), sizes, F32, layouts)
        np.testing.assert_allclose(got, want, atol=3e-5)


def dot(lhs: str, rhs: str, result: str, attributes: str = ROWS) -> str:
    return (
        f"ENTRY e {{ a = {lhs} parameter(0)  b = {rhs} parameter(1)\n"
        f"ROOT r = {result} dot(a, b), {attributes} }}"
    )


BATCHED = "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims="
DOTS = [
    ("f32[20,33]", "f32[33,24]", "f32[20,24]", ROWS, 1e-5),
    ("f64[20,33]", "f64[33,17]", "f64[20,17]", ROWS, 1e-14),
    ("bf16[33,64]", "bf16[64,72]", "bf16[33,72]", ROWS, 1e-2),
    ("bf16[33,64]", "bf16[64,72]", "f32[33,72]", ROWS, 1e-6),
    ("f16[33,64]", "f16[64,72]", "f16[33,72]", ROWS, 1e-3),
    ("s8[33,64]", "s8[64,72]", "s32[33,72]", ROWS, 0),
    ("s8[33,64]", "s8[64,72]", "s8[33,72]", ROWS, 0),
    ("u8[17,24]", "u8[24,16]", "u32[17,16]", ROWS, 0),
    ("s8[17,24]", "u8[24,16]", "s32[17,16]", ROWS, 0),
    ("s8[100,48]", "u8[100,80]", "s32[48,80]",
     "lhs_contracting_dims={0}, rhs_contracting_dims={0}", 0),
    ("s32[17,20]", "s32[20,16]", "s32[17,16]", ROWS, 0),
    ("s64[17,20]", "s64[20,16]", "s64[17,16]", ROWS, 0),
    ("s16[17,20]", "s16[20,16]", "s16[17,16]", ROWS, 0),
    ("pred[17,20]", "pred[20,16]", "pred[17,16]", ROWS, 0),
    ("c64[7,9]", "c64[9,5]", "c64[7,5]", ROWS, 1e-5),
    ("f8e4m3fn[16,64]", "f8e5m2[64,40]", "f32[16,40]", ROWS, 1e-6),
    ("f8e8m0fnu[16,64]", "f8e4m3fn[64,40]", "f32[16,40]", ROWS, 1e-6),
    ("f8e4m3fn[33,64]", "f8e4m3fn[64,40]", "bf16[33,40]", ROWS, 1e-2),
    ("bf16[64,64]", "f32[64,64]", "f32[64,64]", ROWS, 1e-3),
    ("f32[2,20,33]", "f32[2,33,17]", "f32[2,20,17]", BATCHED + "{1}", 1e-5),
    ("f32[2,20,33]", "f32[2,17,33]", "f32[2,20,17]", BATCHED + "{2}", 1e-5),
    (
        "f32[20,33,2]", "f32[33,17,2]", "f32[2,20,17]",
        "lhs_batch_dims={2}, rhs_batch_dims={2}, lhs_contracting_dims={1}, "
        "rhs_contracting_dims={0}", 1e-5,
    ),
    (
        "f32[4,3,6,10]", "f32[10,4,18]", "f32[3,6,18]",
        "lhs_contracting_dims={0,3}, rhs_contracting_dims={1,0}", 1e-5,
    ),
    ("f32[257]", "f32[257]", "f32[]", "lhs_contracting_dims={0}, rhs_contracting_dims={0}", 1e-5),
    ("f32[100,64]", "f32[64]", "f32[100]", ROWS, 1e-5),
    ("f32[3,3]", "f32[3,3]", "f32[3,3]", ROWS, 1e-5),
    ("f32[0,40]", "f32[40,20]", "f32[0,20]", ROWS, 0),
    ("f32[40,0]", "f32[0,20]", "f32[40,20]", ROWS, 0),
]  # fmt: skip


@pytest.mark.parametrize(("lhs", "rhs", "result", "attributes", "error"), DOTS, ids=str)
def test_dots(lhs, rhs, result, attributes, error):
    check(dot(lhs, rhs, result, attributes), rtol=error)


@pytest.mark.parametrize(
    ("precision", "tiles", "error"),
    [("default", 1, 1e-3), ("high", 3, 1e-6), ("highest", 0, 1e-6)],
)
def test_precision_acts(precision, tiles, error):
    """tf32, three products of tf32, and f32 as it is. Small products are never rounded."""
    words = f"{ROWS}, operand_precision={{{precision},{precision}}}"
    text = dot("f32[64,64]", "f32[64,64]", "f32[64,64]", words)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((64, 64)).astype(np.float32) for _ in range(2)]
    kernels = check(text, rtol=error, arrays=arrays)
    (kernel,) = kernels.values()
    found = [s for s in walk(kernel.stages) if isinstance(s, MatrixTile)]
    assert bool(found) == bool(tiles)
    assert all(s.lhs[0].type is F32 for s in found)
    small = kernels_of(dot("f32[32,32]", "f32[32,32]", "f32[32,32]", words))
    assert not any(isinstance(s, MatrixTile) for k in small.values() for s in walk(k.stages))


EPILOGUE = """
ENTRY e {
  a = bf16[33,64] parameter(0)  b = bf16[64,72] parameter(1)
  bias = f32[72] parameter(2)  residual = f32[33,72] parameter(3)
  d = f32[33,72] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  rows = f32[33,72] broadcast(bias), dimensions={1}
  added = f32[33,72] add(d, rows)
  zero = f32[] constant(0)
  zeros = f32[33,72] broadcast(zero), dimensions={}
  active = f32[33,72] maximum(added, zeros)
  sum = f32[33,72] add(active, residual)
  ROOT r = bf16[33,72] convert(sum)
}"""


def test_epilogue_in_the_same_kernel():
    """Bias, activation, residual and conversion; one launch for all of it."""
    check(EPILOGUE, rtol=1e-2)
    steps = planned(EPILOGUE).program.steps
    assert [type(s) for s in steps] == [Launch]


def test_epilogue_with_two_results():
    text = EPILOGUE.replace(
        "ROOT r = bf16[33,72] convert(sum)",
        "c = bf16[33,72] convert(sum)\nROOT t = (bf16[33,72], f32[33,72]) tuple(c, d)",
    )
    check(text, rtol=1e-2)
    assert [type(s) for s in planned(text).program.steps] == [Launch]


def test_epilogue_of_a_split_sum(monkeypatch):
    """It comes after the parts are added up."""
    tiling = Tiling(32, 64, 32, 2, 2, splits=2)
    monkeypatch.setattr(product_rules, "fastest", lambda *_: tiling)
    (kernel,) = check(EPILOGUE, rtol=1e-2).values()
    assert any(b.role is BufferRole.SCRATCH for b in kernel.buffers)


def test_nan_and_infinity_stay_in_their_row():
    text = dot("bf16[33,64]", "bf16[64,72]", "f32[33,72]")
    arrays = random_arrays(parse_module(text))
    arrays[0][32, 63] = ml_dtypes.bfloat16(np.nan)
    arrays[0][3, 0] = ml_dtypes.bfloat16(np.inf)
    arrays[1][0] = 1
    check(text, arrays=arrays)


def test_the_model_prefers_large_tiles_for_large_products():
    recipe = recipe_for(BF16, BF16, F32)
    assert recipe is not None
    machine = ARCHITECTURES["sm_90"]

    def best(*sizes: int) -> object:
        s = Sizes(*sizes)
        return fastest(candidates(s, recipe, inner_first=True), s, recipe, machine)

    large = best(1, 8192, 8192, 8192)
    assert isinstance(large, Tiling) and (large.rows, large.columns) == (128, 128)
    assert large.splits == 1
    deep = best(1, 256, 256, 16384)
    assert isinstance(deep, Tiling) and deep.splits > 1
    assert isinstance(best(1, 4096, 1, 4096), SkinnyTiling)
    assert isinstance(best(1, 4, 4, 4), Loops)
    one, two = (Sizes(1, m, 4096, 4096) for m in (4096, 8192))
    assert estimated_cycles(large, one, recipe, machine) < estimated_cycles(
        large, two, recipe, machine
    )


LARGE = [
    ("bf16[2048,2048]", "bf16[2048,4096]", "f32[2048,4096]", ROWS, "bf16_f32"),
    ("bf16[2048,2048]", "bf16[2048,4096]", "bf16[2048,4096]", ROWS, "bf16"),
    ("f16[4096,2048]", "f16[2048,4096]", "f16[4096,4096]", ROWS, "f16"),
    ("f32[4096,4096]", "f32[4096,4096]", "f32[4096,4096]", ROWS, "f32_tf32"),
    (
        "f32[4096,4096]", "f32[4096,4096]", "f32[4096,4096]",
        ROWS + ", operand_precision={highest,highest}", "f32",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("lhs", "rhs", "result", "attributes", "name"), LARGE, ids=str)
def test_large_products_are_calls_of_the_library(lhs, rhs, result, attributes, name):
    (step,) = planned(dot(lhs, rhs, result, attributes)).program.steps
    assert isinstance(step, Library) and step.routine == f"cublas_gemm_{name}"


CALLS = [
    ("f32[20,33]", "f32[33,24]", "f32[20,24]", ROWS, "f32", 1e-6),
    ("f32[80,64]", "f32[64,64]", "f32[80,64]", ROWS, "f32_tf32", 1e-3),
    ("f64[20,33]", "f64[33,24]", "f64[20,24]", ROWS, "f64", 1e-14),
    ("f16[20,33]", "f16[33,24]", "f16[20,24]", ROWS, "f16", 1e-3),
    ("bf16[33,20]", "bf16[24,33]", "f32[20,24]",
     "lhs_contracting_dims={0}, rhs_contracting_dims={1}", "bf16_f32", 1e-6),
    ("bf16[3,20,33]", "bf16[3,17,33]", "bf16[3,20,17]", BATCHED + "{2}", "bf16", 1e-2),
]  # fmt: skip


@pytest.mark.parametrize(("lhs", "rhs", "result", "attributes", "name", "error"), CALLS, ids=str)
def test_calls_of_the_library(monkeypatch, lhs, rhs, result, attributes, name, error):
    """The strides that it is called with, and the reference of its contract."""
    monkeypatch.setattr(product_rules, "fastest", lambda found, *_: found[-1])
    text = dot(lhs, rhs, result, attributes)
    assert not check(text, rtol=error)
    (step,) = planned(text).program.steps
    assert isinstance(step, Library) and step.routine == f"cublas_gemm_{name}"


def test_no_call_for_parts_and_odd_types():
    words = ROWS + ", algorithm=dot_bf16_bf16_f32_x3"
    for text in (
        dot("f32[4096,4096]", "f32[4096,4096]", "f32[4096,4096]", words),
        dot("s32[2048,2048]", "s32[2048,2048]", "s32[2048,2048]"),
    ):
        (step,) = planned(text).program.steps
        assert isinstance(step, Launch)


def test_sizes():
    root = parse_module(dot("f32[5,20,33]", "f32[5,33,17]", "f32[5,20,17]", BATCHED + "{1}"))
    assert root.entry is not None and root.entry.root is not None
    assert sizes_of(root.entry.root) == Sizes(5, 20, 17, 33)


PROLOGUE = """
ENTRY e {
  x = bf16[33,40] parameter(0)  q = s8[40,24] parameter(1)  scale = bf16[24] parameter(2)
  w = bf16[40,24] convert(q)
  scales = bf16[40,24] broadcast(scale), dimensions={1}
  scaled = bf16[40,24] multiply(w, scales)
  d = f32[33,24] dot(x, scaled), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = f32[33,24] negate(d)
}"""


def test_work_on_operands_in_the_same_kernel():
    """Weights of 8 bits are converted and scaled as they are loaded."""
    check(PROLOGUE, rtol=1e-2)
    assert [type(s) for s in planned(PROLOGUE).program.steps] == [Launch]


@pytest.mark.parametrize("columns", [24, 5], ids=["tiles", "few"])
def test_work_that_makes_something_of_nothing(columns):
    """Beyond the end of a sum there are zeros, whatever the work makes of zeros."""
    text = f"""
    ENTRY e {{
      x = bf16[33,39] parameter(0)  w = bf16[39,{columns}] parameter(1)
      two = bf16[] constant(2)
      twos = bf16[33,39] broadcast(two), dimensions={{}}
      more = bf16[33,39] add(x, twos)
      others = bf16[39,{columns}] broadcast(two), dimensions={{}}
      weights = bf16[39,{columns}] subtract(w, others)
      ROOT d = f32[33,{columns}] dot(more, weights), {ROWS}
    }}"""
    check(text, rtol=1e-2)
    assert [type(s) for s in planned(text).program.steps] == [Launch]


ORDERED = {
    "rows": "lhs_contracting_dims={1}, rhs_contracting_dims={1}",
    "columns": "lhs_contracting_dims={0}, rhs_contracting_dims={0}",
}


@pytest.mark.parametrize(
    ("type", "depth", "order"),
    [
        ("bf16", 32, "rows"),
        ("bf16", 32, "columns"),
        ("f32", 16, "rows"),
        ("f32", 16, "columns"),
        ("s8", 64, "rows"),
        ("s8", 64, "columns"),
        ("f8e5m2", 64, "columns"),
    ],
)
def test_tiles_have_no_bank_conflicts(monkeypatch, type, depth, order):
    """Neither where slabs are written nor where tiles are read; global memory is read by whole
    sectors."""
    tiling = Tiling(64, 64, depth, 2, 2)
    monkeypatch.setattr(product_rules, "fastest", lambda *_: tiling)
    result = {"s8": "s32"}.get(type, "f32")
    text = dot(f"{type}[64,64]", f"{type}[64,64]", f"{result}[64,64]", ORDERED[order])
    module = parse_module(text)
    arrays = random_arrays(module)
    executable = xla_backend.compile(module, "gpu_emulator", CompileOptions())
    loaded = executable.loaded
    assert isinstance(loaded, EmulatorExecutable)
    ((_, counted),) = loaded.counters(arrays).items()
    for traffic in (*counted.shared_reads.values(), *counted.shared_writes.values()):
        assert traffic.ways == 1
    for name in ("p0", "p1"):
        assert counted.reads[name].efficiency == 1
