"""Taylor-mode differentiation: truncated power series are carried through a program.

Coefficients of products, quotients and solutions of differential equations follow from those of
their operands (Griewank & Walther 2008, chapter 13), at a cost that is quadratic in the order,
where nested derivatives are exponential. `jet_rules` is the table of rules; a primitive without
one is differentiated as often as the order says.

Series hold derivatives: term k is the k-th derivative along the curve. Rules whose recurrences are
those of coefficients divide by k! first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

import pyjax.numpy as jnp
from pyjax import lax
from pyjax.api.jvp import jvp
from pyjax.api.make_jaxpr import make_jaxpr
from pyjax.core.dtypes import to_inexact_dtype
from pyjax.core.errors import fail
from pyjax.core.jaxpr import ClosedJaxpr, JaxprEqn, eval_jaxpr
from pyjax.core.primitive import Primitive
from pyjax.core.trace import is_concrete
from pyjax.core.tree_util import tree_flatten, tree_unflatten
from pyjax.interpreters.rules import called_programs

Array = Any
Terms = list[Any]
Rule = Callable[..., Any]


class ZeroTerm:
    """A term that is zero, whatever its shape.

    >>> zero_term
    zero_term
    """

    def __repr__(self) -> str:
        return "zero_term"


class ZeroSeries:
    """A series of zeros: a constant.

    >>> zero_prop(lax.sign_p, (2.5,), ([1.0],))[1] is zero_series
    True
    """

    def __repr__(self) -> str:
        return "zero_series"


zero_term = ZeroTerm()
zero_series = ZeroSeries()
# primitive: (primals_in, series_in, **params) -> primal or primals out, series or series out
jet_rules: dict[Primitive, Rule] = {}


def fact(n: Any) -> Array:
    """n!

    Args:
      n: a number or an array, 0 or more.
    >>> round(float(fact(4)), 3)
    24.0
    """
    return lax.exp(lax.lgamma(n + 1.0))


def jet(
    fun: Callable[..., Any],
    primals: Sequence[Any],
    series: Sequence[Any],
    factorial_scaled: bool = True,
    **_: Any,
) -> tuple[Any, Any]:
    """The value and the derivatives of a function along a curve.

    Args:
      fun: function of pytrees of arrays.
      primals: its arguments, at the beginning of the curve.
      series: for each argument, its derivatives along the curve (first, second, ...), each a pytree
        like the argument, or a sequence of such pytrees per leaf.
      factorial_scaled: terms are derivatives; False: coefficients of the power series.
    Integers move along curves, too, with terms that are floats: their values stay integers. Where
    all their terms are known to be zero they are constants, by which arrays can be indexed.
    Returns:
      (values of fun, derivatives of each value): a pytree like the result, with a list of terms for
      each leaf.
    Raises:
      ValueError: arguments have different numbers of terms, or primals and series of arguments.
      TypeError: an operation on integers that move has no meaning for floats.

    >>> value, (first, second) = jet(jnp.sin, (0.5,), ((1.0, 0.0),))
    >>> [round(float(x), 4) for x in (value, first, second)]
    [0.4794, 0.8776, -0.4794]
    """
    if len(primals) != len(series):
        fail(
            ValueError,
            f"jet got {len(primals)} primals and {len(series)} series.",
            "Each argument has a value and a series.",
            "Pass ([0., ...],) for an argument that does not change.",
        )
    leaves, terms, orders = [], [], set()
    for primal, given in zip(primals, series):
        flat, tree = tree_flatten(primal)
        leaves += [jnp.asarray(x) for x in flat]
        columns: list[Terms] = [[] for _ in flat]
        for term in given:
            found, term_tree = tree_flatten(term)
            if term_tree != tree:
                fail(
                    ValueError,
                    f"jet got a term with structure {term_tree} for a primal with {tree}.",
                    fix="Each term is a pytree like its argument.",
                )
            for column, x in zip(columns, found):
                column.append(x)
        orders.add(len(given))
        terms += columns
    if len(orders) > 1:
        fail(
            ValueError,
            f"jet terms have inconsistent lengths for different arguments: {sorted(orders)}.",
            "The series of all arguments end at the same order.",
            "Fill in zeros.",
        )
    order = orders.pop() if orders else 0
    tree = tree_flatten(tuple(primals))[1]
    out_tree: list[Any] = []

    def flat_fun(*xs: Any) -> list[Any]:
        out, found = tree_flatten(fun(*tree_unflatten(tree, xs)))
        out_tree[:] = [found]
        return out

    closed = make_jaxpr(flat_fun)(*leaves)
    scales = [1 if factorial_scaled else math.factorial(k + 1) for k in range(order)]
    inputs = [_scaled(x, column, scales) for x, column in zip(leaves, terms)]
    values, found = _along(closed, leaves, inputs, order)
    series_out = [
        [t / s for t, s in zip(_dense(x, column, order), scales)]
        for x, column in zip(values, found)
    ]
    return tree_unflatten(out_tree[0], values), tree_unflatten(out_tree[0], series_out)


def _of_dtype(term: Any, dtype: Any) -> Array:
    x = jnp.asarray(term)
    return x if x.dtype == dtype else x.astype(dtype)


def _scaled(x: Array, terms: Terms, scales: Sequence[int]) -> Any:
    """A series as derivatives."""
    if jnp.issubdtype(x.dtype, jnp.inexact):
        return [_of_dtype(t, x.dtype) * s for t, s in zip(terms, scales)]
    if all(is_concrete(t) and not np.any(t) for t in terms):
        return zero_series
    return [_of_dtype(t, to_inexact_dtype(x.dtype)) * s for t, s in zip(terms, scales)]


jet2 = partial(jet, factorial_scaled=False)


class _Pair:
    """A value with its series, while a program is evaluated."""

    __slots__ = ("primal", "terms")

    def __init__(self, primal: Any, terms: Any) -> None:
        self.primal = primal
        self.terms = terms


def _along(
    closed: ClosedJaxpr, primals: Sequence[Any], series: Sequence[Any], order: int
) -> tuple[list[Any], list[Any]]:
    """A program's results and their series."""

    def apply(eqn: JaxprEqn, values: Sequence[Any]) -> Sequence[Any]:
        xs = [v.primal if type(v) is _Pair else v for v in values]
        terms = [v.terms if type(v) is _Pair else zero_series for v in values]
        outs, found = _apply(eqn, xs, terms, order)
        return [x if s is zero_series else _Pair(x, s) for x, s in zip(outs, found)]

    inputs = [x if s is zero_series else _Pair(x, s) for x, s in zip(primals, series)]
    outs = eval_jaxpr(closed.jaxpr, closed.consts, *inputs, apply=apply)
    pairs = [v if type(v) is _Pair else _Pair(v, zero_series) for v in outs]
    return [p.primal for p in pairs], [p.terms for p in pairs]


