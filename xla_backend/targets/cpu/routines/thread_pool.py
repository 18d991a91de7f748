"""The thread pool of generated code: pyjax_parallel_for and the control of its threads.

One 64-bit ticket word holds (generation << 32 | blocks left); threads claim blocks by counting it
down with compare-and-swap, the caller among them, so a sleeping or absent worker costs nothing but
speed. Whoever waits spins a while and then sleeps: on a futex on Linux, in naps elsewhere. That is
so for workers without work, and for the caller whose last blocks are still with workers.

On a machine with more to run than processors, a worker that has claimed a block may be descheduled
with it, and everybody waits for it. No count of running threads tells that reliably; the wait does.
A caller that waited much longer for the others' last blocks than a block takes lets the pool rest
for eight times as long: its loops run on the calling thread, and idle workers sleep at once. So
late workers cost an eighth at most, and an idle machine forgets a hiccup within milliseconds.

pyjax_parallel_for_polled lets signals in between blocks: once a handler has raised, the blocks
that are left, and those of all polled loops until the program ends, do nothing. The program must
end by asking pyjax_poll_end, and until then work with what happens to be in memory.

A caller that finds the pool busy (nested or concurrent calls) runs its blocks itself. After fork
the child has no workers; they are started again by its first parallel call. Workers leave signals
to the threads of Python.
"""

from __future__ import annotations

import ctypes
import os
import sys

from xla_backend.llvm.jit import Library, compile_library
from xla_backend.llvm.target import TargetInfo, host_target
from xla_backend.process.bounded_cache import once
from xla_backend.runtime import host_threads
from xla_backend.targets.cpu.routines.python_calls import bridge_library

# About 40 us of pauses: longer than the gaps between the parallel parts of one program.
_SPINS = 4000
# A caller's wait, beyond two blocks' time, from which a worker counts as late; in ns.
_LATE = 100_000
_REST_FACTOR = 8
_LONGEST_REST = 100_000_000
# Signals that mean the thread that gets them: SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV,
# SIGPROF, SIGSYS.
_OWN_SIGNALS = (4, 5, 6, 7, 8, 11, 27, 31)
_FUTEX_NUMBER = {"x86_64": 202, "aarch64": 98, "riscv64": 98}

