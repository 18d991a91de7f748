"""Scratch memory of kernels: one block kept from call to call, so that pages are not taken anew.

Emitted into a module: pyjax.workspace.take(i64 bytes) -> ptr (usable from byte 64 on, 64-aligned)
and pyjax.workspace.give(ptr). Concurrent takers beyond the first allocate their own.
"""

from __future__ import annotations

from xla_backend.llvm.writer import ModuleWriter

_WORKSPACE = """
@pyjax.workspace = internal global ptr null, align 64
declare ptr @malloc(i64)
declare void @free(ptr)
declare void @abort()

; A block of at least %n bytes (plus a 64-byte header holding its size), reused from call to call.
define internal ptr @pyjax.workspace.take(i64 %n) {
  %kept = atomicrmw xchg ptr @pyjax.workspace, ptr null acquire
  %none = icmp eq ptr %kept, null
  br i1 %none, label %fresh, label %check
check:
  %size = load i64, ptr %kept
  %fits = icmp sge i64 %size, %n
  br i1 %fits, label %reuse, label %grow
reuse:
  ret ptr %kept
grow:
  %old = getelementptr i8, ptr %kept, i64 8
  %raw.old = load ptr, ptr %old
  call void @free(ptr %raw.old)
  br label %fresh
fresh:
  %want = add i64 %n, 192
  %raw = call ptr @malloc(i64 %want)
  %failed = icmp eq ptr %raw, null
  br i1 %failed, label %out, label %got
out:
  call void @abort()
  unreachable
got:
  %address = ptrtoint ptr %raw to i64
  %up = add i64 %address, 63
  %aligned = and i64 %up, -64
  %block = inttoptr i64 %aligned to ptr
  store i64 %n, ptr %block
  %slot = getelementptr i8, ptr %block, i64 8
  store ptr %raw, ptr %slot
  ret ptr %block
}

define internal void @pyjax.workspace.give(ptr %block) {
  %other = atomicrmw xchg ptr @pyjax.workspace, ptr %block release
  %none = icmp eq ptr %other, null
  br i1 %none, label %done, label %drop
drop:
  %slot = getelementptr i8, ptr %other, i64 8
  %raw = load ptr, ptr %slot
  call void @free(ptr %raw)
  br label %done
done:
  ret void
}
"""


def emit_workspace(module: ModuleWriter) -> None:
    """Adds the two functions to a module, once."""
    module.add_definitions(_WORKSPACE, ("pyjax.workspace.take", "pyjax.workspace.give"))
