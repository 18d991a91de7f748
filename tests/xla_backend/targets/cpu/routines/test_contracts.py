"""The reference of each contract against the native routine, on the same operands."""

import ctypes
import itertools
import subprocess
import sys
from collections.abc import Sequence

import numpy as np
import pytest

from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.program.routines import Kind, Routine
from xla_backend.runtime.host_libraries.lapack_arguments import PREFIX
from xla_backend.targets.cpu.routines import fft_plan, matrix_facts, threaded_names
from xla_backend.targets.cpu.routines.contract_table import ROUTINES
from xla_backend.targets.cpu.routines.conv_dims import pack_dims
from xla_backend.targets.cpu.routines.gemm_tiles import GEMM_TYPES
from xla_backend.targets.cpu.routines.library import group_of, kernel_library
from xla_backend.targets.cpu.routines.row_types import (
    PARTITIONED_BYTES,
    PARTITIONED_PLACES,
    SCAN_TYPES,
    operations_of,
)
from xla_backend.targets.cpu.routines.sort import path_of
from xla_backend.targets.cpu.routines.sort_types import SORT_TYPES

TOLERANCE = {"float32": 1e-5, "float64": 1e-12, "complex64": 1e-5, "complex128": 1e-12}
SMALL_FLOATS = {"float16": 4e-3, "bfloat16": 3e-2}


def draw(type, size: int, seed: int = 0) -> np.ndarray:  # type: ignore[no-untyped-def]
    """Small numbers, many of them equal."""
    rng = np.random.default_rng(seed)
    dtype = type.numpy_dtype
    if dtype.kind in "iub":
        low = 0 if dtype.kind != "i" else -4
        return rng.integers(low, 2 if dtype.kind == "b" else 5, size).astype(dtype)
    values = rng.integers(-8, 9, size) / 4
    if dtype.kind == "c":
        values = values + 1j * (rng.integers(-8, 9, size) / 4)
    return values.astype(dtype)


def call_native(routine: Routine, operands: Sequence, path: str) -> None:  # type: ignore[type-arg]
    arguments: list = []
    kept = []
    for parameter, operand in zip(routine.parameters, operands, strict=True):
        if parameter.kind is Kind.NUMBER:
            arguments.append(ctypes.c_int64(operand))
        elif parameter.kind is Kind.KERNEL:
            arguments += [ctypes.c_void_p(None), ctypes.c_void_p(None)]
        elif parameter.kind is Kind.NUMBERS:
            kept.append(np.array(operand, np.int64))
            arguments.append(ctypes.c_void_p(kept[-1].ctypes.data))
        elif operand is None:
            arguments.append(ctypes.c_void_p(None))
        else:
            array, start = operand if parameter.origin else (operand, 0)
            address = array.ctypes.data + start * array.itemsize
            arguments.append(ctypes.c_void_p(address))
    address = kernel_library()[f"pyjax_{routine.name}{path}"]
    ctypes.CFUNCTYPE(None, *[type(a) for a in arguments])(address)(*arguments)


def check(name: str, operands: Sequence, path: str = "") -> None:  # type: ignore[type-arg]
    """Run both on copies of the operands; all of their memory is the same afterwards."""
    routine = ROUTINES[name]

    def copies() -> list:  # type: ignore[type-arg]
        return [
            o.copy() if isinstance(o, np.ndarray)
            else (o[0].copy(), o[1]) if p.origin
            else o
            for o, p in zip(operands, routine.parameters, strict=True)
        ]  # fmt: skip

    native, python = copies(), copies()
    call_native(routine, native, path)
    routine.reference(*python)
    for n, p, parameter in zip(native, python, routine.parameters):
        if parameter.kind not in (Kind.READ, Kind.WRITE, Kind.UPDATE) or n is None:
            continue
        n, p = (n[0], p[0]) if parameter.origin else (n, p)
        tolerance = (TOLERANCE | SMALL_FLOATS).get(n.dtype.name)
        if tolerance is None:
            np.testing.assert_array_equal(n, p, err_msg=parameter.name)
        else:
            wide = np.complex128 if n.dtype.kind == "c" else np.float64
            np.testing.assert_allclose(
                n.astype(wide), p.astype(wide), rtol=tolerance, atol=tolerance
            )


