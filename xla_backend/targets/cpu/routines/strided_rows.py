"""Rows whose elements are apart, copied so that they lie side by side and back: some neighbouring
ones at a time, in squares of vectors that are transposed in registers.

  read.<ty>(ptr from, i64 stride, ptr rows, i64 length, i64 n, i64 count)     and
  write.<ty>(...)  back; count rows, at rows + k * length, of n elements
"""

from __future__ import annotations

from xla_backend.llvm.transposes import transpose
from xla_backend.llvm.types import bits_of, vector
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter

_NUMBERS = ("length", "n", "count")


_LINE = 512  # bits of a cache line
_MOST = 16
_SIDE = 8


def together(ty: str) -> int:
    """How many rows it is best to copy at once: those that lie in one cache line, of wider ones."""
    return min(_MOST, _LINE // bits_of(ty))


def spaced(w: FunctionWriter, n: str, ty: str) -> str:
    """A length for rows of n elements: an odd number of cache lines, so that squares do not meet in
    the same places of a cache."""
    line = _LINE // bits_of(ty)
    lines = w.op("udiv", "i64", w.iadd(n, line - 1), str(line))
    return w.imul(w.op("or", "i64", lines, "1"), line)


def emit_copy(module: ModuleWriter, ty: str, reads: bool) -> str:
    """The name of the function that reads or writes."""
    name = f"{'read' if reads else 'write'}.{ty}"
    if not module.has_function(name):
        _emit_copy(module, ty, reads, name)
    return name


def _emit_copy(module: ModuleWriter, ty: str, reads: bool, name: str) -> None:
    params = [("ptr", "from"), ("i64", "stride"), ("ptr", "rows")]
    params += [("i64", n) for n in _NUMBERS]
    w = module.function(name, params, internal=True)
    vec, size = vector(ty, _SIDE), bits_of(ty) // 8
    squares = w.op("and", "i64", "%count", str(-_SIDE))
    end = w.op("and", "i64", "%n", str(-_SIDE))

    def apart(i: str, k: str | int) -> str:
        return w.gep(ty, "%from", w.iadd(w.imul(i, "%stride"), k))

    def beside(i: str, k: str | int) -> str:
        return w.gep(ty, "%rows", w.iadd(w.imul(k, "%length"), i))

    def one_by_one(start: str, first: str) -> None:
        with w.loop(start, "%n") as loop, w.loop(first, "%count") as row:
            places = apart(loop.index, row.index), beside(loop.index, row.index)
            source, target = places if reads else places[::-1]
            w.store(ty, w.load(ty, source), target)

    with w.loop("0", end, _SIDE) as loop, w.loop("0", squares, _SIDE) as row:
        i, k = loop.index, row.index
        ends = (
            [apart(w.iadd(i, j), k) for j in range(_SIDE)],
            [beside(i, w.iadd(k, j)) for j in range(_SIDE)],
        )
        froms, tos = ends if reads else ends[::-1]
        square = transpose(w, vec, [w.load(vec, place, size) for place in froms])
        for value, place in zip(square, tos, strict=True):
            w.store(vec, value, place, size)
    one_by_one("0", squares)
    one_by_one(end, "0")
    w.ret()
