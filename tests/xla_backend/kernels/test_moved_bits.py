"""Narrow elements that are only moved, as integers: text, verifier, interpreter."""

import numpy as np
import pytest
from native_checks import check_text

from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.kernels.builder import LoopBuilder
from xla_backend.kernels.interpreter import Interpreter
from xla_backend.kernels.ir import BufferRole, Kernel
from xla_backend.kernels.printer import kernel_to_text
from xla_backend.kernels.schedule.moved_bits import move_bits
from xla_backend.kernels.verifier import verify_kernel


def choice(t: P, n: int, *, negated: bool = False, tested: bool = False) -> Kernel:
    """out[i] = p1[i] if p0[i] else 1, or what differs by `negated`: -p1[i], `tested`: p1[i] != 1 in
    place of p0[i]."""
    b = LoopBuilder("k")
    mask = b.buffer("p0", P.PRED, n, BufferRole.OPERAND, 0)
    p = b.buffer("p1", t, n, BufferRole.OPERAND, 1)
    out = b.buffer("out0", t, n, BufferRole.OUTPUT)
    one = b.constant(t, 1)
    i, _ = b.open_loop(n, independent=True, may_vectorize=True)
    value = b.load(p, i)
    holds = b.load(mask, i)
    if tested:
        holds = b.compute(Opcode.OR, P.PRED, (holds, value))
    if negated:
        value = b.compute(Opcode.NEGATE, t, (value,))
    b.store(out, i, (b.compute(Opcode.SELECT, t, (holds, value, one)),))
    b.close_loop()
    return b.kernel


@pytest.mark.parametrize("t", [P.F16, P.BF16, P.F8E4M3FN, P.F8E5M2, P.PRED])
def test_every_pattern_of_bits_stays(t: P) -> None:
    patterns = 2 if t is P.PRED else 1 << t.bits
    bits = (np.arange(max(patterns, 2000)) % patterns).astype(f"u{t.byte_size}")
    mask = np.arange(len(bits)) % 5 != 1
    kernel = choice(t, len(bits))
    assert move_bits(kernel)
    verify_kernel(kernel)
    (got,) = Interpreter(kernel, [mask, bits.view(t.numpy_dtype)]).run()
    one = np.asarray(1).astype(t.numpy_dtype).view(bits.dtype)
    np.testing.assert_array_equal(got.view(bits.dtype), np.where(mask, bits, one))
    assert not move_bits(kernel)


def test_numbers_are_those_of_their_bits() -> None:
    kernel = choice(P.F16, 2000)
    assert move_bits(kernel)
    check_text(
        kernel_to_text(kernel),
        """
        // CHECK: def k(p0: pred[2000], p1: u16[2000], out0: u16[2000]):
        // CHECK: if {{v[0-9]+}} else 15360
        """,
    )


@pytest.mark.parametrize(
    "kernel",
    [
        choice(P.F32, 2000),
        choice(P.F16, 2000, negated=True),
        choice(P.PRED, 2000, tested=True),
        choice(P.F16, 100),
    ],
    ids=["not narrow", "computed", "asked for", "held in registers"],
)
def test_others_stay(kernel: Kernel) -> None:
    before = kernel_to_text(kernel)
    assert not move_bits(kernel)
    assert kernel_to_text(kernel) == before