@pytest.mark.parametrize("name", GEMM_TYPES)
@pytest.mark.parametrize("add", [0, 1], ids=["write", "add"])
def test_gemm(name, add):
    t, (m, n, k) = GEMM_TYPES[name], (9, 17, 13)
    a, b = draw(t.source, m * k), draw(t.source, k * n, 1)
    c = draw(t.target, m * (n + 2), 2)
    check(f"gemm_{name}", [m, n, k, a, k, 1, b, 1, k, c, n + 2, add])
    check(f"gemm_fused_{name}", [m, n, k, a, 1, m, b, n, 1, c, n + 2, add, None, 0, 0])


@pytest.mark.parametrize("name", GEMM_TYPES)
def test_batched_gemm(name):
    t, batches, (m, n, k) = GEMM_TYPES[name], 6, (3, 5, 4)
    a, b = draw(t.source, batches * m * k), draw(t.source, batches * k * n, 1)
    c = draw(t.target, batches * m * n, 2)
    product = [batches, m, n, k, a, m * k, k, 1, b, k * n, n, 1, c, m * n, n, 0]
    check(f"gemm_batched_{name}", product)
    # Groups of two: the second batch of a group lies behind those of all groups.
    grouped = [batches, m, n, k, a, 3 * m * k, k, 1, b, 3 * k * n, n, 1, c, m * n, n, 0]
    check(f"gemm_fused_batched_{name}", [*grouped, None, 0, 0, 2, m * k, k * n])


def convolution(  # type: ignore[no-untyped-def]
    *, features_last, stride=1, pad=1, xdil=1, wdil=1, groups=1, reverse=False
):
    """Dims of a 2-d convolution of [2, 4, 7, 8] by windows of 3 x 2, and sizes of its arrays."""
    n, ci, co, h, w, kh, kw = 2, 4 // groups, 6 // groups, 7, 8, 3, 2
    oh, ow = (
        ((size - 1) * xdil + 1 + 2 * pad - ((window - 1) * wdil + 1)) // stride + 1
        for size, window in ((h, kh), (w, kw))
    )
    total_in, total_out = ci * groups, co * groups
    if features_last:
        x = {"xb": h * w * total_in, "xc": 1, "x1": w * total_in, "x2": total_in}
        o = {"ob": oh * ow * total_out, "oc": 1, "o1": ow * total_out, "o2": total_out}
    else:
        x = {"xb": h * w * total_in, "xc": h * w, "x1": w, "x2": 1}
        o = {"ob": oh * ow * total_out, "oc": oh * ow, "o1": ow, "o2": 1}
    sign, first = (-1, (kh - 1) * kw + kw - 1) if reverse else (1, 0)
    dims = pack_dims(
        n=n, groups=groups, ci=ci, co=co, in0=1, in1=h, in2=w, win0=1, win1=kh, win2=kw,
        out0=1, out1=oh, out2=ow, stride0=1, stride1=stride, stride2=stride, pad0=0, pad1=pad,
        pad2=pad, xdil0=1, xdil1=xdil, xdil2=xdil, wdil0=1, wdil1=wdil, wdil2=wdil,
        x0=0, xg=ci * x["xc"], wi=kh * kw, wo=ci * kh * kw, wg=co * ci * kh * kw, w0=0,
        w1=sign * kw, w2=sign, o0=0, og=co * o["oc"], **x, **o,
    )  # fmt: skip
    sizes = (n * h * w * total_in, total_out * ci * kh * kw, n * oh * ow * total_out)
    return tuple(dims), sizes, first


