"""Prefix reductions on GPUs: by threads, warps, blocks, and blocks together."""

from collections.abc import Sequence

import numpy as np
import pytest
from emulated_checks import barriers, check_emulated, in_any_order
from native_checks import arguments_of, module_of

import xla_backend
from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.kernels.interpreter import run_kernel
from xla_backend.kernels.ir import Loop, LoopKind, walk
from xla_backend.kernels.races import KernelRunError

OPERATIONS = {
    "add": ("add", 1),
    "multiply": ("multiply", 1),
    "maximum": ("maximum", -2),
    "minimum": ("minimum", 2),
}
LOG_SUM_EXP = """c { a = f32[] parameter(0)  b = f32[] parameter(1)
    high = f32[] maximum(a, b)  low = f32[] minimum(a, b)  d = f32[] subtract(low, high)
    e = f32[] exponential(d)  l = f32[] log-plus-one(e)  ROOT r = f32[] add(high, l) }"""
# (a, b) followed by (c, d) is x -> c * (a x + b) + d: associative, and not commutative.
MAPS = """c { a = s32[] parameter(0)  b = s32[] parameter(1)
    c = s32[] parameter(2)  d = s32[] parameter(3)
    ac = s32[] multiply(a, c)  bc = s32[] multiply(b, c)  e = s32[] add(bc, d)
    ROOT r = (s32[], s32[]) tuple(ac, e) }"""


def windows(dims: Sequence[int], axis: int, reverse: bool) -> str:
    n = dims[axis]
    sizes = "x".join(str(n) if d == axis else "1" for d in range(len(dims)))
    pad = f"0_{n - 1}" if reverse else f"{n - 1}_0"
    pads = "x".join(pad if d == axis else "0_0" for d in range(len(dims)))
    return f"window={{size={sizes} pad={pads}}}"


def cumulative(t: str, dims: Sequence[int], axis: int, op: str = "add", reverse: bool = False):
    shape = f"{t}[{','.join(map(str, dims))}]"
    opcode, init = OPERATIONS[op]
    called = f"c {{ a = {t}[] parameter(0) b = {t}[] parameter(1) ROOT r = {t}[] {opcode}(a, b) }}"
    init_text = f"({init}, 0)" if t.startswith("c") else str(max(init, 0) if t[0] == "u" else init)
    body = f"""x = {shape} parameter(0)  i = {t}[] constant({init_text})
        ROOT r = {shape} reduce-window(x, i), {windows(dims, axis, reverse)}, to_apply=c"""
    return module_of(body, called)


# By threads, by warps, by blocks; along any axis.
SHAPES = [
    ((10,), 0), ((5, 16), 1), ((1, 2, 3), 1), ((40, 7), 0), ((3, 40, 5), 1),
    ((33,), 0), ((2, 100), 1), ((9, 200), 1), ((256,), 0), ((257,), 0), ((3, 1030), 1),
    ((300, 3), 0), ((513, 260), 1),
]  # fmt: skip


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("dims", "axis"), SHAPES)
def test_any_axis_and_direction(dims, axis, reverse) -> None:
    x = np.random.default_rng(0).integers(-9, 9, dims).astype(np.int32)
    check_emulated(cumulative("s32", dims, axis, "add", reverse), [x])


@pytest.mark.parametrize("op", OPERATIONS)
@pytest.mark.parametrize("t", ["s8", "u16", "s64", "bf16", "f16", "f32", "f64", "c64"])
def test_types_and_operations(t, op) -> None:
    if t == "c64" and op not in ("add", "multiply"):
        return
    module = cumulative(t, (3, 40), 1, op)
    low, high = (0.9, 1.1) if op == "multiply" else (-1, 1)
    check_emulated(module, arguments_of(module, low=low, high=high), scale=8)


def test_nan_is_passed_on() -> None:
    x = np.arange(50, dtype=np.float32)
    x[20] = np.nan
    for op in ("add", "maximum"):
        check_emulated(cumulative("f32", (50,), 0, op), [x])


def log_sum_exp(dims: str, windows: str) -> HloModule:
    return module_of(
        f"""x = f32[{dims}] parameter(0)  i = f32[] constant(-inf)
        ROOT r = f32[{dims}] reduce-window(x, i), {windows}, to_apply=c""",
        LOG_SUM_EXP,
    )


def test_logarithms_of_sums() -> None:
    module = log_sum_exp("2,60", windows((2, 60), 1, False))
    check_emulated(module, [np.random.default_rng(0).normal(size=(2, 60)).astype(np.float32)])


