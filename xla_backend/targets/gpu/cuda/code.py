"""Code of kernels as a device loads it, and the functions in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.errors import RuntimeFailure
from xla_backend.llvm.writer import ModuleWriter
from xla_backend.program.ir import Program
from xla_backend.targets.gpu.architectures import Architecture
from xla_backend.targets.gpu.cuda.device import CudaDevice
from xla_backend.targets.gpu.kernel_functions import KernelFunctions, shared_operands
from xla_backend.targets.gpu.ptx import compile_ptx, llvm_target


class EntryPoint(Protocol):
    """A function of the code, and how it is launched: it takes the addresses of the kernel's
    `launched_buffers`, in order."""

    @property
    def name(self) -> str: ...

    @property
    def blocks(self) -> int: ...

    @property
    def threads(self) -> int: ...

    @property
    def dynamic_shared(self) -> int:
        """Bytes of a block's memory that the launch asks for."""
        ...


class Code(NamedTuple):
    """Fields:
    image: PTX as text, or assembled code.
    entries: of each kernel, its functions, which are launched one after another.
    """

    image: bytes
    entries: Mapping[str, Sequence[EntryPoint]]


def make_code(program: Program, architecture: Architecture, options: CompileOptions) -> Code:
    """PTX of the kernels of a program, which the driver makes code of when it is loaded."""
    writer = ModuleWriter(llvm_target(architecture), options.fast_math)
    functions = KernelFunctions(writer, architecture, shared_operands(program))
    for kernel in program.kernels.values():
        functions.launches(kernel)
    ptx = compile_ptx(writer.to_text(), architecture, cache=True)
    return Code(ptx.encode(), functions.functions)


class LoadedCode:
    """The code on a device.

    Raises:
      RuntimeFailure: the device or its driver does not take it, or a function asks for more than
        a launch can have.
    """

    def __init__(self, code: Code, device: CudaDevice) -> None:
        self._device = device
        self._driver = device.cupy.cuda.driver
        self.module: Any = None
        self._functions: dict[str, Any] = {}
        if not any(code.entries.values()):
            return
        self.module = device.cupy.cuda.function.Module()
        with device.active():
            self.module.load(code.image)
            for entries in code.entries.values():
                for entry in entries:
                    self._functions[entry.name] = self._function(entry)

    def pointer(self, name: str) -> int:
        """What launches call a function."""
        return self._functions[name].ptr

    def _function(self, entry: EntryPoint) -> Any:
        driver, limits = self._driver, self._device.properties
        function = self.module.get_function(entry.name)
        most = driver.funcGetAttribute(driver.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function.ptr)
        shared, blocks = limits["sharedMemPerBlockOptin"], limits["maxGridSize"][0]
        for wanted, limit, what in (
            (entry.blocks, blocks, "blocks"),
            (entry.threads, limits["maxThreadsPerBlock"], "threads of a block"),
            (entry.threads, most, "threads of a block, for the registers that each takes"),
            (entry.dynamic_shared, shared, "bytes of shared memory of a block"),
        ):
            if wanted > limit:
                raise RuntimeFailure(
                    f"function {entry.name!r} cannot be launched on {self._device}: it asks for "
                    f"{wanted} {what}, and the device has at most {limit}"
                )
        if entry.dynamic_shared:
            attribute = driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            driver.funcSetAttribute(function.ptr, attribute, entry.dynamic_shared)
        return function