def _apply(
    eqn: JaxprEqn, primals: list[Any], series: list[Any], order: int
) -> tuple[Sequence[Any], Sequence[Any]]:
    primitive, params = eqn.primitive, eqn.params
    program = called_programs.get(primitive)
    if all(s is zero_series for s in series):
        outs = (
            primitive.bind_all(*primals, **params)
            if program is None
            else params[program].eval(*primals)
        )
        return outs, [zero_series] * len(outs)
    if program is not None and primitive not in jet_rules and primitive.name not in _KEPT:
        return _along(params[program], primals, series, order)
    if any(s is not zero_series and _is_discrete(x) for x, s in zip(primals, series)):
        return primitive.bind_all(*primals, **params), _of_discrete(eqn, primals, series, order)
    rule = jet_rules.get(primitive)
    if rule is None:
        return _by_nesting(primitive, params, primals, series, order)
    dense = [_dense(x, s, order) for x, s in zip(primals, series)]
    out, found = rule(primals, dense, **params)
    if primitive.multiple_results:
        return out, found
    return [out], [found]


def _is_discrete(x: Any) -> bool:
    return not jnp.issubdtype(jnp.result_type(x), jnp.inexact)


def _of_discrete(eqn: JaxprEqn, primals: list[Any], series: list[Any], order: int) -> Sequence[Any]:
    """Series of the results where integers or booleans move: those of the operation on floats."""
    if eqn.primitive is lax.convert_element_type_p:
        kind = eqn.params["new_dtype"]
        if not jnp.issubdtype(kind, jnp.inexact):
            return [zero_series if jnp.issubdtype(kind, np.bool_) else series[0]]
        return [[t.astype(kind) for t in series[0]]]
    if eqn.primitive is lax.div_p:  # of integers: a step function
        return [zero_series]
    floats = [
        x.astype(to_inexact_dtype(x.dtype)) if jnp.issubdtype(x.dtype, jnp.integer) else x
        for x in map(jnp.asarray, primals)
    ]
    moving = [zero_series if x.dtype == bool else s for x, s in zip(floats, series)]
    return _apply(eqn, floats, moving, order)[1]


