"""Transposes as routines, by their plans: bits are NumPy's, whatever the shape, the instruction set
and the way a block is written, and no byte outside of the arrays is touched."""

import ctypes
import itertools
import mmap

import numpy as np
import pytest

from xla_backend.llvm.objects import compile_object
from xla_backend.llvm.target import host_target, make_target
from xla_backend.targets.cpu.routines import registry
from xla_backend.targets.cpu.routines.contract_table import ROUTINES
from xla_backend.targets.cpu.routines.library import kernel_library
from xla_backend.targets.cpu.routines.subjects import declare_kernels
from xla_backend.targets.cpu.routines.transpose_plans import (
    FIELDS,
    LINE,
    MOST_ROWS,
    MOST_TOGETHER,
    PART,
    SHUFFLED,
    SHUFFLED_BYTES,
    SPARE_BYTES,
    SQUARES,
    STAGE_BYTES,
    WOVEN,
    Plan,
    plan,
    routine_names,
)

PTR = ctypes.c_void_p
# Bytes of elements, and of units of several that are padded.
_UNITS = (1, 2, 3, 4, 7, 8, 12, 16)
_LEVELS = {512: "x86-64-v3", 256: "x86-64-v2", 128: "x86-64"}


def older_targets():
    """What this machine has of older ones."""
    bits = host_target().vector_bits
    levels = [level for width, level in _LEVELS.items() if width <= bits]
    return [make_target(host_target().triple, level) for level in levels if host_target().is_x86]


class Page:
    """Memory that ends where no memory follows, with guards in front."""

    def __init__(self, nbytes):
        page = mmap.PAGESIZE
        size = -(-(nbytes + 64) // page) * page
        self.map = mmap.mmap(-1, size + page)
        whole = np.frombuffer(self.map, np.uint8)
        protect = ctypes.CDLL(None).mprotect
        assert not protect(PTR(whole.ctypes.data + size), ctypes.c_size_t(page), 0)
        whole[:size] = 0xA5
        self.front, self.bytes = whole[: size - nbytes], whole[size - nbytes : size]


def run(found, bits, nbytes, target=None):
    """The bytes that a routine writes; source and result both end where their page ends."""
    source, result = Page(bits.size), Page(nbytes)
    source.bytes[:] = bits.reshape(-1)
    numbers = np.array(found.numbers, np.int64)
    symbol = kernel_library(target)[f"pyjax_{found.routine}"]
    ctypes.CFUNCTYPE(None, PTR, PTR, PTR)(symbol)(
        source.bytes.ctypes.data, result.bytes.ctypes.data, numbers.ctypes.data
    )
    assert np.all(result.front == 0xA5)
    return result.bytes


def check(shape, permutation, element, target=None, change=lambda found: found):
    """One transpose; False: there is no plan for it."""
    found = plan(shape, permutation, element)
    if found is None:
        return False
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 256, (*shape, element), np.uint8)
    expected = np.ascontiguousarray(bits.transpose(*permutation, len(shape))).reshape(-1)
    got = run(change(found), bits, expected.size, target)
    np.testing.assert_array_equal(got, expected, err_msg=f"{shape} {permutation} {element}")
    return True


def numbers_of(found):
    """The numbers of a plan by their names, without its table."""
    return dict(zip(FIELDS, found.numbers))


def changed(found, **fields):
    """A plan with other numbers."""
    numbers = numbers_of(found) | fields
    return Plan(found.routine, (*numbers.values(), *found.numbers[len(FIELDS) :]))


def past_caches(found):
    """As if the result were larger than caches."""
    return changed(found, staged=1, past=1)


def random_shapes(count, seed=0, most=(0, 0, 300, 60, 24, 12)):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        rank = int(rng.integers(2, 6))
        small = rng.random(rank) < 0.3
        shape = np.where(small, rng.integers(1, 10, rank), rng.integers(1, most[rank], rank))
        yield tuple(map(int, shape)), tuple(map(int, rng.permutation(rank)))


