"""Fourier transforms as programs compute them, against NumPy's in double precision."""

import re

import mpmath
import numpy as np
import pytest

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.parser import parse_module
from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.program.ir import Host, Library, all_steps
from xla_backend.runtime.host_threads import num_threads, set_num_threads
from xla_backend.targets.cpu import fft_rules
from xla_backend.targets.cpu.compiler import compile_module
from xla_backend.targets.cpu.routines import fft_forms, fft_plan

ORACLES = {"FFT": np.fft.fftn, "IFFT": np.fft.ifftn, "RFFT": np.fft.rfftn, "IRFFT": np.fft.irfftn}
TOLERANCE = {"c64": 1e-6, "c128": 2e-15}
REALS = {"c64": "f32", "c128": "f64"}


def program(kind, t, shape, rank):
    """A module that transforms the last axes of an array whose real sizes are `shape`."""
    half = [*shape[:-1], shape[-1] // 2 + 1]
    given = {"RFFT": (REALS[t], shape), "IRFFT": (t, half)}.get(kind, (t, shape))
    made = {"RFFT": (t, half), "IRFFT": (REALS[t], shape)}.get(kind, (t, shape))
    types = [f"{e}[{','.join(map(str, dims))}]" for e, dims in (given, made)]
    lengths = ",".join(map(str, shape[len(shape) - rank :]))
    module = parse_module(
        f"HloModule m\nENTRY main {{ x = {types[0]} parameter(0)\n"
        f"ROOT y = {types[1]} fft(x), fft_type={kind}, fft_length={{{lengths}}} }}"
    )
    rng = np.random.default_rng(0)
    x = rng.standard_normal(given[1])
    if given[0] == t:
        x = x + 1j * rng.standard_normal(given[1])
    return compile_module(module, CompileOptions()), x.astype(P(given[0]).numpy_dtype)


def steps_of(executable, kind):
    return [step for step in all_steps(executable.program.steps) if isinstance(step, kind)]


def expected(kind, x, shape, rank):
    axes = range(-rank, 0)
    wide = x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
    return ORACLES[kind](wide, s=shape[len(shape) - rank :], axes=tuple(axes))


# Lengths with each radix, with larger primes and with the largest; fewer, as many and more problems
# than a vector has lanes; long transforms; several axes, whose inner parts are shorter and longer
# than a vector.
SHAPES = [
    ((1,), 1), ((2,), 1), ((3, 15), 1), ((17, 8), 1), ((5, 16), 1), ((40, 7), 1), ((3, 143), 1),
    ((2, 360), 1), ((1024,), 1), ((2, 4096), 1), ((1000,), 1), ((20, 600), 1), ((8192,), 1),
    ((3, 17), 1), ((20, 194), 1), ((2, 289), 1), ((502,), 1), ((251 * 34,), 1), ((19, 31), 2),
    ((4, 6), 2), ((2, 5, 33), 2), ((9, 4, 26), 3), ((2, 3, 4, 5), 3),
    # Rader's convolutions, as long as the prime less one (257) and longer (263, 1019); as parts of
    # lengths that are no primes, and of long transforms.
    ((257,), 1), ((20, 263), 1), ((3, 1019), 1), ((2, 514), 1), ((17, 789), 1), ((263 * 20,), 1),
    ((5, 257, 3), 2),
    # Real numbers in pairs: as many as a group holds, and a long one that is no such pairs.
    ((17, 8192), 1), ((2, 7890), 1), ((16, 6), 1), ((1, 4), 1), ((3, 16384), 1),
    # Longer than a group in the second cache, and enough of them to go through memory once.
    ((17, 12000), 1), ((16, 16384), 1), ((5, 65536), 1), ((12, 32768), 1),
    # Lanes that stay empty: so few that two axes would take longer, and so many that they do not.
    ((5, 1000), 1), ((4, 1000), 1), ((12, 300), 1), ((11, 300), 1),
    # Few long rows: pairs of real numbers, and odd lengths, of which there are no pairs.
    ((4, 131072), 1), ((1, 514), 1), ((3, 6561), 1), ((2, 19683), 1), ((2, 3, 6000), 2),
]  # fmt: skip


@pytest.mark.parametrize("t", TOLERANCE)
@pytest.mark.parametrize("kind", ORACLES)
@pytest.mark.parametrize("shape, rank", SHAPES, ids=str)
def test_transforms(shape, rank, kind, t):
    if kind == "IRFFT" and shape[-1] == 1:
        return
    executable, x = program(kind, t, shape, rank)
    assert not steps_of(executable, Host)
    (y,) = executable.run_arrays([x])
    right = expected(kind, x, shape, rank)
    assert y.shape == right.shape
    np.testing.assert_allclose(y, right, rtol=0, atol=TOLERANCE[t] * np.abs(right).max())


# Prime factors that no pass has, alone and as part of a length; as rows, columns and both; few and
# many rows.
PRIMES = [
    ((4099,), 1), ((3, 4099), 1), ((17, 4099), 1), ((2 * 4099,), 1), ((3, 2 * 4099), 1),
    ((4099, 8), 2), ((4099, 2, 3), 3), ((3, 4099), 2), ((2, 4099, 17), 2), ((4099, 1), 2),
    ((2, 10007), 1), ((20011,), 1),
]  # fmt: skip


@pytest.mark.parametrize("t", TOLERANCE)
@pytest.mark.parametrize("kind", ORACLES)
@pytest.mark.parametrize("shape, rank", PRIMES, ids=str)
def test_large_primes_are_convolutions(shape, rank, kind, t):
    executable, x = program(kind, t, shape, rank)
    assert steps_of(executable, Library) and not steps_of(executable, Host)
    (y,) = executable.run_arrays([x])
    right = expected(kind, x, shape, rank)
    np.testing.assert_allclose(y, right, rtol=0, atol=TOLERANCE[t] * np.abs(right).max())


@pytest.mark.parametrize("n", [4099, 65537, 100003, 131071, 1 << 20])
def test_convolutions_have_room_and_quick_lengths(n):
    size = fft_plan.chirp_length(n)
    assert 2 * n - 1 <= size <= 2.5 * n
    assert set(fft_plan.factors(size)) <= {2, 3, 4, 5, 8}


def test_a_transform_of_many_numbers_more_than_places_have_is_the_host_s():
    rows = fft_rules._LARGEST_STEP // fft_plan.chirp_length(4099) + 1
    for shape, on_host in (((rows, 4099), True), ((rows - 1, 4099), False)):
        executable, _ = program("RFFT", "c64", shape, 1)
        assert bool(steps_of(executable, Host)) == on_host


@pytest.mark.parametrize("prime", [2063, 2137])
def test_convolutions_of_large_primes_have_lengths_with_factors(prime):
    """No length of twice the prime may count as one that has nothing but small factors because it
    has none that the routines know."""
    assert fft_plan.factors(fft_plan.convolution_length(prime)) is not None
    executable, x = program("FFT", "c128", (16, prime), 1)
    assert steps_of(executable, Library)
    (y,) = executable.run_arrays([x])
    np.testing.assert_allclose(y, np.fft.fft(x), atol=1e-10)


@pytest.mark.parametrize(
    "kind, shape, steps",
    [
        ("RFFT", (4, 4096), 3), ("RFFT", (12, 4096), 1), ("RFFT", (16, 131072), 1),
        ("FFT", (11, 4096), 2), ("FFT", (12, 4096), 1), ("IFFT", (16, 16384), 1),
        ("IFFT", (11, 16384), 2), ("IRFFT", (11, 65536), 3), ("IRFFT", (12, 65536), 1),
        ("IRFFT", (3, 6561), 4), ("RFFT", (3, 6561), 2), ("RFFT", (1, 256), 2),
        ("RFFT", (1, 254), 1),
    ],
)  # fmt: skip
def test_few_transforms_are_one_step_where_they_fill_enough_lanes(kind, shape, steps):
    assert len(steps_of(program(kind, "c64", shape, 1)[0], Library)) == steps


@pytest.mark.parametrize("kind", ORACLES)
def test_nothing(kind):
    executable, x = program(kind, "c64", (0, 8), 1)
    (y,) = executable.run_arrays([x])
    assert y.size == 0


def test_nan_and_infinity_stay_in_their_transform():
    executable, x = program("FFT", "c64", (40, 12), 1)
    right = expected("FFT", x, (40, 12), 1)
    x[3, 5], x[17, 0] = np.nan, np.inf
    (y,) = executable.run_arrays([x])
    assert np.isnan(y[3]).all() and not np.isfinite(y[17]).any()
    others = [i for i in range(40) if i not in (3, 17)]
    np.testing.assert_allclose(y[others], right[others], atol=1e-5)


@pytest.mark.parametrize(
    "shape, rank",
    [((60, 960), 1), ((1 << 15,), 1), ((3, 128, 96), 2), ((5, 4099), 1), ((4099, 3), 2)],
)
def test_same_bits_for_any_number_of_threads(shape, rank):
    executable, x = program("RFFT", "c64", shape, rank)
    before, found = num_threads(), []
    try:
        for threads in (1, 2, 7):
            set_num_threads(threads)
            found += executable.run_arrays([x])
    finally:
        set_num_threads(before)
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)


