"""Whether a program is to run its threaded code first: whether that takes less time than to compile
the optimised code.

What is compared are very rough estimates: over the programs of the benchmark suite those of runs
were 1.7 times the processor time in the median, and LLVM took 1.3 times what is said of it here.
"""

from __future__ import annotations

from xla_backend.targets.cpu.threaded.program_table import ProgramTable

# Cycles that it takes to write and compile the LLVM text of a program with next to nothing in it,
# and more for each word of threaded code.
_LEAST = 10_000_000.0
_CYCLES_PER_WORD = 35_000.0


def is_worth_it(table: ProgramTable) -> bool:
    """Whether a first run of the threaded code takes clearly less time than LLVM."""
    return table.cycles < _LEAST + _CYCLES_PER_WORD * table.assembler.size
