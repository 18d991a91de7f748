"""Square tiles of a nest that reads an array across its rows.

    for i in range(64):               for i in range(4):
        for j in range(64):               for j in range(4):
            out[64*i + j] =                   for k in unrolled(16):
                p[i + 64*j]      ->               for lane in lanes(16):
                                                      rows[16*k + lane] = p[16*i + lane + ...]
                                              columns = transpose(rows)
                                              for k in unrolled(16):
                                                  for lane in lanes(16):
                                                      out[...] = columns[16*k + lane]

A tile is read as vectors along the outer loop, transposed in registers, and the body runs with
vectors along the inner one. Tiles go through larger blocks in either direction: what one reads
beside a tile is still in the cache, and its pages are still known, when the next needs it. Rows and
columns left over run in lanes the usual way.
"""

from __future__ import annotations

from itertools import pairwise

from xla_backend.kernels.index import Atom, Index, Var, constant
from xla_backend.kernels.ir import (
    Buffer,
    BufferRole,
    Kernel,
    Load,
    Loop,
    LoopKind,
    Move,
    Statement,
    Transpose,
    Value,
)
from xla_backend.kernels.schedule.copying import Copy, live, replace_atoms
from xla_backend.kernels.schedule.dependence import mentions
from xla_backend.kernels.schedule.lanes import groups_and_rest, lane_of, lanes_loop, rest_in_lanes
from xla_backend.kernels.schedule.splitting import Division, Rest, divide, replace


def inner_loop(loop: Loop) -> Loop:
    """The loop directly inside one that contains no other."""
    (inner,) = (s for s in loop.body if isinstance(s, Loop))
    return inner


def tile(kernel: Kernel, rows: Loop, size: int, block: int, *, unrolled: bool) -> None:
    """Run a nest of two loops in tiles of size * size, in blocks of block * block. `unrolled`: the
    rows of a tile have code of their own, and the tile stays in registers."""
    columns = inner_loop(rows)
    down, right = divide(rows, size), divide(columns, size)
    rest = [*_last_columns(rows, columns, size, down, right), *_last_rows(rows, size, down)]
    nest = _Tiles(kernel, rows, columns, size, unrolled).nest(down, right, block)
    replace(kernel, rows, [nest, *rest])


def transposed_loads(outer: Loop, inner: Loop) -> list[Load]:
    """Loads that are contiguous along the outer loop and strided along the (vector) inner one."""
    found = []
    for s in inner.body:
        if not isinstance(s, Load) or s.guard is not None:
            continue
        strides = s.index.coefficient(outer.var), s.index.coefficient(inner.var)
        both = (outer.var, inner.var)
        rest = Index({a: c for a, c in s.index.terms.items() if a not in both})
        computed = any(isinstance(a, Value) for a in rest.terms)
        if not computed and not mentions(rest, both) and strides[0] == 1 and abs(strides[1]) > 2:
            found.append(s)
    return found


def _last_rows(rows: Loop, size: int, down: Division) -> list[Statement]:
    """The rows below all tiles."""
    rest = down.rest
    if rest is None:
        return []
    var = Var(rows.var.name, rest.count.bounds[1], rows.var.depth)
    body = rest.copy(rows.var, Index.of(var)).block(rows.body)
    loop = Loop(var, live(body), independent=True)
    columns = inner_loop(loop)
    at = loop.body.index(columns)
    loop.body[at : at + 1] = groups_and_rest(columns, size, rest_in_lanes)
    return rest.only_here([loop])


def _last_columns(
    rows: Loop, columns: Loop, size: int, down: Division, right: Division
) -> list[Statement]:
    """What is left over at the right of whole tiles."""
    rest = right.rest
    if rest is None:
        return []
    var = Var(rows.var.name, down.groups * size, rows.var.depth)
    vars = {rows.var: Index.of(var), **rest.known}
    limits = tuple(limit * size for limit in down.limits)
    loop = Loop(var, Copy(vars).block(rows.body), independent=True, limits=limits)
    last = inner_loop(loop)
    at = loop.body.index(last)
    loop.body[at : at + 1] = rest_in_lanes(last, size, Rest(rest.start, rest.count))
    return rest.only_here([loop])