WINDOWS = [
    {},
    {"stride": 2},
    {"pad": 0, "wdil": 2},
    {"xdil": 2},
    {"groups": 2},
    {"reverse": True},
]


@pytest.mark.parametrize("window", WINDOWS, ids=lambda w: "-".join(w) or "plain")
@pytest.mark.parametrize("features_last", [False, True], ids=["planes", "channels"])
@pytest.mark.parametrize("name", ["f32", "f64", "bf16_f32", "s8_s32", "c64_c64"])
def test_convolution(name, features_last, window):
    t = GEMM_TYPES[name]
    dims, (xs, ws, os), first = convolution(features_last=features_last, **window)
    arrays = draw(t.source, xs), (draw(t.source, ws, 1), first), draw(t.target, os, 2)
    check(f"conv_{name}", [*arrays, dims])


def with_special(keys: np.ndarray) -> np.ndarray:
    if keys.dtype.kind not in "biu":
        keys[::7] = np.nan
        keys[1::5] = -keys.dtype.type(0)
    return keys


@pytest.mark.parametrize("flags", [0, 1], ids=["ascending", "descending"])
@pytest.mark.parametrize("type", SORT_TYPES, ids=str)
def test_sorts(type, flags):
    keys = with_special(draw(type, 2 * 70 * 3))
    order = np.zeros(keys.size, np.int32)
    for outer, n, inner in ((6, 70, 1), (2, 70, 3)):
        path = path_of(inner != 1)
        sizes = [outer, n, inner, flags]
        check(f"sort_{type}", [keys, np.zeros_like(keys), *sizes, 0, n], path)
        check(f"argsort_{type}", [keys, order, *sizes, 0, n], path)
    refined = np.tile(np.arange(70, dtype=np.int32)[::-1], 6)
    check(f"argsort_{type}", [keys, refined, 6, 70, 1, flags | 2, 0, 70])
    check(f"select_{type}", [keys, np.zeros(6 * 9, np.int32), 6, 70, 9, flags])


@pytest.mark.parametrize("flags", [0, 1], ids=["ascending", "descending"])
@pytest.mark.parametrize("type", SORT_TYPES, ids=str)
@pytest.mark.parametrize("n", [7, 8, 9, 29, 48, 77])
def test_sorts_of_short_rows_at_once(type, n, flags):
    """More rows than a vector has lanes, and some that are left; of floats, with keys that do not
    tell the bits of their elements, and without."""
    rows = 133
    keys = draw(type, rows * n)
    for k in (keys, with_special(keys.copy())):
        check(f"sort_{type}", [k, np.zeros_like(k), rows, n, 1, flags, 0, n])


@pytest.mark.parametrize("flags", [0, 1], ids=["ascending", "descending"])
def test_partitions(flags):
    n = 133
    truth = draw(P.PRED, n)
    for size in PARTITIONED_BYTES:
        x = np.random.default_rng(1).integers(0, 256, n * size, np.uint8)
        check(f"partition_b{size}", [truth, x, np.zeros_like(x), n, flags])
    for type in PARTITIONED_PLACES:
        check(f"partition_{type}", [truth, np.zeros(n, type.numpy_dtype), n, flags])


@pytest.mark.parametrize("flags", [0, 1], ids=["forwards", "backwards"])
@pytest.mark.parametrize("type", SCAN_TYPES, ids=str)
def test_scans(type, flags):
    for op in operations_of(type):
        x = draw(type, 2 * 11 * 3)
        if op == "cumprod" and type.is_floating:
            x = np.abs(x.astype(np.float64) / 8 + 1).astype(x.dtype)
        check(f"{op}_{type}", [x, np.zeros_like(x), 2, 11, 3, flags])
        check(f"{op}_{type}", [x, np.zeros_like(x), 6, 11, 1, flags])


