"""The thread pool of generated code: pyjax_parallel_for and the control of its threads.

One 64-bit ticket word holds (generation << 32 | blocks left); threads claim blocks by counting it
down with compare-and-swap, the caller among them, so a sleeping or absent worker costs nothing but
speed. Workers spin a while and then sleep: on a futex on Linux, in sched_yield + nanosleep
elsewhere.
A caller that finds the pool busy (nested or concurrent calls) runs its blocks itself. After fork
the child has no workers; they are started again by its first parallel call.
"""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache

from xla_backend.llvm.jit import Library, compile_library
from xla_backend.llvm.target import TargetInfo, host_target

# About 40 us of pauses: longer than the gaps between the parallel parts of one program.
_SPINS = 4000
_FUTEX_NUMBER = {"x86_64": 202, "aarch64": 98, "riscv64": 98}

_TEMPLATE = """
@pyjax.ticket = internal global i64 0, align 64
@pyjax.done = internal global i64 0, align 64
@pyjax.fn = internal global ptr null, align 64
@pyjax.ctx = internal global ptr null
@pyjax.lock = internal global i32 0, align 64
@pyjax.wake = internal global i32 0, align 64
@pyjax.sleepers = internal global i32 0
@pyjax.wanted = internal global i32 1
@pyjax.workers = internal global i32 0
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)
{sleep_declaration}
{pause_declaration}

define internal i1 @pyjax.try_one() {{
entry:
  br label %again
again:
  %t = load atomic i64, ptr @pyjax.ticket acquire, align 8
  %left = and i64 %t, 4294967295
  %none = icmp eq i64 %left, 0
  br i1 %none, label %no, label %claim
claim:
  %next = sub i64 %t, 1
  %cx = cmpxchg ptr @pyjax.ticket, i64 %t, i64 %next acq_rel acquire
  %ok = extractvalue {{ i64, i1 }} %cx, 1
  br i1 %ok, label %go, label %again
go:
  %f = load ptr, ptr @pyjax.fn
  %a = load ptr, ptr @pyjax.ctx
  %block = sub i64 %left, 1
  call void %f(ptr %a, i64 %block)
  %d = atomicrmw add ptr @pyjax.done, i64 1 acq_rel
  ret i1 true
no:
  ret i1 false
}}

; A worker leaves when its number is not wanted any more.
define internal ptr @pyjax.worker(ptr %number) {{
entry:
  %id = ptrtoint ptr %number to i64
  %id32 = trunc i64 %id to i32
  br label %loop
loop:
  %r = call i1 @pyjax.try_one()
  br i1 %r, label %loop, label %check
check:
  %wanted = load atomic i32, ptr @pyjax.wanted monotonic, align 4
  %stay = icmp slt i32 %id32, %wanted
  br i1 %stay, label %spin, label %leave
leave:
  ret ptr null
spin:
  %n = phi i32 [ 0, %check ], [ %n1, %pause ]
  %t = load atomic i64, ptr @pyjax.ticket acquire, align 8
  %left = and i64 %t, 4294967295
  %has = icmp ne i64 %left, 0
  br i1 %has, label %loop, label %pause
pause:
{pause}
  %n1 = add i32 %n, 1
  %more = icmp ult i32 %n1, {spins}
  br i1 %more, label %spin, label %sleep
sleep:
  %seen = load atomic i32, ptr @pyjax.wake seq_cst, align 4
  %s0 = atomicrmw add ptr @pyjax.sleepers, i32 1 seq_cst
  %t2 = load atomic i64, ptr @pyjax.ticket seq_cst, align 8
  %left2 = and i64 %t2, 4294967295
  %has2 = icmp ne i64 %left2, 0
  br i1 %has2, label %up, label %wait
wait:
{wait}
  br label %up
up:
  %s1 = atomicrmw sub ptr @pyjax.sleepers, i32 1 seq_cst
  br label %loop
}}

; Starts what is missing; called with the lock held. Workers are numbered 1, 2, ...
define internal void @pyjax.ensure() noinline {{
entry:
  %cell = alloca i64
  br label %head
head:
  %have = load i32, ptr @pyjax.workers
  %next = add i32 %have, 1
  %wanted = load i32, ptr @pyjax.wanted
  %enough = icmp sge i32 %next, %wanted
  br i1 %enough, label %out, label %create
create:
  %id = sext i32 %next to i64
  %arg = inttoptr i64 %id to ptr
  %rc = call i32 @pthread_create(ptr %cell, ptr null, ptr @pyjax.worker, ptr %arg)
  %bad = icmp ne i32 %rc, 0
  br i1 %bad, label %out, label %started
started:
  %thread = load i64, ptr %cell
  %rd = call i32 @pthread_detach(i64 %thread)
  store i32 %next, ptr @pyjax.workers
  br label %head
out:
  ret void
}}

define i32 @pyjax_num_threads() {{
  %n = load atomic i32, ptr @pyjax.wanted monotonic, align 4
  ret i32 %n
}}

define internal void @pyjax.take_lock() {{
entry:
  br label %spin
spin:
  %l = atomicrmw xchg ptr @pyjax.lock, i32 1 acquire
  %busy = icmp ne i32 %l, 0
  br i1 %busy, label %pause, label %have
pause:
{pause}
  br label %spin
have:
  ret void
}}

define void @pyjax_set_num_threads(i32 %n) {{
entry:
  call void @pyjax.take_lock()
  %have = load i32, ptr @pyjax.workers
  %most = sub i32 %n, 1
  %fewer = icmp slt i32 %most, %have
  %kept = select i1 %fewer, i32 %most, i32 %have
  store i32 %kept, ptr @pyjax.workers
  store atomic i32 %n, ptr @pyjax.wanted seq_cst, align 4
  %w = atomicrmw add ptr @pyjax.wake, i32 1 seq_cst
{wake}
  store atomic i32 0, ptr @pyjax.lock release, align 4
  ret void
}}

; In a forked child no worker exists, and the lock may have been copied while held.
define void @pyjax_pool_after_fork() {{
  store i64 0, ptr @pyjax.ticket
  store i32 0, ptr @pyjax.workers
  store i32 0, ptr @pyjax.sleepers
  store atomic i32 0, ptr @pyjax.lock release, align 4
  ret void
}}

define void @pyjax_parallel_for(ptr %f, ptr %a, i64 %n) {{
entry:
  %one = icmp sle i64 %n, 1
  %threads = load atomic i32, ptr @pyjax.wanted monotonic, align 4
  %alone = icmp sle i32 %threads, 1
  %direct = or i1 %one, %alone
  br i1 %direct, label %serial, label %try
try:
  %l = atomicrmw xchg ptr @pyjax.lock, i32 1 acquire
  %busy = icmp ne i32 %l, 0
  br i1 %busy, label %serial, label %par
serial:
  br label %sl
sl:
  %i = phi i64 [ 0, %serial ], [ %i1, %sl2 ]
  %c = icmp slt i64 %i, %n
  br i1 %c, label %sl2, label %sdone
sl2:
  call void %f(ptr %a, i64 %i)
  %i1 = add i64 %i, 1
  br label %sl
sdone:
  ret void
par:
  %have = load i32, ptr @pyjax.workers
  %have1 = add i32 %have, 1
  %short = icmp slt i32 %have1, %threads
  br i1 %short, label %start, label %run
start:
  call void @pyjax.ensure()
  br label %run
run:
  store ptr %f, ptr @pyjax.fn
  store ptr %a, ptr @pyjax.ctx
  store i64 0, ptr @pyjax.done
  %t = load i64, ptr @pyjax.ticket
  %g = and i64 %t, -4294967296
  %g1 = add i64 %g, 4294967296
  %nt = or i64 %g1, %n
  store atomic i64 %nt, ptr @pyjax.ticket seq_cst, align 8
  %s = load atomic i32, ptr @pyjax.sleepers seq_cst, align 4
  %hs = icmp sgt i32 %s, 0
  br i1 %hs, label %wk, label %mine
wk:
  %w = atomicrmw add ptr @pyjax.wake, i32 1 seq_cst
{wake}
  br label %mine
mine:
  %r = call i1 @pyjax.try_one()
  br i1 %r, label %mine, label %join
join:
  %d = load atomic i64, ptr @pyjax.done acquire, align 8
  %fin = icmp eq i64 %d, %n
  br i1 %fin, label %unlock, label %w1
w1:
{pause}
  br label %join
unlock:
  store atomic i32 0, ptr @pyjax.lock release, align 4
  ret void
}}
"""