# Their programs are run several times, or one of several is.
_KEPT = frozenset({"scan", "while", "cond"})


def _dense(x: Any, terms: Any, order: int) -> Terms:
    if terms is zero_series:
        return [jnp.zeros_like(x)] * order
    return [jnp.zeros_like(x) if type(t) is ZeroTerm else t for t in terms]


def _by_nesting(
    primitive: Primitive, params: Any, primals: list[Any], series: list[Any], order: int
) -> tuple[list[Any], list[Any]]:
    """The derivatives at 0 of t -> primitive(curve(t)), each by a jvp of the one before."""
    moving = [i for i, s in enumerate(series) if s is not zero_series]
    terms = [_dense(primals[i], series[i], order) for i in moving]

    def along(t: Any) -> list[Any]:
        operands = list(primals)
        for i, column in zip(moving, terms):
            total: Any = 0
            for k in range(order, 0, -1):
                total = (total + column[k - 1] / math.factorial(k)) * t.astype(column[k - 1].dtype)
            operands[i] = primals[i] + total
        return list(primitive.bind_all(*operands, **params))

    def derivative(f: Callable[..., Any]) -> Callable[..., Any]:
        return lambda t: jvp(f, (t,), (jnp.ones_like(t),))[1]

    start = jnp.zeros((), jnp.result_type(*(column[0].real for column in terms)))
    outs, found, f = along(start), [], along
    for _ in range(order):
        f = derivative(f)
        found.append(f(start))
    columns = []
    for i, x in enumerate(outs):
        fixed = not jnp.issubdtype(x.dtype, jnp.inexact)
        columns.append(zero_series if fixed else [row[i] for row in found])
    return outs, columns


# -- rules -----------------------------------------------------------------------------------------


def linear_prop(prim: Primitive, primals_in: Any, series_in: Any, **params: Any) -> Any:
    """Term by term.

    >>> value, terms = linear_prop(lax.neg_p, (3.0,), ([1.0, 5.0],))
    >>> float(value), [float(term) for term in terms]
    (-3.0, [-1.0, -5.0])
    """
    return prim.bind(*primals_in, **params), [
        prim.bind(*terms, **params) for terms in zip(*series_in)
    ]


def deflinear(prim: Primitive) -> None:
    """A primitive that is linear in all operands together.

    >>> twice_p = pyjax.extend.core.Primitive("doc_twice")
    >>> _ = twice_p.def_impl(lambda x: 2 * x)
    >>> deflinear(twice_p)
    >>> jet_rules[twice_p]((3.0,), ([1.0, 5.0],))
    (6.0, [2.0, 10.0])
    """
    jet_rules[prim] = partial(linear_prop, prim)


def zero_prop(prim: Primitive, primals_in: Any, series_in: Any, **params: Any) -> Any:
    """The derivative is zero.

    >>> zero_prop(lax.floor_p, (2.5,), ([1.0],))
    (Array(2., dtype=float32, weak_type=True), zero_series)
    """
    return prim.bind(*primals_in, **params), zero_series


