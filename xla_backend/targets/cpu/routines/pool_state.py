"""What threads of the pool (see `thread_pool`) share: jobs, counts and flags, and how code that is
written here reads and changes them."""

from __future__ import annotations

from collections.abc import Callable

from xla_backend.llvm.writer import FunctionWriter

# About 40 us of pauses: longer than the gaps between the parallel parts of one program.
SPINS = 4000
# Callers that share the workers at a time; a power of two.
JOBS = 8

# The lower half of a ticket: the blocks that are left.
LEFT = (1 << 32) - 1
# A job: what one caller shares. The words that threads count in have cache lines of their own.
_JOB = "{ i64, ptr, ptr, i64, i32, [28 x i8], i32, i32, [56 x i8] }"
FIELD = {
    "ticket": (0, "i64"),
    "function": (1, "ptr"),
    "context": (2, "ptr"),
    "owner": (3, "i64"),  # the caller's thread
    "taken": (4, "i32"),
    "done": (6, "i32"),
    "waiting": (7, "i32"),
}
STATE = f"""@pyjax.jobs = internal global [{JOBS} x {_JOB}] zeroinitializer, align 64
@pyjax.open = internal global i32 0, align 64
@pyjax.held = internal global i32 0
@pyjax.running = internal global i32 0, align 64
@pyjax.lock = internal global i32 0, align 64
@pyjax.wake = internal global i32 0, align 64
@pyjax.sleepers = internal global i32 0
@pyjax.wanted = internal global i32 1
@pyjax.workers = internal global i32 0"""


def load(w: FunctionWriter, ty: str, place: str, order: str) -> str:
    return w.value(f"load atomic {ty}, ptr {place} {order}, align {int(ty[1:]) // 8}")


def store(w: FunctionWriter, ty: str, value: str, place: str, order: str) -> None:
    w.line(f"store atomic {ty} {value}, ptr {place} {order}, align {int(ty[1:]) // 8}")


def add(w: FunctionWriter, place: str, count: int) -> None:
    w.value(f"atomicrmw add ptr {place}, i32 {count} seq_cst")


def is_taken(w: FunctionWriter, place: str) -> str:
    """Take what this word guards; whether somebody else has it."""
    before = w.value(f"atomicrmw xchg ptr {place}, i32 1 acquire")
    return w.cmp("ne", "i32", before, "0")


def give_back(w: FunctionWriter, place: str) -> None:
    store(w, "i32", "0", place, "release")


def field(w: FunctionWriter, job: str, name: str) -> str:
    number = FIELD[name][0]
    return w.value(f"getelementptr inbounds {_JOB}, ptr {job}, i32 0, i32 {number}")


def job_at(w: FunctionWriter, number: str) -> str:
    return w.value(f"getelementptr inbounds {_JOB}, ptr @pyjax.jobs, i32 {number}")


def blocks_left(w: FunctionWriter, job: str) -> str:
    """Whether some blocks of a job are not claimed."""
    ticket = load(w, "i64", field(w, job, "ticket"), "seq_cst")
    return w.cmp("ne", "i64", w.op("and", "i64", ticket, str(LEFT)), "0")


def any_job(w: FunctionWriter, start: str, found: Callable[[str], str]) -> str:
    """Go through all jobs, from one number on, until `found` of one is true; whether it was."""

    def more(state: list[str]) -> str:
        some = w.cmp("ult", "i32", state[1], str(JOBS))
        return w.op("and", "i1", some, w.not_("i1", state[0]))

    def look(state: list[str]) -> list[str]:
        number = w.op("and", "i32", w.op("add", "i32", start, state[1]), str(JOBS - 1))
        return [found(job_at(w, number)), w.op("add", "i32", state[1], "1")]

    return w.while_([("i1", "false"), ("i32", "0")], more, look)[0]
