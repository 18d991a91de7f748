"""Loaded executables: what a client's compile returns, with one calling convention for all
platforms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from xla_backend.emitted_kernel import EmittedKernel
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.shape import Shape


class LoadedExecutable:
    """A compiled program.

    Attributes:
      parameter_shapes, output_shapes: flat leaves, in order.
      module: the optimised HLO.
      aliases: output leaf -> parameter leaf whose memory it takes over (donation).
      held_bytes: code, constants, and what is kept to show the program's stages.
      temp_size, code_bytes: of memory for values between two steps, and of generated code.
    """

    parameter_shapes: Sequence[Shape]
    output_shapes: Sequence[Shape]
    module: HloModule
    aliases: Mapping[int, int] = MappingProxyType({})
    # About how much memory a cache that keeps this program holds.
    held_bytes: int = 1 << 16
    temp_size: int = 0
    code_bytes: int = 0

    def run(self, arguments: Sequence[int], outputs: Sequence[int]) -> None:
        """Run on host memory: addresses of the argument and output leaves.

        Raises:
          RuntimeFailure: the program reported an error; or the exception a host callback raised.
        """
        raise NotImplementedError

    def texts(self) -> dict[str, str]:
        """Printable stages of the program: "hlo", and where there are such "program", "loops",
        "llvm", "assembly".
        """
        raise NotImplementedError

    def kernels(self) -> list[EmittedKernel]:
        """The generated kernels; platforms that generate none have an empty list."""
        return []

    def pass_report(self) -> str:
        """Time per pass of the compilation, slowest first; empty on platforms without passes."""
        return ""

    def memory_stats(self) -> dict[str, int]:
        """Bytes: argument_size, output_size, temp_size, alias_size, generated_code_size."""
        outputs = [s.byte_size for s in self.output_shapes]
        return {
            "argument_size": sum(s.byte_size for s in self.parameter_shapes),
            "output_size": sum(outputs),
            "temp_size": self.temp_size,
            "alias_size": sum(outputs[leaf] for leaf in self.aliases),
            "generated_code_size": self.code_bytes,
        }