@pytest.mark.parametrize("element", _UNITS)
@pytest.mark.parametrize("change", [lambda found: found, past_caches], ids=["here", "past"])
def test_random_shapes(element, change):
    done = sum(check(*case, element, change=change) for case in random_shapes(150, element))
    assert done > 60


@pytest.mark.parametrize("element", _UNITS)
@pytest.mark.parametrize("target", older_targets(), ids=lambda t: t.cpu)
def test_older_machines(target, element):
    """Squares, and units of three elements, on each instruction set."""
    cases = [((67, 45), (1, 0)), ((9, 33, 40), (2, 0, 1)), ((21, 30, 3), (1, 0, 2))]
    for case, change in itertools.product(cases, (lambda found: found, past_caches)):
        assert check(*case, element, target, change)


@pytest.mark.parametrize("few", [2, 3, 7, 8])
@pytest.mark.parametrize("element", WOVEN)
def test_few(few, element):
    """Those that take turns, come apart, and are exchanged in small blocks."""
    for n in (64, 131, 5000):
        assert check((n, few), (1, 0), element)
        assert check((few, n), (1, 0), element)
        assert check((n, few, 5), (0, 2, 1), element) or few * 5 * element > 512
        assert check((n, few), (1, 0), element, change=past_caches)


@pytest.mark.parametrize("sizes", [(16, 16), (8, 16), (32, 3), (5, 32)], ids=str)
@pytest.mark.parametrize("element", WOVEN)
def test_small_blocks_that_stay_where_they_are(sizes, element):
    for n, change in itertools.product((3, 70), (lambda found: found, past_caches)):
        found = plan((n, *sizes), (0, 2, 1), element)
        swaps = found is not None and found.routine.startswith("swapped")
        assert swaps == (sizes[0] * sizes[1] * element <= 512)
        assert check((n, *sizes), (0, 2, 1), element, change=change) or not swaps


# Shapes and permutations; each block is as large as `SHUFFLED_BYTES` at most in bytes.
_SHUFFLES = [
    ((70, 31, 5), (0, 2, 1)),
    ((70, 5, 31), (0, 2, 1)),
    ((33, 31, 2), (0, 2, 1)),
    ((32, 2, 31), (0, 2, 1)),
    ((100, 13, 1, 20), (0, 3, 2, 1)),
    ((95, 3, 17, 4), (0, 3, 2, 1)),
    ((40, 3, 4, 5, 3), (0, 2, 1, 4, 3)),
    ((3, 2, 37, 2, 17, 3), (1, 0, 2, 4, 3, 5)),
    ((2, 3, 64, 13, 7), (1, 0, 2, 4, 3)),
    ((150, 21, 15), (0, 2, 1)),
    # Blocks that go elsewhere as a whole.
    ((9, 5, 31, 5), (1, 0, 3, 2)),
    ((9, 11, 13, 17), (1, 0, 3, 2)),
    ((9, 40, 3, 2, 13, 3), (2, 1, 0, 5, 4, 3)),
]


@pytest.mark.parametrize("element", [1, 2])
@pytest.mark.parametrize("case", _SHUFFLES, ids=str)
def test_any_order_within_small_blocks(case, element):
    """On each instruction set, with what is left behind those that are permuted together."""
    for target in (None, *older_targets()):
        for change in (lambda found: found, past_caches):
            assert plan(*case, element).routine == SHUFFLED
            assert check(*case, element, target, change)


def test_where_squares_begin():
    """Of units of up to 4 bytes at smaller matrices than of larger ones: loops move those, too."""
    assert plan((500, 25, 27), (0, 2, 1), 1).routine == "transpose_1"
    assert plan((500, 11, 17), (0, 2, 1), 4).routine == "transpose_4"
    assert plan((500, 9, 13), (0, 2, 1), 8) is None


