"""One program, with both of its codes: threaded code and optimised code give the same bits, but for
those of NaN."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xla_backend.compile_options import CompileOptions
from xla_backend.targets.cpu.compiler import compile_module
from xla_backend.targets.cpu.executable import CpuExecutable
from xla_backend.targets.cpu.program_code import ProgramCode, link
from xla_backend.targets.cpu.target_options import target_for
from xla_backend.targets.cpu.threaded.errors import NoThreadedCode
from xla_backend.targets.cpu.threaded.first_code import threaded_code
from xla_backend.tools.fuzz.checks import STAGES, Failure, told
from xla_backend.tools.fuzz.data import arguments_for
from xla_backend.tools.fuzz.native_runs import FILLS, MemoryDamage, NativeRuns
from xla_backend.tools.fuzz.program import generate


def check_first_code(seed: int) -> Failure | None:
    """Generate the program of a seed, and compare its two codes. Programs without threaded code are
    none to compare."""
    module = generate(seed)
    arguments = arguments_for(module, seed)
    options = CompileOptions(optimization_level=STAGES["full"][seed % 2])
    executable = compile_module(module, options)
    try:
        code = threaded_code(executable.program, target_for(options))
    except NoThreadedCode:
        return None
    except Exception as error:
        return Failure("compilation", "first", told(error))
    try:
        found = differing(executable, with_code(executable, code, options), arguments)
    except MemoryDamage as damage:
        return Failure("damage", "first", str(damage))
    except Exception as error:
        return Failure("execution", "first", told(error))
    return None if found is None else Failure("divergence", "first", found)


def with_code(
    executable: CpuExecutable, code: ProgramCode, options: CompileOptions | None = None
) -> CpuExecutable:
    """The same program with other code."""
    options = options or CompileOptions()
    library = link(code, target_for(options), options.fast_math, options.num_threads)
    stages = lambda: executable.stages
    return CpuExecutable(code, library, executable.device, stages, {}, options, "with other code")


def differing(
    executable: CpuExecutable, other: CpuExecutable, arguments: Sequence[np.ndarray]
) -> str | None:
    """Where the results of two executables are different; None if no bit is."""
    first, second = NativeRuns(executable, FILLS[0]), NativeRuns(other, FILLS[1])
    for fill in FILLS[1:]:
        found = difference(first.run(arguments, fill), second.run(arguments, fill))
        if found is not None:
            return found
    return None


def difference(want: Sequence[np.ndarray], got: Sequence[np.ndarray]) -> str | None:
    """Where two lists of arrays have different bits, of optimised and threaded code; None: they
    have not."""
    for number, pair in enumerate(zip(want, got, strict=True)):
        a, b = map(_numbers, pair)
        wrong = np.flatnonzero(_wrong(a, b))
        if wrong.size:
            at = wrong[0]
            return (
                f"output {number} {pair[0].dtype}{list(pair[0].shape)}: {wrong.size} of {a.size} "
                f"numbers are different, the first is {at}: {a[at]!r} optimised, {b[at]!r} threaded"
            )
    return None


def _numbers(x: np.ndarray) -> np.ndarray:
    """The elements, of complex ones both parts."""
    flat = x.reshape(-1)
    return flat.view(flat.real.dtype) if x.dtype.kind == "c" else flat


def _wrong(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Which numbers have different bits. Those of NaN may be any: LLVM swaps the operands of sums
    and products, of which the first says them."""
    different: np.ndarray = (_bits(a) != _bits(b)).any(axis=1)
    if a.dtype.kind not in "biu":
        different &= ~(np.isnan(a) & np.isnan(b))
    return different


def _bits(x: np.ndarray) -> np.ndarray:
    return np.frombuffer(x.tobytes(), np.uint8).reshape(x.size, x.itemsize)
