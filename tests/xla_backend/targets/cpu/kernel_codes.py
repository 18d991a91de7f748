"""Kernels as optimised and as threaded code: both run on the same memory, which must be the same
afterwards, and untouched beside what the kernel writes."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable, Sequence

import numpy as np

from xla_backend.kernels.ir import Buffer, BufferRole, Kernel
from xla_backend.llvm import objects
from xla_backend.llvm.jit import Library
from xla_backend.llvm.target import host_target
from xla_backend.llvm.writer import ModuleWriter
from xla_backend.program.ir import launched_buffers
from xla_backend.targets.cpu.kernel_functions import KernelFunctions
from xla_backend.targets.cpu.routines.library import kernel_library
from xla_backend.targets.cpu.routines.threaded_names import BLOCK
from xla_backend.targets.cpu.threaded.assembler import Assembler
from xla_backend.targets.cpu.threaded.kernel_code import KernelTables

_PAGE = mmap.PAGESIZE
_LIBC = ctypes.CDLL(None, use_errno=True)
_CANARY = 0xA5


class _Guarded:
    """Memory whose end is followed by a page, and whose first page is preceded by one, that nobody
    may touch; the array is at its end, or at its beginning."""

    def __init__(self, data: np.ndarray, at_end: bool) -> None:
        size = data.nbytes
        inner = -(-max(size, 1) // _PAGE) * _PAGE
        self.map = mmap.mmap(-1, inner + 2 * _PAGE)
        base = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        for page in (base, base + _PAGE + inner):
            assert _LIBC.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(_PAGE), 0) == 0
        self.address = base + _PAGE + (inner - size if at_end else 0)
        whole = (ctypes.c_uint8 * inner).from_address(base + _PAGE)
        self._whole = np.frombuffer(whole, np.uint8)
        self._whole[:] = _CANARY
        begin = self.address - base - _PAGE
        self.bytes = self._whole[begin : begin + size]
        self.bytes[:] = np.frombuffer(data.tobytes(), np.uint8)
        self.others = np.concatenate([np.arange(begin), np.arange(begin + size, inner)])

    def check(self) -> None:
        assert (self._whole[self.others] == _CANARY).all(), "memory beside the array is written"


def check_same(
    kernel: Kernel, arrays: Sequence[np.ndarray], *, any_nan: bool = False
) -> list[np.ndarray]:
    """The bytes of all launched buffers of a scheduled kernel after it has run on `arrays` (of
    operands, by number), as both codes leave them. `any_nan`: each may have a NaN of its own."""
    optimised, threaded = _optimised(kernel), _threaded(kernel)
    result: list[np.ndarray] = []
    for at_end in (True, False):
        first = _run(optimised, kernel, arrays, at_end)
        second = _run(threaded, kernel, arrays, at_end)
        for buffer, a, b in zip(launched_buffers(kernel), first, second, strict=True):
            dtype = buffer.element_type.numpy_dtype
            if any_nan and buffer.element_type.is_floating:
                a, b = _without_nan(a.view(dtype)), _without_nan(b.view(dtype))
            if not (a == b).all():
                with np.printoptions(threshold=50):
                    raise AssertionError(
                        f"{buffer.name} at {np.flatnonzero(a != b)}\n"
                        f"{a.view(dtype)}\n{b.view(dtype)}"
                    )
        result = second
    return result


def _without_nan(numbers: np.ndarray) -> np.ndarray:
    """The bytes, with one NaN for all."""
    with np.errstate(invalid="ignore"):  # one that signals is told of where it is converted
        nan = np.isnan(numbers.astype(np.float64))
    result = numbers.copy()
    result[nan] = np.nan
    return result.view(np.uint8)


Run = Callable[[list[int]], None]


def _run(code: Run, kernel: Kernel, arrays: Sequence[np.ndarray], at_end: bool) -> list[np.ndarray]:
    memory = [_Guarded(_content(kernel, b, arrays), at_end) for b in launched_buffers(kernel)]
    code([m.address for m in memory])
    for m in memory:
        m.check()
    return [m.bytes.copy() for m in memory]


def _content(kernel: Kernel, buffer: Buffer, arrays: Sequence[np.ndarray]) -> np.ndarray:
    number = buffer.number
    if buffer.role is BufferRole.OUTPUT:
        if number not in kernel.in_place:
            return np.full(buffer.size * buffer.element_type.byte_size, 0x5A, np.uint8)
        number = kernel.in_place[number]
    elif buffer.role is not BufferRole.OPERAND:
        return np.full(buffer.size * buffer.element_type.byte_size, 0x5A, np.uint8)
    return arrays[number]


def _optimised(kernel: Kernel) -> Run:
    module = ModuleWriter(host_target())
    functions = KernelFunctions(module)
    found = functions.stages(kernel)
    w = module.function("run", [("ptr", "context")])
    addresses = [
        w.load("ptr", w.gep("ptr", "%context", i)) for i, _ in enumerate(launched_buffers(kernel))
    ]
    for stage in found:
        if stage.blocks == 1:
            w.call(stage.name, "void", [("ptr", a) for a in addresses])
            continue
        with w.loop(0, stage.blocks) as loop:
            w.call(stage.name, "void", [("ptr", "%context"), ("i64", loop.index)])
    w.ret()
    library = Library(objects.compile_object(module.to_text(), host_target()))
    function = library.function("run", None, ctypes.c_void_p)

    def run(addresses: list[int]) -> None:
        function((ctypes.c_void_p * len(addresses))(*addresses))

    run.library = library  # type: ignore[attr-defined]
    return run


def _threaded(kernel: Kernel) -> Run:
    asm = Assembler()
    found = KernelTables(asm, host_target()).stages(kernel)
    for number, stage in enumerate(found):
        asm.export(f"stage{number}", stage.subroutine)
    kernels = kernel_library(host_target())
    library = Library([asm.object()], {name: kernels[name] for name in asm.symbols})
    block = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(int(kernels[BLOCK]))

    def run(addresses: list[int]) -> None:
        for number, stage in enumerate(found):
            code = int(library.address(f"stage{number}"))
            context = (ctypes.c_void_p * (1 + len(addresses)))(code, *addresses)
            for i in range(stage.blocks):
                block(ctypes.addressof(context), i)

    return run
