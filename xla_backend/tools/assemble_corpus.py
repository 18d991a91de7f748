"""Assembles the kernels of a folder of reference programs for GPUs.

    python -m xla_backend.tools.assemble_corpus FOLDER [--family F] [--only NAME ...]
        [--architectures sm_80,sm_90a,sm_100,sm_120]

Every program is planned for each architecture; its kernels become one PTX module, which `ptxas`
assembles. Listed are the programs that cannot be planned, what LLVM or `ptxas` refuses, and the
kernels whose registers spill. The exit status is 1 if anything was refused.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence

from xla_backend.compile_options import CompileOptions
from xla_backend.compile_target import Target
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.parser import parse_module
from xla_backend.process.light_dataclasses import dataclass, field
from xla_backend.targets.gpu.architectures import ARCHITECTURES, TRIPLE
from xla_backend.targets.gpu.compiler import generate
from xla_backend.targets.gpu.ptxas import Resources
from xla_backend.tools.corpus import add_corpus_arguments, choices, find_programs


@dataclass
class Summary:
    """What became of the programs for one architecture.

    Fields:
      refused: reasons by program.  functions: how many were assembled.
      spills: of functions, "program: function", that move registers to memory.
      registers: the most of any function, and its name.
      seconds: to plan and to emit LLVM text, to make PTX, to assemble. (What the disk cache has
        takes none.)
    """

    programs: int = 0
    refused: dict[str, str] = field(default_factory=dict)
    functions: int = 0
    spills: dict[str, Resources] = field(default_factory=dict)
    registers: tuple[int, str] = (0, "")
    seconds: list[float] = field(default_factory=lambda: [0.0] * 3)

    def add(self, program: str, resources: Mapping[str, Resources]) -> None:
        self.functions += len(resources)
        for name, used in resources.items():
            where = f"{program}: {name}"
            self.registers = max(self.registers, (used.registers, where))
            if used.spill_stores or used.spill_loads:
                self.spills[where] = used


def assemble_module(
    module: HloModule, architecture: str, seconds: list[float] | None = None
) -> Mapping[str, Resources]:
    """Plan a module (in place) for an architecture, and assemble all of its kernels; what their
    functions take. `seconds` has the time of each of the three steps added.

    Raises:
      UnimplementedError, IrError, PtxasError: the step that refuses it.
      PtxasNotFoundError: there is no assembler.
    """
    clock = [time.perf_counter()]
    planned, code = generate(module, CompileOptions(target=Target(TRIPLE, architecture)))
    clock.append(time.perf_counter())
    assert code.ptx
    clock.append(time.perf_counter())
    resources = code.assembled().resources if planned.program.kernels else {}
    clock.append(time.perf_counter())
    if seconds is not None:
        seconds[:] = [s + clock[n + 1] - clock[n] for n, s in enumerate(seconds)]
    return resources


def report(summaries: Mapping[str, Summary]) -> str:
    """A line for each architecture, then what was refused and what spills."""
    lines = []
    for architecture, s in summaries.items():
        planning, ptx, assembling = s.seconds
        lines.append(
            f"{architecture}: {s.programs - len(s.refused)}/{s.programs} programs, {s.functions} "
            f"functions, {len(s.spills)} spill, at most {s.registers[0]} registers "
            f"({s.registers[1]}); plan and emit {planning:.1f}s, PTX {ptx:.1f}s, ptxas "
            f"{assembling:.1f}s"
        )
        lines += [f"  REFUSED {name}: {reason}" for name, reason in s.refused.items()]
        lines += [
            f"  SPILLS {name}: {used.spill_stores} bytes stored, {used.spill_loads} loaded, "
            f"{used.registers} registers"
            for name, used in s.spills.items()
        ]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; see the top of this file. Returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="assemble_corpus", description=(__doc__ or "").split("\n")[0]
    )
    add_corpus_arguments(parser)
    parser.add_argument(
        "--architectures", type=choices(list(ARCHITECTURES)), default=list(ARCHITECTURES)
    )
    options = parser.parse_args(arguments)
    try:
        programs = list(find_programs(options.folder, options.family, options.only))
    except FileNotFoundError as error:
        parser.error(str(error))
    summaries = {name: Summary() for name in options.architectures}
    for number, program in enumerate(programs, 1):
        if sys.stderr.isatty():
            print(f"\r{number}/{len(programs)} {program.name:60}", end="", file=sys.stderr)
        text = program.text("hlo")
        for architecture, summary in summaries.items():
            summary.programs += 1
            try:
                resources = assemble_module(parse_module(text), architecture, summary.seconds)
            except Exception as error:  # whatever it is, it is this program's result
                reason = " / ".join(str(error).splitlines()[:3])
                summary.refused[program.name] = f"{type(error).__name__}: {reason}"
                continue
            summary.add(program.name, resources)
    print(report(summaries))
    return int(any(s.refused for s in summaries.values()))


if __name__ == "__main__":
    sys.exit(main())
