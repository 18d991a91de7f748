"""Atomic updates: an instruction where there is one, else a loop of compare-and-swap."""

from __future__ import annotations

from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.kernels.ir import Atomic
from xla_backend.llvm import elemental
from xla_backend.llvm.conversions import from_memory, to_memory
from xla_backend.llvm.types import memory_type
from xla_backend.llvm.writer import FunctionWriter
from xla_backend.targets.gpu.access import pointer_type
from xla_backend.targets.gpu.architectures import Architecture

# Of whole integers of 32 and 64 bits: (signed, unsigned). Others, and the larger and smaller of
# floats (where NaN wins, which no instruction does), need the loop.
_INTEGERS = {
    Opcode.ADD: ("add", "add"),
    Opcode.AND: ("and", "and"),
    Opcode.OR: ("or", "or"),
    Opcode.XOR: ("xor", "xor"),
    Opcode.MAXIMUM: ("max", "umax"),
    Opcode.MINIMUM: ("min", "umin"),
}
# Among the threads of a device; nothing is said about other accesses.
_ORDER = 'syncscope("device") monotonic'
_WORDS = (P.S32, P.U32, P.S64, P.U64)
# Sums: the type in memory, and the first architecture that adds it.
_FLOAT_SUMS = {
    P.F32: ("float", 80),
    P.F64: ("double", 80),
    P.F16: ("half", 90),
    P.BF16: ("bfloat", 90),
}


def emit_atomic(
    w: FunctionWriter, s: Atomic, address: str, value: str, architecture: Architecture
) -> None:
    """buffer[index] = opcode(buffer[index], value), as one access."""
    type = s.buffer.element_type
    pointer = pointer_type(s.buffer)
    raw = to_memory(w, type, 1, value)
    stored = memory_type(type)
    if not (s.buffer.role.is_global or pointer.endswith("(3)")):
        # Nobody else sees this memory.
        old = w.value(f"load {stored}, {pointer} {address}")
        w.line(f"store {stored} {_updated(w, s, old, value)}, {pointer} {address}")
        return
    if type in _WORDS:
        operation = _INTEGERS[s.opcode][0 if type.is_signed_integral else 1]
        w.value(f"atomicrmw {operation} {pointer} {address}, {stored} {raw} {_ORDER}")
        return
    sums = _FLOAT_SUMS.get(type)
    if sums is not None and s.opcode is Opcode.ADD and architecture.number >= sums[1]:
        ty = sums[0]
        text = w.cast("bitcast", stored, raw, ty)
        w.value(f"atomicrmw fadd {pointer} {address}, {ty} {text} {_ORDER}")
        return
    _compare_and_swap(w, s, pointer, address, value)


def _updated(w: FunctionWriter, s: Atomic, old: str, value: str) -> str:
    """The bits of an element that were `old`, with the value combined into it."""
    type = s.buffer.element_type
    new = elemental.emit(w, s.opcode.value, type, 1, from_memory(w, type, 1, old), value)
    return to_memory(w, type, 1, new)


def _compare_and_swap(w: FunctionWriter, s: Atomic, pointer: str, address: str, value: str) -> None:
    stored = memory_type(s.buffer.element_type)
    bits = f"i{8 * s.buffer.element_type.byte_size}"
    result = f"{{ {bits}, i1 }}"
    first = w.value(f"load atomic {bits}, {pointer} {address} {_ORDER}, align {_bytes(bits)}")

    def step(values: list[str]) -> list[str]:
        old = values[0]
        new = _updated(w, s, w.cast("bitcast", bits, old, stored), value)
        swapped = w.value(
            f"cmpxchg {pointer} {address}, {bits} {old}, "
            f"{bits} {w.cast('bitcast', stored, new, bits)} {_ORDER} monotonic"
        )
        found = w.pure(f"extractvalue {result} {swapped}, 0", swapped)
        done = w.pure(f"extractvalue {result} {swapped}, 1", swapped)
        return [found, w.not_("i1", done)]

    w.while_([(bits, first), ("i1", "true")], lambda values: values[1], step)


def _bytes(bits: str) -> int:
    return int(bits[1:]) // 8