def test_every_library_routine_has_a_contract():
    # What follows a dot says how a routine is done, which does not change what it does.
    names = {name.partition(".")[0] for name in kernel_library()}
    # SciPy's own are there once somebody has called them.
    linked = {n for n in names if n.startswith((PREFIX, "pyjax_blas_")) and group_of(n) is None}
    instructions = {name for name in names if name.startswith(threaded_names.PREFIX)}
    exported = {name for name in names if name.startswith("pyjax_")} - linked - instructions
    helpers = {
        "pyjax_come", "pyjax_helping", "pyjax_host_call", "pyjax_is_stopped",
        "pyjax_lane_groups", "pyjax_leave",
        "pyjax_main_thread", "pyjax_meet", "pyjax_meet_again", "pyjax_meet_later", "pyjax_moves",
        "pyjax_num_threads", "pyjax_parallel_for", "pyjax_parallel_for_polled", "pyjax_part",
        "pyjax_pool_after_fork_in_child", "pyjax_pool_after_fork_in_parent",
        "pyjax_pool_before_fork", "pyjax_poll", "pyjax_poll_begin", "pyjax_poll_end", "pyjax_ready",
        "pyjax_set_num_threads", "pyjax_share", "pyjax_sort_keys_i32", "pyjax_sort_keys_i64",
        "pyjax_stopping", "pyjax_workspace_give", "pyjax_workspace_take",
    }  # fmt: skip
    written_into_programs = {"pyjax_rng_state", "pyjax_merge_argsort"}
    contracts = {f"pyjax_{name}" for name in ROUTINES} - written_into_programs
    assert exported - helpers == contracts


def test_each_contract_is_found_by_the_first_word_of_its_name():
    assert len(set(ROUTINES)) == len(ROUTINES) > 1000
    assert all(ROUTINES[name].name == name for name in ROUTINES)
    assert "gemm_f33" not in ROUTINES and "sorted_f32" not in ROUTINES and "" not in ROUTINES


def test_a_scan_needs_no_contracts_of_other_kinds():
    program = """
import sys
from xla_backend.targets.cpu.routines.contract_table import ROUTINES
assert ROUTINES["cumsum_f32"].name == "cumsum_f32"
kinds = {m.rpartition(".")[2] for m in sys.modules if m.endswith("_contracts")}
assert kinds == {"row_contracts"}, kinds
"""
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("m, n", [(3, 3), (1, 1100), (150, 2), (70, 600)])
def test_epilogue_sees_the_whole_product_in_blocks(m, n):
    a, b = (draw(GEMM_TYPES["f32"].source, size, seed) for seed, size in enumerate((4 * m, 4 * n)))
    seen = np.zeros((m, n), np.float32)
    count = np.zeros((m, n), int)

    def epilogue(block, ld, row_lo, rows, column_lo, columns, batch):
        assert batch == 0 and column_lo % 64 == 0
        for i in range(rows):
            here = row_lo + i, slice(column_lo, column_lo + columns)
            seen[here] = block[i * ld : i * ld + columns]
            count[here] += 1

    routine = ROUTINES["gemm_fused_f32"]
    routine.reference(m, n, 4, a, 4, 1, b, n, 1, None, n, 0, epilogue, 0, 1)
    np.testing.assert_allclose(seen, a.reshape(m, 4) @ b.reshape(4, n), rtol=1e-6)
    assert (count == 1).all()


