"""Contracts of factors and triangular systems; `small_matrices` and `blocked_matrices` say what
operands mean."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.program.routines import Kind, Parameter, Routine
from xla_backend.targets.cpu.routines.small_matrices import (
    CONJUGATED,
    LOWER,
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


def _without_work(reference: Callable[..., None], *operands: Any) -> None:
    reference(*operands[:-2])


def _problems(shape: tuple[int, ...], *arrays: Array) -> list[tuple[Array, ...]]:
    """The matrices of each problem."""
    size = int(np.prod(shape))
    return list(zip(*(array[:size].reshape(shape) for array in arrays)))


# Numbers, what is read, what is written (s32 where they are no elements).
_ROUTINES: dict[str, tuple[str, str, str, Callable[..., None]]] = {
    "cholesky": ("batches n lower", "a", "out", _run_cholesky),
    "lu": ("batches m n", "a", "lu pivots info", _run_lu),
    "triangular": ("batches n sides flags", "a b", "x", _run_triangular),
}
_INTEGERS = ("pivots", "info")


# These have a variant for larger matrices, with memory to work in.
_BLOCKED = ("cholesky", "triangular")


def matrix_routines() -> list[Routine]:
    found = []
    for name, (numbers, read, written, reference) in _ROUTINES.items():
        for t in TYPES:
            parameters = (
                *(Parameter(number, Kind.NUMBER) for number in numbers.split()),
                *(Parameter(array, Kind.READ, t) for array in read.split()),
                *(
                    Parameter(array, Kind.WRITE, P.S32 if array in _INTEGERS else t)
                    for array in written.split()
                ),
            )
            found.append(Routine(f"{name}_{t}", parameters, reference, stops=True, steady=True))
            if name in _BLOCKED:
                work = (Parameter("work", Kind.WORK, t), Parameter("negated", Kind.WORK, t))
                found.append(
                    Routine(
                        f"{name}_blocked_{t}",
                        (*parameters, *work),
                        partial(_without_work, reference),
                        stops=True,
                        steady=True,
                    )
                )
    return found