_TEMPLATE = """
@pyjax.ticket = internal global i64 0, align 64
@pyjax.done = internal global i32 0, align 64
@pyjax.fn = internal global ptr null, align 64
@pyjax.ctx = internal global ptr null
@pyjax.lock = internal global i32 0, align 64
@pyjax.wake = internal global i32 0, align 64
@pyjax.sleepers = internal global i32 0
@pyjax.waiting = internal global i32 0
@pyjax.wanted = internal global i32 1
@pyjax.workers = internal global i32 0
@pyjax.rest_until = internal global i64 0
@pyjax.blocked_signals = internal constant [16 x i64] [{signals}]
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @clock_gettime(i32, ptr)
declare i32 @sched_yield()
{sleep_declaration}
{pause_declaration}

; Nanoseconds of the monotonic clock.
define internal i64 @pyjax.now() {{
  %time = alloca [2 x i64], align 8
  %rc = call i32 @clock_gettime(i32 {monotonic}, ptr %time)
  %seconds = load i64, ptr %time
  %at = getelementptr i64, ptr %time, i64 1
  %rest = load i64, ptr %at
  %big = mul i64 %seconds, 1000000000
  %now = add i64 %big, %rest
  ret i64 %now
}}

define internal i1 @pyjax.resting() {{
  %until = load atomic i64, ptr @pyjax.rest_until monotonic, align 8
  %never = icmp eq i64 %until, 0
  br i1 %never, label %no, label %look
look:
  %now = call i64 @pyjax.now()
  %early = icmp slt i64 %now, %until
  br i1 %early, label %yes, label %over
over:
  store atomic i64 0, ptr @pyjax.rest_until monotonic, align 8
  br label %no
yes:
  ret i1 true
no:
  ret i1 false
}}

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
  %d = atomicrmw add ptr @pyjax.done, i32 1 seq_cst
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
  br i1 %r, label %tell, label %check
tell:
  %w = load atomic i32, ptr @pyjax.waiting seq_cst, align 4
  %awaited = icmp ne i32 %w, 0
  br i1 %awaited, label %call, label %loop
call:
{wake_caller}
  br label %loop
check:
  %wanted = load atomic i32, ptr @pyjax.wanted monotonic, align 4
  %stay = icmp slt i32 %id32, %wanted
  br i1 %stay, label %tired, label %leave
leave:
  ret ptr null
tired:
  %resting = call i1 @pyjax.resting()
  br i1 %resting, label %sleep, label %spin
spin:
  %n = phi i32 [ 0, %tired ], [ %n1, %pause ]
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
  %mask = alloca [16 x i64], align 8
  %rm = call i32 @pthread_sigmask(i32 {set_mask}, ptr @pyjax.blocked_signals, ptr %mask)
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
  %rs = call i32 @pthread_sigmask(i32 {set_mask}, ptr %mask, ptr null)
  ret void
}}

define i32 @pyjax_num_threads() {{
  %n = load atomic i32, ptr @pyjax.wanted monotonic, align 4
  ret i32 %n
}}

; The lock is held as long as a parallel loop runs, so whoever wants it makes room.
define internal void @pyjax.take_lock() {{
entry:
  br label %try
try:
  %l = atomicrmw xchg ptr @pyjax.lock, i32 1 acquire
  %busy = icmp ne i32 %l, 0
  br i1 %busy, label %pause, label %have
pause:
  %rc = call i32 @sched_yield()
  br label %try
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
  store i32 0, ptr @pyjax.waiting
  store atomic i32 0, ptr @pyjax.lock release, align 4
  ret void
}}

; Waits for the last of n blocks; the caller has run `mine` blocks since `start`.
define internal void @pyjax.join(i32 %n, i64 %start, i64 %mine) noinline {{
entry:
  br label %spin
spin:
  %i = phi i32 [ 0, %entry ], [ %i1, %pause ]
  %d = load atomic i32, ptr @pyjax.done acquire, align 4
  %fin = icmp eq i32 %d, %n
  br i1 %fin, label %out, label %pause
pause:
{pause}
  %i1 = add i32 %i, 1
  %more = icmp ult i32 %i1, {spins}
  br i1 %more, label %spin, label %long
long:
  %before = call i64 @pyjax.now()
  store atomic i32 1, ptr @pyjax.waiting seq_cst, align 4
  br label %look
look:
  %seen = load atomic i32, ptr @pyjax.done seq_cst, align 4
  %all = icmp eq i32 %seen, %n
  br i1 %all, label %judge, label %wait
wait:
{wait_done}
  br label %look
judge:
  store atomic i32 0, ptr @pyjax.waiting seq_cst, align 4
  ; Without a block of its own the caller does not know how long one takes.
  %none = icmp eq i64 %mine, 0
  br i1 %none, label %out, label %measure
measure:
  %after = call i64 @pyjax.now()
  %waited = sub i64 %after, %before
  %work = sub i64 %before, %start
  %block = sdiv i64 %work, %mine
  %two = shl i64 %block, 1
  %due = add i64 %two, {late}
  %over = icmp sgt i64 %waited, %due
  br i1 %over, label %rest, label %out
rest:
  %long_rest = mul i64 %waited, {rest_factor}
  %short = icmp slt i64 %long_rest, {longest_rest}
  %length = select i1 %short, i64 %long_rest, i64 {longest_rest}
  %until = add i64 %after, %length
  store atomic i64 %until, ptr @pyjax.rest_until monotonic, align 8
  br label %out
out:
  ret void
}}

define void @pyjax_parallel_for(ptr %f, ptr %a, i64 %n) {{
entry:
  %one = icmp sle i64 %n, 1
  %threads = load atomic i32, ptr @pyjax.wanted monotonic, align 4
  %alone = icmp sle i32 %threads, 1
  %direct = or i1 %one, %alone
  br i1 %direct, label %serial, label %rested
rested:
  %resting = call i1 @pyjax.resting()
  br i1 %resting, label %serial, label %try
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
  %begin = call i64 @pyjax.now()
  store ptr %f, ptr @pyjax.fn
  store ptr %a, ptr @pyjax.ctx
  store i32 0, ptr @pyjax.done
  %t = load i64, ptr @pyjax.ticket
  %g = and i64 %t, -4294967296
  %g1 = add i64 %g, 4294967296
  %nt = or i64 %g1, %n
  store atomic i64 %nt, ptr @pyjax.ticket seq_cst, align 8
  %s = load atomic i32, ptr @pyjax.sleepers seq_cst, align 4
  %hs = icmp sgt i32 %s, 0
  br i1 %hs, label %wk, label %first
wk:
  %w = atomicrmw add ptr @pyjax.wake, i32 1 seq_cst
{wake}
  br label %first
first:
  br label %mine
mine:
  %m = phi i64 [ 0, %first ], [ %m1, %next ]
  %r = call i1 @pyjax.try_one()
  br i1 %r, label %next, label %join
next:
  %m1 = add i64 %m, 1
  br label %mine
join:
  %n32 = trunc i64 %n to i32
  call void @pyjax.join(i32 %n32, i64 %begin, i64 %m)
  store atomic i32 0, ptr @pyjax.lock release, align 4
  ret void
}}
"""


