"""First code for tests of what becomes of programs that have it: LLVM's, with the word by which it
is switched, and a number that says how often it ran."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyjax
from xla_backend.compile_options import CompileOptions
from xla_backend.llvm import objects
from xla_backend.llvm.target import TargetInfo
from xla_backend.llvm.writer import ModuleWriter
from xla_backend.process import later
from xla_backend.process.instances import instances_of
from xla_backend.program.ir import Program
from xla_backend.targets.cpu import compiler, tiers
from xla_backend.targets.cpu.emit_program import emit_program
from xla_backend.targets.cpu.executable import CpuExecutable
from xla_backend.targets.cpu.program_code import ProgramCode
from xla_backend.targets.cpu.threaded.errors import NoThreadedCode
from xla_backend.targets.cpu.threaded.first_code import threaded_code

_THUNK = """
@pyjax_optimised = global i64 0, align 8
@first_calls = global i64 0, align 8
define i32 @entry(ptr %args, ptr %outs, ptr %arena) {
  %word = load atomic i64, ptr @pyjax_optimised acquire, align 8
  %is_first = icmp eq i64 %word, 0
  br i1 %is_first, label %first, label %optimised
first:
  %before = atomicrmw add ptr @first_calls, i64 1 monotonic
  %a = tail call i32 @first(ptr %args, ptr %outs, ptr %arena)
  ret i32 %a
optimised:
  %entry = inttoptr i64 %word to ptr
  %b = tail call i32 %entry(ptr %args, ptr %outs, ptr %arena)
  ret i32 %b
}
"""
_switch = CpuExecutable.switch
Maker = Callable[[Program, CompileOptions, TargetInfo], ProgramCode | None]


def stand_in(program: Program, options: CompileOptions, target: TargetInfo) -> ProgramCode:
    """The first code of a program."""
    emitted = emit_program(program, ModuleWriter(target, options.fast_math))
    text = emitted.kernels.module.to_text().replace("@entry(", "@first(") + _THUNK
    code = objects.compile_objects([text], target)
    return compiler._program_code(program, emitted, code, len(text), ())


def stay_on_first_code() -> None:
    """From now on all programs that can have threaded code run on it, and on nothing else."""

    def threaded(
        program: Program, options: CompileOptions, target: TargetInfo
    ) -> ProgramCode | None:
        if options.fast_math or options.profiled_runs or options.overlap_collectives:
            return None
        try:
            return threaded_code(program, target)
        except NoThreadedCode:
            return None

    tiers.first_code = threaded
    CpuExecutable.switch = lambda *_: None  # type: ignore[method-assign]


@contextmanager
def made_by(maker: Maker = stand_in) -> Iterator[None]:
    """`maker` makes the first code of programs, where the options say that they have some, and they
    are switched, also where all other tests stay on first code."""
    before, switch = tiers.first_code, CpuExecutable.switch
    tiers.first_code, CpuExecutable.switch = maker, _switch  # type: ignore[method-assign]
    try:
        yield
    finally:
        later.finish_all()
        tiers.first_code, CpuExecutable.switch = before, switch  # type: ignore[method-assign]


@contextmanager
def first_code(maker: Maker = stand_in) -> Iterator[None]:
    """Programs have first code, which `maker` makes."""
    before = pyjax.config.jax_first_code
    with made_by(maker):
        pyjax.config.update("jax_first_code", True)
        try:
            yield
        finally:
            pyjax.config.update("jax_first_code", before)


@contextmanager
def held_up() -> Iterator[None]:
    """No program is switched before the block ends."""
    gate = threading.Event()
    opened: list[bool] = []
    later.Later(lambda piece: opened.append(gate.wait(60))).begin()
    try:
        yield
    finally:
        gate.set()
    assert False not in opened, "the block waits for what it holds up"


def in_tiers() -> list[CpuExecutable]:
    """The programs that have, or had, first code."""
    return [e for e in instances_of(CpuExecutable) if e.optimising is not None]


def is_switched(executable: CpuExecutable) -> bool:
    return _number(executable, "pyjax_optimised") != 0


def first_calls(executable: CpuExecutable) -> int:
    """How often a program ran on its first code."""
    return _number(executable, "first_calls")


def _number(executable: CpuExecutable, name: str) -> int:
    return ctypes.c_int64.from_address(executable.library.address(name)).value
