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
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.kernels.ir import Buffer, BufferRole, Kernel
from xla_backend.kernels.matrix_tiles import LAYOUTS, WARP
from xla_backend.llvm.jit import Library
from xla_backend.llvm.objects import compile_object
from xla_backend.llvm.target import host_target
from xla_backend.llvm.writer import ModuleWriter
from xla_backend.program.ir import Program, Resident, Space, launched_buffers
from xla_backend.targets.gpu.architectures import ARCHITECTURES
from xla_backend.targets.gpu.kernel_functions import KernelFunctions
from xla_backend.targets.gpu.ptx import llvm_target
from xla_backend.targets.gpu.resident_functions import emit_resident

_SHARED = 1 << 18
_I32 = ctypes.c_int32


class _Block:
    """What the threads of a block that runs know of each other, and how many blocks there are."""

    def __init__(self, number: int, threads: int, blocks: int = 1) -> None:
        self.number = number
        self.blocks = blocks
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
        self._link(functions.module)

    def _link(self, module: ModuleWriter) -> None:
        self._here = threading.local()
        self._callbacks = self._provided()
        self._callbacks["__truncsfbf2"] = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_float)(
            _bits_of_bf16
        )
        symbols = {
            name: ctypes.cast(function, ctypes.c_void_p).value or 0
            for name, function in self._callbacks.items()
        }
        code = compile_object(as_host_text(module.to_text()), host_target())
        self._load = lambda: Library(code, symbols)
        self._libraries = [self._load()]

    def _provided(self) -> dict[str, Callable]:
        def function(count: int, body: Callable[..., int]) -> Callable:
            return ctypes.CFUNCTYPE(_I32, *[_I32] * count)(body)

        def waiting() -> int:
            self._here.block.barrier.wait()
            return 0

        def waiting_in_warp(_: int) -> int:
            self._warp().wait()
            return 0

        def resting(_: int) -> int:
            time.sleep(1e-3)
            return 0

        provided = {
            "nvvm_tid": function(0, lambda: self._here.thread),
            "nvvm_ctaid": function(0, lambda: self._here.block.number),
            "nvvm_nctaid": function(0, lambda: self._here.block.blocks),
            "nvvm_laneid": function(0, lambda: self._here.thread % WARP),
            "nvvm_barrier0": function(0, waiting),
            "nvvm_bar_warp": function(1, waiting_in_warp),
            "nvvm_nanosleep": function(1, resting),
        }
        provided["nvvm_matrices"] = ctypes.CFUNCTYPE(_I32, *[ctypes.c_void_p] * 2, _I32, _I32)(
            self._matrices
        )
        provided["nvvm_prmt"] = function(3, _chosen_bytes)
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

    def _matrices(self, memory: int, row: int, count: int, turned: int) -> int:
        """PTX ISA, ldmatrix: each thread has the address of a row, and gets a word of each
        matrix."""
        block, thread = self._here.block, self._here.thread
        block.words[thread] = row
        self._warp().wait()
        lane = thread % WARP
        for n in range(count):
            rows = block.words[thread - lane + 8 * n : thread - lane + 8 * n + 8]
            held = np.stack([np.frombuffer(ctypes.string_at(r, 16), np.uint16) for r in rows])
            held = held.T if turned else held
            word = np.ascontiguousarray(held[lane // 4, lane % 4 * 2 :][:2]).view(np.uint32)
            ctypes.memmove(memory + 4 * n, word.ctypes.data, 4)
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

    def __call__(self, operands: Sequence[np.ndarray], at_once: int = 1) -> list[np.ndarray]:
        """Outputs, flat, as the kernel interpreter gives them. Of more blocks `at_once`, those of
        higher numbers come first."""
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
            blocks = [_Block(number, launch.threads) for number in range(launch.blocks)]
            blocks = blocks if at_once == 1 else blocks[::-1]
            for n in range(0, len(blocks), at_once):
                self._run(launch.name, blocks[n : n + at_once], list(memory.values()), True)
        outputs = [b for b in memory if b.role is BufferRole.OUTPUT]
        return [memory[b] for b in sorted(outputs, key=lambda b: b.number)]

    def _run(
        self, name: str, blocks: Sequence[_Block], arrays: list[np.ndarray], apart: bool = False
    ) -> None:
        """Run a function by all threads of some blocks at once; where they are `apart`, each has
        shared memory of its own, and all else that the text defines, too."""
        pointers = [array.ctypes.data for array in arrays]
        types = [ctypes.c_void_p] * len(pointers)
        functions = [self._libraries[0].function(name, None, *types)] * len(blocks)
        for n in range(1, len(blocks) if apart else 1):
            if n == len(self._libraries):
                self._libraries.append(self._load())
            functions[n] = self._libraries[n].function(name, None, *types)

        def work(block: _Block, thread: int, function: Callable[..., None]) -> None:
            self._here.block, self._here.thread = block, thread
            function(*pointers)

        if len(blocks) == blocks[0].threads == 1:
            work(blocks[0], 0, functions[0])
            return
        threads = [
            threading.Thread(target=work, args=(block, n, function))
            for block, function in zip(blocks, functions)
            for n in range(block.threads)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive(), "threads wait for each other for good"


class ResidentRunner(Runner):
    """The function of a resident step, linked into this process."""

    def __init__(self, program: Program, step: Resident, architecture: str = "sm_90") -> None:
        chosen = ARCHITECTURES[architecture]
        functions = KernelFunctions(ModuleWriter(llvm_target(chosen)), chosen, {})
        self.function = emit_resident(functions, program, step)
        self._link(functions.module)

    def run(self, memory: Mapping[tuple[Space, int], np.ndarray], blocks: int) -> None:
        """On bytes of each of the function's memories, in place, by so many blocks at once."""
        arrays = [memory[place] for place in self.function.memories]
        assert not any(array.ctypes.data % 16 for array in arrays)
        made = [_Block(n, self.function.threads, blocks) for n in range(blocks)]
        self._run(self.function.name, made, arrays)


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


def _chosen_bytes(first: int, second: int, selector: int) -> int:
    """PTX ISA, prmt in its default mode, without signs."""
    held = np.array([first, second], np.int32).view(np.uint8)
    chosen = [held[selector >> 4 * n & 7] for n in range(4)]
    return int(np.array(chosen, np.uint8).view(np.int32)[0])


_COPY = re.compile(r"cp\.async\.c[ag]\.shared\.global\.(\d+)(\.s)?$")
_LOAD = re.compile(r"ldmatrix\.sync\.aligned\.m8n8\.x(\d)(\.trans)?\.b16")
_INTRINSICS = re.compile(r"@llvm\.nvvm\.((?:cp\.async|ldmatrix|prmt)[\w.]*)\(")


def _defined(name: str) -> str:
    """A function that does at once what an instruction for memory does."""
    mine = f"@nvvm.{name}"
    copy, load = _COPY.match(name), _LOAD.match(name)
    if copy is not None:
        guard, size = (", i32 %read", "%read") if copy[2] else ("", copy[1])
        return f"""
define internal void {mine}(ptr %to, ptr %from{guard}) {{
  call void @llvm.memset.p0.i32(ptr %to, i8 0, i32 {copy[1]}, i1 false)
  call void @llvm.memcpy.p0.p0.i32(ptr %to, ptr %from, i32 {size}, i1 false)
  ret void
}}"""
    if load is not None:
        count = int(load[1])
        result = "i32" if count == 1 else f"{{ {', '.join(['i32'] * count)} }}"
        lines = [
            f"define internal {result} {mine}(ptr %row) {{",
            "%m = alloca [4 x i32], align 16",
            f"call i32 @nvvm_matrices(ptr %m, ptr %row, i32 {count}, i32 {int(bool(load[2]))})",
            f"%r = load {result}, ptr %m, align 4",
            f"ret {result} %r",
            "}",
        ]
        return "\n".join(lines)
    if name == "prmt":
        return (
            f"define internal i32 {mine}(i32 %a, i32 %b, i32 %s) {{\n"
            "%r = call i32 @nvvm_prmt(i32 %a, i32 %b, i32 %s)\nret i32 %r\n}"
        )
    pending = "i32 %pending" if name == "cp.async.wait.group" else ""
    return f"define internal void {mine}({pending}) {{ ret void }}"


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
    "llvm.nvvm.read.ptx.sreg.nctaid.x": "nvvm_nctaid",
    "llvm.nvvm.read.ptx.sreg.laneid": "nvvm_laneid",
    "llvm.nvvm.barrier0": "nvvm_barrier0",
    "llvm.nvvm.bar.warp.sync": "nvvm_bar_warp",
    "llvm.nvvm.nanosleep": "nvvm_nanosleep",
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
    text = re.sub(r" addrspace\(\d\)", "", text).replace('syncscope("device") ', "")
    names = sorted(set(_INTRINSICS.findall(text)))
    if names:
        text = re.sub(r"^declare .*@llvm\.nvvm\.(cp\.async|ldmatrix|prmt).*$", "", text, flags=re.M)
        known = (
            "declare i32 @nvvm_matrices(ptr, ptr, i32, i32)",
            "declare i32 @nvvm_prmt(i32, i32, i32)",
            "declare void @llvm.memset.p0.i32(ptr, i8, i32, i1)",
            "declare void @llvm.memcpy.p0.p0.i32(ptr, ptr, i32, i1)",
        )
        text = _INTRINSICS.sub(r"@nvvm.\1(", text)
        text = "\n".join([*known, *map(_defined, names), text])
    return text.replace(" poison, align 16\n", " zeroinitializer, align 16\n")