@pytest.mark.parametrize("t", matrix_facts.TYPES, ids=str)
def test_small_matrices(t):
    batches, m, n, sides = 5, 4, 3, 2
    a = draw(t, batches * m * n)
    written = [draw(t, batches * m * n, 1), np.zeros(batches * n, np.int32)]
    check(f"lu_{t}", [batches, m, n, a, *written, np.zeros(batches, np.int32)])
    square = draw(t, batches * n * n)
    for flags in range(32):
        b, x = draw(t, batches * n * sides, 1), draw(t, batches * n * sides, 2)
        check(f"triangular_{t}", [batches, n, sides, flags, square + 3, b, x])
        work = [np.zeros(n * sides, x.dtype), np.zeros(matrix_facts.BLOCK_ROWS * n, x.dtype)]
        check(f"triangular_blocked_{t}", [batches, n, sides, flags, 1, square + 3, b, x, *work])
    root = square.reshape(batches, n, n)
    positive = root @ root.conj().mT + np.eye(n, dtype=root.dtype)
    for lower in (0, 1):
        flat = positive.reshape(-1)
        check(f"cholesky_{t}", [batches, n, lower, flat, draw(t, flat.size, 1)])
        work = [np.zeros(n * n, flat.dtype), np.zeros(matrix_facts.BLOCK_ROWS * n, flat.dtype)]
        check(f"cholesky_blocked_{t}", [batches, n, lower, 1, flat, draw(t, flat.size, 1), *work])


@pytest.mark.parametrize("t", matrix_facts.TYPES, ids=str)
def test_reflectors(t):
    batches, m, n = 5, 4, 3
    a = draw(t, batches * m * n)
    packed, taus = draw(t, a.size, 1), draw(t, batches * n, 2)
    ROUTINES[f"geqrf_{t}"].reference(batches, m, n, a, packed, taus)
    check(f"geqrf_{t}", [batches, m, n, a, draw(t, a.size, 1), draw(t, taus.size, 2)])
    check(f"orgqr_{t}", [batches, m, n, n, packed, taus, draw(t, a.size, 3)])
    for flags in range(4):
        rows, columns = (2, m) if flags & matrix_facts.RIGHT else (m, 2)
        c = draw(t, batches * rows * columns, 4)
        numbers = [batches, rows, columns, n, flags]
        check(f"ormqr_{t}", [*numbers, packed, taus, c, draw(t, c.size, 5)])


@pytest.mark.parametrize("t", matrix_facts.TYPES, ids=str)
def test_values_without_vectors(t):
    """Vectors may differ in signs; where there are none, and for NaN, all memory is the same."""
    batches, m, n = 3, 4, 3
    real = matrix_facts.REALS[t]
    a = draw(t, batches * m * n)
    a[-1] = np.nan
    values = draw(real, batches * n, 1)
    info = np.full(batches, 7, np.int32)
    vectors = [draw(t, batches * size, 2) for size in (m * n, n * n)]
    check(f"svd_{t}", [batches, m, n, 0, 0, a, draw(t, a.size, 3), values, *vectors, info])
    nan = np.full(batches * n * n, np.nan, t.numpy_dtype)
    check(f"eigh_{t}", [batches, n, 1, nan, draw(t, nan.size, 4), values, info])


@pytest.mark.parametrize(
    "batches, n, sides", [(1, 1, 1), (1, 40, 2), (3, 17, 1), (5, 9, 7), (40, 30, 1)]
)
@pytest.mark.parametrize("t", matrix_facts.TYPES, ids=str)
def test_tridiagonal(t, batches, n, sides):
    """Numbers that are not there may be anything; a system without a solution is told."""
    size = batches * n
    lower, middle, upper = (draw(t, size, seed).reshape(batches, n) for seed in range(3))
    middle[:, ::2] += 3  # every other row changes places
    lower[:, 0], upper[:, -1] = np.nan, np.inf
    b = draw(t, size * sides, 3)
    bands = [each.reshape(-1) for each in (lower, middle, upper)]
    x, info = np.zeros_like(b), np.full(batches, -1, np.int32)
    check(f"tridiagonal_{t}", [batches, n, sides, *bands, b, x, info])


