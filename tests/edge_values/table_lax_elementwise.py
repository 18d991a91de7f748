"""Elementwise functions of `lax`."""

from __future__ import annotations

from functools import partial

from tests.edge_values.rows import (
    FEW,
    FEW_NUMBERS,
    FEW_REALS,
    Row,
    one_operand,
    rows,
    two_operands,
)

one = partial(one_operand, "lax")
two = partial(two_operands, "lax")
INEXACT = ("float32", "float16", "complex64")
F32 = ("float32", "int32")
INTEGERS = tuple(f"f(u, {n})" for n in (-3, -2, -1, 0, 1, 2, 3, 5, 64, 100))

ROWS: tuple[Row, ...] = (
    *one("abs neg sign square", FEW_NUMBERS, ulp=1, grad_ulp=2),
    *one("ceil floor", F32),
    *one("is_finite", F32, grad=False),
    *one("real imag conj", ("complex64", "float32")),
    *one("bitwise_not population_count clz", ("int32", "uint8", "bool"), grad=False),
    *one("sin cos tan sinh cosh tanh", (*INEXACT, "int32"), ulp=32, grad_ulp=32, grad_norm=8),
    *one("asin acos atan asinh acosh atanh", (*INEXACT, "int32"), ulp=8, grad_ulp=16),
    *one(
        "exp exp2 expm1 log log1p sqrt rsqrt cbrt logistic",
        (*INEXACT, "int32"),
        ulp=32,
        grad_ulp=64,
    ),
    *one("reciprocal", (*INEXACT, "int32"), ulp=4, grad_ulp=16),
    *one("erf erfc erf_inv digamma", F32, ulp=64, grad_ulp=256),
    *one("lgamma", F32, ulp=64, norm=0.02, grad_ulp=256),
    *one("bessel_i0e bessel_i1e", F32, ulp=64, grad_ulp=256, grad_norm=1),
    *rows(
        "lax",
        "round",
        ["f(u)", "f(u, lax.RoundingMethod.TO_NEAREST_EVEN)"],
        F32,
        grad="u",
        elementwise=True,
    ),
    *rows(
        "lax", "integer_pow", INTEGERS, FEW_NUMBERS, ulp=16, grad="u", grad_ulp=32, elementwise=True
    ),
    *two("add sub", FEW_NUMBERS, grad_ulp=2),
    *two("mul", FEW_NUMBERS, ulp=4, grad_ulp=8),
    *two("div", FEW_NUMBERS, ulp=4, grad_ulp=16),
    *two("rem", FEW_REALS, grad_ulp=2),
    *two("max min", FEW, grad_ulp=2),
    *two("pow", FEW, ulp=16, grad_ulp=32),
    *two("atan2", F32, ulp=8, grad_ulp=16),
    *two("nextafter", F32, grad=False),
    *two("complex", ("float32", "float64", "int32")),
    *two("eq ne lt le gt ge", FEW, grad=False),
    *two("bitwise_and bitwise_or bitwise_xor", ("int32", "uint8", "bool", "float32"), grad=False),
    *two(
        "shift_left shift_right_arithmetic shift_right_logical",
        ("int32", "uint8", "float32"),
        grad=False,
    ),
    *two("mulhi", ("int32", "uint32"), grad=False),
    *rows(
        "lax",
        "igamma igammac",
        ["f(p, r)", "f(jnp.abs(v), jnp.abs(x))"],
        F32,
        norm=64,
        ulp=256,
        grad="r x v p",
        grad_ulp=1024,
        grad_norm=64,
    ),
    *rows(
        "lax", "igamma_grad_a random_gamma_grad", ["f(jnp.abs(v) + 0.5, jnp.abs(x))"], F32, ulp=4096
    ),
    *rows(
        "lax",
        "polygamma zeta",
        ["f(jnp.abs(v) + 1, jnp.abs(x) + 0.5)", "f(p, r)"],
        F32,
        ulp=256,
        norm=64,
        grad="x",
        grad_ulp=1024,
    ),
    *rows(
        "lax",
        "betainc",
        [
            "f(p, r, o)",
            "f(jnp.abs(v) + 0.5, jnp.abs(x), unit[0])",
            "f(jnp.full_like(unit, 2.5), jnp.full_like(unit, 1.5), unit)",
        ],
        F32,
        ulp=1024,
        norm=64,
        grad="unit",
        grad_ulp=4096,
    ),
    *rows(
        "lax",
        "clamp",
        ["f(p, r, o)", "f(s, v, s)", "f(-1, v, 2)", "f(v, s, v)", "f(v, x, m)"],
        FEW,
        grad="p r o v s",
    ),
    *rows(
        "lax",
        "select select_n",
        ["f(kv, v, x)", "f(v, v, x)", "f(k, m, m)", "f(kv[0], v, x)", "f(kv, v, m)"],
        ("float32", "int32", "bool"),
        grad="v x m",
    ),
    *rows(
        "lax",
        "select_n",
        [
            "f(jnp.array([0, 1, 2]), v[:3], x[:3], v[1:4])",
            "f(j, v[:5], x[:5], v[1:6])",
            "f(i, *[x[0] + v[:1].repeat(11)] * 3)",
        ],
        ("float32", "int32"),
        grad="v x",
    ),
    *rows(
        "lax",
        "convert_element_type",
        [
            f"f(u, '{t}')"
            for t in (
                "bool",
                "int8",
                "uint8",
                "int32",
                "uint32",
                "float16",
                "bfloat16",
                "float32",
                "complex64",
                "int64",
                "uint64",
                "float64",
                "complex128",
            )
        ],
        FEW,
        grad="u",
        elementwise=True,
    ),
    *rows(
        "lax",
        "bitcast_convert_type",
        ["f(v, 'int32')", "f(v, 'uint8')", "f(v, 'float32')", "f(v, bool)", "f(v, 'float16')"],
        FEW,
    ),
    *rows(
        "lax",
        "reduce_precision",
        ["f(u, 5, 10)", "f(u, 8, 7)", "f(u, 4, 3)", "f(u, 1, 0)", "f(u, 0, 3)", "f(u, 11, 52)"],
        F32,
        grad="u",
    ),
)
