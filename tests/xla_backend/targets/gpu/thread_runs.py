"""Runs the LLVM text of GPU kernels on this machine: a thread of a block is a thread of this
process, and what NVPTX has instructions for (numbers of threads and blocks, barriers, shuffles,
tiles) are functions that Python provides. Slow; for kernels of a few hundred threads.

It shows that the text means what the kernel IR says, down to the last index: all but what LLVM's
NVPTX backend and ptxas make of it.
"""

from __future__ import annotations

import ctypes
import re
import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.kernels.ir import Buffer, BufferRole, Kernel
from xla_backend.kernels.matrix_tiles import LAYOUTS, WARP
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
        self.parts = [np.zeros(0, np.uint32)] * threads


class Runner:
    """The functions of one kernel, linked into this process."""

    def __init__(self, kernel: Kernel, architecture: str = "sm_90") -> None:
        chosen = ARCHITECTURES[architecture]
        functions = KernelFunctions(ModuleWriter(llvm_target(chosen)), chosen, {})
        self.kernel = kernel
        self.launches = functions.launches(kernel)
        self._here = threading.local()
        self._callbacks = self._provided()
        self._callbacks["__truncsfbf2"] = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_float)(
            _bits_of_bf16
        )
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
        provided["nvvm_tile"] = ctypes.CFUNCTYPE(_I32, ctypes.c_void_p, _I32)(self._multiplied)
        for mode in ("bfly", "down", "up", "idx"):
            provided[f"nvvm_shfl_{mode}"] = function(4, self._shuffled(mode))
        return provided

    def _multiplied(self, memory: int, number: int) -> int:
        """The registers of a thread, factors and then sums, of which the first become results."""
        tile = TILES[number]
        block, thread = self._here.block, self._here.thread
        words = tile.factor_words + 4
        own = np.ctypeslib.as_array(ctypes.cast(memory, ctypes.POINTER(ctypes.c_uint32)), (words,))
        block.parts[thread] = own.copy()
        self._warp().wait()
        first = thread - thread % WARP
        own[:4] = tile.multiplied(np.stack(block.parts[first : first + WARP]))[thread - first]
        self._warp().wait()
        return 0

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


class Tile(NamedTuple):
    """A kind of tile: its intrinsic (after llvm.nvvm.mma.), how a register of factors is spelled,
    its shape, and the types of factors and sums."""

    name: str
    spelled: str
    shape: tuple[int, int, int]
    factors: P
    sums: P

    @property
    def factor_words(self) -> int:
        registers = LAYOUTS[self.shape].registers
        return (registers["lhs"] + registers["rhs"]) * self.factors.byte_size // 4

    def multiplied(self, words: np.ndarray) -> np.ndarray:
        """The words of the results, from those of all threads of a warp."""
        layout, sums = LAYOUTS[self.shape], self.sums.numpy_dtype
        factors = np.ascontiguousarray(words[:, :-4]).view(self.factors.numpy_dtype)
        cut = layout.registers["lhs"]
        lhs, rhs, total = (
            layout.matrices(part, list(np.moveaxis(values[None], -1, 0)))[0].astype(sums)
            for part, values in (
                ("lhs", factors[:, :cut]),
                ("rhs", factors[:, cut:]),
                ("sum", np.ascontiguousarray(words[:, -4:]).view(sums)),
            )
        )
        results = layout.parts("sum", (total + lhs @ rhs)[None])
        return np.stack([part[0] for part in results], axis=-1).view(np.uint32)

    def wrapper(self, number: int) -> str:
        """A function with the intrinsic's operands, which hands them on in memory."""
        sum_ty = "i32" if self.sums.is_integral else "float"
        types = [self.spelled] * self.factor_words + [sum_ty] * 4
        result = f"{{ {', '.join([sum_ty] * 4)} }}"
        lines = [f"%m = alloca [{len(types)} x i32], align 16"]
        for i, ty in enumerate(types):
            lines.append(f"%p{i} = getelementptr i32, ptr %m, i64 {i}")
            lines.append(f"store {ty} %a{i}, ptr %p{i}, align 4")
        lines.append(f"call i32 @nvvm_tile(ptr %m, i32 {number})")
        for i in range(4):
            before = "poison" if not i else f"%r{i - 1}"
            lines.append(f"%s{i} = load {sum_ty}, ptr %p{i}, align 4")
            lines.append(f"%r{i} = insertvalue {result} {before}, {sum_ty} %s{i}, {i}")
        lines.append(f"ret {result} %r3")
        arguments = ", ".join(f"{ty} %a{i}" for i, ty in enumerate(types))
        head = f"define internal {result} @nvvm_mma_{number}({arguments}) {{"
        return "\n".join([head, *lines, "}", ""])


TILES = (
    Tile("m16n8k16.row.col.f32.f32", "<2 x half>", (16, 8, 16), P.F16, P.F32),
    Tile("m16n8k16.row.col.bf16", "i32", (16, 8, 16), P.BF16, P.F32),
    Tile("m16n8k8.row.col.tf32", "i32", (16, 8, 8), P.F32, P.F32),
    Tile("m16n8k32.row.col.s8", "i32", (16, 8, 32), P.S8, P.S32),
)


def _bits_of_bf16(value: float) -> float:
    """What a compiler's run-time library has for a machine that does not round to bf16: the bits of
    the result lie in the lowest ones of a register of floats."""
    rounded = np.asarray(value, np.float32).astype(P.BF16.numpy_dtype)
    return float(rounded.view(np.uint16).astype(np.uint32).view(np.float32))


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
    wrappers = []
    for number, tile in enumerate(TILES):
        name = f"@llvm.nvvm.mma.{tile.name}("
        if name in text:
            text = re.sub(rf"^declare .*{re.escape(name)}.*$", "", text, flags=re.MULTILINE)
            text = text.replace(name, f"@nvvm_mma_{number}(")
            wrappers.append(tile.wrapper(number))
    if wrappers:
        text = "\n".join(["declare i32 @nvvm_tile(ptr, i32)", *wrappers, text])
    text = text.replace("define ptx_kernel void", "define void")
    text = re.sub(
        r"= external addrspace\(3\) global \[0 x i8\]",
        f"= internal global [{_SHARED} x i8] zeroinitializer",
        text,
    )
    text = re.sub(r" addrspace\(\d\)", "", text)
    return text.replace(" poison, align 16\n", " zeroinitializer, align 16\n")
