"""Sorts on GPUs: in the memory of a block, and longer ones by merges."""

import numpy as np
import pytest
from emulated_checks import barriers, check_emulated, in_any_order
from native_checks import module_of

import xla_backend
from xla_backend.hlo.errors import UnimplementedError
from xla_backend.hlo.evaluator import evaluate
from xla_backend.hlo.instruction import Computation
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import BY_NAME
from xla_backend.kernels.builder import LoopBuilder
from xla_backend.kernels.from_hlo.elemental import ElementalEmitter
from xla_backend.kernels.interpreter import run_kernel
from xla_backend.kernels.ir import BufferRole, Kernel
from xla_backend.kernels.library.bitonic_sort import Sorted, first_of_rows, longest
from xla_backend.kernels.library.merge_sort import merge_sort
from xla_backend.kernels.library.orders import by_comparator, by_number
from xla_backend.kernels.library.radix_sort import (
    Column,
    ordered_bits,
    radix_sort,
    width_of,
)
from xla_backend.kernels.library.rows import Rows
from xla_backend.kernels.library.sorting import sort_kernel
from xla_backend.kernels.printer import kernel_to_text
from xla_backend.kernels.races import KernelRunError, RaceError
from xla_backend.passes.sort_readers import places_read

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


def by_digits(rows: Rows, keys: list[tuple[str, bool]]) -> Kernel:
    """The order of rows by one operand after another."""
    b = LoopBuilder("k")
    columns = []
    for i, (t, descending) in enumerate(keys):
        operand = b.buffer(f"p{i}", BY_NAME[t], rows.elements, BufferRole.OPERAND, i)

        def bits(at, guard, operand=operand, descending=descending):
            return ordered_bits(b, b.load(operand, at, guard), descending=descending)

        columns.append(Column(bits, width_of(BY_NAME[t])))
    radix_sort(b, rows, columns).role = BufferRole.OUTPUT
    return b.kernel


def order_of(x: np.ndarray, descending: bool) -> np.ndarray:
    """The stable order of rows; zeros are equal, and so are NaN, which come last of all numbers."""
    wide = x.astype(np.float64) + 0.0 if x.dtype.kind not in "biu" else x
    _, ranks = np.unique(wide, return_inverse=True)
    ranks = ranks.reshape(x.shape)
    return np.argsort(-ranks if descending else ranks, axis=-1, kind="stable")


def check_digits(t: str, descending: bool) -> None:
    x = few(t, (50,))
    if t == "f32":
        x[:9] = [np.nan, -np.nan, 1e-45, -1e-45, 3, np.nan, 1e38, -1e38, -0.0]
    kernel = by_digits(Rows((50,), 0), [(t, descending)])
    (order,) = run_kernel(kernel, [x], [Shape.array(BY_NAME["s32"], (50,))])
    np.testing.assert_array_equal(order, order_of(x, descending))


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("t", ["pred", "s8", "u8", "s16", "bf16"])
def test_digits(t, descending) -> None:
    check_digits(t, descending)


def test_digits_of_floats() -> None:
    check_digits("f32", False)


@pytest.mark.slow
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("t", ["u16", "f16", "s32", "u32", "f32", "s64", "u64", "f64"])
def test_digits_of_wider_types(t, descending) -> None:
    check_digits(t, descending)


@pytest.mark.parametrize(("dims", "axis"), [((2, 2100), 1), ((30, 3), 0)])
def test_digits_of_several_tiles(dims, axis) -> None:
    x = np.random.default_rng(0).integers(-(2**15), 2**15, dims).astype(np.int16)
    rows = np.moveaxis(x, axis, -1)
    kernel = by_digits(Rows(dims, axis), [("s16", False)])
    (order,) = in_any_order(kernel, [x], [Shape.array(BY_NAME["s32"], rows.shape)])
    np.testing.assert_array_equal(order, order_of(rows, False))


def test_one_key_after_another() -> None:
    x, y = few("s8", (200,)), few("bf16", (200,), 1)
    kernel = by_digits(Rows((200,), 0), [("s8", True), ("bf16", False)])
    (order,) = in_any_order(kernel, [x, y], [Shape.array(BY_NAME["s32"], (200,))])
    np.testing.assert_array_equal(order, np.lexsort((y.astype(np.float64), -x.astype(int))))


def test_a_barrier_that_is_left_out_of_a_pass_is_found() -> None:
    x = few("u8", (2100,))
    kernel = by_digits(Rows((2100,), 0), [("u8", False)])
    shapes = [Shape.array(BY_NAME["s32"], (2100,))]
    places = list(barriers(kernel.stages))
    assert len(places) > 8
    for body, at in places:
        barrier = body.pop(at)
        with pytest.raises(KernelRunError):
            run_kernel(kernel, [x], shapes)
        body.insert(at, barrier)