def defzero(prim: Primitive) -> None:
    """A primitive whose derivative is zero.

    >>> step_p = pyjax.extend.core.Primitive("doc_step")
    >>> _ = step_p.def_impl(lambda x: float(x > 0))
    >>> defzero(step_p)
    >>> jet_rules[step_p]((3.0,), ([1.0],))
    (1.0, zero_series)
    """
    jet_rules[prim] = partial(zero_prop, prim)


def def_comp(prim: Primitive, comp: Callable[..., Any], **kwargs: Any) -> None:
    """A primitive that is a composition of others: the rule is that of `comp`.

    >>> square_p = pyjax.extend.core.Primitive("doc_square")
    >>> def_comp(square_p, lambda x: x * x)
    >>> value, terms = jet_rules[square_p]((3.0,), ([1.0, 0.0],))
    >>> float(value), [float(term) for term in terms]
    (9.0, [6.0, 2.0])
    """

    def rule(primals_in: Any, series_in: Any, **params: Any) -> Any:
        return jet(lambda *xs: comp(*xs, **kwargs), primals_in, series_in)

    jet_rules[prim] = rule


def deriv_prop(prim: Primitive, deriv: Callable[..., Any], primals_in: Any, series_in: Any) -> Any:
    """A function of one number, by the series of its derivative: k w_k = Σ j u_j d_(k-j).

    >>> value, terms = deriv_prop(lax.exp_p, jnp.exp, (0.0,), ([1.0, 0.0],))
    >>> float(value), [float(term) for term in terms]
    (1.0, [1.0, 1.0])
    """
    (x,), (terms,) = primals_in, series_in
    slope, rest = jet(deriv, (x,), (terms[:-1],))
    u = [x, *_coefficients(terms)]
    d = [slope, *_coefficients(rest)]
    w = [sum(j * u[j] * d[k - j] for j in range(1, k + 1)) / k for k in range(1, len(terms) + 1)]
    return prim.bind(x), _derivatives(w)


def def_deriv(prim: Primitive, deriv: Callable[..., Any]) -> None:
    """A function of one number, whose derivative is `deriv`.

    >>> exp_p = pyjax.extend.core.Primitive("doc_exp")
    >>> _ = exp_p.def_impl(jnp.exp)
    >>> def_deriv(exp_p, jnp.exp)
    >>> [float(term) for term in jet_rules[exp_p]((0.0,), ([1.0, 0.0],))[1]]
    [1.0, 1.0]
    """
    jet_rules[prim] = lambda primals_in, series_in, **_: deriv_prop(
        prim, deriv, primals_in, series_in
    )


def _coefficients(terms: Sequence[Any]) -> Terms:
    return [t / math.factorial(k) for k, t in enumerate(terms, 1)]


def _derivatives(coefficients: Sequence[Any]) -> Terms:
    return [c * math.factorial(k) for k, c in enumerate(coefficients, 1)]


_LINEAR = (
    "neg add sub real imag conj reshape transpose squeeze expand_dims broadcast_in_dim reduce_sum "
    "rev slice concatenate pad cumsum copy convert_element_type reduce_precision complex"
).split()
_ZERO = (
    "floor ceil round sign is_finite eq ne lt le gt ge and or xor not stop_gradient argmax argmin "
    "iota"
).split()
for _name in _LINEAR:
    if hasattr(lax, f"{_name}_p"):
        deflinear(getattr(lax, f"{_name}_p"))
for _name in _ZERO:
    if hasattr(lax, f"{_name}_p"):
        defzero(getattr(lax, f"{_name}_p"))


def _bilinear(prim: Primitive) -> Rule:
    """Cauchy's product."""

    def rule(primals_in: Any, series_in: Any, **params: Any) -> Any:
        (x, y), (xs, ys) = primals_in, series_in
        u, v = [x, *_coefficients(xs)], [y, *_coefficients(ys)]

        def product(a: Any, b: Any) -> Any:
            return prim.bind(a, b, **params)

        w = [
            sum((product(u[j], v[k - j]) for j in range(1, k + 1)), product(u[0], v[k]))
            for k in range(1, len(u))
        ]
        return product(x, y), _derivatives(w)

    return rule


