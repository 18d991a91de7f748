"""Instructions of sm_90 for groups of 128 threads, in the notation of LLVM's inline assembly, which
has no other name for most: bulk copies of boxes (`cp.async.bulk.tensor`), the barriers in shared
memory at which they arrive (`mbarrier`), and products (`wgmma.mma_async`, of the target sm_90a).

What the PTX ISA 8.x says of them, and this relies on:

- `wgmma.mma_async`: 64 rows, N columns (8 to 256, multiples of 8; of integers 16 from 32 on), and
  32 bytes of the sum: k16 of f16 and bf16, k8 of tf32, k32 of bytes. Factors are given by
  descriptors ("Matrix Descriptor Format"): bits 0-13 the address, 16-29 the leading and 32-45 the
  stride dimension's offset, all in units of 16 bytes; 49-51 the base offset, 0 as pieces begin at
  multiples of 1024; 62-63 the mode, 1 for 128-byte swizzle. "Strides" says what the offsets mean;
  of rows along the sum the leading one is not used. Only factors of 16 bits may have their lines
  go along rows or columns (imm-trans-a, imm-trans-b).
- The next 32 bytes of the sum begin 32 bytes further on in the same lines, as the swizzle is one of
  addresses, or two pieces of eight steps further on.
- `wgmma.fence` orders what threads do to sums with what the machine does; `commit_group` makes a
  group of products, `wait_group` waits for all but some. Until then the sums' registers may not be
  touched: values pass through the wait, so that nothing uses them before.
- `mbarrier.init` is seen by copies behind `fence.mbarrier_init` and `fence.proxy.async`, and by
  other threads behind a barrier. `arrive.expect_tx` is the one arrival of a phase, and says how
  many bytes are to come. What copies wrote is seen by threads, and by their products, behind
  `try_wait`.
- `cp.async.bulk.tensor` takes what the host has made of an array (`TensorMap`) as a parameter of
  128 bytes, and fills with zeros what is beyond the array.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.kernels.ir import BoxedArray, GroupProduct, Lines
from xla_backend.kernels.lines import ROWS
from xla_backend.llvm.types import register_type
from xla_backend.llvm.writer import FunctionWriter

_UNIT = 16  # bytes, of addresses and offsets in descriptors
_ADDRESS_BITS = (1 << 14) - 1
_SWIZZLED = 1 << 62
_STEP = 32  # bytes of the sum that one instruction multiplies


class TensorMap(NamedTuple):
    """What the host makes for a launch: the description of an array, which lies in memory where one
    of the kernel's buffers does. `buffer`: the number of that among the launch's addresses."""

    buffer: int
    type: P
    array: BoxedArray


def emit_prepare(w: FunctionWriter, addresses: Sequence[str]) -> None:
    """Let barriers at these addresses (i32) be in their first phase; one thread arrives in each."""
    for address in addresses:
        _line(w, "mbarrier.init.shared::cta.b64 [$0], 1;", [("r", "i32", address)])
    _line(w, "fence.mbarrier_init.release.cluster;", [])
    _line(w, "fence.proxy.async.shared::cta;", [])


def emit_expect(w: FunctionWriter, address: str, count: int) -> None:
    operands = [("r", "i32", address), ("r", "i32", str(count))]
    _line(w, "mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;", operands)


def emit_await(w: FunctionWriter, address: str, parity: str) -> None:
    """Wait for the end of the phase of a parity: the instruction itself waits for some time."""
    text = (
        "{ .reg .pred done; again: "
        "mbarrier.try_wait.parity.shared::cta.b64 done, [$0], $1; @!done bra again; }"
    )
    _line(w, text, [("r", "i32", address), ("r", "i32", parity)])
    # Some threads of a warp may have waited longer, and what follows takes all of them at once.
    w.call("llvm.nvvm.bar.warp.sync", "void", [("i32", "-1")])


def emit_box_copy(
    w: FunctionWriter, target: str, map: str, at: Sequence[str], arrival: str
) -> None:
    """Begin to copy a box. `map`: the address (i64) of what the host made; `at`: i32 each."""
    places = ", ".join(f"${n + 2}" for n in range(len(at)))
    text = (
        f"cp.async.bulk.tensor.{len(at)}d.shared::cluster.global.mbarrier::complete_tx::bytes "
        f"[$0], [$1, {{{places}}}], [${len(at) + 2}];"
    )
    operands = [("r", "i32", target), ("l", "i64", map)]
    operands += [("r", "i32", i) for i in (*at, arrival)]
    _line(w, text, operands)


def _line(w: FunctionWriter, text: str, operands: Sequence[tuple[str, str, str]]) -> None:
    """An instruction without a result. Each operand: constraint, type, text."""
    constraints = ",".join([*(c for c, _, _ in operands), "~{memory}"])
    values = ", ".join(f"{ty} {value}" for _, ty, value in operands)
    w.line(f'call void asm sideeffect "{text}", "{constraints}"({values}) convergent')


# -- products --------------------------------------------------------------------------------------

_FLOAT_BYTES = {P.F8E4M3FN: "e4m3", P.F8E5M2: "e5m2"}
_BYTES = {P.S8: "s8", P.U8: "u8"}
# What the instruction calls both factors and the sums, and whether it says how lines go.
_KINDS = {
    (P.F16, P.F16): ("f32.f16.f16", True),
    (P.BF16, P.BF16): ("f32.bf16.bf16", True),
    (P.F32, P.F32): ("f32.tf32.tf32", False),
    **{(x, y): (f"f32.{_FLOAT_BYTES[x]}.{_FLOAT_BYTES[y]}", False)
       for x, y in product(_FLOAT_BYTES, repeat=2)},
    **{(x, y): (f"s32.{_BYTES[x]}.{_BYTES[y]}", False) for x, y in product(_BYTES, repeat=2)},
}  # fmt: skip


def emit_group_product(
    w: FunctionWriter, s: GroupProduct, starts: tuple[str, str], sums: Sequence[str]
) -> list[str]:
    """Begin a group of products. `starts`: the addresses (i32) of the factors."""
    rows, columns, depth = s.shape
    sides = s.lhs, s.rhs
    types = s.lhs.buffer.element_type, s.rhs.buffer.element_type
    size = types[0].byte_size
    kind, transposes = _KINDS[types]
    ty = register_type(s.sums[0].type)
    assert s.sums[0].type is (P.S32 if kind.startswith("s32") else P.F32)
    count = len(sums)
    name = f"wgmma.mma_async.sync.aligned.m{rows}n{columns}k{_STEP // size}.{kind}"
    held = ", ".join(f"${n}" for n in range(count))
    # Whether there are sums before, by what factors are multiplied, and how lines go.
    flags = ["adds"] + ["1", "1"] * (s.sums[0].type is P.F32)
    flags += [str(int(not side.inner_first)) for side in sides] * transposes
    text = (
        f"{{ .reg .pred adds; setp.ne.b32 adds, 1, 0; {name} {{{held}}}, ${2 * count}, "
        f"${2 * count + 1}, {', '.join(flags)}; }}"
    )
    letter = "r" if s.sums[0].type is P.S32 else "f"
    constraints = [f"={letter}"] * count + [str(n) for n in range(count)] + ["l", "l"]
    descriptors = [_descriptor(w, side, start) for side, start in zip(sides, starts)]
    _line(w, "wgmma.fence.sync.aligned;", [])
    texts = list(sums)
    for step in range(depth * size // _STEP):
        here = [
            w.op("add", "i64", descriptor, str(step * _step(side))) if step else descriptor
            for side, descriptor in zip(sides, descriptors)
        ]
        operands = [f"{ty} {text}" for text in texts] + [f"i64 {d}" for d in here]
        texts = _through(w, text, constraints, ty, count, operands)
    _line(w, "wgmma.commit_group.sync.aligned;", [])
    return texts


def emit_group_wait(
    w: FunctionWriter, pending: int, types: Sequence[P], values: Sequence[str]
) -> list[str]:
    """Wait for groups but for the last ones; the values behind that."""
    count, ty = len(values), register_type(types[0])
    letter = "r" if types[0] is P.S32 else "f"
    constraints = [f"={letter}"] * count + [str(n) for n in range(count)] + ["~{memory}"]
    text = f"wgmma.wait_group.sync.aligned {pending};"
    return _through(w, text, constraints, ty, count, [f"{ty} {value}" for value in values])


def _through(
    w: FunctionWriter,
    text: str,
    constraints: Sequence[str],
    ty: str,
    count: int,
    operands: Sequence[str],
) -> list[str]:
    """An instruction that changes `count` registers, which are its first operands."""
    struct = f"{{ {', '.join([ty] * count)} }}"
    called = f'asm sideeffect "{text}", "{",".join(constraints)}"({", ".join(operands)})'
    result = w.value(f"call {struct} {called} convergent")
    return [w.pure(f"extractvalue {struct} {result}, {n}", result) for n in range(count)]


def _descriptor(w: FunctionWriter, lines: Lines, start: str) -> str:
    """What says where a factor lies."""
    leading = 1 if lines.inner_first else lines.leading // _UNIT
    fixed = _SWIZZLED | lines.stride // _UNIT << 32 | leading << 16
    units = w.op("and", "i32", w.op("lshr", "i32", start, "4"), str(_ADDRESS_BITS))
    return w.op("or", "i64", w.cast("zext", "i32", units, "i64"), str(fixed))


def _step(lines: Lines) -> int:
    """From one instruction's part of a factor to the next one's, in units of descriptors."""
    if lines.inner_first:
        return _STEP // _UNIT
    size = lines.buffer.element_type.byte_size
    return _STEP // size // ROWS * lines.stride // _UNIT