def test_long_rows_of_plain_values_are_sorted_by_digits() -> None:
    def shared(text: str) -> set[str]:
        kernel, _ = kernel_of(module_of("x = s32[5000] parameter(0)\n ROOT s = s32[5000] "
                                        "sort(x), dimensions={0}, to_apply=c", text))  # fmt: skip
        return {buffer.name for buffer in kernel.buffers}

    assert "histogram" in shared(PLAIN.format(t="s32", compare=LESS))
    assert "histogram" not in shared(DIGITS)


# -- the first few ---------------------------------------------------------------------------------


def first_few(rows: Rows, size: int, first: int) -> Kernel:
    """The numbers of the first elements of rows, of stretches of some size."""
    b = LoopBuilder("k")
    e = ElementalEmitter(b, {})
    operand = b.buffer("p0", BY_NAME["s32"], rows.elements, BufferRole.OPERAND, 0)
    output = b.buffer("out0", BY_NAME["s32"], rows.count * first, BufferRole.OUTPUT, 0)

    def finish(element: Sorted) -> None:
        number = b.index_value(element.number, BY_NAME["s32"])
        b.store(output, element.row * first + element.place, (number,), element.guard)

    first_of_rows(e, by_number(e, BY_NAME["s32"]), [operand], rows, size, first, finish)
    return b.kernel


@pytest.mark.parametrize(
    ("dims", "axis", "size", "first"),
    [((100,), 0, 8, 3), ((3, 50), 1, 4, 2), ((50, 3), 0, 4, 1), ((9,), 0, 16, 5), ((65,), 0, 8, 4)],
)
def test_the_first_of_rows(dims, axis, size, first) -> None:
    x = few("s32", dims)
    rows = np.moveaxis(x, axis, -1)
    shape = Shape.array(BY_NAME["s32"], (*rows.shape[:-1], first))
    (order,) = in_any_order(first_few(Rows(dims, axis), size, first), [x], [shape])
    np.testing.assert_array_equal(order, np.argsort(rows, axis=-1, kind="stable")[..., :first])


def largest(k: int, extra: str = "") -> HloModule:
    body = f"""x = f32[2,60] parameter(0)  i = s32[2,60] iota(), iota_dimension=1
        s = (f32[2,60], s32[2,60]) sort(x, i), dimensions={{1}}, to_apply=c
        v = f32[2,60] get-tuple-element(s), index=0  n = s32[2,60] get-tuple-element(s), index=1
        a = f32[2,{k}] slice(v), slice={{[0:2], [0:{k}]}}  m = f32[2,{k}] negate(a)
        b = s32[2,{k}] slice(n), slice={{[0:2], [0:{k}]}}
        {extra or f"ROOT r = (f32[2,{k}], s32[2,{k}]) tuple(m, b)"}"""
    return module_of(body, PAIRS.format(t="f32", compare=GREATER))


def test_of_the_k_largest_no_others_are_found() -> None:
    x = few("f32", (2, 60))
    for k in (1, 5, 60):
        text = kernel_to_text(check_emulated(largest(k), [x])["s"])
        assert f"< {k}" in text


def test_what_else_is_read_is_found() -> None:
    (node,) = (n for n in largest(4).entry if n.opcode is Opcode.SORT)
    assert places_read(node, 1, 60) == (0, 4)
    whole = largest(4, "q = s32[2,60] negate(n)\n ROOT r = (f32[2,4], s32[2,60]) tuple(m, q)")
    (node,) = (n for n in whole.entry if n.opcode is Opcode.SORT)
    assert places_read(node, 1, 60) == (0, 60)
    result = largest(4, "ROOT r = (f32[2,4], s32[2,60]) tuple(m, n)")
    (node,) = (n for n in result.entry if n.opcode is Opcode.SORT)
    assert places_read(node, 1, 60) == (0, 60)


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


@pytest.mark.parametrize("order", ["p", "q"])
def test_rows_that_cannot_be_numbered(order: str) -> None:
    """By their digits, and by what a comparator makes of them."""
    text = f"""HloModule m
    less {{ a = s8[] parameter(0)  b = s8[] parameter(1)  seven = s8[] constant(7)
      c = s8[] remainder(a, seven)  d = s8[] remainder(b, seven)
      p = pred[] compare(a, b), direction=LT  q = pred[] compare(c, d), direction=LT
      ROOT r = pred[] copy({order}) }}
    ENTRY e {{ x = s8[2147483648] parameter(0)
      ROOT s = s8[2147483648] sort(x), dimensions={{0}}, to_apply=less }}"""
    module = xla_backend.parse_hlo(text)
    with pytest.raises(UnimplementedError, match="rows of 2147483648 elements: 2147418112 are"):
        xla_backend.compile(module, target="sm_90")
