"""Tickets and signals: what blocks of a launch know of each other by, while they run.

Signals are words in global memory that all threads read and write as one access, through the
second-level cache. Fences around them put what a thread has done before it signals in front of what
others do that have waited (PTX ISA, "Memory Consistency Model": release and acquire patterns).
"""

from __future__ import annotations

from xla_backend.llvm.writer import FunctionWriter

_POINTER = "ptr addrspace(1)"
_ORDER = 'syncscope("device") monotonic'
# Nanoseconds between two looks at a signal, which others need the cache for meanwhile.
_REST = 40
_FENCE = 'fence syncscope("device") acq_rel'


def emit_ticket(w: FunctionWriter, address: str) -> str:
    """The number that is in memory, which is one more then."""
    return w.value(f"atomicrmw add {_POINTER} {address}, i32 1 {_ORDER}, align 4")


def emit_signal(w: FunctionWriter, address: str) -> None:
    """Tell what the thread has done."""
    w.line(_FENCE)
    w.line(f"store atomic i32 1, {_POINTER} {address} {_ORDER}, align 4")


def emit_await_signal(w: FunctionWriter, address: str) -> None:
    """Wait until somebody has signalled there. What was done before that is seen behind a fence,
    which is the caller's business: threads that need not wait may share it."""

    def waits(_: list[str]) -> str:
        told = w.value(f"load atomic i32, {_POINTER} {address} {_ORDER}, align 4")
        return w.cmp("eq", "i32", told, "0")

    def rests(_: list[str]) -> list[str]:
        w.call("llvm.nvvm.nanosleep", "void", [("i32", str(_REST))])
        return []

    w.while_([], waits, rests)


def emit_fence(w: FunctionWriter) -> None:
    w.line(_FENCE)
