"""Linear algebra as calls of LAPACK's routines on matrices by columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from xla_backend.hlo.attributes import ComparisonDirection, CustomCallAttributes
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import PrimitiveType
from xla_backend.passes.base import HloPass
from xla_backend.passes.emit import Emit

P = PrimitiveType
_REAL = {P.C64: P.F32, P.C128: P.F64}
_OTHER = {"L": "R", "R": "L"}
_OTHER_TRIANGLE = {"L": "U", "U": "L"}


class LapackCall(NamedTuple):
    """A routine of LAPACK and its options: letters as their codes. "cholesky" is potrf with the
    other triangle cleared, and NaN where it fails."""

    routine: str
    options: Mapping[str, int]

    def letter(self, key: str) -> str:
        return chr(self.options[key])


class SolverRewriter(HloPass):
    """cholesky, triangular-solve and calls of LAPACK -> calls of `lapack_columns.<routine>`.

    Why: libraries of GPUs take matrices by columns. Transposes that this makes are kernels like
    others: they fuse with what stands beside them, and between two calls they meet and vanish. Most
    routines do without: a triangle by rows is the other one by columns.
    Needs: `call_of` says of an instruction which routine computes it, if this pass should.
    Leaves: none of those.
    """

    name = "solver-rewriter"
    opcodes = frozenset({Opcode.CHOLESKY, Opcode.TRIANGULAR_SOLVE, Opcode.CUSTOM_CALL})

    def __init__(self, call_of: Callable[[Instruction], LapackCall | None]) -> None:
        self._call_of = call_of

    def run_on_computation(self, computation: Computation) -> bool:
        changed = False
        for node in computation.post_order(*self.opcodes):
            call = self._call_of(node)
            if call is not None:
                b = _Calls(node)
                results = b.nothing() if b.is_empty() else _REWRITES[call.routine](b, call)
                whole = b.tuple(results) if node.shape.is_tuple else results[0]
                computation.replace(node, whole)
                changed = True
        return changed


class _Calls(Emit):
    """What replaces one instruction."""

    def __init__(self, node: Instruction) -> None:
        super().__init__(node)
        self.operands: Sequence[Instruction] = node.operands
        self.results: Sequence[Shape] = node.shape.flatten()

    def is_empty(self) -> bool:
        """Whether there is nothing to compute with, or nothing to compute."""
        matrices = self.operands[0].shape.num_elements
        return not matrices or not any(shape.num_elements for shape in self.results)

    def nothing(self) -> list[Instruction]:
        """The results then: the host gives zeros, too."""
        return [self.full(shape, 0) for shape in self.results]

    def call(
        self,
        routine: str,
        operands: Sequence[Instruction],
        results: Sequence[Shape],
        **options: int | str,
    ) -> list[Instruction]:
        numbers = {k: ord(v) if isinstance(v, str) else v for k, v in options.items()}
        text = ", ".join(f"{key} = {value} : i64" for key, value in numbers.items())
        attributes = CustomCallAttributes(f"lapack_columns.{routine}", f"{{{text}}}")
        shape = Shape.tuple(list(results))
        made = self.add(Opcode.CUSTOM_CALL, operands, attributes, shape=shape)
        return [self.get_tuple_element(made, i) for i in range(len(results))]

    def turned(self, x: Instruction) -> Instruction:
        """The transposes of the matrices."""
        return self.transpose(x, _swapped(range(x.shape.rank)))

    def conjugated(self, x: Instruction) -> Instruction:
        if not x.shape.element_type.is_complex:
            return x
        part = x.shape.with_type(_REAL[x.shape.element_type])
        real, imag = (self.add(o, (x,), shape=part) for o in (Opcode.REAL, Opcode.IMAG))
        minus = self.unary(Opcode.NEGATE, imag)
        return self.add(Opcode.COMPLEX, (real, minus), shape=x.shape)

    def select(self, mask: Instruction, x: Instruction, y: Instruction) -> Instruction:
        return self.add(Opcode.SELECT, (mask, x, y), shape=x.shape)


def _swapped(dimensions: Sequence[int]) -> list[int]:
    *batch, m, n = dimensions
    return [*batch, n, m]


def _turned(shape: Shape) -> Shape:
    return shape.with_dimensions(_swapped(shape.dimensions))


def _cholesky(b: _Calls, call: LapackCall) -> list[Instruction]:
    """By columns a is its conjugate, and a lower factor of a the upper one of that."""
    (a,), (shape,) = b.operands, b.results
    batch, rank = shape.dimensions[:-2], shape.rank
    of_batch = Shape.array(P.S32, batch)
    uplo = call.letter("uplo")
    factor, info = b.call("potrf", [a], [shape, of_batch], uplo=_OTHER_TRIANGLE[uplo])
    good = b.compare(info, b.full(of_batch, 0), ComparisonDirection.EQ)
    kept = b.select(
        b.broadcast(good, shape.dimensions, range(rank - 2)), factor, b.full(shape, np.nan)
    )
    row, column = (b.iota(shape.with_type(P.S32), d) for d in (rank - 2, rank - 1))
    inside = ComparisonDirection.GE if uplo == "L" else ComparisonDirection.LE
    return [b.select(b.compare(row, column, inside), kept, b.full(shape, 0))]


def _potrf(b: _Calls, call: LapackCall) -> list[Instruction]:
    """The other triangle has no meaning."""
    return b.call("potrf", b.operands, b.results, uplo=_OTHER_TRIANGLE[call.letter("uplo")])


def _getrf(b: _Calls, call: LapackCall) -> list[Instruction]:
    (a,), (lu, *others) = b.operands, b.results
    found, *rest = b.call("getrf", [b.turned(a)], [_turned(lu), *others])
    return [b.turned(found), *rest]


def _geqrf(b: _Calls, call: LapackCall) -> list[Instruction]:
    (a,), (packed, taus, *info) = b.operands, b.results
    found, also = b.call("geqrf", [b.turned(a)], [_turned(packed), taus])
    return [b.turned(found), also, *[b.full(shape, 0) for shape in info]]


def _orgqr(b: _Calls, call: LapackCall) -> list[Instruction]:
    (a, taus), (q, *info) = b.operands, b.results
    (found,) = b.call("orgqr", [b.turned(a), taus], [_turned(q)])
    return [b.turned(found), *[b.full(shape, 0) for shape in info]]


def _ormqr(b: _Calls, call: LapackCall) -> list[Instruction]:
    (a, taus, c), (product, *info) = b.operands, b.results
    operands = [b.turned(a), taus, b.turned(c)]
    (found,) = b.call("ormqr", operands, [_turned(product)], **call.options)
    return [b.turned(found), *[b.full(shape, 0) for shape in info]]


def _syevd(b: _Calls, call: LapackCall) -> list[Instruction]:
    """By columns a is its conjugate, which has the conjugates of its eigenvectors."""
    (a,) = b.operands
    options = {"mode": call.letter("mode"), "uplo": _OTHER_TRIANGLE[call.letter("uplo")]}
    vectors, *rest = b.call("syevd", [a], b.results, **options)
    return [a if options["mode"] == "N" else b.turned(b.conjugated(vectors)), *rest]


def _gesdd(b: _Calls, call: LapackCall) -> list[Instruction]:
    """The library takes matrices of no more columns than rows. By columns a is its transpose,
    whose factors are the transposes of its own, in the other order."""
    (a,), (scratch, s, u, vh, info) = b.operands, b.results
    mode = call.letter("mode")
    if a.shape.dimensions[-1] >= a.shape.dimensions[-2]:
        used, values, first, second, failed = b.call(
            "gesdd", [a], [scratch, s, vh, u, info], mode=mode
        )
        return [used, values, second, first, failed]
    shapes = [_turned(scratch), s, _turned(u), _turned(vh), info]
    used, values, first, second, failed = b.call("gesdd", [b.turned(a)], shapes, mode=mode)
    return [b.turned(used), values, b.turned(first), b.turned(second), failed]


def _trsm(b: _Calls, call: LapackCall) -> list[Instruction]:
    """op(a) x = b is x^T op(a)^T = b^T, and what lies by rows is its transpose by columns."""
    return b.call(
        "trsm",
        b.operands,
        b.results,
        side=_OTHER[call.letter("side")],
        uplo=_OTHER_TRIANGLE[call.letter("uplo")],
        trans_x=call.letter("trans_x"),
        diag=call.letter("diag"),
    )


_REWRITES: Mapping[str, Callable[[_Calls, LapackCall], list[Instruction]]] = {
    "cholesky": _cholesky,
    "potrf": _potrf,
    "getrf": _getrf,
    "geqrf": _geqrf,
    "orgqr": _orgqr,
    "ormqr": _ormqr,
    "syevd": _syevd,
    "gesdd": _gesdd,
    "trsm": _trsm,
}
