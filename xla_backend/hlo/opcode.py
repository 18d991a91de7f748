"""The opcodes of HLO and their properties, as one table. No second list of opcode properties exists
elsewhere.
"""

from __future__ import annotations

import enum
from typing import NamedTuple


class OpcodeInfo(NamedTuple):
    """One row: how many operands an opcode takes and what passes may assume about it."""

    text: str
    arity: int | None  # None: any number
    elementwise: bool = False
    commutative: bool = False
    side_effect: bool = False  # may not be removed, merged or reordered with others of its kind
    calls: int | None = 0  # called computations; None: any number


_ROWS: dict[str, OpcodeInfo] = {}


def _define(rows: str, arity: int | None, **properties: bool | int | None) -> None:
    for text in rows.split():
        member = text.upper().replace("-", "_")
        _ROWS[member] = OpcodeInfo(text, arity, **properties)  # type: ignore[arg-type]


_define(
    "abs ceil floor cosine sine tan sinh cosh asin acos asinh acosh atanh exponential "
    "exponential-minus-one log log-plus-one logistic negate not popcnt count-leading-zeros "
    "round-nearest-afz round-nearest-even rsqrt sqrt cbrt sign tanh erf real imag is-finite "
    "convert bitcast-convert reduce-precision copy",
    1,
    elementwise=True,
)
_define("add multiply maximum minimum and or xor mulhi", 2, elementwise=True, commutative=True)
_define(
    "subtract divide remainder power atan2 shift-left shift-right-arithmetic "
    "shift-right-logical compare complex stochastic-convert",
    2,
    elementwise=True,
)
_define("select clamp", 3, elementwise=True)
_define("map", None, elementwise=True, calls=1)
_define("bitcast reshape transpose broadcast reverse slice", 1)
_define("dynamic-reshape concatenate dynamic-slice dynamic-update-slice", None)
_define("pad", 2)
_define("iota parameter constant partition-id replica-id", 0)
_define("get-dimension-size", 1)
_define("set-dimension-size", 2)
_define("dot convolution", 2)
_define("ragged-dot", 3)
_define("scaled-dot", 4)
_define("reduce reduce-window scan sort", None, calls=1)
_define("select-and-scatter", 3, calls=2)
_define("gather", 2)
_define("scatter", None, calls=1)
_define("topk", 1, calls=None)
_define("fft cholesky", 1)
_define("triangular-solve", 2)
_define("batch-norm-training", 3)
_define("batch-norm-inference batch-norm-grad", 5)
_define("tuple", None)
_define("get-tuple-element opt-barrier", 1)
_define("while", 1, calls=2)
_define("conditional", None, calls=None)
_define("call fusion", None, calls=1)
_define("custom-call", None, calls=None)
_define("after-all", None)
_define("add-dependency", 2)
_define("domain", 1)
_define("rng", None, side_effect=True)
_define("rng-bit-generator", 1)
_define("rng-get-and-update-state", 0, side_effect=True)
_define("infeed", 1, side_effect=True)
_define("outfeed", 2, side_effect=True)
_define("all-gather all-to-all collective-broadcast collective-permute ragged-all-to-all", None)
_define("all-gather-start collective-permute-start", None)
_define("all-gather-done all-reduce-done collective-permute-done copy-start copy-done", 1)
_define("all-reduce all-reduce-start reduce-scatter", None, calls=1)
_define("send recv send-done recv-done", None, side_effect=True)
_define("async-start", None, calls=1)
_define("async-update async-done", 1, calls=None)


class _OpcodeBase(enum.Enum):
    __hash__ = object.__hash__  # enum's own hashes the name on every call

    def __str__(self) -> str:
        return self.value

    @property
    def info(self) -> OpcodeInfo:
        return OPCODES[self]  # type: ignore[index]

    @property
    def is_elementwise(self) -> bool:
        return OPCODES[self].elementwise  # type: ignore[index]

    @property
    def is_commutative(self) -> bool:
        return OPCODES[self].commutative  # type: ignore[index]


Opcode = _OpcodeBase("Opcode", {name: row.text for name, row in _ROWS.items()})  # type: ignore[misc]
OPCODES: dict[Opcode, OpcodeInfo] = {op: _ROWS[op.name] for op in Opcode}  # type: ignore[valid-type]
BY_TEXT: dict[str, Opcode] = {op.value: op for op in Opcode}  # type: ignore[valid-type]
