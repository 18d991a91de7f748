"""Integer operations on lanes against Python integers, with HLO's edge cases."""

import numpy as np
import pytest

from xla_backend.llvm.integer import INTEGER_FUNCTIONS
from xla_backend.llvm.target import host_target
from xla_backend.llvm.types import const, vector
from xla_backend.llvm.writer import ModuleWriter

DTYPES = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64]


def pairs(dtype, seed=0):
    rng = np.random.default_rng(seed)
    info = np.iinfo(dtype)
    edges = [0, 1, 2, 3, 7, info.max, info.max - 1, info.min, info.min + 1]
    edges += [-1, -2, -7] if info.min else []
    edge = np.array(edges, dtype)
    grid = np.array(np.meshgrid(edge, edge)).reshape(2, -1)
    a = rng.integers(info.min, info.max, 300, dtype=dtype, endpoint=True)
    b = rng.integers(info.min, info.max, 300, dtype=dtype, endpoint=True)
    small = rng.integers(max(info.min, -5), 6, 300).astype(dtype)
    return (
        np.concatenate([grid[0].astype(dtype), a, a]),
        np.concatenate([grid[1].astype(dtype), b, small]),
    )


def wrap(value, dtype):
    bits = np.iinfo(dtype).bits
    value &= (1 << bits) - 1
    return value - (1 << bits) if np.iinfo(dtype).min and value >> (bits - 1) else value


def truncated(a, b):
    q = abs(a) // abs(b)
    return -q if (a < 0) != (b < 0) else q


def clz(a, b, bits):
    return bits - (a & ((1 << bits) - 1)).bit_length()


def power(a, b, bits):
    if b >= 0:
        return pow(a, b, 1 << bits)
    return 1 if a == 1 else (1 - 2 * (b % 2)) if a == -1 else 0


BINARY = {
    "add": lambda a, b, bits: a + b,
    "subtract": lambda a, b, bits: a - b,
    "multiply": lambda a, b, bits: a * b,
    "divide": lambda a, b, bits: -1 if b == 0 else truncated(a, b),
    "remainder": lambda a, b, bits: a if b == 0 else a - b * truncated(a, b),
    "maximum": lambda a, b, bits: max(a, b),
    "minimum": lambda a, b, bits: min(a, b),
    "and": lambda a, b, bits: a & b,
    "or": lambda a, b, bits: a | b,
    "xor": lambda a, b, bits: a ^ b,
    "shift-left": lambda a, b, bits: a << b if 0 <= b < bits else 0,
    "shift-right-logical": lambda a, b, bits: (a % (1 << bits)) >> b if 0 <= b < bits else 0,
    "shift-right-arithmetic": lambda a, b, bits: (
        wrap(a, np.dtype(f"i{bits // 8}")) >> (b if 0 <= b < bits else bits - 1)
    ),
    "mulhi": lambda a, b, bits: (a * b) >> bits,
    "power": power,
}
UNARY = {
    "abs": lambda a, b, bits: abs(a),
    "negate": lambda a, b, bits: -a,
    "sign": lambda a, b, bits: (a > 0) - (a < 0),
    "not": lambda a, b, bits: ~a,
    "popcnt": lambda a, b, bits: (a % (1 << bits)).bit_count(),
    "count-leading-zeros": clz,
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", [*BINARY, *UNARY])
def test_operation(lanes, name, dtype):
    a, b = pairs(dtype)
    bits = np.iinfo(dtype).bits
    rule = BINARY.get(name) or UNARY[name]
    expected = [wrap(rule(int(p), int(q), bits), dtype) for p, q in zip(a, b, strict=True)]
    operands = (a, b) if name in BINARY else (a,)
    for width in (None, 1):
        got = lanes.emit(name, *operands, lanes=width)
        np.testing.assert_array_equal(got, np.array(expected, dtype))


SHIFTS = ["shift-left", "shift-right-logical", "shift-right-arithmetic"]


@pytest.mark.parametrize("lanes_of_vector", [1, 16])
@pytest.mark.parametrize("name", SHIFTS)
def test_shift_by_constant(name, lanes_of_vector):
    """It is the shift alone; what a constant as large as the width gives is known, too."""
    ty = vector("i32", lanes_of_vector)
    for amount in [0, 1, 13, 31, 32, 33, -1]:
        module = ModuleWriter(host_target())
        w = module.function("f", [(ty, "%a")], ty)
        w.ret(ty, INTEGER_FUNCTIONS[name](w, ty, True, "%a", const(ty, amount)))
        text = module.to_text()
        assert "icmp" not in text and "select" not in text
        if amount == 13:
            assert f"{ty} %a, {const(ty, 13)}" in text
        if amount in (32, 33, -1):
            gone = name != "shift-right-arithmetic"
            assert (f"ret {ty} {const(ty, 0)}" if gone else f"%a, {const(ty, 31)}") in text
