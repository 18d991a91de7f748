"""Operator table: elementwise primitives."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import scipy.special as sp

from pyjax import lax
from pyjax.core.structural import add_any_p
from pyjax.lax.arithmetic import integer_power
from pyjax.lax.special.gamma import zeta_slope_p
from tests.op_table import (
    BF16,
    BOOL,
    C64,
    F16,
    F32,
    I8,
    I32,
    INEXACT,
    INTEGER,
    NUMBER,
    REAL,
    U8,
    U32,
    Op,
    distinct,
    fixed,
    integers,
    normal,
    positive,
    uniform,
    unit,
)

_EDGES = (0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan)
_PAIR = (((2, 3), (2, 3)),)
_STRETCHED = (((2, 3), (2, 3)), ((2, 3), ()), ((2, 1), (1, 3)))
_nonzero = uniform(0.5, 3.0)


def _wide(function):
    """A NumPy function computed in 64 bits."""

    def oracle(*xs):
        return function(
            *[x.astype(np.complex128 if x.dtype.kind == "c" else np.float64) for x in xs]
        )

    return oracle


def _c_remainder(x, y):
    return np.fmod(x, y)


UNARY = [
    Op("neg", lax.neg, np.negative, dtypes=(*NUMBER, BF16), special=_EDGES, grad_order=2),
    Op("sign", lax.sign, np.sign, dtypes=(F32, I32, U8), special=_EDGES),
    Op("floor", lax.floor, np.floor, special=_EDGES),
    Op("ceil", lax.ceil, np.ceil, special=_EDGES),
    Op(
        "round",
        lax.round,
        lambda x: np.where(np.isfinite(x), np.copysign(np.floor(np.abs(x) + 0.5), x), x),
        special=(0.5, 1.5, -2.5, *_EDGES),
    ),
    Op(
        "round",
        lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN),
        np.round,
        special=(0.5, 1.5, -2.5, *_EDGES),
        name="round-even",
    ),
    Op("is_finite", lax.is_finite, np.isfinite, special=_EDGES),
    Op("exp", lax.exp, _wide(np.exp), dtypes=INEXACT, special=_EDGES, grad_order=2),
    Op("exp2", lax.exp2, _wide(np.exp2), special=_EDGES, grad_order=2),
    Op("expm1", lax.expm1, _wide(np.expm1), dtypes=INEXACT, special=_EDGES, grad_order=2),
    Op(
        "log", lax.log, _wide(np.log), dtypes=INEXACT, domain=positive, special=_EDGES, grad_order=2
    ),
    Op(
        "log1p",
        lax.log1p,
        _wide(np.log1p),
        dtypes=INEXACT,
        domain=positive,
        special=_EDGES,
        grad_order=2,
    ),
    Op("tanh", lax.tanh, _wide(np.tanh), dtypes=INEXACT, special=_EDGES, grad_order=2),
    Op("logistic", lax.logistic, lambda x: 1 / (1 + np.exp(-_wide(np.positive)(x))), grad_order=2),
    Op("sin", lax.sin, _wide(np.sin), dtypes=INEXACT, special=_EDGES, grad_order=2),
    Op("cos", lax.cos, _wide(np.cos), dtypes=INEXACT, special=_EDGES, grad_order=2),
    Op("tan", lax.tan, _wide(np.tan), dtypes=INEXACT, domain=unit, special=_EDGES, grad_order=2),
    Op(
        "asin",
        lax.asin,
        _wide(np.arcsin),
        dtypes=INEXACT,
        domain=unit,
        special=_EDGES,
        grad_order=2,
    ),
    Op(
        "acos",
        lax.acos,
        _wide(np.arccos),
        dtypes=INEXACT,
        domain=unit,
        special=_EDGES,
        grad_order=2,
    ),
    Op(
        "atan",
        lax.atan,
        _wide(np.arctan),
        dtypes=INEXACT,
        domain=unit,
        special=_EDGES,
        grad_order=2,
    ),
    Op("sinh", lax.sinh, _wide(np.sinh), dtypes=INEXACT, special=_EDGES, grad_order=2),
    Op("cosh", lax.cosh, _wide(np.cosh), dtypes=INEXACT, special=_EDGES, grad_order=2),
    Op("asinh", lax.asinh, _wide(np.arcsinh), dtypes=INEXACT, special=_EDGES, grad_order=2),
    Op(
        "acosh",
        lax.acosh,
        _wide(np.arccosh),
        dtypes=INEXACT,
        domain=uniform(1.2, 4.0),
        special=_EDGES,
        grad_order=2,
    ),
    Op(
        "atanh",
        lax.atanh,
        _wide(np.arctanh),
        dtypes=INEXACT,
        domain=unit,
        special=_EDGES,
        grad_order=2,
    ),
    Op(
        "sqrt",
        lax.sqrt,
        _wide(np.sqrt),
        dtypes=INEXACT,
        domain=positive,
        special=_EDGES,
        grad_order=2,
    ),
    Op(
        "rsqrt",
        lax.rsqrt,
        lambda x: 1 / _wide(np.sqrt)(x),
        dtypes=INEXACT,
        domain=positive,
        special=(1.0, 4.0, np.inf, np.nan),
        grad_order=2,
    ),
    Op("cbrt", lax.cbrt, _wide(np.cbrt), domain=_nonzero, special=_EDGES, grad_order=2),
    Op("square", lax.square, np.square, dtypes=NUMBER, grad_order=2),
    Op(
        "integer_pow",
        lambda x: lax.integer_pow(x, 5),
        lambda x: x**5,
        dtypes=NUMBER,
        domain=uniform(-2, 2),
        grad_order=2,
    ),
    Op(
        "integer_pow",
        lambda x: lax.integer_pow(x, -3),
        lambda x: _wide(np.positive)(x) ** -3.0,
        domain=_nonzero,
        grad_order=2,
        name="integer_pow-negative",
    ),
    Op("abs", lax.abs, np.abs, dtypes=NUMBER, special=_EDGES, domain=_nonzero, grad_order=2),
    Op("real", lax.real, np.real, dtypes=(C64,), grad_order=1),
    Op("imag", lax.imag, np.imag, dtypes=(C64,), grad_order=1),
    Op("conj", lax.conj, np.conj, dtypes=(C64,), grad_order=1),
    Op("conj", lax.conj, lambda x: x.astype(np.complex64), grad_order=1, name="conj-real"),
    Op("not", lax.bitwise_not, np.invert, dtypes=(I32, U8, BOOL), domain=integers(0, 100)),
    Op(
        "population_count",
        lax.population_count,
        lambda x: np.vectorize(lambda v: bin(int(v)).count("1"))(x).astype(x.dtype),
        dtypes=(U8, U32),
        domain=integers(0, 255),
    ),
    Op(
        "clz",
        lax.clz,
        lambda x: np.vectorize(lambda v: 8 * x.dtype.itemsize - int(v).bit_length())(x).astype(
            x.dtype
        ),
        dtypes=(U8, U32),
        domain=integers(0, 255),
    ),
    Op("erf", lax.erf, _wide(sp.erf), special=_EDGES, grad_order=2),
    Op("erfc", lax.erfc, _wide(sp.erfc), special=_EDGES, domain=uniform(-4, 6), grad_order=2),
    Op(
        "erf_inv",
        lax.erf_inv,
        _wide(sp.erfinv),
        domain=unit,
        special=(0.0, 1.0, -1.0, np.nan),
        grad_order=2,
    ),
    Op(
        "lgamma",
        lax.lgamma,
        _wide(sp.gammaln),
        domain=positive,
        special=(1.0, 2.0, 0.0, np.inf),
        grad_order=2,
    ),
    Op(
        "digamma",
        lax.digamma,
        _wide(sp.digamma),
        domain=positive,
        special=(1.0, np.inf, np.nan),
        grad_order=2,
    ),
    Op(
        "bessel_i0e",
        lax.bessel_i0e,
        _wide(sp.i0e),
        domain=uniform(-12, 12),
        special=(0.0,),
        grad_order=2,
    ),
    Op(
        "bessel_i1e",
        lax.bessel_i1e,
        _wide(sp.i1e),
        domain=uniform(1, 12),
        special=(0.0,),
        grad_order=2,
    ),
    Op(
        "reduce_precision",
        lambda x: lax.reduce_precision(x, 8, 7),
        lambda x: x.astype(ml_dtypes.bfloat16).astype(x.dtype),
        special=_EDGES,
    ),
    Op(
        "convert_element_type",
        lambda x: lax.convert_element_type(x, np.float32),
        lambda x: x.astype(np.float32),
        dtypes=(I32, U8, F16, BF16, BOOL),
        domain=integers(0, 100),
    ),
    Op(
        "convert_element_type",
        lambda x: lax.convert_element_type(x, np.result_type(x.dtype, np.complex64)),
        lambda x: x.astype(np.complex64),
        grad_order=1,
        name="convert-to-complex",
    ),
    Op(
        "bitcast_convert_type",
        lambda x: lax.bitcast_convert_type(x, np.int32),
        lambda x: x.view(np.int32),
    ),
    Op(
        "bitcast_convert_type",
        lambda x: lax.bitcast_convert_type(x, np.uint8),
        lambda x: x[..., None].view(np.uint8),
        name="bitcast-narrower",
    ),
    Op("copy", lax.copy_p.bind, lambda x: x, grad_order=1),
    Op("stop_gradient", lax.stop_gradient, lambda x: x),
    Op("stage", lax.stage, lambda x: x, grad_order=1),
    Op(
        "optimization_barrier",
        lambda x, y: lax.optimization_barrier((x, y)),
        lambda x, y: (x, y),
        shapes=_PAIR,
        grad_order=1,
    ),
]

BINARY = [
    Op("add", lax.add, np.add, shapes=_STRETCHED, dtypes=(*NUMBER, BF16), grad_order=2),
    Op("sub", lax.sub, np.subtract, shapes=_STRETCHED, dtypes=NUMBER, grad_order=2),
    Op("mul", lax.mul, np.multiply, shapes=_STRETCHED, dtypes=NUMBER, grad_order=2),
    Op(
        "div",
        lax.div,
        lambda x, y: np.trunc(x / y).astype(x.dtype) if x.dtype.kind in "iu" else x / y,
        shapes=_STRETCHED,
        dtypes=NUMBER,
        domain=(normal, uniform(1, 4)),
        grad_order=2,
    ),
    Op(
        "rem",
        lax.rem,
        _c_remainder,
        shapes=_STRETCHED,
        dtypes=REAL,
        domain=(uniform(-9, 9), uniform(2.1, 4)),
        grad_order=1,
    ),
    Op(
        "integer_power",
        integer_power,
        lambda x, y: x**y,
        shapes=_STRETCHED,
        dtypes=(I32, U8),
        domain=(integers(0, 9), integers(0, 99)),
    ),
    Op(
        "pow",
        lax.pow,
        lambda x, y: _wide(np.power)(x, y),
        shapes=_STRETCHED,
        domain=(positive, normal),
        grad_order=2,
    ),
    Op(
        "pow",
        lax.pow,
        lambda x, y: np.power(x, y.astype(x.dtype)),
        shapes=_PAIR,
        operand_dtypes=(None, I32),
        domain=(uniform(-2, 2), integers(0, 4)),
        grad_order=2,
        grad_args=(0,),
        name="pow-integer",
    ),
    Op("max", lax.max, np.maximum, shapes=_STRETCHED, dtypes=REAL, domain=distinct(), grad_order=1),
    Op("min", lax.min, np.minimum, shapes=_STRETCHED, dtypes=REAL, domain=distinct(), grad_order=1),
    Op("max", lax.max, np.maximum, shapes=_STRETCHED, dtypes=(C64,), name="max-complex"),
    Op("atan2", lax.atan2, _wide(np.arctan2), shapes=_STRETCHED, grad_order=2),
    Op("nextafter", lax.nextafter, np.nextafter, shapes=_STRETCHED),
    Op(
        "complex",
        lax.complex,
        lambda x, y: (x + 1j * y).astype(np.complex64),
        shapes=_STRETCHED,
        grad_order=1,
    ),
    Op(
        "and",
        lax.bitwise_and,
        np.bitwise_and,
        shapes=_STRETCHED,
        dtypes=(*INTEGER, BOOL),
        domain=integers(0, 99),
    ),
    Op(
        "or",
        lax.bitwise_or,
        np.bitwise_or,
        shapes=_STRETCHED,
        dtypes=(*INTEGER, BOOL),
        domain=integers(0, 99),
    ),
    Op(
        "xor",
        lax.bitwise_xor,
        np.bitwise_xor,
        shapes=_STRETCHED,
        dtypes=(*INTEGER, BOOL),
        domain=integers(0, 99),
    ),
    Op(
        "shift_left",
        lax.shift_left,
        lambda x, y: np.where(y >= 32, 0, np.left_shift(x, np.minimum(y, 31))).astype(x.dtype),
        shapes=_PAIR,
        dtypes=(I32, U32),
        domain=(integers(0, 9), integers(0, 40)),
    ),
    Op(
        "shift_right_logical",
        lax.shift_right_logical,
        lambda x, y: np.where(
            y >= 32, 0, x.view(np.uint32) >> np.minimum(y, 31).astype(np.uint32)
        ).astype(x.dtype),
        shapes=_PAIR,
        dtypes=(I32, U32),
        domain=(integers(-1000, 1000), integers(0, 40)),
    ),
    Op(
        "shift_right_arithmetic",
        lax.shift_right_arithmetic,
        lambda x, y: np.right_shift(x, np.minimum(y, 31)),
        shapes=_PAIR,
        dtypes=(I32,),
        domain=(integers(-1000, 1000), integers(0, 40)),
    ),
    Op(
        "mulhi",
        lax.mulhi,
        lambda x, y: ((x.astype(np.int64) * y.astype(np.int64)) >> (8 * x.dtype.itemsize)).astype(
            x.dtype
        ),
        shapes=_PAIR,
        dtypes=(I8, I32),
        domain=integers(-100, 100),
    ),
    *[
        Op(
            name,
            getattr(lax, name),
            oracle,
            shapes=_STRETCHED,
            dtypes=dtypes,
            domain=integers(-2, 3),
        )
        for name, oracle, dtypes in [
            ("eq", np.equal, NUMBER),
            ("ne", np.not_equal, NUMBER),
            ("lt", np.less, REAL),
            ("le", np.less_equal, REAL),
            ("gt", np.greater, REAL),
            ("ge", np.greater_equal, REAL),
        ]
    ],
    *[
        Op(
            f"{name}_to",
            lambda x, y, p=f"{name}_to_p": getattr(lax, p).bind(x, y),
            oracle,
            shapes=_PAIR,
            domain=integers(-2, 3),
        )
        for name, oracle in [("eq", np.equal), ("lt", np.less), ("le", np.less_equal)]
    ],
    Op(
        "add_any",
        lambda x, y: lax_add_any(x, y),
        np.add,
        shapes=_PAIR,
        dtypes=INEXACT,
        grad_order=2,
    ),
    Op(
        "igamma",
        lax.igamma,
        _wide(sp.gammainc),
        shapes=_PAIR,
        domain=positive,
        grad_order=1,
        grad_tol=1e-5,
    ),
    Op(
        "igammac",
        lax.igammac,
        _wide(sp.gammaincc),
        shapes=_PAIR,
        domain=positive,
        grad_order=1,
        grad_tol=1e-5,
    ),
    Op(
        "igamma_grad_a",
        lax.igamma_grad_a,
        lambda a, x: _slope(lambda v: sp.gammainc(v, x.astype(float)), a.astype(float)),
        shapes=_PAIR,
        domain=positive,
        tol=1e-5,
    ),
    Op(
        "random_gamma_grad",
        lax.random_gamma_grad,
        lambda a, x: (
            -_slope(lambda v: sp.gammainc(v, x.astype(float)), a.astype(float))
            / np.exp(
                -x.astype(float) + (a.astype(float) - 1) * np.log(x.astype(float)) - sp.gammaln(a)
            )
        ),
        shapes=_PAIR,
        domain=positive,
        tol=1e-5,
    ),
    Op(
        "zeta",
        lax.zeta,
        _wide(sp.zeta),
        shapes=_PAIR,
        domain=(uniform(1.1, 9), positive),
        grad_order=1,
    ),
    Op(
        "zeta_slope",
        zeta_slope_p.bind1,
        lambda x, q: _slope(lambda v: sp.zeta(v, q.astype(float)), x.astype(float)),
        shapes=_PAIR,
        domain=(uniform(1.1, 9), positive),
        tol=1e-5,
    ),
    Op(
        "polygamma",
        lax.polygamma,
        lambda m, x: sp.polygamma(m.astype(int), x.astype(float)),
        shapes=_PAIR,
        domain=(integers(0, 5), positive),
        grad_order=2,
        grad_args=(1,),
        grad_tol=1e-5,
    ),
]

TERNARY = [
    Op(
        "select_n",
        lax.select_n,
        lambda w, a, b: np.where(w, b, a),
        shapes=(((2, 3),) * 3, ((), (2, 3), (2, 3))),
        dtypes=(F32, I32, C64),
        operand_dtypes=(BOOL, None, None),
        grad_order=2,
    ),
    Op(
        "select_n",
        lax.select_n,
        lambda w, *xs: np.choose(w, xs),
        shapes=(((2, 3),) * 4,),
        operand_dtypes=(I32, None, None, None),
        domain=(integers(0, 3), normal, normal, normal),
        grad_order=1,
        name="select_n-index",
    ),
    Op(
        "clamp",
        lax.clamp,
        lambda lo, x, hi: np.clip(x, lo, hi),
        shapes=(((2, 3),) * 3, ((), (2, 3), ())),
        dtypes=REAL,
        domain=(fixed(-0.5), normal, fixed(0.6)),
        grad_order=1,
    ),
    Op(
        "regularized_incomplete_beta",
        lax.betainc,
        _wide(sp.betainc),
        shapes=(((2, 3),) * 3,),
        domain=(positive, positive, uniform(0.05, 0.95)),
        grad_order=1,
        grad_args=(2,),
        grad_tol=1e-5,
    ),
]

OPS = UNARY + BINARY + TERNARY


def lax_add_any(x, y):
    """Reverse mode's own addition has no public function."""

    return add_any_p.bind1(x, y)


def _slope(function, a):
    h = 1e-6 * a
    return (function(a + h) - function(a - h)) / (2 * h)