def test_which_small_blocks_are_permuted():
    def routine(shape, permutation, element):
        found = plan(shape, permutation, element)
        return found and found.routine

    rows = SHUFFLED_BYTES // 17
    assert routine((500, rows, 17), (0, 2, 1), 1) == SHUFFLED
    assert routine((500, rows + 1, 17), (0, 2, 1), 1) != SHUFFLED
    # Those of other sizes have code of their own.
    assert routine((500, 5, 7), (0, 2, 1), 1) == "swapped_7_5_1"
    # Units of several bytes count, too; those of 4 are as quick one by one.
    assert routine((500, 9, 13, 3), (0, 2, 1, 3), 1) == SHUFFLED
    assert routine((500, 9, 13), (0, 2, 1), 4) is None
    # Too few blocks, blocks that are not whole, and small ones that are not side by side.
    assert routine((20, 31, 2), (0, 2, 1), 1) != SHUFFLED
    assert routine((31, 500, 2), (2, 1, 0), 1) != SHUFFLED
    assert routine((40, 37, 2, 17), (1, 0, 3, 2), 1) != SHUFFLED
    assert routine((40, 37, 4, 17), (1, 0, 3, 2), 1) == SHUFFLED


@pytest.mark.parametrize("sizes", [(14, 13), (3, 17), (25, 25), (2, 19)], ids=str)
def test_random_numbers_of_small_blocks(sizes):
    """As many blocks as come, over several tasks."""
    rng = np.random.default_rng(sum(sizes))
    for count in (32, 63, 64, *map(int, rng.integers(65, 3000, 6))):
        assert check((count, *sizes), (0, 2, 1), 1)


def test_few_on_older_machines():
    for target in older_targets():
        assert check((500, 3), (1, 0), 1, target)
        assert check((5, 300), (1, 0), 4, target)
        assert check((300, 3, 5), (0, 2, 1), 2, target)
        assert check((30, 16, 16), (0, 2, 1), 1, target)


@pytest.mark.parametrize(
    "unit", [3, 5, 7, 9, 12, 15, 17, 31, 33, 48, 63, 65, 100, 127, 200, 600, 1025]
)
def test_units(unit):
    for shape in ((13, 27), (40, 33), (1, 9, 70)):
        permutation = (1, 0) if len(shape) == 2 else (2, 0, 1)
        for change in (lambda found: found, past_caches):
            assert check((*shape, unit), (*permutation, len(shape)), 1, change=change)


@pytest.mark.parametrize("unit", [4095, 4097, 13500])
def test_units_of_about_a_page_and_more(unit):
    """Long ones are copied as memory is."""
    assert plan((5, 7, unit), (1, 0, 2), 1).routine == "transpose_rows"
    for change in (lambda found: found, past_caches):
        assert check((5, 7, unit), (1, 0, 2), 1, change=change)
        assert check((3, 4, 2, unit), (2, 1, 0, 3), 1, change=change)


