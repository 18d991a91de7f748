"""The first code of a program: threaded code, which is there at once, for as long as LLVM takes to
compile the optimised code."""

from __future__ import annotations

from collections.abc import Callable

from xla_backend.compile_options import CompileOptions
from xla_backend.llvm.elf import ElfObject
from xla_backend.llvm.target import TargetInfo
from xla_backend.llvm.word_table import WordTable
from xla_backend.process.bounded_cache import BoundedCache, made_for_good
from xla_backend.process.on_first_use import on_first_use
from xla_backend.program.ir import Program
from xla_backend.runtime.host_threads import available_threads
from xla_backend.targets.cpu.code_interface import host_call_symbol
from xla_backend.targets.cpu.program_code import ProgramCode
from xla_backend.targets.cpu.program_facts import program_facts
from xla_backend.targets.cpu.routines import threaded_names as names
from xla_backend.targets.cpu.routines.kept_objects import MODULE, found_objects, kept_object
from xla_backend.targets.cpu.routines.library import group_of, kernel_library
from xla_backend.targets.cpu.threaded.assembler import Assembler
from xla_backend.targets.cpu.threaded.errors import NoThreadedCode
from xla_backend.targets.cpu.threaded.kernel_code import KernelTables
from xla_backend.targets.cpu.threaded.program_table import Kernels, ProgramTable, program_table
from xla_backend.targets.cpu.threaded.worth import is_worth_it

_thunk_text = on_first_use("xla_backend.targets.cpu.routines.threaded", "thunk_text")
# Bytes of LLVM text for each word of threaded code, as measured over the benchmark suite; that text
# is what an executable's stages take.
_TEXT_BYTES = 25
# The code of `entry`, by target.
_thunks: BoundedCache[TargetInfo, ElfObject] = BoundedCache(made_for_good)


def first_code(program: Program, options: CompileOptions, target: TargetInfo) -> ProgramCode | None:
    """The threaded code of a program, if it is to run it first: it can, nothing has to be compiled
    for that, and it takes less time than to compile the optimised code."""
    if options.profiled_runs or options.overlap_collectives or options.fast_math:
        return None
    threads = min(options.num_threads or available_threads(), available_threads())
    try:
        table = _table(program, target, threads=threads)
    except NoThreadedCode:
        return None
    library = kernel_library(target, threads=options.num_threads)
    if not is_worth_it(table) or not library.is_kept(_routines(table)):
        return None
    thunk = _kept_thunk(target)
    return None if thunk is None else _code(program, table, thunk)


def threaded_code(
    program: Program,
    target: TargetInfo,
    kernels: Callable[[Assembler, TargetInfo], Kernels] = KernelTables,
) -> ProgramCode:
    """The threaded code of a program, whatever has to be compiled for it.

    Raises:
      NoThreadedCode: it does what threaded code cannot.
    """
    table = _table(program, target, kernels)
    make = lambda: ElfObject(kept_object(names.THUNK, target, lambda: _thunk_text(target)))
    return _code(program, table, _thunks.make(target, make))


def _kept_thunk(target: TargetInfo) -> ElfObject | None:
    """The code of `entry`, if nothing has to be compiled for it."""
    thunk = _thunks.find(target)
    if thunk is None:
        found = found_objects(names.THUNK, target, MODULE)
        thunk = None if found is None else _thunks.make(target, lambda: ElfObject(found[0]))
    return thunk


def _table(
    program: Program,
    target: TargetInfo,
    kernels: Callable[[Assembler, TargetInfo], Kernels] = KernelTables,
    threads: int = 1,
) -> ProgramTable:
    """A program's table, all of whose instructions there are."""
    table = program_table(program, target, kernels, threads)
    for name in table.symbols:
        if name.startswith(names.PREFIX) and group_of(name) is None:
            raise NoThreadedCode(f"no instruction {name.removeprefix(names.PREFIX)}")
    return table


def _code(program: Program, table: ProgramTable, thunk: ElfObject) -> ProgramCode:
    objects: list[ElfObject | WordTable] = [thunk, table.assembler.object()]
    facts = program_facts(
        program,
        bound=table.bound_constants,
        tables={},
        host_calls=table.host_calls,
        routines=_routines(table),
        text_size=_TEXT_BYTES * table.assembler.size,
        code_size=sum(map(len, objects)),
    )
    return ProgramCode(facts, objects)


def _routines(table: ProgramTable) -> list[str]:
    """The symbols of the runtime and its kernels that the code refers to."""
    own = (*table.bound_constants, *map(host_call_symbol, range(len(table.host_calls))))
    return [name for name in (*table.symbols, names.ENTRY) if name not in own]
