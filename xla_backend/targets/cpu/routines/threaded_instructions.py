"""The instructions of whole programs (`targets.cpu.threaded.program_table`): addresses of memory,
calls of kernels, routines and the host, loops and branches, looks at signals. Their handlers are
written in `threaded_program`.

An operand is the offset of a slot in the frame unless something else is said of it: a number, an
address, a place of the code. What reports an error ends the program: its status is the program's.
"""

from __future__ import annotations

from xla_backend.targets.cpu.routines.threaded_names import PREFIX

# The operands of routines that there are instructions for.
CALL_ARGUMENTS = range(1, 33)


def _name(name: str) -> str:
    return f"{PREFIX}program_{name}"


# target: its own address.
OWN_ADDRESS = _name("own_address")
# target, table, count (a number): copy so many words from where the table is.
POINTERS = _name("pointers")
# target, base, offset (a number): the word at base + offset.
POINTER = _name("pointer")
# target, count (a number), then pairs of a base and an addend (a number or an address): put sums
# of both into slots one after another.
ADDRESSES = _name("addresses")
# context; blocks (a number): run a stage of a kernel.
LAUNCH, PARALLEL, POLLED = _name("launch"), _name("parallel"), _name("polled")
# target and source, slots with addresses; bytes (a number).
COPY = _name("copy")
# number of the call (an address), table of addresses, context: call the host.
HOST = _name("host")
# state and target, slots with addresses; delta (a number).
RNG_STATE = _name("rng_state")
# a place of the code.
GO = _name("go")
# flag, a slot with the address of a byte; a place of the code: go there if it is zero.
UNLESS = _name("unless")
# number, a slot with the address of an i32; count and so many places: go to the one of the number,
# to the last for numbers out of range.
CHOOSE = _name("choose")
# budget; cycles (a number), a place of the code, where to look for the address of optimised code
# (an address): the end of a round of a loop. If there is such code, the program ends, and is to be
# run anew.
ROUND = _name("round")
# The same, and a slot that counts the rounds that are left: go on if there are any.
COUNTED_ROUND = _name("counted_round")
POLL, POLL_BEGIN, POLL_END = _name("poll"), _name("poll_begin"), _name("poll_end")
# No instruction: void(ptr context, ptr a, ptr b, ptr answer, ptr perm, ptr work, i64 outer, i64 n,
# i64 inner) sorts row numbers; `context` is of a comparator that reads a and b, and writes answer.
MERGE_ARGSORT = _name("merge_argsort")


def call(arguments: int) -> str:
    """address of a function, slot of the first of its arguments: call it with so many words."""
    return _name(f"call{arguments}")
