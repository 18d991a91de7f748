"""The opcodes of HLO and their properties, as one table. No second list of opcode properties
exists elsewhere."""

from __future__ import annotations

import enum
from typing import NamedTuple

PLAIN = 0
ELEMENTWISE = 1
COMMUTATIVE = 2
SIDE_EFFECT = 4


class OpcodeInfo(NamedTuple):
    """One row: how many operands an opcode takes and what passes may assume about it."""

    text: str
    arity: int | None  # None: any number
    elementwise: bool = False
    commutative: bool = False
    side_effect: bool = False  # may not be removed, merged or reordered with others of its kind
    calls: int | None = 0  # called computations; None: any number


class Opcode(enum.Enum):
    """One member per opcode: text, arity, properties, number of called computations. The value is
    the text."""

    _value_: str
    info: OpcodeInfo
    is_elementwise: bool
    is_commutative: bool

    # Identity hash: enum's own hashes the name on every call.
    __hash__ = object.__hash__

    def __new__(
        cls, text: str, arity: int | None = None, properties: int = PLAIN, calls: int | None = 0
    ) -> Opcode:
        member = object.__new__(cls)
        member._value_ = text
        member.is_elementwise = bool(properties & ELEMENTWISE)
        member.is_commutative = bool(properties & COMMUTATIVE)
        member.info = OpcodeInfo(
            text,
            arity,
            member.is_elementwise,
            member.is_commutative,
            bool(properties & SIDE_EFFECT),
            calls,
        )
        return member

    def __str__(self) -> str:
        return self._value_

    ABS = "abs", 1, ELEMENTWISE
    CEIL = "ceil", 1, ELEMENTWISE
    FLOOR = "floor", 1, ELEMENTWISE
    COSINE = "cosine", 1, ELEMENTWISE
    SINE = "sine", 1, ELEMENTWISE
    TAN = "tan", 1, ELEMENTWISE
    SINH = "sinh", 1, ELEMENTWISE
    COSH = "cosh", 1, ELEMENTWISE
    ASIN = "asin", 1, ELEMENTWISE
    ACOS = "acos", 1, ELEMENTWISE
    ASINH = "asinh", 1, ELEMENTWISE
    ACOSH = "acosh", 1, ELEMENTWISE
    ATANH = "atanh", 1, ELEMENTWISE
    EXPONENTIAL = "exponential", 1, ELEMENTWISE
    EXPONENTIAL_MINUS_ONE = "exponential-minus-one", 1, ELEMENTWISE
    LOG = "log", 1, ELEMENTWISE
    LOG_PLUS_ONE = "log-plus-one", 1, ELEMENTWISE
    LOGISTIC = "logistic", 1, ELEMENTWISE
    NEGATE = "negate", 1, ELEMENTWISE
    NOT = "not", 1, ELEMENTWISE
    POPCNT = "popcnt", 1, ELEMENTWISE
    COUNT_LEADING_ZEROS = "count-leading-zeros", 1, ELEMENTWISE
    ROUND_NEAREST_AFZ = "round-nearest-afz", 1, ELEMENTWISE
    ROUND_NEAREST_EVEN = "round-nearest-even", 1, ELEMENTWISE
    RSQRT = "rsqrt", 1, ELEMENTWISE
    SQRT = "sqrt", 1, ELEMENTWISE
    CBRT = "cbrt", 1, ELEMENTWISE
    SIGN = "sign", 1, ELEMENTWISE
    TANH = "tanh", 1, ELEMENTWISE
    ERF = "erf", 1, ELEMENTWISE
    REAL = "real", 1, ELEMENTWISE
    IMAG = "imag", 1, ELEMENTWISE
    IS_FINITE = "is-finite", 1, ELEMENTWISE
    CONVERT = "convert", 1, ELEMENTWISE
    BITCAST_CONVERT = "bitcast-convert", 1, ELEMENTWISE
    REDUCE_PRECISION = "reduce-precision", 1, ELEMENTWISE
    COPY = "copy", 1, ELEMENTWISE
    ADD = "add", 2, ELEMENTWISE | COMMUTATIVE
    MULTIPLY = "multiply", 2, ELEMENTWISE | COMMUTATIVE
    MAXIMUM = "maximum", 2, ELEMENTWISE | COMMUTATIVE
    MINIMUM = "minimum", 2, ELEMENTWISE | COMMUTATIVE
    AND = "and", 2, ELEMENTWISE | COMMUTATIVE
    OR = "or", 2, ELEMENTWISE | COMMUTATIVE
    XOR = "xor", 2, ELEMENTWISE | COMMUTATIVE
    MULHI = "mulhi", 2, ELEMENTWISE | COMMUTATIVE
    SUBTRACT = "subtract", 2, ELEMENTWISE
    DIVIDE = "divide", 2, ELEMENTWISE
    REMAINDER = "remainder", 2, ELEMENTWISE
    POWER = "power", 2, ELEMENTWISE
    ATAN2 = "atan2", 2, ELEMENTWISE
    SHIFT_LEFT = "shift-left", 2, ELEMENTWISE
    SHIFT_RIGHT_ARITHMETIC = "shift-right-arithmetic", 2, ELEMENTWISE
    SHIFT_RIGHT_LOGICAL = "shift-right-logical", 2, ELEMENTWISE
    COMPARE = "compare", 2, ELEMENTWISE
    COMPLEX = "complex", 2, ELEMENTWISE
    STOCHASTIC_CONVERT = "stochastic-convert", 2, ELEMENTWISE
    SELECT = "select", 3, ELEMENTWISE
    CLAMP = "clamp", 3, ELEMENTWISE
    MAP = "map", None, ELEMENTWISE, 1
    BITCAST = "bitcast", 1
    RESHAPE = "reshape", 1
    TRANSPOSE = "transpose", 1
    BROADCAST = "broadcast", 1
    REVERSE = "reverse", 1
    SLICE = "slice", 1
    DYNAMIC_RESHAPE = "dynamic-reshape", None
    CONCATENATE = "concatenate", None
    DYNAMIC_SLICE = "dynamic-slice", None
    DYNAMIC_UPDATE_SLICE = "dynamic-update-slice", None
    PAD = "pad", 2
    IOTA = "iota", 0
    PARAMETER = "parameter", 0
    CONSTANT = "constant", 0
    PARTITION_ID = "partition-id", 0
    REPLICA_ID = "replica-id", 0
    GET_DIMENSION_SIZE = "get-dimension-size", 1
    SET_DIMENSION_SIZE = "set-dimension-size", 2
    DOT = "dot", 2
    CONVOLUTION = "convolution", 2
    RAGGED_DOT = "ragged-dot", 3
    SCALED_DOT = "scaled-dot", 4
    REDUCE = "reduce", None, PLAIN, 1
    REDUCE_WINDOW = "reduce-window", None, PLAIN, 1
    SCAN = "scan", None, PLAIN, 1
    SORT = "sort", None, PLAIN, 1
    SELECT_AND_SCATTER = "select-and-scatter", 3, PLAIN, 2
    GATHER = "gather", 2
    SCATTER = "scatter", None, PLAIN, 1
    TOPK = "topk", 1, PLAIN, None
    FFT = "fft", 1
    CHOLESKY = "cholesky", 1
    TRIANGULAR_SOLVE = "triangular-solve", 2
    BATCH_NORM_TRAINING = "batch-norm-training", 3
    BATCH_NORM_INFERENCE = "batch-norm-inference", 5
    BATCH_NORM_GRAD = "batch-norm-grad", 5
    TUPLE = "tuple", None
    GET_TUPLE_ELEMENT = "get-tuple-element", 1
    OPT_BARRIER = "opt-barrier", 1
    WHILE = "while", 1, PLAIN, 2
    CONDITIONAL = "conditional", None, PLAIN, None
    CALL = "call", None, PLAIN, 1
    FUSION = "fusion", None, PLAIN, 1
    CUSTOM_CALL = "custom-call", None, PLAIN, None
    AFTER_ALL = "after-all", None
    ADD_DEPENDENCY = "add-dependency", 2
    DOMAIN = "domain", 1
    RNG = "rng", None, SIDE_EFFECT
    RNG_BIT_GENERATOR = "rng-bit-generator", 1
    RNG_GET_AND_UPDATE_STATE = "rng-get-and-update-state", 0, SIDE_EFFECT
    INFEED = "infeed", 1, SIDE_EFFECT
    OUTFEED = "outfeed", 2, SIDE_EFFECT
    ALL_GATHER = "all-gather", None
    ALL_TO_ALL = "all-to-all", None
    COLLECTIVE_BROADCAST = "collective-broadcast", None
    COLLECTIVE_PERMUTE = "collective-permute", None
    RAGGED_ALL_TO_ALL = "ragged-all-to-all", None
    ALL_GATHER_START = "all-gather-start", None
    COLLECTIVE_PERMUTE_START = "collective-permute-start", None
    ALL_GATHER_DONE = "all-gather-done", 1
    ALL_REDUCE_DONE = "all-reduce-done", 1
    COLLECTIVE_PERMUTE_DONE = "collective-permute-done", 1
    COPY_START = "copy-start", 1
    COPY_DONE = "copy-done", 1
    ALL_REDUCE = "all-reduce", None, PLAIN, 1
    ALL_REDUCE_START = "all-reduce-start", None, PLAIN, 1
    REDUCE_SCATTER = "reduce-scatter", None, PLAIN, 1
    SEND = "send", None, SIDE_EFFECT
    RECV = "recv", None, SIDE_EFFECT
    SEND_DONE = "send-done", None, SIDE_EFFECT
    RECV_DONE = "recv-done", None, SIDE_EFFECT
    ASYNC_START = "async-start", None, PLAIN, 1
    ASYNC_UPDATE = "async-update", 1, PLAIN, None
    ASYNC_DONE = "async-done", 1, PLAIN, None


OPCODES: dict[Opcode, OpcodeInfo] = {op: op.info for op in Opcode}
BY_TEXT: dict[str, Opcode] = {op.value: op for op in Opcode}
