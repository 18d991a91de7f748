"""Every elementwise opcode on every element type it is defined for: native code against the
evaluator."""

import numpy as np
import pytest
from native_checks import check_native, module_of, random_argument

FLOATS = ("f32", "f64", "f16", "bf16")
SMALL_FLOATS = ("f8e4m3fn", "f8e5m2")
INTEGERS = ("s8", "s16", "s32", "s64", "u8", "u16", "u32", "u64")
COMPLEX = ("c64", "c128")

# opcode: (element types, lowest and highest argument)
UNARY = {
    "abs": (FLOATS + ("s8", "s32", "s64"), -3, 3),
    "negate": (FLOATS + INTEGERS + COMPLEX, -3, 3),
    "sign": (FLOATS + ("s8", "s32", "s64"), -3, 3),
    "floor": (FLOATS, -3, 3),
    "ceil": (FLOATS, -3, 3),
    "round-nearest-afz": (FLOATS, -3, 3),
    "round-nearest-even": (FLOATS, -3, 3),
    "sqrt": (FLOATS + COMPLEX, 0, 3),
    "rsqrt": (FLOATS + COMPLEX, 0.1, 3),
    "cbrt": (FLOATS, -3, 3),
    "exponential": (FLOATS + COMPLEX, -3, 3),
    "exponential-minus-one": (FLOATS + COMPLEX, -3, 3),
    "log": (FLOATS + COMPLEX, 0.1, 3),
    "log-plus-one": (FLOATS + COMPLEX, -0.5, 3),
    "logistic": (FLOATS + COMPLEX, -3, 3),
    "tanh": (FLOATS + COMPLEX, -3, 3),
    "sine": (FLOATS + COMPLEX, -3, 3),
    "cosine": (FLOATS + COMPLEX, -3, 3),
    "tan": (FLOATS + COMPLEX, -1.2, 1.2),
    "erf": (FLOATS, -3, 3),
    "not": (INTEGERS + ("pred",), -3, 3),
    "popcnt": (INTEGERS, 0, 3),
    "count-leading-zeros": (INTEGERS, 0, 3),
}
BINARY = {
    "add": FLOATS + INTEGERS + COMPLEX,
    "subtract": FLOATS + INTEGERS + COMPLEX,
    "multiply": FLOATS + INTEGERS + COMPLEX,
    "divide": FLOATS + INTEGERS + COMPLEX,
    "remainder": FLOATS + INTEGERS,
    "maximum": FLOATS + INTEGERS + ("pred",),
    "minimum": FLOATS + INTEGERS + ("pred",),
    "atan2": FLOATS,
    "and": INTEGERS + ("pred",),
    "or": INTEGERS + ("pred",),
    "xor": INTEGERS + ("pred",),
    "shift-left": INTEGERS,
    "shift-right-arithmetic": INTEGERS,
    "shift-right-logical": INTEGERS,
}


@pytest.mark.parametrize("type", FLOATS + INTEGERS + COMPLEX + ("pred",))
def test_unary(type):
    """All unary opcodes of one type in one program, on 37 elements (whole vectors and a tail)."""
    opcodes = [op for op, (types, _, _) in UNARY.items() if type in types]
    lines, roots = [], []
    for i, op in enumerate(opcodes):
        lines.append(f"p{i} = {type}[37] parameter({i})")
        lines.append(f"r{i} = {type}[37] {op}(p{i})")
        roots.append(f"r{i}")
    shapes = ", ".join([f"{type}[37]"] * len(roots))
    lines.append(f"ROOT t = ({shapes}) tuple({', '.join(roots)})")
    module = module_of("\n".join(lines))
    rng = np.random.default_rng(1)
    arguments = []
    for op, parameter in zip(opcodes, module.entry.parameters):
        _, low, high = UNARY[op]
        arguments.append(random_argument(parameter.shape, rng, low, high))
    check_native(module, arguments, scale=4)


@pytest.mark.parametrize("type", FLOATS + INTEGERS + COMPLEX + ("pred",))
def test_binary(type):
    """All binary opcodes of one type, with zero divisors, large shifts and extreme integers among
    the operands."""
    opcodes = [op for op, types in BINARY.items() if type in types]
    lines, roots = [f"a = {type}[41] parameter(0)", f"b = {type}[41] parameter(1)"], []
    for i, op in enumerate(opcodes):
        lines.append(f"r{i} = {type}[41] {op}(a, b)")
        roots.append(f"r{i}")
    shapes = ", ".join([f"{type}[41]"] * len(roots))
    lines.append(f"ROOT t = ({shapes}) tuple({', '.join(roots)})")
    module = module_of("\n".join(lines))
    rng = np.random.default_rng(2)
    a, b = [random_argument(p.shape, rng, -3, 3) for p in module.entry.parameters]
    if np.issubdtype(a.dtype, np.integer):
        info = np.iinfo(a.dtype)
        a[:6] = [info.min, info.min, info.max, 7, 5, info.max]
        b[:6] = np.array([-1, 0, 0, 0, 70, 1]).astype(a.dtype)
    check_native(module, [a, b], scale=4)


