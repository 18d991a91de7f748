"""Epilogues of products: the elementwise work on a block of the result, as one native function.

The loop IR is an ordinary nest over batch, rows and columns in which the product is a buffer. The
function runs it for a range of rows and columns, with the block of the product wherever the GEMM
keeps it: see `pyjax_gemm_fused_<t>` in kernels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.kernels.builder import LoopBuilder
from xla_backend.kernels.from_hlo.elemental import ElementalEmitter
from xla_backend.kernels.index import delinearize, linearize
from xla_backend.kernels.ir import Buffer, BufferRole, Kernel, Load, Loop
from xla_backend.llvm.types import memory_type, vector
from xla_backend.llvm.writer import FunctionWriter
from xla_backend.passes.buffer_sharing import fusion_roots
from xla_backend.passes.output_fusion import ResultShape, product_of, result_shape
from xla_backend.targets.cpu.emitter import KernelEmitter
from xla_backend.targets.cpu.kernel_functions import (
    CompiledKernel,
    KernelFunctions,
    StageFunction,
    arguments_of,
    structural_key,
)
from xla_backend.targets.cpu.schedule import cycles_in_lanes

# A GEMM does about this many multiply-adds in a cycle, an epilogue one vector.
_MULTIPLIES_PER_CYCLE = 16.0
_PARAMETERS = ("row_lo", "row_hi", "column_lo", "column_hi", "batch")


@dataclass(slots=True)
class Epilogue:
    """A native function and what one element costs in it, in multiply-adds of a GEMM."""

    compiled: CompiledKernel
    weight: int

    @property
    def symbol(self) -> str:
        assert self.compiled.stages is not None
        return self.compiled.stages[0].name

    @property
    def buffers(self) -> list[Buffer]:
        """What the caller passes the addresses of, in order."""
        return [b for b in arguments_of(self.compiled.kernel) if b.role is not BufferRole.SCRATCH]


def epilogue_of(kernels: KernelFunctions, fusion: Instruction, in_place: int | None) -> Epilogue:
    """The epilogue of a kOutput fusion; `in_place`: the result whose memory is that of the
    product."""
    roots = fusion_roots(fusion.called[0])
    product = product_of(fusion.called[0])
    kept = in_place if in_place is not None and roots[in_place] is product else None
    key = ("epilogue", structural_key(fusion), kept)
    compiled = kernels.get_compiled(
        key, fusion.name, lambda name: _compile(kernels, fusion, name, kept), fusion
    )
    return Epilogue(compiled, math.ceil(compiled.cycles * _MULTIPLIES_PER_CYCLE))


def _compile(
    kernels: KernelFunctions, fusion: Instruction, name: str, kept: int | None
) -> CompiledKernel:
    kernel = _nest(fusion, name, kept)
    stage = next(s for s in kernel.stages if isinstance(s, Loop))
    rows, columns = _inner_loop(stage), _inner_loop(_inner_loop(stage))
    lanes = kernels.module.target.lanes(_widest(columns))
    cycles = cycles_in_lanes(stage, lanes) / product_of(fusion.called[0]).shape.num_elements
    columns.vector = lanes
    symbol = f"kernel.{name}"
    gemm = product_of(fusion.called[0]).opcode is Opcode.DOT
    _EpilogueFunction(kernels, kernel, (stage, rows, columns), gemm).emit(symbol)
    return CompiledKernel(kernel, [StageFunction(symbol, 1)], cycles)


def _nest(fusion: Instruction, name: str, kept: int | None) -> Kernel:
    """Loops over batch, rows and columns; the result `kept` is the product itself and is there
    already."""
    fused = fusion.called[0]
    product = product_of(fused)
    builder = LoopBuilder(name)
    leaves = {
        p: builder.buffer(
            f"p{p.parameter_number}",
            p.shape.element_type,
            p.shape.num_elements,
            BufferRole.OPERAND,
            p.parameter_number,
        )
        for p in fused.parameters
        if any(user is not product for user in p.users)
    }
    leaves[product] = builder.buffer(
        "product", product.shape.element_type, product.shape.num_elements, BufferRole.SCRATCH
    )
    e = ElementalEmitter(builder, leaves)
    shape = _shape(product)
    indices = [
        builder.open_loop(extent, independent=True, may_vectorize=n == 2)[0]
        for n, extent in enumerate(shape)
    ]
    linear = linearize(indices, shape)
    wanted = [(i, root) for i, root in enumerate(fusion_roots(fused)) if i != kept]
    elements = [e.value(root, delinearize(linear, root.shape.dimensions)) for _, root in wanted]
    # Everything is read before anything is written: a result may lie where an operand lies.
    for (i, root), element in zip(wanted, elements):
        type, size = root.shape.element_type, root.shape.num_elements
        e.store(builder.buffer(f"out{i}", type, size, BufferRole.OUTPUT, i), linear, element)
    for _ in indices:
        builder.close_loop()
    return builder.kernel


def _shape(product: Instruction) -> ResultShape:
    shape = result_shape(product)
    assert shape is not None, f"the result of {product!r} has no rows"
    return shape


def _inner_loop(loop: Loop) -> Loop:
    inner = loop.body[-1]
    assert isinstance(inner, Loop)
    return inner


def _widest(columns: Loop) -> int:
    types = [s.result.type for s in columns.body if hasattr(s, "result")]
    return max([32, *(t.bits for t in types)])


class _EpilogueFunction:
    """Writes void epilogue(data, block, ld, row_lo, row_hi, column_lo, column_hi, batch)."""

    def __init__(
        self,
        kernels: KernelFunctions,
        kernel: Kernel,
        loops: tuple[Loop, Loop, Loop],
        gemm: bool,
    ) -> None:
        self.gemm = gemm
        self.kernels = kernels
        self.kernel = kernel
        self.batch, self.rows, self.columns = loops
        self.product = next(b for b in kernel.buffers if b.role is BufferRole.SCRATCH)
        self.loads = [
            s for s in self.columns.body if isinstance(s, Load) and s.buffer is self.product
        ]

    def emit(self, symbol: str) -> None:
        params = [("ptr", "data"), ("ptr", "block"), ("i64", "ld")]
        params += [("i64", name) for name in _PARAMETERS]
        w = self.kernels.module.function(symbol, params, internal=True)
        passed = [b for b in arguments_of(self.kernel) if b is not self.product]
        pointers = {
            b: w.load_invariant("ptr", w.gep("ptr", "%data", i)) for i, b in enumerate(passed)
        }
        e = self.kernels.body(w, self.kernel, pointers)
        e.emit(self.kernel.stages[:-1])
        e.vars[self.batch.var] = "%batch" if self.batch.var.extent > 1 else "0"
        e.emit(self.batch.body[:-1])
        stored = memory_type(self.product.element_type)
        with w.loop("%row_lo", "%row_hi") as row:
            e.vars[self.rows.var] = row.index
            e.emit(self.rows.body[:-1])
            offset = w.imul(w.isub(row.index, "%row_lo"), "%ld")
            self._columns(w, e, w.gep(stored, "%block", offset))
        w.ret()

    def _columns(self, w: FunctionWriter, e: KernelEmitter, row: str) -> None:
        lanes = self.columns.vector
        # Blocks of a GEMM begin at whole vectors, and end there but for the last columns.
        whole = self.gemm and self.columns.var.extent % lanes == 0
        if lanes > 1 and (whole or w.target.has_masks):
            with w.loop("%column_lo", "%column_hi", lanes) as column:
                mask = None if whole else _mask_of_rest(w, lanes, column.index)
                self._lanes(w, e, row, column.index, mask)
            return
        first = "%column_lo"
        if lanes > 1:
            count = w.op("and", "i64", w.isub("%column_hi", "%column_lo"), str(-lanes))
            first = w.iadd("%column_lo", count)
            with w.loop("%column_lo", first, lanes) as column:
                self._lanes(w, e, row, column.index, None)
        with w.loop(first, "%column_hi") as column:
            e.vars[self.columns.var] = column.index
            self._load_product(w, e, row, column.index, 1, None)
            e.emit(self.columns.body)

    def _lanes(
        self, w: FunctionWriter, e: KernelEmitter, row: str, index: str, mask: str | None
    ) -> None:
        self._load_product(w, e, row, index, self.columns.vector, mask)
        e.enter_lanes(self.columns, index, mask)
        e.emit(self.columns.body)
        e.leave_lanes()

    def _load_product(
        self,
        w: FunctionWriter,
        e: KernelEmitter,
        row: str,
        index: str,
        lanes: int,
        mask: str | None,
    ) -> None:
        stored = memory_type(self.product.element_type)
        place = w.gep(stored, row, w.isub(index, "%column_lo"))
        ty = vector(stored, lanes)
        raw = w.load(ty, place) if mask is None else w.masked_load(ty, place, mask)
        e.preloaded = dict.fromkeys(self.loads, raw)


def _mask_of_rest(w: FunctionWriter, lanes: int, index: str) -> str:
    """Lanes before %column_hi, by one comparison of 32-bit numbers."""
    ty = vector("i32", lanes)
    rest = w.imin(w.isub("%column_hi", index), lanes)
    return w.cmp("ult", ty, w.iota(ty), w.splat(ty, w.cast("trunc", "i64", rest, "i32")))