def test_a_problem_has_the_same_bits_whatever_is_beside_it():
    executable, x = program("FFT", "c64", (37, 120), 1)
    (together,) = executable.run_arrays([x])
    alone, _ = program("FFT", "c64", (1, 120), 1)
    for row in (0, 15, 16, 36):
        (y,) = alone.run_arrays([x[row : row + 1]])
        np.testing.assert_array_equal(y[0], together[row])


@pytest.mark.parametrize("n", [1, 2, 3, 7, 8, 12, 143, 1000])
def test_roots_are_rounded_once(n):
    numbers = np.arange(2 * n)
    with mpmath.workprec(100):
        right = [mpmath.expjpi(-mpmath.mpf(2 * int(k)) / n) for k in numbers]
    roots = fft_plan._roots(numbers, n)
    np.testing.assert_array_max_ulp(roots[:, 0], np.array([float(z.real) for z in right]), 2)
    np.testing.assert_array_max_ulp(roots[:, 1], np.array([float(z.imag) for z in right]), 2)
    assert set(map(tuple, roots[numbers % n * 4 % n == 0])) <= {(1, 0), (0, -1), (-1, 0), (0, 1)}


FORM_SHAPES = [
    ((20, 64), 1), ((20, 60), 1), ((20, 77), 1), ((20, 63), 1), ((20, 146), 1), ((20, 11 * 73), 1),
    ((16, 20), 2), ((4096,), 1),
]  # fmt: skip