class _Tiles:
    """The nest of the tiles themselves."""

    def __init__(
        self, kernel: Kernel, rows: Loop, columns: Loop, size: int, unrolled: bool
    ) -> None:
        self.kernel = kernel
        self.rows, self.columns, self.size = rows, columns, size
        self.kind = LoopKind.UNROLLED if unrolled else LoopKind.SERIAL

    def nest(self, down: Division, right: Division, block: int) -> Loop:
        row, row_loops = self._walk(self.rows, down, block)
        column, column_loops = self._walk(self.columns, right, block)
        order = [*row_loops[:-1], *column_loops[:-1], row_loops[-1], column_loops[-1]]
        order[-1].body = self._tile(row, column)
        for outer, inner in pairwise(order):
            outer.body = [inner]
        return order[0]

    def _walk(self, loop: Loop, division: Division, block: int) -> tuple[Index, list[Loop]]:
        """The first row (or column) of a tile, and the loops over blocks and the tiles in one."""
        name, depth = loop.var.name, loop.var.depth
        groups, size, each = division.groups, self.size, block // self.size
        if groups <= each:
            var = Var(name, groups, depth)
            here = Loop(var, independent=True, limits=division.limits)
            return Index.of(var) * size, [here]
        blocks, var = Var(f"{name}_block", -(-groups // each), depth), Var(name, each, depth)
        before = Index.of(blocks) * each
        limits = [limit - before for limit in division.limits]
        if groups % each:
            limits.append(constant(groups) - before)
        around = Loop(blocks, independent=True)
        here = Loop(var, independent=True, limits=tuple(limits))
        return (before + Index.of(var)) * size, [around, here]

    def _tile(self, row: Index, column: Index) -> list[Statement]:
        size, rows, columns = self.size, self.rows, self.columns
        result: list[Statement] = []
        turned: dict[Load, Buffer] = {}
        for load in transposed_loads(rows, columns):
            turned[load] = self._read(load, row, column, result)
        number, lane = Var("row", size, rows.var.depth), lane_of(columns, size)
        here: dict[Atom, Index] = {
            rows.var: row + Index.of(number),
            columns.var: column + Index.of(lane),
        }
        replace_atoms(rows.body, here)
        at = rows.body.index(columns)
        rows.body[at] = lanes_loop(lane, columns.body)
        for load, tile in turned.items():
            load.buffer = tile
            load.index = Index.of(number) * size + Index.of(lane)
        return [*result, Loop(number, rows.body, independent=True, kind=self.kind)]

    def _read(self, load: Load, row: Index, column: Index, out: list[Statement]) -> Buffer:
        """The tile that a load reads, with the rows of the nest as its rows."""
        kernel, size, type = self.kernel, self.size, load.buffer.element_type
        number = sum(1 for b in kernel.buffers if b.role is BufferRole.REGISTERS)
        in_registers = self.kind is LoopKind.UNROLLED
        role = BufferRole.REGISTERS if in_registers else BufferRole.LOCAL
        read = Buffer(f"read{number}", type, size * size, BufferRole.REGISTERS)
        turned = Buffer(f"turned{number}", type, size * size, role)
        kernel.buffers += [read, turned]
        across = Var("column", size, self.columns.var.depth)
        lane = lane_of(self.columns, size)
        here: dict[Atom, Index] = {
            self.rows.var: row + Index.of(lane),
            self.columns.var: column + Index.of(across),
        }
        at = Index.of(across) * size + Index.of(lane)
        move = Move(read, at, load.buffer, load.index.replaced(here.get))
        body: list[Statement] = [lanes_loop(lane, [move])]
        out.append(Loop(across, body, independent=True, kind=LoopKind.UNROLLED))
        out.append(Transpose(turned, read, size))
        return turned
