"""Scratch memory of kernels: some blocks kept from call to call, so that pages are not taken anew.

  ptr pyjax_workspace_take(i64 bytes)     usable from byte 64 on, 64-aligned
  void pyjax_workspace_give(ptr)

All kernels have the blocks in common. A block starts with its size and the address that malloc
gave.
"""

from __future__ import annotations

from xla_backend.llvm.types import bits_of
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter
from xla_backend.targets.cpu.routines.registry import register_group

# Bytes in front of what a block may be used for.
HEADER = 64
# A power of two: two for each of eight threads.
_SLOTS = 16
TAKE, GIVE = "pyjax_workspace_take", "pyjax_workspace_give"
_ALIGNMENT = 64
# Bytes of a block beyond those asked for: the header, what alignment takes, and some to spare.
_EXTRA = 192


def register() -> None:
    """Declares the two functions: a group of their own, for most kernels need them."""
    register_group("workspace", (TAKE, GIVE), _emit)


def _emit(module: ModuleWriter) -> None:
    module.add(f"@pyjax.workspace = internal global [{_SLOTS} x ptr] zeroinitializer, align 64")
    _take(module)
    _give(module)


def take(w: FunctionWriter, count: str, ty: str) -> str:
    """Scratch memory for so many elements, to give back."""
    block = w.call(TAKE, "ptr", [("i64", w.imul(count, bits_of(ty) // 8))])
    return w.gep("i8", block, _ALIGNMENT)


def give(w: FunctionWriter, taken: str) -> None:
    w.call(GIVE, "void", [("ptr", w.gep("i8", taken, -_ALIGNMENT))])


def _take(module: ModuleWriter) -> None:
    """ptr take(i64 n): a block for at least n bytes."""
    w = module.function(TAKE, [("i64", "n")], "ptr")
    with w.loop(0, _SLOTS) as slots:
        slot = w.gep("ptr", "@pyjax.workspace", slots.index)
        seen = w.value(f"load atomic ptr, ptr {slot} monotonic, align {w.target.pointer_bits // 8}")
        with w.if_(_is_block(w, seen)):
            kept = _exchange(w, slot, "null", "acquire")
            with w.if_(_is_block(w, kept)):
                reuse, back = w.new_label("reuse"), w.new_label("back")
                w.cond_br(w.cmp("sge", "i64", w.load("i64", kept), "%n"), reuse, back)
                w.label(reuse)
                w.ret("ptr", kept)
                w.label(back)
                w.call(GIVE, "void", [("ptr", kept)])
    w.ret("ptr", _new_block(w))


def _new_block(w: FunctionWriter) -> str:
    size = w.target.size_type
    wanted = w.iadd("%n", _EXTRA)
    raw = w.call("malloc", "ptr", [(size, w.cast("trunc", "i64", wanted, size))])
    got, none = w.new_label("got"), w.new_label("none")
    w.cond_br(_is_block(w, raw), got, none)
    w.label(none)
    w.call("abort", "void")
    w.line("unreachable")
    w.label(got)
    up = w.op("add", "i64", w.cast("ptrtoint", "ptr", raw, "i64"), str(_ALIGNMENT - 1))
    block = w.cast("inttoptr", "i64", w.op("and", "i64", up, str(-_ALIGNMENT)), "ptr")
    w.store("i64", "%n", block)
    w.store("ptr", raw, _origin(w, block))
    return block


def _give(module: ModuleWriter) -> None:
    """void give(ptr block): keep it in a free slot; with none free, in the place of some other."""
    w = module.function(GIVE, [("ptr", "block")])
    with w.loop(0, _SLOTS) as slots:
        slot = w.gep("ptr", "@pyjax.workspace", slots.index)
        exchange = w.value(f"cmpxchg ptr {slot}, ptr null, ptr %block release monotonic")
        done, on = w.new_label("done"), w.new_label("on")
        w.cond_br(w.value(f"extractvalue {{ ptr, i1 }} {exchange}, 1"), done, on)
        w.label(done)
        w.ret()
        w.label(on)
    size = w.load("i64", "%block")
    mixed = w.op("add", "i64", size, w.op("lshr", "i64", size, "6"))
    victim = w.gep("ptr", "@pyjax.workspace", w.op("and", "i64", mixed, str(_SLOTS - 1)))
    other = _exchange(w, victim, "%block", "acq_rel")
    with w.if_(_is_block(w, other)):
        w.call("free", "void", [("ptr", w.load("ptr", _origin(w, other)))])
    w.ret()


def _is_block(w: FunctionWriter, pointer: str) -> str:
    return w.cmp("ne", "ptr", pointer, "null")


def _exchange(w: FunctionWriter, slot: str, block: str, order: str) -> str:
    return w.value(f"atomicrmw xchg ptr {slot}, ptr {block} {order}")


def _origin(w: FunctionWriter, block: str) -> str:
    """Where a block has the address that malloc gave."""
    return w.gep("i8", block, 8)
