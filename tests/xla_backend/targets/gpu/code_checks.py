"""Code of kernels that are built by hand, and checks of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from native_checks import check_text

from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.kernels.builder import LoopBuilder
from xla_backend.kernels.index import Index
from xla_backend.kernels.ir import Buffer, BufferRole, Kernel, LoopKind, Statement
from xla_backend.kernels.verifier import verify_kernel
from xla_backend.llvm.writer import ModuleWriter
from xla_backend.targets.gpu.architectures import ARCHITECTURES
from xla_backend.targets.gpu.kernel_functions import KernelFunctions
from xla_backend.targets.gpu.ptx import compile_ptx, llvm_target
from xla_backend.targets.gpu.ptxas import Resources, assemble


def functions_of(
    kernels: Iterable[Kernel], architecture: str = "sm_90", shared: Iterable[int] = ()
) -> KernelFunctions:
    """The functions of kernels; `shared`: operands whose memory launches write."""
    chosen = ARCHITECTURES[architecture]
    kernels = list(kernels)
    sharing = {kernel.name: frozenset(shared) for kernel in kernels}
    functions = KernelFunctions(ModuleWriter(llvm_target(chosen)), chosen, sharing)
    for kernel in kernels:
        verify_kernel(kernel)
        functions.launches(kernel)
    return functions


def ptx_of(
    kernels: Iterable[Kernel], architecture: str = "sm_90", shared: Iterable[int] = ()
) -> str:
    """PTX of kernels."""
    functions = functions_of(kernels, architecture, shared)
    return compile_ptx(functions.module.to_text(), functions.architecture)


def check_assembles(
    kernels: Iterable[Kernel], architecture: str = "sm_90"
) -> Mapping[str, Resources]:
    """Assemble kernels in one module, under new names; what their functions take."""
    kernels = list(kernels)
    for n, kernel in enumerate(kernels):
        kernel.name = f"k{n}"
    functions = functions_of(kernels, architecture)
    made = assemble(compile_ptx(functions.module.to_text(), functions.architecture), architecture)
    names = {f.name for found in functions.functions.values() for f in found}
    assert set(made.resources) == names and made.code.startswith(b"\x7fELF")
    return made.resources


def check_ptx(kernel: Kernel, checks: str, **options) -> str:
    """Match the PTX of a kernel."""
    ptx = ptx_of([kernel], **options)
    check_text(ptx, checks)
    return ptx


class Threads:
    """A kernel of one stage: what is built inside `with` is what a thread does.

    with Threads(blocks=2, threads=32) as t:
        t.store(t.output(P.F32, 64), t.here, t.b.load(t.operand(P.F32, 64), t.here))
    """

    def __init__(self, blocks: int = 2, threads: int = 64, name: str = "k") -> None:
        self.b = LoopBuilder(name)
        self._sizes = blocks, threads

    def __enter__(self) -> Threads:
        blocks, threads = self._sizes
        self.block, _ = self.b.open_loop(blocks, kind=LoopKind.GRID, independent=True)
        self.thread, _ = self.b.open_loop(threads, kind=LoopKind.THREAD, independent=True)
        self.here = self.block * threads + self.thread
        return self

    def __exit__(self, *error: object) -> None:
        if error[0] is None:
            self.b.close_loop()
            self.b.close_loop()

    @property
    def statements(self) -> list[Statement]:
        """Those of the innermost loop, as far as they are there."""
        return self.b._blocks[-1].statements

    @property
    def kernel(self) -> Kernel:
        return self.b.kernel

    def buffer(self, role: BufferRole, type: P, size: int) -> Buffer:
        number = sum(b.role is role for b in self.b.kernel.buffers)
        return self.b.buffer(f"{role.value}{number}", type, size, role, number)

    def operand(self, type: P, size: int) -> Buffer:
        return self.buffer(BufferRole.OPERAND, type, size)

    def output(self, type: P, size: int) -> Buffer:
        return self.buffer(BufferRole.OUTPUT, type, size)

    def shared(self, type: P, size: int) -> Buffer:
        return self.buffer(BufferRole.SHARED, type, size)

    def lanes(self, count: int, body: Callable[[Index], None]) -> None:
        """What lanes do, by their variable."""
        with self.b.loop(count, LoopKind.LANES) as lane:
            body(lane)
