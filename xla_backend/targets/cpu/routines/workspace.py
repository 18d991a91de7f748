"""Scratch memory of kernels: some blocks kept from call to call, so that pages are not taken anew.

Emitted into a module: pyjax.workspace.take(i64 bytes) -> ptr (usable from byte 64 on, 64-aligned)
and pyjax.workspace.give(ptr). The blocks belong to one module (a group of kernels).
"""

from __future__ import annotations

from xla_backend.llvm.writer import ModuleWriter

_SLOTS = 8
_WORKSPACE = """
@pyjax.workspace = internal global [{slots} x ptr] zeroinitializer, align 64
declare ptr @malloc({size})
declare void @free(ptr)
declare void @abort()

; A block of at least %n bytes (plus a 64-byte header holding its size), reused from call to call.
define internal ptr @pyjax.workspace.take(i64 %n) {{
entry:
  br label %look
look:
  %i = phi i64 [ 0, %entry ], [ %next, %following ]
  %slot = getelementptr ptr, ptr @pyjax.workspace, i64 %i
  %seen = load atomic ptr, ptr %slot monotonic, align {bytes}
  %empty = icmp eq ptr %seen, null
  br i1 %empty, label %following, label %claim
claim:
  %kept = atomicrmw xchg ptr %slot, ptr null acquire
  %none = icmp eq ptr %kept, null
  br i1 %none, label %following, label %check
check:
  %size = load i64, ptr %kept
  %fits = icmp sge i64 %size, %n
  br i1 %fits, label %reuse, label %back
reuse:
  ret ptr %kept
back:
  call void @pyjax.workspace.give(ptr %kept)
  br label %following
following:
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, {slots}
  br i1 %more, label %look, label %fresh
fresh:
  %want = add i64 %n, 192
{narrow}  %raw = call ptr @malloc({size} {wanted})
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
  %cell = getelementptr i8, ptr %block, i64 8
  store ptr %raw, ptr %cell
  ret ptr %block
}}

; Keeps a block in a free slot; with none free, in the place of some other.
define internal void @pyjax.workspace.give(ptr %block) {{
entry:
  br label %look
look:
  %i = phi i64 [ 0, %entry ], [ %next, %following ]
  %slot = getelementptr ptr, ptr @pyjax.workspace, i64 %i
  %cx = cmpxchg ptr %slot, ptr null, ptr %block release monotonic
  %ok = extractvalue {{ ptr, i1 }} %cx, 1
  br i1 %ok, label %done, label %following
following:
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, {slots}
  br i1 %more, label %look, label %replace
replace:
  %size = load i64, ptr %block
  %choice = and i64 %size, {mask}
  %hash = lshr i64 %size, 6
  %mixed = add i64 %choice, %hash
  %which = and i64 %mixed, {mask}
  %victim = getelementptr ptr, ptr @pyjax.workspace, i64 %which
  %other = atomicrmw xchg ptr %victim, ptr %block acq_rel
  %none = icmp eq ptr %other, null
  br i1 %none, label %done, label %drop
drop:
  %cell = getelementptr i8, ptr %other, i64 8
  %raw = load ptr, ptr %cell
  call void @free(ptr %raw)
  br label %done
done:
  ret void
}}
"""


def emit_workspace(module: ModuleWriter) -> None:
    """Adds the two functions to a module, once."""
    size = module.target.size_type
    wide = size == "i64"
    text = _WORKSPACE.format(
        slots=_SLOTS,
        mask=_SLOTS - 1,
        size=size,
        bytes=module.target.pointer_bits // 8,
        narrow="" if wide else f"  %narrow = trunc i64 %want to {size}\n",
        wanted="%want" if wide else "%narrow",
    )
    module.add_definitions(text, ("pyjax.workspace.take", "pyjax.workspace.give"))
