"""A barrier for all threads of all blocks of a launch, all of which the device holds at once.

Each launch of a function has the same number of blocks, and each block counts itself at each
barrier, in a number of 64 bits that is never set back. So it is a multiple of the number of blocks
whenever all have come, and who counts itself knows which multiple to wait for.
"""

from __future__ import annotations

from xla_backend.llvm.writer import FunctionWriter, ModuleWriter

BLOCKS = "llvm.nvvm.read.ptx.sreg.nctaid.x"
_POINTER = "ptr addrspace(1)"
_ORDER = 'syncscope("device") monotonic'
# What the block has written is seen by those who see its count; what others have written is seen
# behind it. (LLVM's updates of NVPTX's memory have no order of their own.)
_FENCE = 'fence syncscope("device") acq_rel'


def declare_counter(module: ModuleWriter, function: str) -> str:
    """The number that the blocks of one function count in."""
    name = f"@{function}_barrier"
    module.add(f"{name} = internal addrspace(1) global i64 0, align 8")
    return name


def emit_grid_barrier(w: FunctionWriter, counter: str, thread: str, blocks: str) -> None:
    """`thread`: number of the own thread in its block; `blocks`: how many there are."""
    w.call("llvm.nvvm.barrier0", "void")
    with w.if_(w.cmp("eq", w.index, thread, "0")):
        count = blocks if w.index == "i64" else w.cast("zext", w.index, blocks, "i64")
        w.line(_FENCE)
        before = w.value(f"atomicrmw add {_POINTER} {counter}, i64 1 {_ORDER}, align 8")
        over = w.op("urem", "i64", before, count)
        end = w.op("add", "i64", w.op("sub", "i64", before, over), count)

        def waits(_: list[str]) -> str:
            now = w.value(f"load atomic i64, {_POINTER} {counter} {_ORDER}, align 8")
            return w.cmp("ult", "i64", now, end)

        w.while_([], waits, lambda _: [])
        w.line(_FENCE)
    w.call("llvm.nvvm.barrier0", "void")
