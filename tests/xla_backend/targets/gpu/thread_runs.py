"""Runs the LLVM text of GPU kernels on this machine: a thread of a block is a thread of this
process, and what NVPTX has instructions for (numbers of threads and blocks, barriers, shuffles)
are functions that Python provides. Slow; for kernels of a few hundred threads.

It shows that the text means what the kernel IR says, down to the last index: all but what LLVM's
NVPTX backend and ptxas make of it.
"""

from __future__ import annotations

import ctypes
import re
import threading
from collections.abc import Callable, Sequence

import numpy as np

from xla_backend.kernels.ir import Buffer, BufferRole, Kernel
from xla_backend.kernels.matrix_tiles import WARP
from xla_backend.llvm.jit import Library
from xla_backend.llvm.objects import compile_object
from xla_backend.llvm.target import host_target
from xla_backend.llvm.writer import ModuleWriter
from xla_backend.program.ir import launched_buffers
from xla_backend.targets.gpu.architectures import ARCHITECTURES
from xla_backend.targets.gpu.kernel_functions import KernelFunctions, LaunchFunction
from xla_backend.targets.gpu.ptx import llvm_target

_SHARED = 1 << 18
_I32 = ctypes.c_int32


class _Block:
    """What the threads of a block that runs know of each other."""

    def __init__(self, number: int, threads: int) -> None:
        self.number = number
        self.threads = threads
        self.barrier = threading.Barrier(threads)
        warps = -(-threads // WARP)
        sizes = [min(WARP, threads - WARP * w) for w in range(warps)]
        self.warps = [threading.Barrier(size) for size in sizes]
        self.words = [0] * threads


class Runner:
    """The functions of one kernel, linked into this process."""

    def __init__(self, kernel: Kernel, architecture: str = "sm_90") -> None:
        chosen = ARCHITECTURES[architecture]
        functions = KernelFunctions(ModuleWriter(llvm_target(chosen)), chosen, {})
        self.kernel = kernel
        self.launches = functions.launches(kernel)
        self._here = threading.local()
        self._callbacks = self._provided()
        symbols = {
            name: ctypes.cast(function, ctypes.c_void_p).value or 0
            for name, function in self._callbacks.items()
        }
        text = as_host_text(functions.module.to_text())
        self._library = Library(compile_object(text, host_target()), symbols)

    def _provided(self) -> dict[str, Callable]:
        def function(count: int, body: Callable[..., int]) -> Callable:
            return ctypes.CFUNCTYPE(_I32, *[_I32] * count)(body)

        def waiting() -> int:
            self._here.block.barrier.wait()
            return 0

        def waiting_in_warp(_: int) -> int:
            self._warp().wait()
            return 0

        provided = {
            "nvvm_tid": function(0, lambda: self._here.thread),
            "nvvm_ctaid": function(0, lambda: self._here.block.number),
            "nvvm_laneid": function(0, lambda: self._here.thread % WARP),
            "nvvm_barrier0": function(0, waiting),
            "nvvm_bar_warp": function(1, waiting_in_warp),
        }
        for mode in ("bfly", "down", "up", "idx"):
            provided[f"nvvm_shfl_{mode}"] = function(4, self._shuffled(mode))
        return provided

    def _warp(self) -> threading.Barrier:
        return self._here.block.warps[self._here.thread // WARP]

    def _shuffled(self, mode: str) -> Callable[[int, int, int, int], int]:
        """PTX ISA, shfl.sync."""

        def shuffle(members: int, word: int, number: int, clamp: int) -> int:
            block, thread = self._here.block, self._here.thread
            lane, segment = thread % WARP, clamp >> 8 & 31
            assert members >> lane & 1
            block.words[thread] = word
            self._warp().wait()
            last = (lane & segment) | (clamp & 31 & ~segment)
            first = lane & segment
            source, inside = {
                "up": (lane - number, lane - number >= last),
                "down": (lane + number, lane + number <= last),
                "bfly": (lane ^ number, lane ^ number <= last),
                "idx": (first | (number & ~segment), (first | (number & ~segment)) <= last),
            }[mode]
            found = block.words[thread - lane + (source if inside else lane)]
            self._warp().wait()
            return found

        return shuffle

    def __call__(self, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Outputs, flat, as the kernel interpreter gives them."""
        memory: dict[Buffer, np.ndarray] = {}
        in_place = self.kernel.in_place
        for buffer in launched_buffers(self.kernel):
            dtype = buffer.element_type.numpy_dtype
            if buffer.role is BufferRole.OPERAND:
                memory[buffer] = aligned(flat(operands[buffer.number], dtype))
            elif buffer.number in in_place and buffer.role is BufferRole.OUTPUT:
                memory[buffer] = aligned(flat(operands[in_place[buffer.number]], dtype))
            else:
                memory[buffer] = aligned(np.zeros(buffer.size, dtype))
        for launch in self.launches:
            for number in range(launch.blocks):
                self._run(launch, _Block(number, launch.threads), list(memory.values()))
        outputs = [b for b in memory if b.role is BufferRole.OUTPUT]
        return [memory[b] for b in sorted(outputs, key=lambda b: b.number)]

    def _run(self, launch: LaunchFunction, block: _Block, arrays: list[np.ndarray]) -> None:
        pointers = [array.ctypes.data for array in arrays]
        types = [ctypes.c_void_p] * len(pointers)
        function = self._library.function(launch.name, None, *types)

        def work(thread: int) -> None:
            self._here.block, self._here.thread = block, thread
            function(*pointers)

        if block.threads == 1:
            work(0)
            return
        threads = [threading.Thread(target=work, args=(n,)) for n in range(block.threads)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive(), "threads wait for each other for good"


def flat(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The elements of an operand as a kernel has them: complex numbers are pairs."""
    return np.ascontiguousarray(array).reshape(-1).view(dtype)


def aligned(array: np.ndarray) -> np.ndarray:
    """A copy that begins at a multiple of 16 bytes."""
    memory = np.zeros(array.nbytes + 64, np.uint8)
    first = -memory.ctypes.data % 64
    copy = memory[first : first + array.nbytes].view(array.dtype)
    copy[:] = array
    return copy


_NAMES = {
    "llvm.nvvm.read.ptx.sreg.tid.x": "nvvm_tid",
    "llvm.nvvm.read.ptx.sreg.ctaid.x": "nvvm_ctaid",
    "llvm.nvvm.read.ptx.sreg.laneid": "nvvm_laneid",
    "llvm.nvvm.barrier0": "nvvm_barrier0",
    "llvm.nvvm.bar.warp.sync": "nvvm_bar_warp",
}


def as_host_text(text: str) -> str:
    """The text with plain functions in place of NVPTX's, and one address space."""
    for name, mine in _NAMES.items():
        text = text.replace(f"@{name}(", f"@{mine}(")
    text = re.sub(r"@llvm\.nvvm\.shfl\.sync\.(\w+)\.i32\(", r"@nvvm_shfl_\1(", text)
    text = text.replace("define ptx_kernel void", "define void")
    text = re.sub(
        r"= external addrspace\(3\) global \[0 x i8\]",
        f"= internal global [{_SHARED} x i8] zeroinitializer",
        text,
    )
    text = re.sub(r" addrspace\(\d\)", "", text)
    return text.replace(" poison, align 16\n", " zeroinitializer, align 16\n")
