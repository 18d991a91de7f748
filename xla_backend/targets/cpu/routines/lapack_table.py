"""LAPACK's routines as programs of the CPU call them: arrays, options and memory of each, in one
table. `lapack` writes the code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.runtime.host_libraries.lapack_functions import work_size
from xla_backend.targets.cpu.routines.matrix_facts import REALS

TYPES = tuple(REALS)
Sizes = Mapping[str, int]
# Of a whole library step, and at most.
_TASKS, _TASK_BYTES = 32, 1 << 27
_ALIGNMENT = 64
_ARRAY = re.compile(r"(\w+)(\??)\[([\w,]*)\]")


class Matrices(NamedTuple):
    """One array of each problem: its name, the names of its sizes; whether it may be left out."""

    name: str
    sizes: tuple[str, ...]
    optional: bool

    def type_for(self, t: P) -> P:
        """Elements, in a routine for matrices of `t`."""
        if self.name in _INTEGERS:
            return P.S32
        if self.name in _REALS:
            return REALS[t]
        return _COMPLEX[t] if self.name in _COMPLEXES else t


_INTEGERS = ("pivots", "fixed", "selected", "info")
_REALS = ("s", "w", "d", "e", "wr", "wi")
_COMPLEXES = ("vl", "vr")
_COMPLEX = {P.F32: P.C64, P.F64: P.C128, P.C64: P.C64, P.C128: P.C128}


class LapackRoutine(NamedTuple):
    """Fields:
    name: LAPACK's, for reals.
    options: what it has, and what they are where a call does not say.
    reads, writes: its arrays.
    areas: memory of one problem, "<name>:<type>" of the elements ("t" as those of the matrix, "r"
      reals, "i" i32), and how many of them there are.
    work: cycles for m n min(m, n), roughly.
    """

    name: str
    options: Mapping[str, int]
    reads: tuple[Matrices, ...]
    writes: tuple[Matrices, ...]
    areas: Mapping[str, Callable[[Sizes], int]]
    work: float

    @property
    def arrays(self) -> tuple[Matrices, ...]:
        return (*self.reads, *self.writes)

    @property
    def sizes(self) -> list[str]:
        """The names of all sizes."""
        return list(dict.fromkeys(size for array in self.arrays for size in array.sizes))

    @property
    def numbers(self) -> list[str]:
        """The names of the numbers that it takes, in order."""
        places = [f"at_{area.split(':')[0]}" for area in self.areas]
        return [
            "batches",
            "tasks",
            "threads",
            *self.sizes,
            *self.options,
            "lwork",
            *places,
            "pitch",
        ]

    def numbers_for(
        self, t: P, batches: int, threads: int, sizes: Sizes, options: Mapping[str, int]
    ) -> list[int]:
        """Those numbers. `threads`: those of LAPACK, 0 for as many as the pool has."""
        dtype = t.numpy_dtype
        known = {**sizes, **options}
        lwork = work_size(self.name, dtype, sizes, options) if "work:t" in self.areas else 0
        sized = {**known, "lwork": lwork}
        elements = {"t": t.byte_size, "r": REALS[t].byte_size, "i": 4}
        pitch = 0
        places = []
        for area, count in self.areas.items():
            places.append(pitch)
            nbytes = count(sized) * elements[area.split(":")[1]]
            pitch += -(-nbytes // _ALIGNMENT) * _ALIGNMENT
        # LAPACK that has threads of its own goes through its problems one after another.
        tasks = tasks_for(batches, pitch) if threads == 1 else 1
        return [batches, tasks, threads, *known.values(), lwork, *places, pitch]


def tasks_for(batches: int, nbytes: int) -> int:
    """How many tasks a batch is divided into; `nbytes`: memory of one."""
    return max(1, min(batches, _TASKS, _TASK_BYTES // max(nbytes, 1)))


def _parsed(arrays: str) -> tuple[Matrices, ...]:
    return tuple(
        Matrices(name, tuple(filter(None, sizes.split(","))), bool(optional))
        for name, optional, sizes in _ARRAY.findall(arrays)
    )


def _matrix(s: Sizes) -> int:
    return s.get("m", s["n"]) * s["n"]


def _square(s: Sizes) -> int:
    return s["n"] ** 2


def _twice(s: Sizes) -> int:
    return 2 * s["n"]


def _gesdd_reals(s: Sizes) -> int:
    few, many = sorted((s["m"], s["n"]))
    return max(7 * few, few * (5 * few + 7), few * (2 * many + 2 * few + 1))


_WORK = {"matrix:t": _matrix, "work:t": lambda s: s["lwork"]}
_MODES = {"mode": "V", "uplo": "L"}
# Arrays, options, areas, work. Eigenvalues of a real matrix are two arrays.
_ROUTINES: Mapping[str, tuple[str, Mapping[str, str | int], Mapping[str, Any], float]] = {
    "potrf": ("a[n,n] -> factor[n,n] info[]", {"uplo": "L"}, {}, 0.03),
    "geqp3": (
        "a[m,n] fixed[n] -> packed[m,n] pivots[n] taus[k] info?[]",
        {},
        {**_WORK, "rwork:r": _twice},
        0.2,
    ),
    "ormqr": (
        "a[r,p] taus[p] c[m,n] -> product[m,n] info?[]",
        {"left": 1, "transpose": 0},
        {**_WORK, "reflectors:t": lambda s: s["r"] * s["p"]},
        0.2,
    ),
    "gesdd": (
        "a[m,n] -> copy[m,n] s[k] u[m,l] vh[r,n] info[]",
        {"mode": "S"},
        {
            **_WORK,
            "left:t": lambda s: s["m"] * s["l"],
            "right:t": lambda s: s["r"] * s["n"],
            "rwork:r": _gesdd_reals,
            "iwork:i": lambda s: 8 * s["k"],
        },
        1.5,
    ),
    "syevd": (
        "a[n,n] -> vectors[n,n] w[n] info[]",
        _MODES,
        {
            **_WORK,
            "rwork:r": lambda s: 1 + 5 * s["n"] + 2 * s["n"] ** 2,
            "iwork:i": lambda s: 3 + 5 * s["n"],
        },
        1.0,
    ),
    "geev": (
        "a[n,n] -> VALUES vl[n,n] vr[n,n] info[]",
        {"compute_left": "N", "compute_right": "V"},
        {**_WORK, "left:t": _square, "right:t": _square, "rwork:r": _twice},
        4.0,
    ),
    "gees": (
        "a[n,n] -> triangle[n,n] vectors[n,n] VALUES selected[] info[]",
        {"mode": "V"},
        {**_WORK, "left:t": _square, "rwork:r": _twice, "iwork:i": lambda s: s["n"]},
        4.0,
    ),
    "gehrd": ("a[n,n] -> packed[n,n] taus[j] info[]", {"low": 1, "high": 0}, _WORK, 0.3),
    "sytrd": ("a[n,n] -> packed[n,n] d[n] e[j] taus[j] info[]", {"uplo": "L"}, _WORK, 0.3),
    "gtsv": (
        "lower[n] diagonal[n] upper[n] b[n,m] -> low[n] mid[n] up[n] x[n,m] info[]",
        {},
        {"matrix:t": _matrix},
        0.1,
    ),
}


def _routine(name: str, is_complex: bool) -> LapackRoutine:
    arrays, options, areas, work = _ROUTINES[name]
    arrays = arrays.replace("VALUES", "values[n]" if is_complex else "wr[n] wi[n]")
    reads, writes = arrays.split(" -> ")
    codes = {k: ord(v) if isinstance(v, str) else v for k, v in options.items()}
    return LapackRoutine(name, codes, _parsed(reads), _parsed(writes), areas, work)


LAPACK: Mapping[tuple[str, P], LapackRoutine] = {
    (name, t): _routine(name, t.is_complex) for name in _ROUTINES for t in TYPES
}
