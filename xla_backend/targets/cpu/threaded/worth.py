"""Whether a program is to run its threaded code first: whether that takes less time than to compile
the optimised code.

What is compared are very rough estimates of the time that passes, on a processor of 2.5 GHz: a run
has as many threads as there are, LLVM has one.
"""

from __future__ import annotations

from xla_backend.targets.cpu.threaded.program_table import ProgramTable

# Cycles that it takes to write and compile the LLVM text of a program with next to nothing in it,
# and more for each word of threaded code. Over the benchmark suite the text of elementwise
# operations took next to no time beside that of loops and of memory.
_LEAST = 10_000_000.0
_CYCLES_PER_WORD = 45_000.0
_WORDS_OF_AN_OPERATION = 5


def is_worth_it(table: ProgramTable) -> bool:
    """Whether a first run of the threaded code takes clearly less time than LLVM."""
    asm = table.assembler
    words = asm.size - _WORDS_OF_AN_OPERATION * asm.operations
    return table.cycles < _LEAST + _CYCLES_PER_WORD * words
