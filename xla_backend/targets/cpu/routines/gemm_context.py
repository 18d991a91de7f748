"""What the functions of a product share: the parameters of its entries, and the context of its
tasks."""

from __future__ import annotations

from xla_backend.llvm.types import register_type
from xla_backend.llvm.writer import FunctionWriter
from xla_backend.targets.cpu.routines.gemm_tiles import GemmType

# The context shared by the tasks of one product: i64 slots (pointers as integers).
FIELDS = (
    "M N K A rsA csA B rsB csB C ldc flags packA packB pc kc piece first row_blocks rows_per_block "
    "column_blocks panels_per_block panels bsA bsB bsC epilogue data batch weight inner osA osB "
    "least"
).split()
_POINTERS = frozenset("A B C packA packB epilogue data least".split())
_SLOT = {name: i for i, name in enumerate(FIELDS)}
# Parameters of the entry points, in order.
PRODUCT = "M N K A rsA csA B rsB csB C ldc flags".split()
BATCHED = "M N K A bsA rsA csA B bsB rsB csB C bsC ldc flags".split()
EPILOGUE = "epilogue data batch weight".split()
OUTER = "inner osA osB".split()


class Context:
    """Typed access to the task context in memory."""

    def __init__(self, w: FunctionWriter, ptr: str) -> None:
        self.w = w
        self.ptr = ptr

    def get(self, name: str) -> str:
        w = self.w
        ty = "ptr" if name in _POINTERS else "i64"
        return w.load_invariant(ty, w.gep("i64", self.ptr, _SLOT[name]), 8)

    def set(self, name: str, value: str) -> None:
        w = self.w
        ty = "ptr" if name in _POINTERS else "i64"
        w.store(ty, value, w.gep("i64", self.ptr, _SLOT[name]), 8)


def parameters(*names: str) -> list[tuple[str, str]]:
    return [("ptr" if name in _POINTERS else "i64", name) for name in names]


def element_type(t: GemmType, which: str) -> str:
    """LLVM type whose size is one element of a matrix (complex: the pair)."""
    from_type = t.target if which == "C" else t.source
    if from_type.is_complex:
        part = register_type(from_type)
        return f"{{ {part}, {part} }}"
    return f"i{8 * from_type.byte_size}"


def packed_element(t: GemmType) -> tuple[str, int]:
    """(scalar, scalars per element) of packed panels."""
    return register_type(t.compute), 2 if t.compute.is_complex else 1


def ceil_div(w: FunctionWriter, a: str, b: str | int) -> str:
    """Rounded-up quotient of non-negative i64 values."""
    return w.op("udiv", "i64", w.iadd(a, w.isub(b, 1)), str(b))
