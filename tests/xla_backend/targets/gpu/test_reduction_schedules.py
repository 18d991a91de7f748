"""Reductions as teams of threads: values, orders, and how shapes are shared out."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from code_checks import check_assembles
from hypothesis import given, settings
from hypothesis import strategies as st
from native_checks import check_text
from scheduled_checks import check, scheduled

from tests.needs_ptxas import NEEDS_PTXAS
from xla_backend.kernels.interpreter import Interpreter
from xla_backend.kernels.ir import BufferRole, Kernel, Loop
from xla_backend.kernels.printer import kernel_to_text

COMBINERS = {
    "add": ("add(x, y)", "0"),
    "mul": ("multiply(x, y)", "1"),
    "max": ("maximum(x, y)", "-inf"),
    "min": ("minimum(x, y)", "inf"),
    "and": ("and(x, y)", "true"),
    "or": ("or(x, y)", "false"),
    "xor": ("xor(x, y)", "0"),
}


def reduction(
    dims: tuple[int, ...],
    axes: tuple[int, ...],
    how: str = "add",
    type: str = "f32",
    init: str = "",
) -> tuple[str, str]:
    """The lines of a module that reduces one array, and its combiner."""
    operation, neutral = COMBINERS[how]
    if neutral.endswith("inf") and type[0] in "su":
        info = np.iinfo(f"{'u' if type[0] == 'u' else ''}int{type[1:]}")
        neutral = str(info.min if neutral.startswith("-") else info.max)
    if neutral == "false" and type != "pred":
        neutral = "0"
    if type[0] == "c":
        neutral = f"({neutral}, 0)"
    kept = ",".join(str(d) for i, d in enumerate(dims) if i not in axes)
    full = ",".join(map(str, dims))
    combine = f"""
    combine {{
      x = {type}[] parameter(0)
      y = {type}[] parameter(1)
      ROOT z = {type}[] {operation}
    }}"""
    body = f"""
      p = {type}[{full}] parameter(0)
      start = {type}[] constant({init or neutral})
      ROOT r = {type}[{kept}] reduce(p, start), dimensions={{{",".join(map(str, axes))}}},
        to_apply=combine"""
    return body, combine


def run(case: tuple[str, str], *arguments: np.ndarray) -> Kernel:
    """Long sums may differ by some more roundings."""
    body, combiner = case
    return check(body, called=combiner, arguments=arguments, scale=20)


def launches(kernel: Kernel) -> int:
    return sum(isinstance(stage, Loop) for stage in kernel.stages)


def scheduled_text(case: tuple[str, str], checks: str) -> Kernel:
    """Schedule a case and match the text; too large to run."""
    kernel = scheduled(*case)
    check_text(kernel_to_text(kernel), checks)
    return kernel


SHAPES = [
    *(((n,), (0,)) for n in (1, 31, 32, 33, 1000, 1025, 100003)),
    *(((3, 1025), (axis,)) for axis in (0, 1)), *(((33, 31), (axis,)) for axis in (0, 1)),
    *(((1000, 32), (axis,)) for axis in (0, 1)), *(((1, 1000), (axis,)) for axis in (0, 1)),
    ((4, 5, 6), (1,)), ((4, 5, 6), (0, 2)), ((7, 33, 9), (0, 1)), ((2, 300, 5), (1,)),
    ((2, 3, 4, 5), (1, 3)), ((2, 3, 4, 64), (0, 2)), ((3, 2, 17, 4), (0, 1, 2, 3)),
    ((20000, 3), (0,)), ((3, 20000), (1,)), ((2, 4000, 40), (1,)),
    ((1, 1), (0, 1)), ((5, 1, 4), (1,)),
]  # fmt: skip


@pytest.mark.parametrize(("dims", "axes"), SHAPES, ids=str)
def test_shapes(dims: tuple[int, ...], axes: tuple[int, ...]) -> None:
    run(reduction(dims, axes))


TYPES = [
    ("add", "f64"), ("add", "f16"), ("add", "bf16"), ("mul", "bf16"), ("max", "f16"),
    ("min", "f32"), ("max", "f32"), ("add", "s32"), ("mul", "u8"), ("max", "s8"), ("min", "u16"),
    ("add", "s64"), ("xor", "u32"), ("and", "pred"), ("or", "pred"), ("or", "s16"), ("add", "c64"),
    ("add", "c128"), ("max", "bf16"),
]  # fmt: skip


@pytest.mark.parametrize("shape", [((6, 520), (1,)), ((300, 6), (0,)), ((5, 33), (0, 1))], ids=str)
@pytest.mark.parametrize(("how", "type"), TYPES)
def test_types_and_combiners(how: str, type: str, shape: tuple) -> None:
    run(reduction(*shape, how, type))


def test_products_of_complex_numbers() -> None:
    for dims, axes in (((6, 520), (1,)), ((300, 6), (0,))):
        x = np.exp(1j * np.random.default_rng(0).uniform(-3, 3, dims)).astype(np.complex64)
        run(reduction(dims, axes, "mul", "c64"), x)


def test_initial_values_count_once() -> None:
    for dims, axes in (((3, 700), (1,)), ((700, 3), (0,)), ((60000,), (0,))):
        run(reduction(dims, axes, "add", "s32", init="1000"))
        run(reduction(dims, axes, "max", "f32", init="0.5"))


@pytest.mark.parametrize("how", ["max", "min", "add"])
def test_not_a_number(how: str) -> None:
    """One among the elements of some rows, and infinities of both signs."""
    x = np.random.default_rng(0).standard_normal((6, 200)).astype(np.float32)
    x[1, 77], x[2, 3], x[3, 199], x[4, 0], x[4, 1] = np.nan, np.inf, -np.inf, np.inf, -np.inf
    run(reduction((6, 200), (1,), how), x)
    run(reduction((200, 6), (0,), how), x.T.copy())


BEST = """
best {
  x = f32[] parameter(0)
  i = s32[] parameter(1)
  y = f32[] parameter(2)
  j = s32[] parameter(3)
  more = pred[] compare(x, y), direction=GT
  nan = pred[] compare(x, x), direction=NE
  wins = pred[] or(more, nan)
  same = pred[] compare(x, y), direction=EQ
  first = pred[] compare(i, j), direction=LT
  tie = pred[] and(same, first)
  left = pred[] or(wins, tie)
  v = f32[] select(left, x, y)
  k = s32[] select(left, i, j)
  ROOT t = (f32[], s32[]) tuple(v, k)
}"""
ARG_MAX = """
fused {
  p = f32[%s] parameter(0)
  n = s32[%s] iota(), iota_dimension=%d
  low = f32[] constant(-inf)
  zero = s32[] constant(0)
  ROOT r = (f32[%s], s32[%s]) reduce(p, n, low, zero), dimensions={%d}, to_apply=best
}"""


@pytest.mark.parametrize(
    ("dims", "axis"), [((6, 1000), 1), ((513, 9), 0), ((3, 65, 40), 1), ((50000,), 0)], ids=str
)
def test_arg_max(dims: tuple[int, ...], axis: int) -> None:
    full = ",".join(map(str, dims))
    kept = ",".join(str(d) for i, d in enumerate(dims) if i != axis)
    x = np.random.default_rng(0).integers(0, 40, dims).astype(np.float32)
    fusion = f"ROOT r = (f32[{kept}], s32[{kept}]) fusion(p), kind=kInput, calls=fused"
    called = BEST + ARG_MAX % (full, full, axis, kept, kept, axis)
    run((f"p = f32[{full}] parameter(0)\n{fusion}", called), x)


SEVERAL = """
add { x = f32[] parameter(0) y = f32[] parameter(1) ROOT z = f32[] add(x, y) }
max { x = f32[] parameter(0) y = f32[] parameter(1) ROOT z = f32[] maximum(x, y) }
fused {
  p = f32[%s] parameter(0)
  q = f32[%s] multiply(p, p)
  zero = f32[] constant(0)
  low = f32[] constant(-inf)
  a = f32[%s] reduce(p, low), dimensions={%s}, to_apply=max
  b = f32[%s] reduce(q, zero), dimensions={%s}, to_apply=add
  ROOT t = (f32[%s], f32[%s]) tuple(a, b)
}"""


@pytest.mark.parametrize(
    ("full", "kept", "axes"), [("7,260", "7", "1"), ("260,7", "7", "0"), ("70000", "", "0")]
)
def test_several_reductions_in_one_nest(full: str, kept: str, axes: str) -> None:
    fusion = f"ROOT f = (f32[{kept}], f32[{kept}]) fusion(p), kind=kInput, calls=fused"
    called = SEVERAL % (full, full, kept, axes, kept, axes, kept, kept)
    run((f"p = f32[{full}] parameter(0)\n{fusion}", called))


def test_a_product_of_a_matrix_and_vectors() -> None:
    """Loops over a short contracted dimension are rows like others."""
    for dims in ((40, 300), (6, 9)):
        body = f"""
          a = f32[5,{dims[0]},{dims[1]}] parameter(0)
          v = f32[5,{dims[1]}] parameter(1)
          ROOT r = f32[5,{dims[0]}] dot(a, v), lhs_batch_dims={{0}}, rhs_batch_dims={{0}},
            lhs_contracting_dims={{2}}, rhs_contracting_dims={{1}}"""
        check(body, "// CHECK: shuffle_down(", scale=20)


def test_rows_by_warps() -> None:
    scheduled_text(
        reduction((100000, 512), (1,)),
        """
        // CHECK: for block in grid(12500):
        // CHECK-NEXT: for t in threads(256):
        // CHECK-NEXT: for lane in lanes(4):
        // CHECK-NEXT: acc
        // CHECK-NEXT: for u in unrolled(4):
        // CHECK-NEXT: p0[4096*block + 4*(t % 32) + 512*(t // 32) + 128*u + lane]
        // CHECK-NOT: barrier
        // CHECK: shuffle_down({{.*}}, 16, 32)
        // CHECK: shuffle_down({{.*}}, 1, 32)
        // CHECK: if (t % 32) < 1:
        // CHECK-NEXT: out0[8*block + (t // 32)] =
        """,
    )


def test_rows_by_blocks() -> None:
    scheduled_text(
        reduction((600, 8192), (1,)),
        """
        // CHECK: parts0: shared f32[8]
        // CHECK: for block in grid(600):
        // CHECK-NEXT: for t in threads(256):
        // CHECK: unrolled(4)
        // CHECK: shuffle_down({{.*}}, 1, 32)
        // CHECK: if (t % 32) < 1:
        // CHECK-NEXT: parts0[(t // 32)] =
        // CHECK-NEXT: barrier()
        // CHECK: for part in unrolled(7):
        // CHECK: if t < 1:
        // CHECK-NEXT: out0[block] =
        """,
    )


def test_short_rows_share_a_warp() -> None:
    scheduled_text(
        reduction((100000, 16), (1,)),
        """
        // CHECK: lanes(4)
        // CHECK: p0[1024*block + 4*t + lane]
        // CHECK: shuffle_down({{.*}}, 2, 4)
        // CHECK: shuffle_down({{.*}}, 1, 4)
        // CHECK: if (t % 4) < 1:
        """,
    )


def test_few_long_rows_in_two_launches() -> None:
    kernel = scheduled_text(
        reduction((1 << 22,), (0,)),
        """
        // CHECK: partial0: scratch f32[512]
        // CHECK: grid(512)
        // CHECK: threads(256)
        // CHECK: partial0[
        // CHECK: for t in threads(
        // CHECK: partial0[
        // CHECK: out0[0] =
        """,
    )
    assert launches(kernel) == 2


def test_columns() -> None:
    scheduled_text(
        reduction((4096, 1 << 15), (0,)),
        """
        // CHECK: parts0: shared f32[256]
        // CHECK: grid(1024)
        // CHECK: threads(256)
        // CHECK: p0[32*block + (t % 32) + 32768*(t // 32) +
        // CHECK-NOT: shuffle
        // CHECK: parts0[{{.*}}] =
        // CHECK: barrier()
        // CHECK: for part in unrolled(7):
        // CHECK: if (t // 32) < 1:
        // CHECK-NEXT: out0[32*block + (t % 32)] =
        """,
    )


def test_few_columns_in_two_launches() -> None:
    assert launches(scheduled(*reduction((1 << 17, 64), (0,)))) == 2


@NEEDS_PTXAS
def test_code() -> None:
    cases = [((600, 8192), (1,), "add", type) for type in ("f32", "bf16", "f64", "c64", "s8")]
    cases += [((4096, 1 << 15), (0,), "max", "f16"), ((100003,), (0,), "or", "pred")]
    for found in check_assembles(scheduled(*reduction(*case)) for case in cases).values():
        assert found.spill_stores == found.stack == 0


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_random_shapes(data: st.DataObject) -> None:
    dims = tuple(data.draw(st.lists(st.integers(1, 40), min_size=1, max_size=4)))
    subsets = [
        c for n in range(1, len(dims) + 1) for c in itertools.combinations(range(len(dims)), n)
    ]
    axes = data.draw(st.sampled_from(subsets))
    if math.prod(dims) > 8000:
        return
    how, type = data.draw(st.sampled_from([("add", "f32"), ("max", "f32"), ("add", "bf16")]))
    run(reduction(dims, axes, how, type))


SUM_ONTO = """
add { x = f32[] parameter(0) y = f32[] parameter(1) ROOT z = f32[] add(x, y) }
fused {
  p = f32[%s] parameter(0)
  q = f32[%s] parameter(1)
  start = f32[] %s
  s = f32[%s] reduce(p, start), dimensions={%s}, to_apply=add
  ROOT r = f32[%s] add(s, q)
}"""


@pytest.mark.parametrize("start", ["constant(1)", "parameter(2)"])
@pytest.mark.parametrize(
    ("full", "kept", "axis"),
    [("6,20", "6", 1), ("6,200", "6", 1), ("5,3000", "5", 1), ("300,6", "6", 0), ("70000", "", 0)],
)
def test_a_result_in_the_memory_of_an_operand(full: str, kept: str, axis: int, start: str) -> None:
    """One thread reads and writes it, after all have read what they need; so with the start of a
    sum, which has the memory of the result of a whole array."""
    operands = "p, q" if start.startswith("const") else "p, q, t"
    called = SUM_ONTO % (full, kept, start, kept, axis, kept)
    kernel = scheduled(
        f"p = f32[{full}] parameter(0)\nq = f32[{kept}] parameter(1)\nt = f32[] parameter(2)\n"
        f"ROOT f = f32[{kept}] fusion({operands}), kind=kInput, calls=fused",
        called,
    )
    p = np.random.default_rng(0).uniform(-1, 1, [int(n) for n in full.split(",")])
    p = p.astype(np.float32)
    size = int(kept or 1)
    for shared in ("p1", "p2") if not kept and "parameter" in start else ("p1",):
        q, t = np.arange(size, dtype=np.float32), np.float32([1])
        want = p.sum(axis=axis, dtype=np.float64) + q + 1
        arrays = {"p0": p.reshape(-1), "p1": q, "p2": t}
        memory = {b: arrays[b.name] for b in kernel.buffers if b.name in arrays}
        (output,) = (b for b in kernel.buffers if b.role is BufferRole.OUTPUT)
        memory[output] = arrays[shared]
        Interpreter(kernel, memory=memory).run()
        np.testing.assert_allclose(arrays[shared], want.reshape(-1), rtol=1e-3, atol=1e-3)