@pytest.mark.parametrize("kind", ORACLES)
def test_a_form_alone_gives_the_bits_of_all_of_them(kind, monkeypatch):
    """Programs know how numbers lie; the choice at run time does the same."""
    forms = set()
    for shape, rank in FORM_SHAPES:
        executable, x = program(kind, "c64", shape, rank)
        names = re.findall(r"@pyjax_\w*fft_c64\.(\w+)", executable.llvm_ir)
        forms |= {name.removesuffix("_rotated") for name in names}
        alone = executable.run_arrays([x])
        with monkeypatch.context() as patch:
            patch.setattr(fft_forms, "form_of", lambda _: fft_forms.ANY)
            executable, x = program(kind, "c64", shape, rank)
        assert not re.search(r"@pyjax_\w*fft_c64\.", executable.llvm_ir)
        np.testing.assert_array_equal(executable.run_arrays([x]), alone)
    each = ("small", "sevens", "convolved", "any")
    assert {f"{radices}_rows_rows" for radices in each} <= forms
    assert any("columns" in form for form in forms)
    assert any(form.startswith(("eights", "fours", "twos")) for form in forms)


@pytest.mark.parametrize("kind", ["RFFT", "IRFFT"])
def test_real_numbers_are_half_as_many_complex_ones(kind):
    executable, _ = program(kind, "c64", (64, 1024), 1)
    (step,) = steps_of(executable, Library)
    assert step.routine == f"packed_{kind.lower()}_c64"
    assert 512 in step.operands and 1024 not in step.operands


def test_the_ends_of_what_is_conjugate_symmetric_are_taken_for_real():
    executable, x = program("IRFFT", "c64", (3, 20), 1)
    right = expected("IRFFT", x, (3, 20), 1)
    x[:, [0, -1]] += 5j
    (y,) = executable.run_arrays([x])
    np.testing.assert_allclose(y, right, atol=1e-6)


def test_forms_know_how_numbers_lie():
    def form(n, in_inner, in_step, out_inner, out_step, rotations=None):
        return fft_forms.form_of(locals()).suffix

    assert form(64, 64, 1, 1, 100) == ".eights_rows_columns"
    assert form(2048, 2048, 1, 2048, 1) == ".fours_rows_rows"
    assert form(16, 1, 5, 1, 5) == ".twos_columns_columns"
    assert form(30, 1, 30, 30, 1, object()) == ".small_columns_rows_rotated"
    assert form(7, 7, 1, 7, 1) == ".sevens_rows_rows"
    assert form(11, 11, 1, 11, 1) == form(61, 61, 1, 61, 1) == ".any_rows_rows"
    # Rader's convolutions of 1008, 256 and 72 numbers.
    assert form(1009, 1009, 1, 1009, 1) == form(257, 257, 1, 257, 1) == ".convolved_rows_rows"
    assert form(2 * 73, 146, 1, 146, 1) == ".convolved_rows_rows"
    assert form(11 * 73, 803, 1, 803, 1) == ".any_rows_rows"
    assert form(4, 1, 1, 4, 1) == form(4, 2, 3, 4, 1) == ""
    assert len({each.suffix for each in fft_forms.FORMS}) == len(fft_forms.FORMS)