@pytest.mark.parametrize("n", [10, 50, 700])
def test_several_values_at_once_in_their_order(n) -> None:
    module = module_of(
        f"""x = s32[{n}] parameter(0)  y = s32[{n}] parameter(1)
        one = s32[] constant(1)  zero = s32[] constant(0)
        ROOT r = (s32[{n}], s32[{n}]) reduce-window(x, y, one, zero),
          {windows((n,), 0, False)}, to_apply=c""",
        MAPS,
    )
    rng = np.random.default_rng(0)
    check_emulated(module, [rng.integers(-3, 4, n).astype(np.int32) for _ in range(2)])


def test_no_elements() -> None:
    body = f"""x = f32[0,3] parameter(0)  i = f32[] constant(0)
        ROOT r = f32[0,3] reduce-window(x, i), {windows((0, 3), 1, False)}, to_apply=c"""
    called = "c { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }"
    check_emulated(module_of(body, called), [np.zeros((0, 3), np.float32)])


@pytest.mark.parametrize("reverse", [False, True])
def test_long_rows_are_cut_into_tiles(reverse) -> None:
    """In one launch, and one that forgets the signals of earlier ones."""

    def grids(dims: tuple[int, int]) -> list[int]:
        (kernel,) = check_emulated(
            cumulative("s32", dims, 1, "add", reverse), [np.ones(dims, np.int32)]
        ).values()
        return [s.var.extent for s in kernel.stages if isinstance(s, Loop)]

    assert grids((1, 4096)) == [1]
    assert grids((300, 4200)) == [300]
    assert grids((1, 4097)) == [1, 5]
    assert grids((2, 8192)) == [1, 16]


def test_sums_of_long_rows_are_the_same_bits_in_every_run() -> None:
    module = cumulative("f32", (1, 9000), 1)
    executable = xla_backend.compile(module, "gpu_emulator", CompileOptions(verify=True))
    x = np.random.default_rng(0).normal(size=(1, 9000)).astype(np.float32)
    first, again = (executable.execute([x])[0] for _ in range(2))
    assert np.asarray(first).tobytes() == np.asarray(again).tobytes()
    np.testing.assert_allclose(first, np.cumsum(x, axis=1) + 1, rtol=1e-4, atol=1e-3)


def test_logarithms_of_sums_of_long_rows() -> None:
    module = log_sum_exp("1,5000", windows((1, 5000), 1, False))
    check_emulated(module, [np.random.default_rng(0).normal(size=(1, 5000)).astype(np.float32)])


def test_a_barrier_that_is_left_out_is_found() -> None:
    dims = (1, 2100)
    x = np.ones(dims, np.int32)
    (kernel,) = check_emulated(cumulative("s32", dims, 1), [x]).values()
    given = [x, np.array(1, np.int32)]
    shapes = [Shape.array(P.S32, dims)]
    places = list(barriers(kernel.stages))
    assert len(places) == 2
    for body, at in places:
        barrier = body.pop(at)
        with pytest.raises(KernelRunError):
            run_kernel(kernel, given, shapes)
        body.insert(at, barrier)
    in_any_order(kernel, given, shapes)


@pytest.mark.parametrize(("dims", "axis", "vectors"), [
    ((3, 1000), 1, True), ((70000,), 0, True), ((2, 60), 1, True),
    ((3, 1001), 1, False), ((1000, 3), 0, False),
])  # fmt: skip
@pytest.mark.parametrize("reverse", [False, True])
def test_rows_of_whole_vectors_are_accessed_in_vectors(dims, axis, vectors, reverse) -> None:
    x = np.random.default_rng(0).integers(-9, 9, dims).astype(np.int32)
    (kernel,) = check_emulated(cumulative("s32", dims, axis, "add", reverse), [x]).values()
    lanes = [s for s in walk(kernel.stages) if isinstance(s, Loop) and s.kind is LoopKind.LANES]
    assert bool(lanes) == vectors


def test_vectors_keep_the_order_of_what_does_not_commute() -> None:
    for n, window in ((1000, "999_0"), (1000, "0_999"), (40, "39_0")):
        module = module_of(
            f"""a = s32[2,{n}] parameter(0)  b = s32[2,{n}] parameter(1)
            one = s32[] constant(1)  zero = s32[] constant(0)
            ROOT r = (s32[2,{n}], s32[2,{n}]) reduce-window(a, b, one, zero),
              window={{size=1x{n} pad=0_0x{window}}}, to_apply=c""",
            MAPS,
        )
        check_emulated(module, arguments_of(module))
