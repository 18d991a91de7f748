"""The opcodes of HLO and their properties, as one table. No second list of opcode properties
exists elsewhere.

The column of cycles says what one vector register of elements costs to compute, very roughly:
enough to decide what is worth computing twice, which loop runs in lanes and what needs threads. It
counts no loads and stores. An opcode that is not listed with a number costs 1.
"""

from __future__ import annotations

import enum

PLAIN = 0
ELEMENTWISE = 1
COMMUTATIVE = 2
SIDE_EFFECT = 4
TRANSCENDENTAL = 8
NO_WORK = 16


class Opcode(enum.Enum):
    """One member per opcode; its value is its text.

    Attributes:
      arity: how many operands it takes; None: any number.
      calls: how many computations it calls; None: any number.
      is_elementwise, is_commutative: what passes may assume.
      has_side_effect: it may not be removed, merged or reordered with others of its kind.
      is_transcendental: counted apart from flops.
      is_free: it computes nothing: it names what is in memory, or is a constant.
      cycles: of one vector register of elements.
    """

    _value_: str
    arity: int | None
    calls: int | None
    is_elementwise: bool
    is_commutative: bool
    has_side_effect: bool
    is_transcendental: bool
    is_free: bool
    cycles: int

    # Identity hash: enum's own hashes the name on every call.
    __hash__ = object.__hash__

    def __new__(
        cls,
        text: str,
        arity: int | None = None,
        properties: int = PLAIN,
        calls: int | None = 0,
        cycles: int = 1,
    ) -> Opcode:
        member = object.__new__(cls)
        member._value_ = text
        member.arity = arity
        member.calls = calls
        member.is_elementwise = bool(properties & ELEMENTWISE)
        member.is_commutative = bool(properties & COMMUTATIVE)
        member.has_side_effect = bool(properties & SIDE_EFFECT)
        member.is_transcendental = bool(properties & TRANSCENDENTAL)
        member.is_free = bool(properties & NO_WORK)
        member.cycles = cycles
        return member

    def __str__(self) -> str:
        return self._value_

    ABS = "abs", 1, ELEMENTWISE
    CEIL = "ceil", 1, ELEMENTWISE
    FLOOR = "floor", 1, ELEMENTWISE
    COSINE = "cosine", 1, ELEMENTWISE | TRANSCENDENTAL, 0, 24
    SINE = "sine", 1, ELEMENTWISE | TRANSCENDENTAL, 0, 24
    TAN = "tan", 1, ELEMENTWISE | TRANSCENDENTAL, 0, 40
    SINH = "sinh", 1, ELEMENTWISE | TRANSCENDENTAL, 0, 40
    COSH = "cosh", 1, ELEMENTWISE | TRANSCENDENTAL, 0, 40
    ASIN = "asin", 1, ELEMENTWISE | TRANSCENDENTAL, 0, 40
    ACOS = "acos", 1, ELEMENTWISE | TRANSCENDENTAL, 0, 40
    ASINH = "asinh", 1, ELEMENTWISE | TRANSCENDENTAL, 0, 40
    ACOSH = "acosh", 1, ELEMENTWISE | TRANSCENDENTAL, 0, 40
    ATANH = "atanh", 1, ELEMENTWISE | TRANSCENDENTAL, 0, 40
    EXPONENTIAL = "exponential", 1, ELEMENTWISE | TRANSCENDENTAL, 0, 14
    EXPONENTIAL_MINUS_ONE = "exponential-minus-one", 1, ELEMENTWISE | TRANSCENDENTAL, 0, 20
    LOG = "log", 1, ELEMENTWISE | TRANSCENDENTAL, 0, 18
    LOG_PLUS_ONE = "log-plus-one", 1, ELEMENTWISE | TRANSCENDENTAL, 0, 24
    LOGISTIC = "logistic", 1, ELEMENTWISE | TRANSCENDENTAL, 0, 24
    NEGATE = "negate", 1, ELEMENTWISE
    NOT = "not", 1, ELEMENTWISE
    POPCNT = "popcnt", 1, ELEMENTWISE
    COUNT_LEADING_ZEROS = "count-leading-zeros", 1, ELEMENTWISE
    ROUND_NEAREST_AFZ = "round-nearest-afz", 1, ELEMENTWISE
    ROUND_NEAREST_EVEN = "round-nearest-even", 1, ELEMENTWISE
    RSQRT = "rsqrt", 1, ELEMENTWISE | TRANSCENDENTAL, 0, 12
    SQRT = "sqrt", 1, ELEMENTWISE | TRANSCENDENTAL, 0, 4
    CBRT = "cbrt", 1, ELEMENTWISE | TRANSCENDENTAL, 0, 40
    SIGN = "sign", 1, ELEMENTWISE
    TANH = "tanh", 1, ELEMENTWISE | TRANSCENDENTAL, 0, 24
    ERF = "erf", 1, ELEMENTWISE | TRANSCENDENTAL, 0, 30
    REAL = "real", 1, ELEMENTWISE
    IMAG = "imag", 1, ELEMENTWISE
    IS_FINITE = "is-finite", 1, ELEMENTWISE
    CONVERT = "convert", 1, ELEMENTWISE
    BITCAST_CONVERT = "bitcast-convert", 1, ELEMENTWISE, 0, 0
    REDUCE_PRECISION = "reduce-precision", 1, ELEMENTWISE
    COPY = "copy", 1, ELEMENTWISE, 0, 0
    ADD = "add", 2, ELEMENTWISE | COMMUTATIVE
    MULTIPLY = "multiply", 2, ELEMENTWISE | COMMUTATIVE
    MAXIMUM = "maximum", 2, ELEMENTWISE | COMMUTATIVE
    MINIMUM = "minimum", 2, ELEMENTWISE | COMMUTATIVE
    AND = "and", 2, ELEMENTWISE | COMMUTATIVE
    OR = "or", 2, ELEMENTWISE | COMMUTATIVE
    XOR = "xor", 2, ELEMENTWISE | COMMUTATIVE
    MULHI = "mulhi", 2, ELEMENTWISE | COMMUTATIVE
    SUBTRACT = "subtract", 2, ELEMENTWISE
    DIVIDE = "divide", 2, ELEMENTWISE, 0, 4
    REMAINDER = "remainder", 2, ELEMENTWISE, 0, 20
    POWER = "power", 2, ELEMENTWISE | TRANSCENDENTAL, 0, 60
    ATAN2 = "atan2", 2, ELEMENTWISE | TRANSCENDENTAL, 0, 40
    SHIFT_LEFT = "shift-left", 2, ELEMENTWISE
    SHIFT_RIGHT_ARITHMETIC = "shift-right-arithmetic", 2, ELEMENTWISE
    SHIFT_RIGHT_LOGICAL = "shift-right-logical", 2, ELEMENTWISE
    COMPARE = "compare", 2, ELEMENTWISE
    COMPLEX = "complex", 2, ELEMENTWISE
    STOCHASTIC_CONVERT = "stochastic-convert", 2, ELEMENTWISE
    SELECT = "select", 3, ELEMENTWISE
    CLAMP = "clamp", 3, ELEMENTWISE
    MAP = "map", None, ELEMENTWISE, 1
    BITCAST = "bitcast", 1, NO_WORK
    RESHAPE = "reshape", 1, NO_WORK, 0, 0
    TRANSPOSE = "transpose", 1, PLAIN, 0, 0
    BROADCAST = "broadcast", 1, PLAIN, 0, 0
    REVERSE = "reverse", 1, PLAIN, 0, 0
    SLICE = "slice", 1, PLAIN, 0, 0
    DYNAMIC_RESHAPE = "dynamic-reshape", None
    CONCATENATE = "concatenate", None, PLAIN, 0, 2
    DYNAMIC_SLICE = "dynamic-slice", None, PLAIN, 0, 0
    DYNAMIC_UPDATE_SLICE = "dynamic-update-slice", None
    PAD = "pad", 2, PLAIN, 0, 2
    IOTA = "iota", 0, PLAIN, 0, 0
    PARAMETER = "parameter", 0, NO_WORK
    CONSTANT = "constant", 0, NO_WORK, 0, 0
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
    GATHER = "gather", 2, PLAIN, 0, 2
    SCATTER = "scatter", None, PLAIN, 1
    TOPK = "topk", 1, PLAIN, None
    FFT = "fft", 1
    CHOLESKY = "cholesky", 1
    TRIANGULAR_SOLVE = "triangular-solve", 2
    BATCH_NORM_TRAINING = "batch-norm-training", 3
    BATCH_NORM_INFERENCE = "batch-norm-inference", 5
    BATCH_NORM_GRAD = "batch-norm-grad", 5
    TUPLE = "tuple", None, NO_WORK
    GET_TUPLE_ELEMENT = "get-tuple-element", 1, NO_WORK
    OPT_BARRIER = "opt-barrier", 1
    WHILE = "while", 1, PLAIN, 2
    CONDITIONAL = "conditional", None, PLAIN, None
    CALL = "call", None, PLAIN, 1
    FUSION = "fusion", None, PLAIN, 1
    CUSTOM_CALL = "custom-call", None, PLAIN, None
    AFTER_ALL = "after-all", None
    ADD_DEPENDENCY = "add-dependency", 2
    DOMAIN = "domain", 1
    RNG = "rng", None, SIDE_EFFECT | TRANSCENDENTAL
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


BY_TEXT: dict[str, Opcode] = {op.value: op for op in Opcode}