for _prim in (lax.mul_p, lax.dot_general_p, lax.conv_general_dilated_p):
    jet_rules[_prim] = _bilinear(_prim)


def _div(primals_in: Any, series_in: Any, **_: Any) -> Any:
    (x, y), (xs, ys) = primals_in, series_in
    u, v = [x, *_coefficients(xs)], [y, *_coefficients(ys)]
    w = [lax.div(x, y)]
    for k in range(1, len(u)):
        w.append((u[k] - sum(v[j] * w[k - j] for j in range(1, k + 1))) / y)
    return w[0], _derivatives(w[1:])


def _log(primals_in: Any, series_in: Any, **_: Any) -> Any:
    (x,), (xs,) = primals_in, series_in
    u, w = [x, *_coefficients(xs)], [lax.log(x)]
    for k in range(1, len(u)):
        rest: Any = sum(j * w[j] * u[k - j] for j in range(1, k))
        w.append((u[k] - rest / k) / x)
    return w[0], _derivatives(w[1:])


def _power(x: Any, xs: Any, exponent: Any, value: Any) -> Any:
    """x^r by k x w_k = Σ (r j - (k - j)) u_j w_(k-j), for x that is not 0."""
    u, w = [x, *_coefficients(xs)], [value]
    for k in range(1, len(u)):
        total = sum((exponent * j - (k - j)) * u[j] * w[k - j] for j in range(1, k + 1))
        w.append(total / (k * x))
    return value, _derivatives(w[1:])


def _integer_pow(primals_in: Any, series_in: Any, *, y: int, **_: Any) -> Any:
    """By repeated products, which are right at 0, too."""
    (x,), (xs,) = primals_in, series_in
    if y == 0:
        return jnp.ones_like(x), [jnp.zeros_like(x)] * len(xs)
    multiply = jet_rules[lax.mul_p]
    result: Any = None
    square: Any = (x, xs)
    n = abs(y)
    while n:
        if n % 2:
            result = square if result is None else _times(multiply, result, square)
        square = _times(multiply, square, square)
        n //= 2
    if y < 0:
        one = jnp.ones_like(x)
        return _div((one, result[0]), ([jnp.zeros_like(x)] * len(xs), result[1]))
    return result


def _times(multiply: Rule, a: Any, b: Any) -> Any:
    return multiply((a[0], b[0]), (a[1], b[1]))


def _riccati(prim: Primitive, a: float, b: float, c: float) -> Rule:
    """w' = (a + b w + c w²) u'."""

    def rule(primals_in: Any, series_in: Any, **params: Any) -> Any:
        (x,), (xs,) = primals_in, series_in
        u, w, d = [x, *_coefficients(xs)], [prim.bind(x, **params)], []
        for k in range(1, len(u)):
            squares = sum(w[j] * w[k - 1 - j] for j in range(k))
            d.append(b * w[k - 1] + c * squares + (a if k == 1 else 0))
            w.append(sum(j * u[j] * d[k - j] for j in range(1, k + 1)) / k)
        return w[0], _derivatives(w[1:])

    return rule


def _pair(first: Primitive, second: Primitive, sign: int, which: int) -> Rule:
    """s' = c u', c' = sign s u'."""

    def rule(primals_in: Any, series_in: Any, **params: Any) -> Any:
        (x,), (xs,) = primals_in, series_in
        u = [x, *_coefficients(xs)]
        s, c = [first.bind(x, **params)], [second.bind(x, **params)]
        for k in range(1, len(u)):
            s.append(sum(j * u[j] * c[k - j] for j in range(1, k + 1)) / k)
            c.append(sign * sum(j * u[j] * s[k - j] for j in range(1, k + 1)) / k)
        found = (s, c)[which]
        return found[0], _derivatives(found[1:])

    return rule


