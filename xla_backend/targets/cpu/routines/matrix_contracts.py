"""Contracts of routines of matrices; `small_matrices`, `small_eigen`, `small_reflectors`,
`small_singular` and `blocked_matrices` say what operands mean. Eigenvectors and singular vectors
are any of those there are: a reference and its routine may differ in signs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.program.routines import Kind, Parameter, Routine
from xla_backend.targets.cpu.routines import singular_plan
from xla_backend.targets.cpu.routines.matrix_facts import (
    ADJOINT,
    CONJUGATED,
    LOWER,
    REALS,
    RIGHT,
    TRANSPOSED,
    TYPES,
    UNIT,
)

Array = np.ndarray


def _run_cholesky(batches: int, n: int, lower: int, a: Array, out: Array) -> None:
    triangle = np.tril if lower else np.triu
    for given, result in _problems((batches, n, n), a, out):
        # NumPy reads the lower triangle.
        below = given if lower else given.conj().T
        try:
            factor = np.linalg.cholesky(below)
        except np.linalg.LinAlgError:
            factor = np.full((n, n), np.nan, a.dtype)
        result[...] = triangle(factor if lower else factor.conj().T)


def _run_lu(batches: int, m: int, n: int, a: Array, lu: Array, pivots: Array, info: Array) -> None:
    steps = min(m, n)
    for b, (given, result) in enumerate(_problems((batches, m, n), a, lu)):
        result[...] = given
        info[b] = 0
        for k in range(steps):
            sizes = np.abs(result[k:, k].real) + np.abs(result[k:, k].imag)
            row = k + int(np.argmax(sizes))
            pivots[b * steps + k] = row + 1
            result[[k, row]] = result[[row, k]]
            if result[k, k] == 0:
                info[b] = info[b] or k + 1
                continue
            result[k + 1 :, k] /= result[k, k]
            result[k + 1 :, k + 1 :] -= np.outer(result[k + 1 :, k], result[k, k + 1 :])


def _run_triangular(
    batches: int, n: int, sides: int, flags: int, a: Array, b: Array, x: Array
) -> None:
    shape = (batches, sides, n) if flags & RIGHT else (batches, n, sides)
    matrices = a[: batches * n * n].reshape(batches, n, n)
    for m, (given, result) in zip(matrices, _problems(shape, b, x)):
        m = m.conj() if flags & CONJUGATED else m
        turned = bool(flags & TRANSPOSED) != bool(flags & RIGHT)
        m = m.T if turned else m
        forward = bool(flags & LOWER) != turned
        rows = (given.T, result.T) if flags & RIGHT else (given, result)
        for step in range(n):
            i = step if forward else n - 1 - step
            known = slice(0, i) if forward else slice(i + 1, n)
            with np.errstate(all="ignore"):
                total = rows[0][i] - m[i, known] @ rows[1][known]
                rows[1][i] = total if flags & UNIT else total / m[i, i]


def _run_tridiagonal(
    batches: int, n: int, sides: int, lower: Array, diagonal: Array, upper: Array, b: Array,
    x: Array, info: Array,
) -> None:  # fmt: skip
    bands = (array[: batches * n].reshape(batches, n) for array in (lower, diagonal, upper))
    systems = zip(*bands, _problems((batches, n, sides), b, x))
    for number, (below, middle, above, (given, result)) in enumerate(systems):
        matrix = np.diag(middle) + np.diag(below[1:], -1) + np.diag(above[:-1], 1)
        right = given.copy()
        info[number] = 0
        for k in range(n):
            both = slice(k, k + 2)
            if _size_of(matrix[both, k])[-1] > _size_of(matrix[k, k]):
                matrix[both], right[both] = matrix[both][::-1].copy(), right[both][::-1].copy()
            if matrix[k, k] == 0:
                info[number] = info[number] or k + 1
                continue
            if k + 1 < n:
                factor = matrix[k + 1, k] / matrix[k, k]
                matrix[k + 1] -= factor * matrix[k]
                right[k + 1] -= factor * right[k]
        if not info[number]:
            result[...] = np.linalg.solve(np.triu(matrix), right)


def _size_of(x: Array) -> Array:
    """By which LAPACK chooses pivots."""
    return np.abs(x.real) + np.abs(x.imag)


def _run_eigh(
    batches: int, n: int, lower: int, a: Array, vectors: Array, values: Array, info: Array
) -> None:
    found = _problems((batches, n, n), a, vectors)
    for b, ((given, result), found_values) in enumerate(zip(found, values.reshape(-1, n))):
        triangle = np.tril(given) if lower else np.triu(given).conj().T
        info[b] = int(not np.isfinite(triangle).all())
        if info[b]:
            result[...], found_values[...] = np.nan, np.nan
        else:
            found_values[...], result[...] = np.linalg.eigh(triangle)


def _run_geqrf(batches: int, m: int, n: int, a: Array, packed: Array, taus: Array) -> None:
    few = min(m, n)
    for b, (given, result) in enumerate(_problems((batches, m, n), a, packed)):
        result[...] = given
        for k in range(few):
            x = result[k:, k].copy()
            alpha = x[0]
            tau = taus[b * few + k] = 0
            if np.any(x[1:]) or alpha.imag:
                beta = -np.copysign(np.linalg.norm(x), alpha.real)
                tau = taus[b * few + k] = (beta - alpha) / beta
                x[1:] /= alpha - beta
                result[k, k], result[k + 1 :, k] = beta, x[1:]
            x[0] = 1
            result[k:, k + 1 :] -= np.conj(tau) * np.outer(x, x.conj() @ result[k:, k + 1 :])


def _product_of(packed: Array, taus: Array) -> Array:
    """Of the reflectors in the columns of `packed`: a square matrix."""
    rows = len(packed)
    q = np.eye(rows, dtype=packed.dtype)
    for k, tau in enumerate(taus):
        v = np.concatenate([np.zeros(k), [1], packed[k + 1 :, k]]).astype(packed.dtype)
        q = q - tau * np.outer(q @ v, v.conj())
    return q


def _run_orgqr(batches: int, m: int, n: int, k: int, packed: Array, taus: Array, q: Array) -> None:
    for b, (given, result) in enumerate(_problems((batches, m, n), packed, q)):
        result[...] = _product_of(given, taus[b * k : (b + 1) * k])[:, :n]


def _run_ormqr(
    batches: int,
    m: int,
    n: int,
    k: int,
    flags: int,
    packed: Array,
    taus: Array,
    c: Array,
    out: Array,
) -> None:
    rows = n if flags & RIGHT else m
    given = packed[: batches * rows * k].reshape(batches, rows, k)
    for b, (matrix, result) in enumerate(_problems((batches, m, n), c, out)):
        q = _product_of(given[b], taus[b * k : (b + 1) * k])
        q = q.conj().T if flags & ADJOINT else q
        result[...] = matrix @ q if flags & RIGHT else q @ matrix


def _run_svd(
    batches: int, m: int, n: int, left: int, right: int,
    a: Array, copy: Array, s: Array, u: Array, vh: Array, info: Array,
) -> None:  # fmt: skip
    few = min(m, n)
    copy[: batches * m * n] = a[: batches * m * n]
    lefts = u[: batches * m * (left or few)].reshape(batches, m, left or few)
    rights = vh[: batches * (right or few) * n].reshape(batches, right or few, n)
    for b, (given,) in enumerate(_problems((batches, m, n), a)):
        values = s[b * few : (b + 1) * few]
        info[b] = int(not np.isfinite(given).all())
        if info[b]:
            found: Sequence[Any] = (np.nan, np.nan, np.nan)
        else:
            found = np.linalg.svd(given, full_matrices=left == m and right == n)
        lefts[b], values[:], rights[b] = found if left else (0, found[1], 0)


def _without_work(reference: Callable[..., None], numbers: int, *operands: Any) -> None:
    reference(*operands[:numbers], *operands[numbers + 1 : -2])


def _problems(shape: tuple[int, ...], *arrays: Array) -> list[tuple[Array, ...]]:
    """The matrices of each problem."""
    size = int(np.prod(shape))
    return list(zip(*(array[:size].reshape(shape) for array in arrays)))


# Numbers, what is read, what is written (s32 where they are no elements, real where they are not
# complex).
_ROUTINES: dict[str, tuple[str, str, str, Callable[..., None]]] = {
    "cholesky": ("batches n lower", "a", "out", _run_cholesky),
    "lu": ("batches m n", "a", "lu pivots info", _run_lu),
    "triangular": ("batches n sides flags", "a b", "x", _run_triangular),
    "tridiagonal": ("batches n sides", "lower diagonal upper b", "x info", _run_tridiagonal),
    "eigh": ("batches n lower", "a", "vectors values info", _run_eigh),
    "geqrf": ("batches m n", "a", "packed taus", _run_geqrf),
    "orgqr": ("batches m n k", "packed taus", "q", _run_orgqr),
    "ormqr": ("batches m n k flags", "packed taus c", "out", _run_ormqr),
    "svd": ("batches m n left right", "a", "copy s u vh info", _run_svd),
}
_INTEGERS = ("pivots", "info")
_REAL = ("values", "s")


# These have a variant for larger matrices, with memory to work in, which is told into how many
# tasks a batch is divided.
_BLOCKED = ("cholesky", "geqrf", "lu", "orgqr", "triangular")


def _type_of(array: str, t: P) -> P:
    if array in _INTEGERS:
        return P.S32
    return REALS[t] if array in _REAL else t


def _routines() -> list[Routine]:
    found = []
    for name, (numbers, read, written, reference) in _ROUTINES.items():
        count = len(numbers.split())
        for t in TYPES:
            counts = tuple(Parameter(number, Kind.NUMBER) for number in numbers.split())
            arrays = (
                *(Parameter(array, Kind.READ, t) for array in read.split()),
                *(Parameter(array, Kind.WRITE, _type_of(array, t)) for array in written.split()),
            )
            whole = (*counts, *arrays)
            found.append(Routine(f"{name}_{t}", whole, reference, stops=True, steady=True))
            if name in _BLOCKED:
                divided = (Parameter("tasks", Kind.NUMBER),)
                work = (Parameter("work", Kind.WORK, t), Parameter("negated", Kind.WORK, t))
                found.append(
                    Routine(
                        f"{name}_blocked_{t}",
                        (*counts, *divided, *arrays, *work),
                        partial(_without_work, reference, count),
                        stops=True,
                        steady=True,
                    )
                )
    return [*found, *_singular_routines()]


def _singular_routines() -> list[Routine]:
    """Their numbers also say where things are in memory."""
    *_, written, reference = _ROUTINES["svd"]
    return [
        Routine(
            f"svd_blocked_{t}",
            (
                *(Parameter(number, Kind.NUMBER) for number in singular_plan.NUMBERS),
                Parameter("a", Kind.READ, t),
                *(Parameter(array, Kind.WRITE, _type_of(array, t)) for array in written.split()),
                Parameter("work", Kind.WORK, t),
            ),
            partial(_with_numbers, singular_plan.NUMBERS, reference),
            stops=True,
            steady=True,
        )
        for t in singular_plan.TYPES
    ]


def _with_numbers(names: Sequence[str], reference: Callable[..., None], *operands: Any) -> None:
    """A reference that takes the first five of the numbers, and no memory."""
    reference(*operands[:5], *operands[len(names) : -1])


ROUTINES = {routine.name: routine for routine in _routines()}