def pool_text(target: TargetInfo, linux: bool) -> str:
    """The LLVM text of the pool for a target."""
    number = _FUTEX_NUMBER.get(target.arch)
    if linux and number is not None:
        declaration = "declare i64 @syscall(i64, ...)"
        # FUTEX_WAIT and FUTEX_WAKE, both private
        call = "call i64 (i64, ...) @syscall"
        wait = (
            f"  %q = {call}(i64 {number}, ptr @pyjax.wake, i32 128, i32 %seen, "
            "ptr null, ptr null, i32 0)"
        )
        wake = (
            f"  %q = {call}(i64 {number}, ptr @pyjax.wake, i32 129, i32 2147483647, "
            "ptr null, ptr null, i32 0)"
        )
    else:
        # Portable: naps of 50 us; a wake-up is then a matter of the next look.
        declaration = (
            "declare i32 @nanosleep(ptr, ptr)\n"
            "@pyjax.nap = internal constant [2 x i64] [i64 0, i64 50000]"
        )
        wait = "  %q = call i32 @nanosleep(ptr @pyjax.nap, ptr null)"
        wake = ""
    return _TEMPLATE.format(
        sleep_declaration=declaration,
        pause=target.pause_line,
        pause_declaration=target.pause_declaration,
        spins=_SPINS,
        wait=wait,
        wake=wake,
    )