@pytest.mark.parametrize("type", FLOATS)
def test_special_values(type):
    """Infinities, NaN, zeros of both signs: bits of max, min, sign and comparisons."""
    module = module_of(
        f"""a = {type}[81] parameter(0)
        b = {type}[81] parameter(1)
        max = {type}[81] maximum(a, b)
        min = {type}[81] minimum(a, b)
        rem = {type}[81] remainder(a, b)
        sgn = {type}[81] sign(a)
        lt = pred[81] compare(a, b), direction=LT
        ne = pred[81] compare(a, b), direction=NE
        tot = pred[81] compare(a, b), direction=LE, type=TOTALORDER
        fin = pred[81] is-finite(a)
        ROOT t = ({type}[81], {type}[81], {type}[81], {type}[81], pred[81], pred[81], pred[81],
          pred[81])
          tuple(max, min, rem, sgn, lt, ne, tot, fin)"""
    )
    dtype = module.entry.parameters[0].shape.element_type.numpy_dtype
    special = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 2.5, -7.25]).astype(dtype)
    a, b = (np.ascontiguousarray(x.reshape(-1)) for x in np.meshgrid(special, special))
    executable = check_native(module, [a, b])
    got = executable.run_arrays([a, b])
    signs = np.signbit(got[0].astype(np.float64))[~np.isnan(got[0].astype(np.float64))]
    want = np.maximum(a.astype(np.float64), b.astype(np.float64))
    both_zero = (a == 0) & (b == 0)
    want[both_zero & ~(np.signbit(a.astype(float)) & np.signbit(b.astype(float)))] = 0.0
    np.testing.assert_array_equal(signs, np.signbit(want)[~np.isnan(want)])


_ALL = FLOATS + SMALL_FLOATS + INTEGERS + ("pred",)


@pytest.mark.parametrize("source", _ALL)
def test_convert(source):
    lines, roots, shapes = [f"a = {source}[35] parameter(0)"], [], []
    for target in _ALL + COMPLEX:
        lines.append(f"to_{target} = {target}[35] convert(a)")
        roots.append(f"to_{target}")
        shapes.append(f"{target}[35]")
    lines.append(f"ROOT t = ({', '.join(shapes)}) tuple({', '.join(roots)})")
    module = module_of("\n".join(lines))
    (a,) = [
        random_argument(p.shape, np.random.default_rng(3), -3, 3) for p in module.entry.parameters
    ]
    if a.dtype.kind == "f" and a.dtype.itemsize >= 4:
        a[:5] = [np.nan, np.inf, -np.inf, 3e9, -3e9]
    check_native(module, [a])


def test_clamp_select_and_scalar_operands():
    check_native(
        module_of(
            """lo = f32[] parameter(0)
            x = f32[5,9] parameter(1)
            hi = f32[] parameter(2)
            p = pred[] parameter(3)
            c = f32[5,9] clamp(lo, x, hi)
            ROOT s = f32[5,9] select(p, c, x)"""
        ),
        [
            np.float32(-1),
            np.linspace(-3, 3, 45, dtype=np.float32).reshape(5, 9),
            np.float32(1),
            np.bool_(True),
        ],
    )


def test_reduce_precision_and_bitcast_convert():
    check_native(
        module_of(
            """x = f32[40] parameter(0)
            a = f32[40] reduce-precision(x), exponent_bits=5, mantissa_bits=7
            b = s32[40] bitcast-convert(x)
            c = u8[40,4] bitcast-convert(x)
            d = f32[40] bitcast-convert(c)
            ROOT t = (f32[40], s32[40], u8[40,4], f32[40]) tuple(a, b, c, d)"""
        )
    )


def test_complex_parts():
    check_native(
        module_of(
            """x = f32[33] parameter(0)
            y = f32[33] parameter(1)
            z = c64[33] complex(x, y)
            w = c64[33] multiply(z, z)
            re = f32[33] real(w)
            im = f32[33] imag(w)
            size = f32[33] abs(w)
            eq = pred[33] compare(z, w), direction=EQ
            ROOT t = (c64[33], f32[33], f32[33], f32[33], pred[33]) tuple(w, re, im, size, eq)"""
        )
    )