def pool_text(target: TargetInfo, linux: bool) -> str:
    """The LLVM text of the pool for a target."""
    number = _FUTEX_NUMBER.get(target.arch)
    if linux and number is not None:
        declaration = "declare i64 @syscall(i64, ...)"
        wait = _futex(number, "pyjax.wake", _FUTEX_WAIT, "%seen")
        wait_done = _futex(number, "pyjax.done", _FUTEX_WAIT, "%seen")
        wake = _futex(number, "pyjax.wake", _FUTEX_WAKE, "2147483647")
        wake_caller = _futex(number, "pyjax.done", _FUTEX_WAKE, "1")
    else:
        # Portable: naps of 50 us; a wake-up is then a matter of the next look.
        declaration = (
            "declare i32 @nanosleep(ptr, ptr)\n"
            "@pyjax.nap = internal constant [2 x i64] [i64 0, i64 50000]"
        )
        wait = wait_done = "  %q = call i32 @nanosleep(ptr @pyjax.nap, ptr null)"
        wake = wake_caller = ""
    signals = ~sum(1 << (s - 1) for s in _OWN_SIGNALS)
    return _TEMPLATE.format(
        sleep_declaration=declaration,
        pause=target.pause_line,
        pause_declaration=target.pause_declaration,
        spins=_SPINS,
        late=_LATE,
        rest_factor=_REST_FACTOR,
        longest_rest=_LONGEST_REST,
        monotonic=1 if linux else 6,
        set_mask=2 if linux else 3,
        signals=", ".join(f"i64 {word}" for word in [signals] + [-1] * 15),
        wait=wait,
        wait_done=wait_done,
        wake=wake,
        wake_caller=wake_caller,
    )


# Both for futexes of this process only.
_FUTEX_WAIT, _FUTEX_WAKE = 128, 129


def _futex(number: int, word: str, operation: int, value: str) -> str:
    return (
        f"  %rc.{word}.{operation} = call i64 (i64, ...) @syscall(i64 {number}, ptr @{word}, "
        f"i32 {operation}, i32 {value}, ptr null, ptr null, i32 0)"
    )


_POLLED_TEXT = """
declare i32 @pyjax_poll()

; The context of a polled loop: function, its context, whether to stop.
define internal void @pyjax.polled_block(ptr %c, i64 %block) {
entry:
  %at = getelementptr ptr, ptr %c, i64 2
  %s = load atomic i32, ptr %at monotonic, align 8
  %stop = icmp ne i32 %s, 0
  br i1 %stop, label %out, label %run
run:
  %f = load ptr, ptr %c
  %a1 = getelementptr ptr, ptr %c, i64 1
  %a = load ptr, ptr %a1
  call void %f(ptr %a, i64 %block)
  %now = call i32 @pyjax_poll()
  %end = icmp ne i32 %now, 0
  br i1 %end, label %tell, label %out
tell:
  store atomic i32 1, ptr %at monotonic, align 8
  br label %out
out:
  ret void
}

define void @pyjax_parallel_for_polled(ptr %f, ptr %a, i64 %n) {
entry:
  %one = icmp sle i64 %n, 1
  br i1 %one, label %plain, label %ask
plain:
  call void @pyjax_parallel_for(ptr %f, ptr %a, i64 %n)
  ret void
ask:
  %s = call i32 @pyjax_poll()
  %stop = icmp ne i32 %s, 0
  br i1 %stop, label %out, label %run
run:
  %c = alloca [3 x ptr], align 8
  store ptr %f, ptr %c
  %a1 = getelementptr ptr, ptr %c, i64 1
  store ptr %a, ptr %a1
  %at = getelementptr ptr, ptr %c, i64 2
  store i64 0, ptr %at
  call void @pyjax_parallel_for(ptr @pyjax.polled_block, ptr %c, i64 %n)
  ret void
out:
  ret void
}
"""


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


@once
def serial_library() -> Library:
    """What kernels call of the pool, for kernels that keep to the calling thread."""
    return compile_library(_SERIAL_TEXT + _POLLED_TEXT, bridge_library().addresses(), cache=True)


@once
def pool_library() -> Library:
    """The pool of this process, with its default number of threads."""
    text = pool_text(host_target(), sys.platform.startswith("linux")) + _POLLED_TEXT
    library = compile_library(text, bridge_library().addresses(), cache=True)
    threads = host_threads.available_threads()
    library.function("pyjax_set_num_threads", None, ctypes.c_int32)(threads)
    host_threads.keep_number_in(library.function("pyjax_num_threads", ctypes.c_int32))
    if hasattr(os, "register_at_fork"):
        after_fork = library.function("pyjax_pool_after_fork", None)
        os.register_at_fork(after_in_child=after_fork)
    return library


def set_num_threads(n: int) -> None:
    """Sets how many threads (the caller included) parallel kernels use from now on; n >= 1.

    Raises:
      ValueError: n is not a positive integer.
    """
    if n < 1:
        raise ValueError(f"number of threads {n}: it must be at least 1 (1: no extra threads)")
    pool_library().function("pyjax_set_num_threads", None, ctypes.c_int32)(n)