_SERIAL_TEXT = """
define i32 @pyjax_num_threads() {
  ret i32 1
}

define void @pyjax_parallel_for(ptr %f, ptr %context, i64 %blocks) {
entry:
  br label %head
head:
  %block = phi i64 [ 0, %entry ], [ %next, %body ]
  %more = icmp slt i64 %block, %blocks
  br i1 %more, label %body, label %end
body:
  call void %f(ptr %context, i64 %block)
  %next = add i64 %block, 1
  br label %head
end:
  ret void
}
"""


@cache
def serial_library() -> Library:
    """What kernels call of the pool, for kernels that keep to the calling thread."""
    return compile_library(_SERIAL_TEXT, cache=True)


@cache
def pool_library() -> Library:
    """The pool of this process, with its default number of threads."""
    text = pool_text(host_target(), sys.platform.startswith("linux"))
    library = compile_library(text, cache=True)
    library.function("pyjax_set_num_threads", None, ctypes.c_int32)(default_num_threads())
    if hasattr(os, "register_at_fork"):
        after_fork = library.function("pyjax_pool_after_fork", None)
        os.register_at_fork(after_in_child=after_fork)
    return library


def default_num_threads() -> int:
    """CPUs this process may use: its affinity mask, cut by the container's quota."""
    count = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    try:
        with open("/sys/fs/cgroup/cpu.max") as file:
            quota, period = file.read().split()
    except (OSError, ValueError):
        return count
    if quota == "max":
        return count
    return max(1, min(count, -(-int(quota) // int(period))))


def set_num_threads(n: int) -> None:
    """Sets how many threads (the caller included) parallel kernels use from now on; n >= 1.

    Raises:
      ValueError: n is not a positive integer.
    """
    if n < 1:
        raise ValueError(f"number of threads {n}: it must be at least 1 (1: no extra threads)")
    pool_library().function("pyjax_set_num_threads", None, ctypes.c_int32)(n)


def num_threads() -> int:
    return pool_library().function("pyjax_num_threads", ctypes.c_int32)()
