"""Generations of NVIDIA GPUs that code is made for, and the limits that shape it.

Limits are those of the table of technical specifications per compute capability in the CUDA C++
Programming Guide.
"""

from __future__ import annotations

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.errors import UnimplementedError
from xla_backend.process.light_dataclasses import dataclass

WARP = 32
MOST_BLOCKS = 2**31 - 1
TRIPLE = "nvptx64-nvidia-cuda"


@dataclass(frozen=True, slots=True)
class Architecture:
    """One generation.

    Fields:
      name: LLVM's and ptxas's, "sm_90". Code for "sm_90a" runs on GPUs of compute capability 9.0
        only, and has the instructions that no later ones took over.
      ptx: version of the PTX instruction set that code for it is written in, 80 for 8.0.
      multiprocessors: of its usual data centre (or largest) card; schedules only use it to say when
        there are enough blocks.
      shared_per_block, shared_per_multiprocessor: bytes of shared memory; more than
        `static_shared` of a block must be asked for at the launch.
      threads_per_block, threads_per_multiprocessor, blocks_per_multiprocessor: the most there are.
      registers: of 32 bits, per multiprocessor.
    """

    name: str
    ptx: int
    multiprocessors: int
    shared_per_block: int
    shared_per_multiprocessor: int
    threads_per_multiprocessor: int
    blocks_per_multiprocessor: int
    threads_per_block: int = 1024
    registers: int = 65536
    static_shared: int = 48 << 10

    @property
    def number(self) -> int:
        """90 for sm_90 and sm_90a."""
        return int(self.name.removeprefix("sm_").rstrip("a"))

    @property
    def has_group_products(self) -> bool:
        """Whether groups of 128 threads multiply what lies in shared memory (wgmma)."""
        return self.name == "sm_90a"

    def runs_on(self, capability: int) -> bool:
        """Whether GPUs of a compute capability, 90 for 9.0, run code for it."""
        if self.name.endswith("a"):
            return self.number == capability
        return self.number <= capability

    @property
    def has_float_byte_tiles(self) -> bool:
        """Whether it multiplies matrix tiles of floats of 8 bits."""
        return self.number >= 89


_KIB = 1 << 10
ARCHITECTURES = {
    a.name: a
    for a in (
        Architecture("sm_80", 70, 108, 163 * _KIB, 164 * _KIB, 2048, 32),
        Architecture("sm_90", 80, 132, 227 * _KIB, 228 * _KIB, 2048, 32),
        Architecture("sm_90a", 80, 132, 227 * _KIB, 228 * _KIB, 2048, 32),
        Architecture("sm_100", 86, 148, 227 * _KIB, 228 * _KIB, 2048, 32),
        Architecture("sm_120", 87, 170, 99 * _KIB, 100 * _KIB, 1536, 24),
    )
}
DEFAULT = "sm_90a"
# What later GPUs run, too.
_PORTABLE = {"sm_90a": "sm_90"}


def architecture_for(options: CompileOptions) -> Architecture:
    """The architecture that options name as their target's CPU; `DEFAULT` where they name none. The
    one without group products, where they want none.

    Raises:
      UnimplementedError: no code is made for that one.
    """
    name = options.target.cpu if options.target is not None else DEFAULT
    found = ARCHITECTURES.get(name)
    if found is not None and found.has_group_products and not options.gpu.group_products:
        found = ARCHITECTURES[_PORTABLE[found.name]]
    if found is None:
        raise UnimplementedError(
            f"no code is made for the GPU architecture {name!r}; there are "
            f"{', '.join(ARCHITECTURES)}"
        )
    return found