jet_rules[lax.div_p] = _div
jet_rules[lax.log_p] = _log
jet_rules[lax.integer_pow_p] = _integer_pow
jet_rules[lax.sqrt_p] = lambda x, s, **_: _power(x[0], s[0], 0.5, lax.sqrt(x[0]))
jet_rules[lax.rsqrt_p] = lambda x, s, **_: _power(x[0], s[0], -0.5, lax.rsqrt(x[0]))
jet_rules[lax.cbrt_p] = lambda x, s, **_: _power(x[0], s[0], 1 / 3, lax.cbrt(x[0]))
jet_rules[lax.exp_p] = _riccati(lax.exp_p, 0, 1, 0)
jet_rules[lax.tanh_p] = _riccati(lax.tanh_p, 1, 0, -1)
jet_rules[lax.tan_p] = _riccati(lax.tan_p, 1, 0, 1)
jet_rules[lax.logistic_p] = _riccati(lax.logistic_p, 0, 1, -1)
jet_rules[lax.expm1_p] = _riccati(lax.expm1_p, 1, 1, 0)
for _which, _prim in enumerate((lax.sin_p, lax.cos_p)):
    jet_rules[_prim] = _pair(lax.sin_p, lax.cos_p, -1, _which)
for _which, _prim in enumerate((lax.sinh_p, lax.cosh_p)):
    jet_rules[_prim] = _pair(lax.sinh_p, lax.cosh_p, 1, _which)

def_deriv(lax.log1p_p, lambda x: 1 / (1 + x))
def_deriv(lax.asin_p, lambda x: lax.rsqrt(1 - x * x))
def_deriv(lax.acos_p, lambda x: -lax.rsqrt(1 - x * x))
def_deriv(lax.atan_p, lambda x: 1 / (1 + x * x))
def_deriv(lax.asinh_p, lambda x: lax.rsqrt(x * x + 1))
def_deriv(lax.acosh_p, lambda x: lax.rsqrt((x - 1) * (x + 1)))
def_deriv(lax.atanh_p, lambda x: 1 / (1 - x * x))
def_deriv(lax.erf_p, lambda x: 2 / math.sqrt(math.pi) * lax.exp(-x * x))
def_deriv(lax.erfc_p, lambda x: -2 / math.sqrt(math.pi) * lax.exp(-x * x))
def_deriv(lax.lgamma_p, lax.digamma)
def_comp(lax.pow_p, lambda x, y: lax.exp(y * lax.log(x)))
def_comp(lax.atan2_p, lambda y, x: _atan2(y, x))


def _atan2(y: Any, x: Any) -> Any:
    """arctan of the quotient that is not large, plus the angle that does not change nearby."""
    steep = lax.abs(y) > lax.abs(x)
    slope = jnp.where(steep, -x / jnp.where(steep, y, 1), y / jnp.where(steep, 1, x))
    turn = jnp.where(steep, math.pi / 2, jnp.where(x < 0, math.pi, 0)).astype(y.dtype)
    return lax.atan(slope) + turn * jnp.where(y < 0, -1, 1).astype(y.dtype)


def _abs(primals_in: Any, series_in: Any, **_: Any) -> Any:
    (x,), (xs,) = primals_in, series_in
    if jnp.iscomplexobj(x):
        return jet(lambda v: lax.sqrt(v.real**2 + v.imag**2), primals_in, series_in)
    sign = jnp.where(x < 0, -1, 1).astype(x.dtype)
    return lax.abs(x), [sign * t for t in xs]


def _select(primals_in: Any, series_in: Any, **params: Any) -> Any:
    which, *cases = primals_in
    found = [lax.select_n_p.bind(which, *terms, **params) for terms in zip(*series_in[1:])]
    return lax.select_n_p.bind(which, *cases, **params), found


jet_rules[lax.abs_p] = _abs
jet_rules[lax.select_n_p] = _select

__all__ = [
    "ZeroSeries",
    "ZeroTerm",
    "def_comp",
    "def_deriv",
    "deflinear",
    "defzero",
    "deriv_prop",
    "fact",
    "jet",
    "jet2",
    "jet_rules",
    "linear_prop",
    "zero_prop",
    "zero_series",
    "zero_term",
]
