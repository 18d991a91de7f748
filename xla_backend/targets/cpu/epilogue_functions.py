"""Native functions of epilogues, which a GEMM or convolution calls for each block of its result.

The function runs an epilogue's kernel for a range of rows and columns, with the block of the
product wherever the routine keeps it: see `pyjax_gemm_fused_<t>` in routines.
"""

from __future__ import annotations

from xla_backend.kernels.ir import BufferRole, Kernel, Load
from xla_backend.llvm.types import memory_type, vector
from xla_backend.llvm.writer import FunctionWriter
from xla_backend.program.ir import passed_buffers
from xla_backend.targets.cpu.emitter import KernelEmitter
from xla_backend.targets.cpu.kernel_functions import KernelFunctions, function_name
from xla_backend.targets.cpu.schedules import epilogue_lanes, epilogue_loops

_PARAMETERS = ("row_lo", "row_hi", "column_lo", "column_hi", "batch")


def epilogue_function(kernels: KernelFunctions, kernel: Kernel, whole_blocks: bool) -> str:
    """The name of an epilogue's function, emitted on first use. `whole_blocks`: blocks begin at
    whole vectors, and end there but for the last columns."""
    name = function_name(kernel)
    if kernel.name not in kernels.functions:
        kernels.functions[kernel.name] = [name]
        _EpilogueFunction(kernels, kernel, whole_blocks).emit(name)
    return name


class _EpilogueFunction:
    """Writes void epilogue(data, block, ld, row_lo, row_hi, column_lo, column_hi, batch)."""

    def __init__(
        self,
        kernels: KernelFunctions,
        kernel: Kernel,
        whole_blocks: bool,
    ) -> None:
        self.whole_blocks = whole_blocks
        self.kernels = kernels
        self.kernel = kernel
        self.batch, self.rows, self.columns = epilogue_loops(kernel)
        self.lanes = epilogue_lanes(self.columns, kernels.module.target)
        self.product = next(b for b in kernel.buffers if b.role is BufferRole.SCRATCH)
        self.loads = [
            s for s in self.columns.body if isinstance(s, Load) and s.buffer is self.product
        ]

    def emit(self, symbol: str) -> None:
        params = [("ptr", "data"), ("ptr", "block"), ("i64", "ld")]
        params += [("i64", name) for name in _PARAMETERS]
        w = self.kernels.module.function(symbol, params, internal=True)
        pointers = {
            b: w.load_invariant("ptr", w.gep("ptr", "%data", i))
            for i, b in enumerate(passed_buffers(self.kernel))
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
        lanes = self.lanes
        whole = self.whole_blocks and self.columns.var.extent % lanes == 0
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
        self._load_product(w, e, row, index, self.lanes, mask)
        e.enter_lanes(self.columns.var, self.lanes, index, mask)
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
