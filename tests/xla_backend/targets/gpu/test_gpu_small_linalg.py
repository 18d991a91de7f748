"""Cholesky factors and triangular systems of small matrices on GPUs."""

import itertools

import numpy as np
import pytest
from emulated_checks import barriers, check_emulated, in_any_order
from native_checks import module_of

from xla_backend.hlo.module import HloModule
from xla_backend.hlo.types import BY_NAME
from xla_backend.kernels.interpreter import run_kernel
from xla_backend.kernels.library.small_matrices import cholesky_kernel, is_small
from xla_backend.kernels.races import KernelRunError

TYPES = ("f32", "f64", "c64", "c128")


def text(dims: tuple[int, ...]) -> str:
    return ",".join(map(str, dims))


def cholesky(t: str, dims: tuple[int, ...], lower: bool = True) -> HloModule:
    flag = str(lower).lower()
    shape = f"{t}[{text(dims)}]"
    return module_of(f"x = {shape} parameter(0)\n ROOT r = {shape} cholesky(x), lower={flag}")


def random(t: str, dims: tuple[int, ...], seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=dims)
    if t.startswith("c"):
        x = x + 1j * rng.normal(size=dims)
    return x.astype(BY_NAME[t].numpy_dtype)


def positive(t: str, dims: tuple[int, ...]) -> np.ndarray:
    x = random(t, dims)
    n = dims[-1]
    return (x @ np.conj(np.swapaxes(x, -1, -2)) + n * np.eye(n)).astype(x.dtype)


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("t", TYPES)
@pytest.mark.parametrize("dims", [(1, 1), (3, 3), (5, 8, 8), (2, 3, 11, 11)])
def test_cholesky(t, dims, lower) -> None:
    check_emulated(cholesky(t, dims, lower), [positive(t, dims)], scale=20)


@pytest.mark.parametrize("dims", [(32, 32), (3, 33, 33), (0, 4, 4), (3, 0, 0), (300, 2, 2)])
def test_sizes(dims) -> None:
    check_emulated(cholesky("f32", dims), [positive("f32", dims)], scale=50)


def test_one_triangle_is_read() -> None:
    x = positive("c64", (6, 6))
    for lower in (True, False):
        junk = np.triu(np.full((6, 6), np.nan), 1)
        given = np.where(np.isnan(junk if lower else junk.T), np.nan, x).astype(x.dtype)
        check_emulated(cholesky("c64", (6, 6), lower), [given], scale=20)


def test_a_matrix_that_is_not_positive_definite_gives_nan() -> None:
    good = positive("f32", (5, 5))
    bad, zero, odd = good.copy(), good.copy(), good.copy()
    bad[3, 3], zero[0, 0], odd[4, 1] = -1, 0, np.nan
    late = good.copy()
    late[4, 4] = np.nan
    check_emulated(cholesky("f32", (5, 5, 5)), [np.stack([good, bad, zero, odd, late])], scale=20)


def test_a_barrier_that_is_left_out_is_found() -> None:
    module = cholesky("f32", (3, 6, 6))
    x = positive("f32", (3, 6, 6))
    kernel = cholesky_kernel("k", module.entry.root)
    shapes = [module.entry.root.shape]
    in_any_order(kernel, [x], shapes)
    ((body, at),) = barriers(kernel.stages)
    del body[at]
    with pytest.raises(KernelRunError):
        run_kernel(kernel, [x], shapes)


def solve(
    t: str, a: tuple[int, ...], b: tuple[int, ...], left: bool, lower: bool, unit: bool, how: str
) -> HloModule:
    flags = [str(flag).lower() for flag in (left, lower, unit)]
    body = f"""a = {t}[{text(a)}] parameter(0)  b = {t}[{text(b)}] parameter(1)
        ROOT r = {t}[{text(b)}] triangular-solve(a, b), left_side={flags[0]}, lower={flags[1]},
          unit_diagonal={flags[2]}, transpose_a={how}"""
    return module_of(body)


FLAGS = list(itertools.product([True, False], repeat=3))
WAYS = ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT")


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize(("left", "lower", "unit"), FLAGS)
@pytest.mark.parametrize("t", ["f32", "c64"])
def test_triangular_systems(t, left, lower, unit, how) -> None:
    n, m = 5, 3
    a = random(t, (2, n, n)) + 4 * np.eye(n, dtype=np.float32)
    b = random(t, (2, n, m) if left else (2, m, n), 1)
    check_emulated(solve(t, a.shape, b.shape, left, lower, unit, how), [a, b], scale=50)


@pytest.mark.parametrize(("n", "m"), [(1, 1), (1, 7), (20, 1), (32, 40), (33, 2), (4, 0), (0, 3)])
def test_sizes_of_systems(n, m) -> None:
    a = random("f64", (n, n)) + 2 * n * np.eye(n)
    for left in (True, False):
        b = random("f64", (n, m) if left else (m, n), 1)
        module = solve("f64", a.shape, b.shape, left, True, False, "NO_TRANSPOSE")
        check_emulated(module, [a, b], scale=50)


def test_the_other_triangle_is_not_read() -> None:
    a = random("f32", (6, 6)) + 5 * np.eye(6, dtype=np.float32)
    b = random("f32", (6, 2), 1)
    given = np.where(np.tri(6, dtype=bool), a, np.nan).astype(np.float32)
    module = solve("f32", (6, 6), (6, 2), True, True, False, "TRANSPOSE")
    check_emulated(module, [given, b], scale=20)


def test_larger_matrices_are_solved_elsewhere() -> None:
    assert is_small(cholesky("f32", (64, 64)).entry.root)
    assert not is_small(cholesky("f32", (65, 65)).entry.root)
    assert not is_small(cholesky("c128", (64, 64)).entry.root)
    dims = (65, 65)
    check_emulated(cholesky("f64", dims), [positive("f64", dims)], scale=20)