@pytest.mark.parametrize("unit", [128, 256, 1024])
def test_units_of_whole_lines_go_past_the_caches(unit):
    """Heads of attention, say: what the caches hold is left to code for the sizes."""
    rows = (8 << 20) // (2 * 12 * unit) + 1
    shape = (2, 12, rows, unit)
    found = plan(shape, (0, 2, 1, 3), 1)
    assert found.routine == "transpose_rows" and numbers_of(found)["past"]
    assert plan((2, 12, rows // 2, unit), (0, 2, 1, 3), 1) is None
    assert check(shape, (0, 2, 1, 3), 1)
    assert check((2, rows, 12, unit), (0, 2, 1, 3), 1)


@pytest.mark.parametrize("few", [2, 3, 8])
def test_few_rows_that_come_apart_stay_in_caches_longer_than_squares(few):
    for nbytes, past in ((9 << 20, False), (17 << 20, True)):
        shape = (nbytes // (16 * few), few)
        found = plan(shape, (1, 0), 16)
        assert found.routine == f"apart_{few}_16" and numbers_of(found)["past"] == past
        assert check(shape, (1, 0), 16)
    assert numbers_of(plan((800, 800), (1, 0), 16))["past"]


@pytest.mark.parametrize("shape", [(4096, 40), (2048, 48)], ids=str)
def test_rows_that_meet_in_caches(shape):
    """Rows that are powers of two apart: small units are put side by side first, and whole squares
    of others are left to code for the sizes."""
    assert numbers_of(plan(shape, (1, 0), 1))["staged"]
    assert not numbers_of(plan((2040, 48), (1, 0), 1))["staged"]
    assert check(shape, (1, 0), 1)
    assert plan(shape, (1, 0), 8) is None


@pytest.mark.parametrize("rows", [4095, 4099, 8193])
def test_rows_that_nearly_meet_in_caches(rows):
    """Rows that miss a page by a few bytes begin in the same line."""
    assert numbers_of(plan((rows, 48), (1, 0), 1))["staged"]
    assert not numbers_of(plan((rows + 64, 48), (1, 0), 1))["staged"]
    assert check((rows, 48), (1, 0), 1)


@pytest.mark.parametrize(
    "shape, element, staged, tall",
    [
        ((1000, 1000), 1, 0, 1),
        ((1000, 1000), 4, 0, 1),
        # Of 1,023 bytes, every fourth begins in the same line; of 8,184, eight in a line.
        ((1023, 769), 2, 1, 1),
        ((1023, 769), 4, 1, 1),
        ((1023, 769), 8, 1, 1),
        ((4097, 333), 4, 1, 1),
        # Whole lines, each written once.
        ((3072, 768), 1, 0, 1),
        # The operand's rows meet, too.
        ((1024, 1024), 1, 1, 0),
        # Fewer rows do not.
        ((100, 10_000), 1, 0, 1),
        ((50, 20_000), 4, 0, 1),
    ],
    ids=str,
)
def test_rows_that_meet_are_made_first(shape, element, staged, tall):
    p = numbers_of(plan(shape, (1, 0), element))
    assert (p["staged"], p["tall"]) == (staged, tall)
    assert check(shape, (1, 0), element)


@pytest.mark.parametrize("element", [1, 2])
@pytest.mark.parametrize("staged", [0, 1])
@pytest.mark.parametrize("tall", [0, 1])
def test_parts_of_many_rows(element, staged, tall):
    """With and without the squares that put together parts of rows; with what is left behind them,
    on each instruction set."""
    change = lambda found: changed(found, staged=staged, tall=tall)
    for target in (None, *older_targets()):
        for shape in ((64, 64), (129, 16), (203, 77), (1100, 33)):
            assert check(shape, (1, 0), element, target, change)


@pytest.mark.parametrize("staged", [0, 1])
def test_parts_in_the_order_of_the_result(staged):
    """Squares of such units, and what is left behind and beside them."""
    change = lambda found: changed(found, staged=staged, tall=1)
    for target in (None, *older_targets()):
        for shape in ((4, 400), (13, 403), (29, 210), (66, 35), (100, 9)):
            if plan(shape, (1, 0), 16).routine == "transpose_16":
                assert check(shape, (1, 0), 16, target, change)


@pytest.mark.parametrize(
    "shape, order, element, joined, tall",
    [
        ((13, 45_000), (1, 0), 16, True, 1),
        ((40, 15, 1001), (0, 2, 1), 16, True, 1),
        ((50, 15_000), (1, 0), 16, True, 1),
        ((29, 50_001), (1, 0), 8, True, 0),
        ((150, 20_001), (1, 0), 4, True, 0),
        # The operand's rows meet.
        ((16, 65_536), (1, 0), 16, True, 0),
        # Small, of long rows, of rows that do not follow each other, of other units.
        ((13, 4_000), (1, 0), 16, False, 0),
        ((70, 15_000), (1, 0), 16, False, 0),
        ((13, 60, 1001), (2, 1, 0), 16, False, 0),
        ((30, 200_000), (1, 0), 2, False, 1),
        ((30, 30_000), (1, 0), 12, False, 1),
    ],
    ids=str,
)
def test_short_rows_of_large_results_are_written_as_one(shape, order, element, joined, tall):
    p = numbers_of(plan(shape, order, element, in_tiles=False))
    whole = p["past"] == 1 and p["pitch"] == p["unit"] * p["most_along"]
    assert (whole, p["tall"]) == (joined, tall)
    assert check(shape, order, element)


@pytest.mark.parametrize("row, element, past", [(70, 4, 0), (70, 8, 1), (40, 16, 1)])
def test_short_rows_that_go_on_in_another_dimension_are_long_ones(row, element, past):
    shape = (row, 60, 640)
    assert numbers_of(plan(shape, (2, 1, 0), element))["past"] == past
    assert check(shape, (2, 1, 0), element)


@pytest.mark.parametrize("element", [4, 8, 16])
def test_blocks_in_one_piece(element):
    """Few rows and many, what is left of the last block, results that begin anywhere in a line, on
    each instruction set."""

    def in_one_piece(found):
        along, most = numbers_of(found)["along"], 4 * LINE // element
        sizes = {"most_across": most, "most_along": along, "pitch": element * along}
        return changed(found, staged=1, past=1, **sizes)

    for target in (None, *older_targets()):
        for rows in (9, 13, 33, 63):
            for columns in (65, 129, 1000, 1003):
                found = plan((rows, columns), (1, 0), element)
                if found is not None and found.routine == f"transpose_{element}":
                    assert check((rows, columns), (1, 0), element, target, in_one_piece)


@pytest.mark.parametrize("ahead", [0, 1 << 12])
@pytest.mark.parametrize("element", SQUARES)
def test_what_the_next_block_reads_is_asked_for(element, ahead):
    """It may be beyond the operand, where asking for it does no harm."""
    for shape in ((150, 90), (300, 20), (20, 300)):
        assert check(shape, (1, 0), element, change=lambda found: changed(found, ahead=ahead))


@pytest.mark.parametrize("unit", [unit for unit, padded in SQUARES.items() if padded != unit])
@pytest.mark.parametrize("staged", [0, 1])
def test_padding_is_not_written(unit, staged):
    """Neither behind the result nor over what is written before."""
    change = lambda found: changed(found, staged=staged)
    for target in (None, *older_targets()):
        for shape in ((65, 70), (130, 19)):
            assert check((*shape, unit), (1, 0, 2), 1, target, change)


def test_units_of_several_elements_that_meet_in_caches():
    """Code for the sizes would move them in loops of so few rounds."""
    assert plan((1024, 1024, 2), (1, 0, 2), 4) is not None
    assert plan((1024, 1024), (1, 0), 8) is None
    assert check((256, 64, 2), (1, 0, 2), 2)


@pytest.mark.parametrize("unit", [unit for unit, padded in SQUARES.items() if padded != unit])
def test_padded_units_at_the_ends_of_operands(unit):
    """Nothing beyond them is read: what a register would read too much is read unit by unit."""
    for shape in ((64, 64), (35, 1000), (1000, 35), (2, 300, 5)):
        assert check((*shape, unit), (*range(len(shape))[::-1], len(shape)), 1)


def test_no_plan_where_nothing_moves():
    assert plan((7, 5), (0, 1), 4) is None
    assert plan((7, 1, 5), (1, 0, 2), 4) is None
    assert plan((3, 0), (1, 0), 4) is None


def test_neighbours_are_one_dimension():
    """What stays together is part of the unit, or one dimension."""
    numbers = numbers_of(plan((50, 60, 2, 2), (1, 0, 2, 3), 4))
    assert (numbers["unit"], numbers["others"]) == (16, 0)
    assert plan((5, 6, 70, 80), (2, 3, 0, 1), 4) == plan((30, 5600), (1, 0), 4)


def test_many_elements():
    """Numbers of places do not end at 2^31 (or 2^32)."""
    rows, columns = 70_001, 69_999
    p = numbers_of(plan((rows, columns), (1, 0), 1))
    assert p["size"] == rows * columns > 1 << 32
    assert (p["across"], p["across_step0"]) == (columns, rows)
    assert (p["along"], p["along_step0"]) == (rows, columns)


def test_every_routine_is_made_and_has_a_contract():
    declare_kernels()
    for name in routine_names():
        assert registry.owners()[f"pyjax_{name}"] == name
        assert name in ROUTINES


@pytest.mark.parametrize("element", _UNITS)
def test_contracts(element):
    """The reference does what the native routine does."""
    for shape, permutation in random_shapes(60, element, (0, 0, 60, 20, 9, 6)):
        found = plan(shape, permutation, element)
        if found is None:
            continue
        bits = np.random.default_rng(0).integers(0, 256, (*shape, element), np.uint8)
        expected = np.ascontiguousarray(bits.transpose(*permutation, len(shape))).reshape(-1)
        result = np.zeros(expected.size, np.uint8)
        ROUTINES[found.routine].reference(bits.reshape(-1), result, found.numbers)
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize(
    "name", ["transpose_1", "transpose_3", "transpose_4", "transpose_units", "apart_3_1", SHUFFLED]
)
def test_code_for_arm(name):
    declare_kernels()
    target = make_target("aarch64-unknown-linux-gnu", "generic")
    text = registry.group_module(name, target).to_text()
    assert compile_object(text, target)[:4] == b"\x7fELF"


_SIZES = (1, 2, 3, 5, 7, 9, 15, 16, 33, 64, 100, 257, 1000, 4096, 70_000)


@pytest.mark.parametrize("element", SQUARES)
def test_blocks_fit_into_their_memory(element):
    """Rows into the tables, and blocks that are made first into what is there for them."""
    rng = np.random.default_rng(element)
    seen = 0
    for _ in range(2000):
        rank = int(rng.integers(2, 7))
        shape = tuple(map(int, rng.choice(_SIZES, rank)))
        found = plan(shape, tuple(map(int, rng.permutation(rank))), element)
        if found is None:
            continue
        p = numbers_of(found)
        assert min(p["most_across"], p["most_along"]) >= 1
        kind, unit = found.routine.split("_")[0], p["unit"]
        if kind == "transpose":
            assert max(p["most_across"], p["most_along"]) <= MOST_ROWS
        if not p["staged"] or found.routine == "transpose_rows":
            continue
        seen += 1
        if kind == "together":
            most = p["most_across"] + SPARE_BYTES // unit
            assert most * p["along"] * unit <= STAGE_BYTES
            continue
        if kind == "swapped":
            assert p["most_along"] * unit <= STAGE_BYTES
            continue
        if kind == "shuffled":
            assert (p["most_along"] + MOST_TOGETHER - 1) * unit <= STAGE_BYTES
            continue
        lanes = PART // SQUARES[unit] if unit in SQUARES else 1
        spare = lanes if kind == "transpose" else SPARE_BYTES // unit
        rows = max(lanes, min(p["across"], p["most_across"] + lanes - 1))
        if kind == "transpose" and p["pitch"] == unit * p["most_along"]:  # in one piece
            assert p["most_along"] == p["along"] >= lanes <= p["across"]
            assert rows * p["pitch"] + LINE <= STAGE_BYTES
            continue
        assert rows * p["pitch"] <= STAGE_BYTES
        columns = max(lanes, min(p["along"], p["most_along"] + spare - 1))
        assert columns * unit + LINE + PART <= p["pitch"]
        # A block that goes on in another one fills a line.
        assert p["most_along"] * unit >= LINE or p["most_along"] >= p["along"]
    assert seen > 100