@pytest.mark.parametrize("t", matrix_facts.TYPES, ids=str)
def test_tridiagonal_without_a_solution(t):
    n, size = 5, 15
    lower, middle, upper = draw(t, size, 1), draw(t, size, 2) + 3, draw(t, size, 3)
    lower[n + 2 : n + 4] = middle[n + 2] = 0  # of the second of three
    native = [3, n, 1, lower, middle, upper, draw(t, size, 4), np.zeros_like(lower)]
    info = np.full(3, -1, np.int32)
    call_native(ROUTINES[f"tridiagonal_{t}"], [*native, info], "")
    assert info.tolist() == [0, 3, 0]


@pytest.mark.parametrize("n", [12, 34, 142])
@pytest.mark.parametrize("t", fft_plan.TYPES, ids=str)
def test_fft(t, n):
    real = matrix_facts.REALS[t]
    outer, inner = 2, 3
    size = outer * inner * n
    (plan, count), roots = fft_plan.passes(n), fft_plan.pass_roots(n, real.numpy_dtype)
    prime = fft_plan.large_prime(n)
    places = None if prime is None else np.array(fft_plan.generated(prime), np.int32)
    rotations = fft_plan.rotations(n * inner, n, real.numpy_dtype)
    columns = [n * inner, 1, inner]
    for inverse, turned in itertools.product((0, 1), (None, rotations)):
        numbers = [outer, inner, n, *columns, *columns, n - 2, 2, inverse, count]
        tables = [plan, roots.reshape(-1), turned, places]
        x, y = draw(t, size), draw(t, size, 1)
        check(f"fft_{t}", [*numbers, *tables, x, y])
        check(f"rfft_{t}", [*numbers, *tables, draw(real, size), y])
    half = n // 2 + 1
    numbers = [outer, 1, n, half, 0, 1, n, 0, 1, n, 0, 1, count]
    x, y = draw(t, outer * half), draw(real, outer * n, 1)
    check(f"irfft_{t}", [*numbers, plan, roots.reshape(-1), None, places, x, y])
    # As many pairs, which lie one behind the other, and one number more of what is made of them.
    half_turn = fft_plan.half_turn(2 * n, real.numpy_dtype).reshape(-1)
    tables = [plan, roots.reshape(-1), half_turn, places]
    for kind, ends in (("packed_rfft", (n, n + 1)), ("packed_irfft", (n + 1, n))):
        numbers = [outer, 1, n, ends[0], 0, 1, ends[1], 0, 1, ends[1], 0, int("i" in kind), count]
        given, made = (
            draw(real, 2 * outer * n, seed) if end == n else draw(t, outer * (n + 1), seed)
            for seed, end in enumerate(ends)
        )
        check(f"{kind}_{t}", [*numbers, *tables, given, made])


@pytest.mark.parametrize("kind", [*fft_plan.CHIRPS])
@pytest.mark.parametrize("t", fft_plan.TYPES, ids=str)
def test_chirps(t, kind):
    """Rows shorter and longer than what is made, and over several segments; with a table and
    without."""
    source, target = fft_plan.CHIRPS[kind](t, matrix_facts.REALS[t])
    for (rows, given, made), turned in itertools.product(
        [(3, 21, 40), (6, 37, 19), (2, 1500, 2600)], (False, True)
    ):
        longest = max(given, made)
        table = draw(t, longest, 2) if turned else None
        numbers = [rows, given, made, longest, longest + 1]
        ends = draw(source, rows * longest), draw(target, rows * (longest + 1), 1)
        check(f"{kind}_{t}", [*numbers, table, *ends])


@pytest.mark.parametrize("n", [2, 9, 128, 1500])
@pytest.mark.parametrize("t", fft_plan.TYPES, ids=str)
def test_pairs_of_transforms(t, n):
    half_turn = fft_plan.half_turn(2 * n, matrix_facts.REALS[t].numpy_dtype).reshape(-1)
    ends = draw(t, 3 * n), draw(t, 3 * (n + 1), 1)
    check(f"pairs_rfft_{t}", [3, n, half_turn, *ends])
    check(f"pairs_irfft_{t}", [3, n, half_turn, *ends[::-1]])
