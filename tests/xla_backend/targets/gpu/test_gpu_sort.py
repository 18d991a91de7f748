"""Sorts on GPUs: in the memory of a block, and longer ones by merges."""

import numpy as np
import pytest
from emulated_checks import barriers, check_emulated, in_any_order
from native_checks import module_of

from xla_backend.hlo.evaluator import evaluate
from xla_backend.hlo.instruction import Computation
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import BY_NAME
from xla_backend.kernels.builder import LoopBuilder
from xla_backend.kernels.from_hlo.elemental import ElementalEmitter
from xla_backend.kernels.interpreter import run_kernel
from xla_backend.kernels.ir import BufferRole, Kernel
from xla_backend.kernels.library.bitonic_sort import longest
from xla_backend.kernels.library.merge_sort import merge_sort
from xla_backend.kernels.library.orders import by_comparator
from xla_backend.kernels.library.rows import Rows
from xla_backend.kernels.library.sorting import sort_kernel
from xla_backend.kernels.races import RaceError

PLAIN = "c {{ a = {t}[] parameter(0) b = {t}[] parameter(1)\n ROOT r = pred[] {compare} }}"
LESS = "compare(a, b), direction=LT"
GREATER = "compare(a, b), direction=GT"
TOTAL = "compare(a, b), direction=LT, type=TOTALORDER"
PAIRS = """c {{ a = {t}[] parameter(0)  b = {t}[] parameter(1)
    i = s32[] parameter(2)  j = s32[] parameter(3)
    ROOT r = pred[] {compare} }}"""
# By the last digit, and then by the number from large to small.
DIGITS = """c { a = s32[] parameter(0)  b = s32[] parameter(1)
    ten = s32[] constant(10)  x = s32[] remainder(a, ten)  y = s32[] remainder(b, ten)
    less = pred[] compare(x, y), direction=LT
    same = pred[] compare(x, y), direction=EQ
    more = pred[] compare(a, b), direction=GT
    rest = pred[] and(same, more)  ROOT r = pred[] or(less, rest) }"""


def dims_text(dims: tuple[int, ...]) -> str:
    return ",".join(map(str, dims))


def one(t: str, dims: tuple[int, ...], axis: int, compare: str = LESS):
    shape = f"{t}[{dims_text(dims)}]"
    body = f"""x = {shape} parameter(0)
        ROOT s = {shape} sort(x), dimensions={{{axis}}}, to_apply=c"""
    return module_of(body, PLAIN.format(t=t, compare=compare))


def pairs(t: str, dims: tuple[int, ...], axis: int, compare: str = LESS):
    x, y = f"{t}[{dims_text(dims)}]", f"s32[{dims_text(dims)}]"
    body = f"""x = {x} parameter(0)  y = {y} parameter(1)
        ROOT s = ({x}, {y}) sort(x, y), dimensions={{{axis}}}, to_apply=c"""
    return module_of(body, PAIRS.format(t=t, compare=compare))


