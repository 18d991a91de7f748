"""One small program for each opcode, to be instantiated with each element type.

`T` in a program stands for the element type, `R` for the real and `C` for the complex type of its
parts, `U` for the unsigned type of its width, `ZERO` and `ONE` for literals of it, and `BYTES` for
its size.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from xla_backend.hlo.types import PrimitiveType as P

SIGNED = (P.S2, P.S4, P.S8, P.S16, P.S32, P.S64)
UNSIGNED = (P.U2, P.U4, P.U8, P.U16, P.U32, P.U64)
INTEGERS = (*SIGNED, *UNSIGNED)
TINY_FLOATS = (
    P.F4E2M1FN, P.F6E2M3FN, P.F6E3M2FN, P.F8E5M2, P.F8E4M3, P.F8E4M3FN, P.F8E4M3B11FNUZ,
    P.F8E3M4, P.F8E5M2FNUZ, P.F8E4M3FNUZ, P.F8E8M0FNU,
)  # fmt: skip
FLOATS = (*TINY_FLOATS, P.F16, P.BF16, P.F32, P.F64)
COMPLEX = (P.C64, P.C128)
REAL = (*INTEGERS, *FLOATS)
NUMBERS = (*REAL, *COMPLEX)
ALL = (P.PRED, *NUMBERS)
WITH_ZERO = tuple(t for t in ALL if t is not P.F8E8M0FNU)
# The remainder of a division by zero is NaN; which number stands for it is not determined.
WITHOUT_NAN = (P.F4E2M1FN, P.F6E2M3FN, P.F6E3M2FN)
WIDE_FLOATS = (P.F16, P.BF16, P.F32, P.F64)
# Where sums of products are compared: the evaluator and native code round after each step or at
# the end, which for types of a few bits gives different numbers.
ARITHMETIC = (*INTEGERS, *WIDE_FLOATS, *COMPLEX)

_BINARY = "OP { x = T[] parameter(0)\n y = T[] parameter(1)\n ROOT r = T[] OP(x, y) }\n"
_LESS = """less {
  x = T[] parameter(0)
  y = T[] parameter(1)
  ROOT r = pred[] compare(x, y), direction=LT
}
"""
_GREATER_EQUAL = _LESS.replace("less", "ge").replace("LT", "GE")


def binary(opcode: str) -> str:
    return _BINARY.replace("OP", opcode)


@dataclass(frozen=True)
class Program:
    body: str
    types: tuple[P, ...] = ALL
    called: str = ""
    scale: float = 1.0  # of the tolerance
    low: float = -3.0
    high: float = 3.0

    def text(self, type: P) -> str:
        called, body = (
            part.replace("ZERO", literal(type, 0)).replace("ONE", literal(type, 1))
            for part in (self.called, self.body)
        )
        text = f"HloModule m\n\n{called}\nENTRY main {{\n{body}\n}}\n"
        return _replace_type(text, type)


def literal(type: P, value: int) -> str:
    if type is P.PRED:
        return "true" if value else "false"
    return f"({value}, 0)" if type.is_complex else str(value)


def _replace_type(text: str, type: P) -> str:
    stands_for = {
        "T": type,
        "R": {P.C64: P.F32, P.C128: P.F64}.get(type, type),
        "C": {P.F64: P.C128, P.C128: P.C128}.get(type, P.C64),
        "U": f"u{type.bits}",
    }
    text = text.replace("BYTES", str(type.byte_size))
    return re.sub(r"\b([TRCU])\[", lambda m: f"{stands_for[m[1]]}[", text)


def unary(opcode: str, types: tuple[P, ...], low: float = -3.0, high: float = 3.0) -> Program:
    return Program(
        f"x = T[3,21] parameter(0)\nROOT r = T[3,21] {opcode}(x)", types, low=low, high=high
    )


def elementwise(opcode: str, types: tuple[P, ...], low: float = -3.0, high: float = 3.0) -> Program:
    body = "x = T[3,21] parameter(0)\ny = T[3,21] parameter(1)\n"
    return Program(f"{body}ROOT r = T[3,21] {opcode}(x, y)", types, low=low, high=high)


def conversion(target: P) -> Program:
    return Program(f"x = T[3,21] parameter(0)\nROOT r = {target}[3,21] convert(x)", low=0.0)


_FUNCTIONS = (*FLOATS, *COMPLEX)
PROGRAMS: dict[str, Program] = {
    **{
        opcode: unary(opcode, _FUNCTIONS)
        for opcode in (
            "cosine",
            "sine",
            "tan",
            "sinh",
            "cosh",
            "asinh",
            "exponential",
            "exponential-minus-one",
            "logistic",
            "tanh",
        )
    },
    **{
        opcode: unary(opcode, _FUNCTIONS, 0.1)
        for opcode in ("log", "log-plus-one", "sqrt", "rsqrt")
    },
    **{opcode: unary(opcode, _FUNCTIONS, -0.9, 0.9) for opcode in ("asin", "acos", "atanh")},
    "acosh": unary("acosh", _FUNCTIONS, 1.0),
    **{
        opcode: unary(opcode, FLOATS)
        for opcode in (
            "ceil",
            "floor",
            "round-nearest-afz",
            "round-nearest-even",
            "cbrt",
            "erf",
        )
    },
    "abs": Program("x = T[3,21] parameter(0)\nROOT r = R[3,21] abs(x)", NUMBERS),
    "sign": unary("sign", NUMBERS),
    "negate": unary("negate", NUMBERS),
    "not": unary("not", (P.PRED, *INTEGERS)),
    "popcnt": unary("popcnt", INTEGERS),
    "count-leading-zeros": unary("count-leading-zeros", INTEGERS),
    "copy": unary("copy", ALL),
    "is-finite": Program("x = T[3,21] parameter(0)\nROOT r = pred[3,21] is-finite(x)", FLOATS),
    "real": Program("x = T[3,21] parameter(0)\nROOT r = R[3,21] real(x)", _FUNCTIONS),
    "imag": Program(
        "x = T[3,21] parameter(0)\nROOT r = R[3,21] imag(x)",
        tuple(t for t in _FUNCTIONS if t in WITH_ZERO),
    ),
    **{f"convert-to-{t}": conversion(t) for t in ALL},
    "bitcast-convert": Program(
        "x = T[3,21] parameter(0)\nROOT r = T[3,21] bitcast-convert(x)", NUMBERS
    ),
    "bitcast-convert-narrower": Program(
        "x = T[3,21] parameter(0)\nROOT r = u8[3,21,BYTES] bitcast-convert(x)",
        tuple(t for t in REAL if t.bits > 8),
    ),
    "reduce-precision": Program(
        "x = T[3,21] parameter(0)\n"
        "ROOT r = T[3,21] reduce-precision(x), exponent_bits=4, mantissa_bits=2",
        WIDE_FLOATS,
    ),
    **{
        opcode: elementwise(opcode, types)
        for opcode, types in (
            ("add", ALL),
            ("multiply", ALL),
            ("maximum", (P.PRED, *REAL)),
            ("minimum", (P.PRED, *REAL)),
        )
    },
    "subtract": elementwise("subtract", NUMBERS),
    "divide": elementwise("divide", NUMBERS),
    # x % 0 is NaN, which f4e2m1fn has not.
    "remainder": elementwise("remainder", tuple(t for t in REAL if t not in WITHOUT_NAN)),
    "power": elementwise("power", NUMBERS, 0.1),
    "atan2": elementwise("atan2", FLOATS),
    "mulhi": elementwise("mulhi", INTEGERS),
    **{opcode: elementwise(opcode, (P.PRED, *INTEGERS)) for opcode in ("and", "or", "xor")},
    **{
        opcode: elementwise(opcode, INTEGERS)
        for opcode in ("shift-left", "shift-right-arithmetic", "shift-right-logical")
    },
    **{
        f"compare-{direction}": Program(
            "x = T[3,21] parameter(0)\ny = T[3,21] parameter(1)\n"
            f"ROOT r = pred[3,21] compare(x, y), direction={direction}",
            ALL if direction in ("EQ", "NE") else (P.PRED, *REAL),
        )
        for direction in ("EQ", "NE", "LT", "LE", "GT", "GE")
    },
    "compare-total-order": Program(
        "x = T[3,21] parameter(0)\ny = T[3,21] parameter(1)\n"
        "ROOT r = pred[3,21] compare(x, y), direction=LT, type=TOTALORDER",
        FLOATS,
    ),
    "complex": Program(
        "x = T[3,21] parameter(0)\ny = T[3,21] parameter(1)\nROOT r = C[3,21] complex(x, y)",
        (P.F32, P.F64),
    ),
    "stochastic-convert": Program(
        "x = T[3,21] parameter(0)\ny = U[3,21] parameter(1)\n"
        "ROOT r = s8[3,21] stochastic-convert(x, y)",
        WIDE_FLOATS,
    ),
    "select": Program(
        "p = pred[3,21] parameter(0)\nx = T[3,21] parameter(1)\ny = T[3,21] parameter(2)\n"
        "ROOT r = T[3,21] select(p, x, y)"
    ),
    "clamp": Program(
        "x = T[3,21] parameter(0)\na = T[] constant(ZERO)\nb = T[] constant(ONE)\n"
        "ROOT r = T[3,21] clamp(a, x, b)",
        tuple(t for t in REAL if t in WITH_ZERO),
    ),
    "map": Program(
        "x = T[3,21] parameter(0)\ny = T[3,21] parameter(1)\n"
        "ROOT r = T[3,21] map(x, y), dimensions={0,1}, to_apply=multiply",
        called=binary("multiply"),
    ),
    # -- data movement -----------------------------------------------------------------------------
    "reshape": Program("x = T[3,21] parameter(0)\nROOT r = T[7,9] reshape(x)"),
    "bitcast": Program("x = T[3,21] parameter(0)\nROOT r = T[21,3]{0,1} bitcast(x)"),
    "transpose": Program(
        "x = T[3,21] parameter(0)\nROOT r = T[21,3] transpose(x), dimensions={1,0}"
    ),
    "broadcast": Program("x = T[21] parameter(0)\nROOT r = T[3,21] broadcast(x), dimensions={1}"),
    "reverse": Program("x = T[3,21] parameter(0)\nROOT r = T[3,21] reverse(x), dimensions={1}"),
    "slice": Program("x = T[3,21] parameter(0)\nROOT r = T[2,7] slice(x), slice={[1:3], [0:21:3]}"),
    "concatenate": Program(
        "x = T[3,21] parameter(0)\ny = T[3,2] parameter(1)\n"
        "ROOT r = T[3,23] concatenate(x, y), dimensions={1}"
    ),
    "pad": Program(
        "x = T[3,7] parameter(0)\ny = T[] parameter(1)\n"
        "ROOT r = T[5,14] pad(x, y), padding=1_1x-1_2_1"
    ),
    "iota": Program("ROOT r = T[3,5] iota(), iota_dimension=1", NUMBERS),
    "constant": Program(
        "x = T[] constant(ONE)\ny = T[2] constant({ZERO, ONE})\n"
        "b = T[2] broadcast(x), dimensions={}\nROOT r = (T[2], T[2]) tuple(b, y)",
        WITH_ZERO,
    ),
    "dynamic-slice": Program(
        "x = T[5,21] parameter(0)\ni = s32[] parameter(1)\nj = s32[] parameter(2)\n"
        "ROOT r = T[2,9] dynamic-slice(x, i, j), dynamic_slice_sizes={2,9}"
    ),
    "dynamic-update-slice": Program(
        "x = T[5,21] parameter(0)\nu = T[2,9] parameter(1)\ni = s32[] parameter(2)\n"
        "j = s32[] parameter(3)\nROOT r = T[5,21] dynamic-update-slice(x, u, i, j)"
    ),
    "gather": Program(
        "x = T[5,21] parameter(0)\ni = s32[7] parameter(1)\n"
        "ROOT r = T[7,21] gather(x, i), offset_dims={1}, collapsed_slice_dims={0},"
        " start_index_map={0}, index_vector_dim=1, slice_sizes={1,21}"
    ),
    "scatter": Program(
        "x = T[5,21] parameter(0)\ni = s32[3,1] parameter(1)\nu = T[3,21] parameter(2)\n"
        "ROOT r = T[5,21] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0},"
        " scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=maximum",
        (P.PRED, *REAL),
        binary("maximum"),
    ),
    "sort": Program(
        "x = T[3,37] parameter(0)\n"
        "ROOT r = T[3,37] sort(x), dimensions={1}, is_stable=true, to_apply=less",
        (P.PRED, *REAL),
        _LESS,
    ),
    "topk": Program(
        "x = T[3,37] parameter(0)\nROOT r = (T[3,4], s32[3,4]) topk(x), k=4, largest=true",
        REAL,
    ),
    # -- contractions and windows ------------------------------------------------------------------
    "dot": Program(
        "x = T[3,21] parameter(0)\ny = T[21,5] parameter(1)\n"
        "ROOT r = T[3,5] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        ARITHMETIC,
        scale=30.0,
    ),
    "dot-batch": Program(
        "x = T[2,3,9] parameter(0)\ny = T[2,5,9] parameter(1)\n"
        "ROOT r = T[2,3,5] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={0},"
        " lhs_contracting_dims={2}, rhs_contracting_dims={2}",
        ARITHMETIC,
        scale=30.0,
    ),
    "ragged-dot": Program(
        "x = T[9,4] parameter(0)\ny = T[3,4,5] parameter(1)\n"
        "n = s32[3] constant({2, 4, 1})\n"
        "ROOT r = T[9,5] ragged-dot(x, y, n), lhs_contracting_dims={1},"
        " rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}",
        ARITHMETIC,
        scale=30.0,
    ),
    "scaled-dot": Program(
        "x = T[4,8] parameter(0)\ny = T[8,5] parameter(1)\n"
        "s = f8e8m0fnu[4,2] parameter(2)\nt = f8e8m0fnu[2,5] parameter(3)\n"
        "ROOT r = f32[4,5] scaled-dot(x, y, s, t), lhs_contracting_dims={1},"
        " rhs_contracting_dims={0}",
        FLOATS,
        scale=60.0,
        low=0.3,
    ),
    "convolution": Program(
        "x = T[2,7,7,3] parameter(0)\nk = T[3,2,3,4] parameter(1)\n"
        "ROOT r = T[2,4,6,4] convolution(x, k), window={size=3x2 stride=2x1 pad=1_1x0_0},"
        " dim_labels=b01f_01io->b01f",
        ARITHMETIC,
        scale=60.0,
    ),
    **{
        f"reduce-{opcode}": Program(
            f"x = T[3,21] parameter(0)\ni = T[] constant({init})\n"
            f"ROOT r = T[3] reduce(x, i), dimensions={{1}}, to_apply={opcode}",
            types,
            binary(opcode),
            scale=30.0,
        )
        for opcode, init, types in (
            ("add", "ZERO", (P.PRED, *ARITHMETIC)),
            ("multiply", "ONE", (P.PRED, *INTEGERS, P.F32, P.F64, *COMPLEX)),
            ("maximum", "ONE", (P.PRED, *REAL)),
            ("minimum", "ONE", (P.PRED, *REAL)),
            ("or", "ZERO", (P.PRED, *INTEGERS)),
        )
    },
    "reduce-window": Program(
        "x = T[3,21] parameter(0)\ni = T[] constant(ZERO)\n"
        "ROOT r = T[2,10] reduce-window(x, i), window={size=2x3 stride=1x2}, to_apply=add",
        (P.PRED, *ARITHMETIC),
        binary("add"),
        scale=10.0,
    ),
    "reduce-window-cumulative": Program(
        "x = T[3,21] parameter(0)\ni = T[] constant(ZERO)\n"
        "ROOT r = T[3,21] reduce-window(x, i), window={size=1x21 pad=0_0x20_0}, to_apply=add",
        (P.PRED, *ARITHMETIC),
        binary("add"),
        scale=30.0,
    ),
    "scan": Program(
        "x = T[3,21] parameter(0)\ni = T[3] parameter(1)\n"
        "ROOT r = (T[3,21], T[3]) scan(x, i), dimensions={1}, num_carries=1, to_apply=step",
        ARITHMETIC,
        "step { x = T[3] parameter(0)\n c = T[3] parameter(1)\n s = T[3] add(x, c)\n"
        " ROOT t = (T[3], T[3]) tuple(s, s) }\n",
        scale=30.0,
    ),
    "select-and-scatter": Program(
        "x = T[8,9] parameter(0)\ns = T[4,3] parameter(1)\ni = T[] constant(ZERO)\n"
        "ROOT r = T[8,9] select-and-scatter(x, s, i), window={size=2x3 stride=2x3}, select=ge,"
        " scatter=add",
        (*INTEGERS, *WIDE_FLOATS),
        _GREATER_EQUAL + binary("add"),
    ),
    # -- linear algebra ----------------------------------------------------------------------------
    "cholesky": Program(
        "x = T[2,3,3] parameter(0)\nt = T[2,3,3] transpose(x), dimensions={0,2,1}\n"
        "p = T[2,3,3] dot(x, t), lhs_batch_dims={0}, rhs_batch_dims={0},"
        " lhs_contracting_dims={2}, rhs_contracting_dims={1}\n"
        "c = T[] constant(ONE)\ne = T[2,3,3] broadcast(c), dimensions={}\n"
        "j = s32[3,3] iota(), iota_dimension=0\nk = s32[3,3] iota(), iota_dimension=1\n"
        "d = pred[3,3] compare(j, k), direction=EQ\n"
        "m = pred[2,3,3] broadcast(d), dimensions={1,2}\nz = T[] constant(ZERO)\n"
        "zz = T[2,3,3] broadcast(z), dimensions={}\ni = T[2,3,3] select(m, e, zz)\n"
        "a = T[2,3,3] add(p, i)\nROOT r = T[2,3,3] cholesky(a), lower=true",
        (P.F16, P.BF16, P.F32, P.F64),
        scale=100.0,
    ),
    "triangular-solve": Program(
        "a = T[3,3] parameter(0)\nb = T[3,2] parameter(1)\n"
        "ROOT r = T[3,2] triangular-solve(a, b), left_side=true, lower=true,"
        " unit_diagonal=true, transpose_a=TRANSPOSE",
        (*WIDE_FLOATS, *COMPLEX),
        scale=100.0,
    ),
    "fft": Program(
        "x = T[3,16] parameter(0)\nROOT r = T[3,16] fft(x), fft_type=FFT, fft_length={16}",
        COMPLEX,
        scale=10.0,
    ),
    "rfft": Program(
        "x = T[3,16] parameter(0)\nROOT r = C[3,9] fft(x), fft_type=RFFT, fft_length={16}",
        (P.F32, P.F64),
        scale=10.0,
    ),
    "irfft": Program(
        "x = T[3,9] parameter(0)\nROOT r = R[3,16] fft(x), fft_type=IRFFT, fft_length={16}",
        COMPLEX,
        scale=10.0,
    ),
    "batch-norm-inference": Program(
        "x = T[4,3] parameter(0)\ns = T[3] parameter(1)\no = T[3] parameter(2)\n"
        "m = T[3] parameter(3)\nv = T[3] parameter(4)\n"
        "ROOT r = T[4,3] batch-norm-inference(x, s, o, m, v), epsilon=0.01, feature_index=1",
        WIDE_FLOATS,
        scale=20.0,
        low=0.5,
    ),
    "batch-norm-training": Program(
        "x = T[4,3] parameter(0)\ns = T[3] parameter(1)\no = T[3] parameter(2)\n"
        "ROOT r = (T[4,3], T[3], T[3]) batch-norm-training(x, s, o), epsilon=0.01,"
        " feature_index=1",
        WIDE_FLOATS,
        scale=20.0,
    ),
    "batch-norm-grad": Program(
        "x = T[4,3] parameter(0)\ns = T[3] parameter(1)\nm = T[3] parameter(2)\n"
        "v = T[3] parameter(3)\ng = T[4,3] parameter(4)\n"
        "ROOT r = (T[4,3], T[3], T[3]) batch-norm-grad(x, s, m, v, g), epsilon=0.01,"
        " feature_index=1",
        WIDE_FLOATS,
        scale=50.0,
        low=0.5,
    ),
    "rng-bit-generator": Program(
        "s = u64[2] parameter(0)\n"
        "ROOT r = (u64[2], T[3,5]) rng-bit-generator(s), algorithm=rng_philox",
        (P.U8, P.S8, P.U16, P.S16, P.U32, P.S32, P.U64, P.S64),
    ),
    # -- structure and control ---------------------------------------------------------------------
    "tuple": Program(
        "x = T[3] parameter(0)\ny = T[4] parameter(1)\nt = (T[3], T[4]) tuple(x, y)\n"
        "a = T[4] get-tuple-element(t), index=1\nROOT r = (T[4], T[3]) tuple(a, x)"
    ),
    "opt-barrier": Program("x = T[3] parameter(0)\nROOT r = T[3] opt-barrier(x)"),
    "domain": Program(
        "x = T[3] parameter(0)\n"
        'ROOT r = T[3] domain(x), domain={kind="sharding", entry={maximal device=0}, exit={}}'
    ),
    "add-dependency": Program(
        "x = T[3] parameter(0)\nt = token[] after-all()\nROOT r = T[3] add-dependency(x, t)"
    ),
    "while": Program(
        "x = T[3] parameter(0)\nn = s32[] parameter(1)\nt = (T[3], s32[]) tuple(x, n)\n"
        "w = (T[3], s32[]) while(t), condition=some, body=flip\n"
        "ROOT r = T[3] get-tuple-element(w), index=0",
        called="""some {
          p = (T[3], s32[]) parameter(0)
          n = s32[] get-tuple-element(p), index=1
          z = s32[] constant(0)
          ROOT c = pred[] compare(n, z), direction=GT
        }
        flip {
          p = (T[3], s32[]) parameter(0)
          x = T[3] get-tuple-element(p), index=0
          n = s32[] get-tuple-element(p), index=1
          one = s32[] constant(1)
          m = s32[] subtract(n, one)
          y = T[3] reverse(x), dimensions={0}
          ROOT t = (T[3], s32[]) tuple(y, m)
        }
        """,
    ),
    "conditional": Program(
        "p = pred[] parameter(0)\nx = T[3] parameter(1)\n"
        "ROOT r = T[3] conditional(p, x, x), true_computation=same,"
        " false_computation=turned",
        called="same { ROOT x = T[3] parameter(0) }\n"
        "turned { x = T[3] parameter(0)\n ROOT r = T[3] reverse(x), dimensions={0} }\n",
    ),
    "call": Program(
        "x = T[3] parameter(0)\nROOT r = T[3] call(x), to_apply=turned, is_composite=true",
        called="turned { x = T[3] parameter(0)\n ROOT r = T[3] reverse(x), dimensions={0} }\n",
    ),
    "fusion": Program(
        "x = T[3] parameter(0)\nROOT r = T[3] fusion(x), kind=kCustom, calls=turned",
        called="turned { x = T[3] parameter(0)\n ROOT r = T[3] reverse(x), dimensions={0} }\n",
    ),
}
