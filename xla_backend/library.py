"""The compiler as a library: parse, compile, evaluate, and executables that run on NumPy arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, overload

import numpy as np

from xla_backend.compile_options import CompileOptions
from xla_backend.compile_target import Target, find_target
from xla_backend.debug_options import with_overrides
from xla_backend.emitted_kernel import EmittedKernel
from xla_backend.flag_effects import with_flags
from xla_backend.hlo import evaluator
from xla_backend.hlo.cost_analysis import analyze
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.parser import parse_module
from xla_backend.hlo.verifier import verify
from xla_backend.process.light_dataclasses import dataclass
from xla_backend.runtime.client import Device, ExecutionContext, LoadedExecutable
from xla_backend.runtime.custom_calls import custom_calls_in
from xla_backend.runtime.hlo_client import host_device
from xla_backend.runtime.plugins import discover_plugins
from xla_backend.runtime.target_code import TargetCode
from xla_backend.targets import built_in as built_in  # registers the platforms


def parse_hlo(text: str) -> HloModule:
    """The module of an HLO text, as XLA prints it.

    Raises:
      ParseError: with line, column, the line and a caret below it. Shapes are not verified here;
        `compile` and `evaluate` do.

    >>> parse_hlo("ENTRY e { x = f32[3] parameter(0)  ROOT r = f32[3] negate(x) }").name
    'module_e'
    """
    return parse_module(text)


def evaluate(
    module: HloModule, arrays: Sequence[np.ndarray], *, seed: int | None = None
) -> list[np.ndarray]:
    """Run a module in the NumPy evaluator: the meaning that compiled code is compared with.

    Args:
      arrays: one per leaf of the parameters, in order.
      seed: of the generator behind the `rng` opcode; None: different on each call.
    Returns:
      The leaves of the result; tokens are left out.
    Raises:
      VerificationError: the module is not valid.
      ValueError: number, shape or dtype of the arrays is not the module's.
      UnimplementedError: a custom call that nobody registered.

    >>> module = parse_hlo("ENTRY e { x = s32[3] parameter(0)  ROOT r = s32[3] negate(x) }")
    >>> evaluate(module, [np.array([1, 2, 3], np.int32)])
    [array([-1, -2, -3], dtype=int32)]
    """
    verify(module)
    calls = custom_calls_in(ExecutionContext(host_device()))
    return evaluator.evaluate(module, arrays, custom_calls=calls, seed=seed)


@overload
def compile(
    module: HloModule,
    platform: str = "cpu",
    options: CompileOptions | Mapping[str, Any] | None = None,
    *,
    target: None = None,
) -> Executable: ...


@overload
def compile(
    module: HloModule,
    platform: str = "cpu",
    options: CompileOptions | Mapping[str, Any] | None = None,
    *,
    target: str | Target,
) -> TargetCode: ...


def compile(
    module: HloModule,
    platform: str = "cpu",
    options: CompileOptions | Mapping[str, Any] | None = None,
    *,
    target: str | Target | None = None,
) -> Executable | TargetCode:
    """Compile a module, which stays as it is, for the first device of a platform; or for another
    machine.

    Args:
      platform: "cpu" (machine code for this host), "cuda" (NVIDIA GPUs), "emulator" and
        "gpu_emulator" (programs and kernels as they are scheduled for the CPU or a GPU, in Python),
        "interpreter" (the evaluator behind the same interface), or a plugin's name.
      options: CompileOptions as they are; or XLA's flags by name, such as
        `{"xla_dump_to": "dumps"}`, in addition to those of the environment variable XLA_FLAGS.
      target: make object code for this machine and load nothing: "aarch64", "x86-64-v2", "wasm32",
        another triple of LLVM such as "arm64-apple-macosx11.0.0", or a Target; "sm_90" and others
        for a GPU, whatever the platform.
    Returns:
      An executable; with a target, a TargetCode with `object_code()` and `assembly()`, that of a
      GPU also with `kernels()` and `analysis()`.
    Raises:
      VerificationError: the module is not valid.
      UnimplementedError: the platform cannot run something in it.
      ValueError: no such platform, or no such target.
      FlagError (a ValueError): no such flag, or a bad value.

    >>> module = parse_hlo("ENTRY e { x = s32[3] parameter(0)  ROOT r = s32[3] negate(x) }")
    >>> compile(module).execute([np.array([1, 2, 3], np.int32)])
    [array([-1, -2, -3], dtype=int32)]
    >>> compile(module, target="aarch64").object_code()[:4]
    b'\\x7fELF'
    """
    plugins = discover_plugins()
    if platform not in plugins:
        raise ValueError(f"no platform {platform!r}; there are {', '.join(sorted(plugins))}")
    verify(module)
    if not isinstance(options, CompileOptions):
        options = with_flags(CompileOptions(), with_overrides(dict(options or {})))
    if target is not None:
        client = plugins[platform].factory
        return built_in.emit(module, client, options, find_target(target))
    return Executable(plugins[platform].factory().compile(module.clone(), options))


@dataclass(frozen=True, slots=True)
class MemoryAnalysis:
    """What a program uses: its code, arguments, results, results that share an argument's memory,
    and temporaries. Names are those of XLA's statistics."""

    generated_code_size_in_bytes: int
    argument_size_in_bytes: int
    output_size_in_bytes: int
    alias_size_in_bytes: int
    temp_size_in_bytes: int


class Executable:
    """A compiled module.

    Attributes:
      module: the optimised HLO.
      loaded: the program behind it, which takes buffers.
    """

    def __init__(self, loaded: LoadedExecutable) -> None:
        self.loaded = loaded
        self.module = loaded.module

    @property
    def device(self) -> Device:
        """Where it runs; `device.host` is the host's end of its infeed and outfeed."""
        return self.loaded.device

    def execute(
        self, arrays: Sequence[np.ndarray], context: ExecutionContext | None = None
    ) -> list[np.ndarray]:
        """Run on one array per parameter leaf; returns the leaves of the result, read-only.

        Donated arguments are copied first: the arrays passed never change. `context` says which
        device and which participant runs; by default the only one, on `device`.

        Raises:
          ValueError: number, shapes or dtypes are not the program's.
          RuntimeFailure: the program reported an error.
        """
        return self.loaded.run_arrays(arrays, context)

    def cost_analysis(self) -> dict[str, float]:
        """Estimated "flops", "transcendentals" and "bytes accessed" of one run."""
        cost = analyze(self.module)
        return {
            "flops": cost.flops,
            "transcendentals": cost.transcendentals,
            "bytes accessed": cost.bytes_accessed,
        }

    def memory_analysis(self) -> MemoryAnalysis:
        """Bytes of code, arguments, results and temporaries."""
        stats = self.loaded.memory_stats()
        return MemoryAnalysis(**{f"{name}_in_bytes": size for name, size in stats.items()})

    def kernels(self) -> list[EmittedKernel]:
        """The generated kernels with loop IR, LLVM IR and assembly; empty on platforms without.

        Library routines (matrix products, convolutions, sorts) are not among them.
        """
        return self.loaded.kernels()

    def pass_report(self) -> str:
        """Time per pass of the compilation, slowest first: milliseconds, runs, runs that changed
        something, name."""
        return self.loaded.pass_report()

    def texts(self) -> Mapping[str, Any]:
        """Every printable stage of the whole program by name: "hlo", "program", "loops" …"""
        return self.loaded.texts()