def few(t: str, dims: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Values that occur several times each, with the odd ones of a type among them."""
    rng = np.random.default_rng(seed)
    type = BY_NAME[t]
    if type.is_floating:
        some = np.array([0.0, -0.0, 1, -1, 2.5, np.inf, -np.inf, 7, -7]).astype(type.numpy_dtype)
        return rng.choice(some, dims)
    low = 0 if type.is_unsigned_integral else -5
    values = rng.integers(low, 6, dims)
    return values % 2 == 0 if t == "pred" else values.astype(type.numpy_dtype)


SHAPES = [((7,), 0), ((1,), 0), ((2,), 0), ((0, 3), 1), ((3, 33), 1), ((33, 3), 0), ((5, 9, 6), 1),
          ((600, 2), 1), ((2, 600), 1)]  # fmt: skip


@pytest.mark.parametrize(("dims", "axis"), SHAPES)
def test_rows_are_sorted_and_equal_elements_keep_their_order(dims, axis) -> None:
    numbers = np.arange(int(np.prod(dims)), dtype=np.int32).reshape(dims)
    check_emulated(one("f32", dims, axis), [few("f32", dims)])
    for compare in (LESS, GREATER):
        check_emulated(pairs("f32", dims, axis, compare), [few("f32", dims), numbers])


TYPES = ("pred", "s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64", "bf16", "f16", "f64")


@pytest.mark.parametrize("t", TYPES)
def test_types(t) -> None:
    check_emulated(one(t, (40,), 0), [few(t, (40,))])
    check_emulated(pairs(t, (2, 20), 1, GREATER), [few(t, (2, 20)), few("s32", (2, 20), 1)])


def test_total_order_puts_nan_at_the_ends() -> None:
    x = np.array([np.nan, 1, -0.0, 0.0, -np.nan, -np.inf, np.inf, 0.0, -0.0, -1], np.float32)
    check_emulated(one("f32", (10,), 0, TOTAL), [x])


def test_complex_elements_are_carried_along() -> None:
    module = module_of(
        """x = f32[9] parameter(0)  y = c64[9] parameter(1)
        ROOT s = (f32[9], c64[9]) sort(x, y), dimensions={0}, to_apply=c""",
        PAIRS.format(t="f32", compare=LESS).replace("s32", "c64"),
    )
    y = (np.arange(9) - 4j).astype(np.complex64)
    check_emulated(module, [few("f32", (9,)), y])


def test_any_comparator() -> None:
    x = np.random.default_rng(0).integers(0, 100, (3, 50)).astype(np.int32)
    module = module_of(
        """x = s32[3,50] parameter(0)
        ROOT s = s32[3,50] sort(x), dimensions={1}, to_apply=c""",
        DIGITS,
    )
    check_emulated(module, [x])


def kernel_of(module) -> tuple[Kernel, list[Shape]]:
    node = module.entry.root
    shapes = [operand.shape for operand in node.operands]
    return sort_kernel("k", shapes, node.attributes.dimension, node.called[0]), shapes


def merged(shape: Shape, axis: int, comparator: Computation, stretch: int) -> Kernel:
    """The order of rows, made of stretches that are sorted at once."""
    b = LoopBuilder("k")
    e = ElementalEmitter(b, {})
    operand = b.buffer("p0", shape.element_type, shape.num_elements, BufferRole.OPERAND, 0)
    rows = Rows(shape.dimensions, axis)
    order = merge_sort(e, by_comparator(e, comparator, [shape]), [operand], rows, stretch)
    order.role = BufferRole.OUTPUT
    return b.kernel


@pytest.mark.parametrize(
    ("dims", "axis", "stretch"),
    [((100,), 0, 4), ((64,), 0, 8), ((3, 37), 1, 2), ((37, 3), 0, 16), ((9,), 0, 1)],
)
def test_sorted_stretches_are_merged(dims, axis, stretch) -> None:
    module = one("s32", dims, axis)
    x = few("s32", dims)
    shape = module.entry.root.shape
    kernel = merged(shape, axis, module.entry.root.called[0], stretch)
    rows = np.moveaxis(x, axis, -1)
    (order,) = in_any_order(kernel, [x], [Shape.array(BY_NAME["s32"], rows.shape)])
    np.testing.assert_array_equal(order, np.argsort(rows, axis=-1, kind="stable"))


@pytest.mark.slow
@pytest.mark.parametrize(("dims", "axis"), [((9001,), 0), ((2, 5000), 1), ((5000, 2), 0)])
def test_long_rows(dims, axis) -> None:
    numbers = np.arange(int(np.prod(dims)), dtype=np.int32).reshape(dims)
    check_emulated(pairs("f32", dims, axis), [few("f32", dims), numbers])


def test_a_row_that_just_fits_takes_one_stage() -> None:
    comparator = one("f64", (3,), 0).entry.root.called[0]
    e = ElementalEmitter(LoopBuilder("k"), {})
    assert longest(by_comparator(e, comparator, [Shape.array(BY_NAME["f64"], (3,))])) == 4096


@pytest.mark.parametrize("dims", [(40,), (3, 20)])
def test_a_barrier_that_is_left_out_is_found(dims) -> None:
    module = one("f32", dims, len(dims) - 1)
    x = few("f32", dims)
    kernel, shapes = kernel_of(module)
    (want,) = evaluate(module, [x])
    (got,) = in_any_order(kernel, [x], shapes)
    np.testing.assert_array_equal(got, want)
    places = list(barriers(kernel.stages))
    assert len(places) == 2
    for body, at in places:
        barrier = body.pop(at)
        with pytest.raises(RaceError):
            run_kernel(kernel, [x], shapes)
        body.insert(at, barrier)
