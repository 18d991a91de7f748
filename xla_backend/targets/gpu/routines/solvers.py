"""Dense linear algebra by cuSOLVER and cuBLAS: `<library>_<routine>_<type>` for the rows of
`SOLVERS` and the types f32, f64, c64 and c128.

Operands, where the letters of a row say which sizes there are:

    batches, then the sizes, then the options           numbers; letters as their codes
    operands, then results                              dense, one problem behind the other

Matrices lie by columns: the element (i, j) of a matrix of m rows is at i + j * m. A routine does
what LAPACK's of that name does, with its options; pivots and `info` count as there. What is in
`used`, and in the other triangle of `factor`, has no meaning.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from xla_backend.hlo.attributes import CustomCallAttributes
from xla_backend.hlo.types import PrimitiveType
from xla_backend.program.routines import Kind, Parameter, Routine
from xla_backend.runtime.custom_calls import find_custom_call
from xla_backend.runtime.host_libraries.lapack_by_columns import PREFIX

P = PrimitiveType
REALS = {P.F32: P.F32, P.F64: P.F64, P.C64: P.F32, P.C128: P.F64}


class Array(NamedTuple):
    """Fields:
    extents: rows and columns of a matrix, or the length of a vector, as letters; none: a number.
    kind: e, an element; r, its real type; i, an s32.
    """

    name: str
    extents: str
    kind: str = "e"

    def type(self, element: P) -> P:
        return {"e": element, "r": REALS[element], "i": P.S32}[self.kind]


class Solver(NamedTuple):
    """Fields:
    routine: of the library.   library: that has it.
    sizes, options: what they are called, in order.
    operands, results: of one problem. k is the smaller one of m and n.
    """

    routine: str
    library: str
    sizes: str
    options: tuple[str, ...]
    operands: tuple[Array, ...]
    results: tuple[Array, ...]


_INFO = Array("info", "", "i")
# By LAPACK's names.
SOLVERS: Mapping[str, Solver] = {
    "potrf": Solver(
        "potrf", "cusolver", "n", ("uplo",), (Array("a", "nn"),), (Array("factor", "nn"), _INFO)
    ),
    "getrf": Solver(
        "getrf",
        "cusolver",
        "mn",
        (),
        (Array("a", "mn"),),
        (Array("lu", "mn"), Array("pivots", "k", "i"), _INFO),
    ),
    "geqrf": Solver(
        "geqrf",
        "cusolver",
        "mn",
        (),
        (Array("a", "mn"),),
        (Array("packed", "mn"), Array("taus", "k")),
    ),
    "orgqr": Solver(
        "orgqr",
        "cusolver",
        "mnp",
        (),
        (Array("a", "mn"), Array("taus", "p")),
        (Array("q", "mn"),),
    ),
    "ormqr": Solver(
        "ormqr",
        "cusolver",
        "mnpr",
        ("left", "transpose"),
        (Array("a", "rp"), Array("taus", "p"), Array("c", "mn")),
        (Array("product", "mn"),),
    ),
    "syevd": Solver(
        "syevd",
        "cusolver",
        "n",
        ("mode", "uplo"),
        (Array("a", "nn"),),
        (Array("vectors", "nn"), Array("values", "n", "r"), _INFO),
    ),
    "gesdd": Solver(
        "gesvd",
        "cusolver",
        "mnpr",
        ("mode",),
        (Array("a", "mn"),),
        (
            Array("used", "mn"),
            Array("values", "k", "r"),
            Array("u", "mp"),
            Array("vh", "rn"),
            _INFO,
        ),
    ),
    "trsm": Solver(
        "trsm",
        "cublas",
        "mnp",
        ("side", "uplo", "trans_x", "diag"),
        (Array("a", "pp"), Array("b", "mn")),
        (Array("x", "mn"),),
    ),
}


def routine_name(name: str, element: P) -> str:
    """Of the contract, by LAPACK's name."""
    solver = SOLVERS[name]
    return f"{solver.library}_{solver.routine}_{element}"


def _routine(name: str, element: P) -> Routine:
    solver = SOLVERS[name]
    numbers = ["batches", *solver.sizes, *solver.options]
    parameters = [Parameter(number, Kind.NUMBER) for number in numbers]
    for arrays, kind in ((solver.operands, Kind.READ), (solver.results, Kind.WRITE)):
        parameters += [Parameter(array.name, kind, array.type(element)) for array in arrays]
    return Routine(routine_name(name, element), tuple(parameters), partial(_run, name))


def _run(name: str, batches: int, *rest: Any) -> None:
    """What LAPACK does, on the host."""
    solver = SOLVERS[name]
    count = len(solver.sizes)
    sizes = dict(zip(solver.sizes, rest[:count]))
    if "m" in sizes:
        sizes["k"] = min(sizes["m"], sizes["n"])
    options = dict(zip(solver.options, rest[count:]))
    arrays = [
        _problems(flat, batches, [sizes[letter] for letter in array.extents])
        for flat, array in zip(
            rest[count + len(options) :], (*solver.operands, *solver.results), strict=True
        )
    ]
    taken = len(solver.operands)
    text = ", ".join(f"{key} = {value} : i64" for key, value in options.items())
    attributes = CustomCallAttributes(PREFIX + name, f"{{{text}}}")
    function = find_custom_call(PREFIX + name)
    assert function is not None
    function(arrays[:taken], arrays[taken:], attributes, None)  # type: ignore[arg-type]


def _problems(flat: np.ndarray, batches: int, extents: list[int]) -> np.ndarray:
    """[batches, ...] over flat memory; what lies by columns is turned."""
    return flat[: batches * math.prod(extents)].reshape([batches, *extents[::-1]])


ROUTINES = {r.name: r for name in SOLVERS for r in (_routine(name, type) for type in REALS)}
