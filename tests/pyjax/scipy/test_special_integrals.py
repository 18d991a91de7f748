"""Integrals and hypergeometric functions of pyjax.scipy.special against SciPy's."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import special as reference

import pyjax
import pyjax.numpy as jnp
from pyjax.scipy import special
from tests.sampling import sampled

inf, nan = np.inf, np.nan
_rng = np.random.RandomState(0)
LINE = np.concatenate([_rng.uniform(-9, 9, 200), _rng.uniform(-1, 1, 50), [1e-6, -3e-4, 50, 1e3]])
POSITIVE = np.abs(LINE)
PLANE = np.concatenate(
    [
        _rng.uniform(-9, 9, 300) + 1j * _rng.uniform(0, 9, 300),
        10 ** _rng.uniform(-6, 6, 100) + 1j * 10 ** _rng.uniform(-6, 6, 100),
    ]
)
A, B, C = _rng.uniform(0.2, 4, (3, 60))
UNIT = _rng.uniform(0, 0.99, 60)


class Function(NamedTuple):
    name: str
    part: int | None
    args: tuple[Any, ...]
    # Bounds on the relative error in units of the dtype's epsilon, for float32 and float64; SciPy's
    # own errors are in the second.
    bounds: tuple[float, float]
    # Near zeros of the function errors are compared with this.
    scale: float = 0.0


FUNCTIONS = [
    Function("dawsn", None, (LINE,), (4, 60)),
    Function("erfcx", None, (LINE[LINE > -5],), (8, 60)),
    Function("fresnel", 0, (LINE,), (6, 60)),
    Function("fresnel", 1, (LINE,), (6, 60)),
    Function("sici", 0, (LINE,), (4, 8)),
    Function("sici", 1, (POSITIVE,), (8, 8), 0.5),
    Function("spence", None, (POSITIVE,), (4, 40)),
    Function("owens_t", None, (LINE, np.roll(LINE, 7)), (12, 1000)),
    Function("wofz", None, (PLANE,), (6, 100)),
    Function("wofz", None, (LINE,), (6, 100)),
    Function("erfcx", None, (-1j * PLANE,), (6, 100)),
    Function("hyp1f1", None, (A, B, 20 * UNIT), (40, 2000)),
    Function("hyp1f1", None, (A, B, -8 * UNIT), (4000, 4000)),
    Function("hyp1f1", None, (A, A + 1, -300 * UNIT - 100), (200, 400)),
    Function("hyp2f1", None, (A, B, C, UNIT), (400, 4000)),
    Function("hyp2f1", None, (A, B, C + 5, -20 * UNIT), (200, 4000)),
]


def _id(f: Function) -> str:
    return f"{f.name}-{f.part}"


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("f", FUNCTIONS, ids=_id)
def test_values(f: Function, x64: bool) -> None:
    with pyjax.enable_x64(x64):
        kind = {True: np.float64, False: np.float32}[x64]
        complex_kind = {True: np.complex128, False: np.complex64}[x64]
        args = [a.astype(complex_kind if np.iscomplexobj(a) else kind) for a in f.args]
        found = pyjax.jit(getattr(special, f.name))(*args)
        wide = [a.astype(np.complex128 if np.iscomplexobj(a) else np.float64) for a in args]
        expected = getattr(reference, f.name)(*wide)
        if f.part is not None:
            found, expected = found[f.part], expected[f.part]
        assert found.dtype == (complex_kind if np.iscomplexobj(expected) else kind)
        held = (np.abs(expected) < 1e37) & (np.abs(expected) > 1e-36)
        assert held.sum() > 20
        found, expected = np.asarray(found)[held], expected[held]
        error = np.abs(found - expected) / np.maximum(np.abs(expected), f.scale)
        assert np.max(error) < f.bounds[x64] * np.finfo(kind).eps


# Values at limits; the reasons stand in the docstrings.
EDGES = [
    ("dawsn", ([0.0, -0.0, inf, -inf, nan, 1e30],), [0.0, -0.0, 0.0, -0.0, nan, 5e-31]),
    ("erfcx", ([0.0, inf, -inf, nan, 1e30, -30.0],), [1, 0, inf, nan, 5.6418956e-31, inf]),
    ("spence", ([0.0, 1.0, inf, -1.0, nan],), [np.pi**2 / 6, 0, -inf, nan, nan]),
    (
        "owens_t",
        ([0.0, 1.0, inf, 1.0, 0.0, 0.0, nan, 1.0], [1.0, 0.0, 1.0, inf, inf, -inf, 1.0, nan]),
        [0.125, 0.0, 0.0, 0.07932763, 0.25, -0.25, nan, nan],
    ),
    (
        "hyp1f1",
        (
            [0.0, 1, 1, -2, -2, -3, 1, 1, nan],
            [0.0, 2, -2, 3, -2, -2, 2, 2, 1],
            [1.0, 0, 0.5, 1.5, 0.5, 0.5, inf, -inf, 1],
        ),
        [1, 1, inf, 0.1875, 1.625, inf, inf, 0, nan],
    ),
    (
        "hyp2f1",
        (
            [0.0, 1, 1, 1, 1, -2, -2, -1, 1, 1, nan],
            [0.0, 2, 2, 1, 2, 3, 3, 2, 2, 2, 1],
            [0.0, 3, 3, 3, -2, 1.5, 1.5, -2, 3, 3, 1],
            [1.0, 0, 1, 1, 0.5, 0.5, 3, 0.95, 1.5, -inf, 0.5],
        ),
        [1, 1, inf, 2, inf, -0.2, 17.8, 1.95, inf, 0, nan],
    ),
]


@pytest.mark.parametrize("name, args, values", EDGES, ids=[e[0] for e in EDGES])
def test_limits(name: str, args: Any, values: Any) -> None:
    result = np.asarray(getattr(special, name)(*(jnp.array(a, jnp.float32) for a in args)))
    np.testing.assert_allclose(result, np.float32(values), rtol=3e-7)
    np.testing.assert_array_equal(np.signbit(result)[result == 0], np.signbit(values)[result == 0])


def test_limits_of_pairs() -> None:
    x = jnp.array([0.0, -0.0, inf, -inf, nan], jnp.float32)
    half, quarter = 0.5, np.float32(np.pi / 2)
    for part in special.fresnel(x):
        np.testing.assert_array_equal(part, [0, -0.0, half, -half, nan])
    sine, cosine = special.sici(x)
    np.testing.assert_array_equal(sine, [0, -0.0, quarter, -quarter, nan])
    np.testing.assert_array_equal(cosine, [-inf, -inf, 0, nan, nan])


def test_the_plane_far_out() -> None:
    points = [1j, -1j, 1e30j, complex(inf, 1), complex(1, inf), 3 + 1e-20j, 5 - 3j]
    found = special.wofz(jnp.array(points, jnp.complex64))
    np.testing.assert_allclose(found, reference.wofz(points).astype(np.complex64), rtol=2e-6)
    np.testing.assert_allclose(found.real[5], np.exp(-9.0), rtol=1e-6)
    assert np.isnan(special.wofz(complex(nan, 1)))


SLOPES = [
    ("dawsn", (np.array([-7.0, -2.0, 0.0, 0.3, 1.7, 5.0]),)),
    ("erfcx", (np.array([-2.0, 0.0, 0.3, 1.7, 50.0]),)),
    ("erfcx", (np.array([0.3 + 0.2j, 2 - 1j, -0.4 + 3j]),)),
    ("wofz", (np.array([0.3 + 0.2j, 2 - 1j, -0.4 + 3j, 8 + 0.1j]),)),
    ("wofz", (np.array([-2.0, 0.0, 0.4, 5.0]),)),
    ("fresnel", (np.array([-3.0, -0.2, 0.0, 0.7, 2.1, 7.7]),)),
    ("sici", (np.array([0.2, 1.0, 5.0, 30.0]),)),
    ("spence", (np.array([0.1, 0.4, 1.0, 1.7, 9.0]),)),
    ("owens_t", (np.array([-1.3, 0.2, 2.0]), np.array([0.4, -3.0, 1.1]))),
    ("hyp1f1", (np.array([1.3, -0.7, 2.0]), np.array([2.2, 1.1, 0.3]), np.array([0.7, 9.0, -7.0]))),
    (
        "hyp2f1",
        (
            np.array([1.3, -0.7, 2.0, 1.3]),
            np.array([2.2, 1.1, 0.3, 1.1]),
            np.array([0.7, 2.9, 1.3, 3.4]),
            np.array([0.3, 0.9, -2.3, 0.7]),
        ),
    ),
]


@sampled("name, args", SLOPES, every=2, ids=[s[0] for s in SLOPES])
def test_derivatives(name: str, args: tuple[Any, ...]) -> None:
    f = getattr(special, name)
    with pyjax.enable_x64(True):
        tangents = tuple((0.3 + k) * np.ones_like(a) for k, a in enumerate(args))
        h = 1e-6
        above = f(*(a + h * t for a, t in zip(args, tangents, strict=True)))
        below = f(*(a - h * t for a, t in zip(args, tangents, strict=True)))
        numeric = pyjax.tree.map(lambda a, b: (a - b) / (2 * h), above, below)
        forward = pyjax.jit(lambda *x: pyjax.jvp(f, x, tangents)[1])(*args)
        for a, b in zip(pyjax.tree.leaves(forward), pyjax.tree.leaves(numeric), strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-6, atol=2e-8)
        out, back = pyjax.vjp(f, *args)
        weights = pyjax.tree.map(lambda x: np.cos(np.arange(x.size)).astype(x.dtype), out)
        backward = sum(np.sum(a * t) for a, t in zip(back(weights), tangents, strict=True))
        pairs = zip(pyjax.tree.leaves(forward), pyjax.tree.leaves(weights), strict=True)
        expected = sum(np.sum(np.asarray(a) * w) for a, w in pairs)
        # Of a complex function of real numbers, the real part.
        expected = expected if np.iscomplexobj(args[0]) else np.real(expected)
        np.testing.assert_allclose(backward, expected, rtol=1e-9)


SECOND = [
    (special.dawsn, 0.7, -1.4204202),
    (special.spence, 0.7, 0.7988495),
    (lambda x: special.fresnel(x)[0] + 2 * special.fresnel(x)[1], 0.7, -1.4815421),
    (lambda x: special.hyp1f1(1.3, 2.2, x), 0.7, 0.7417542),
    (lambda x: special.hyp2f1(1.3, 2.2, 0.7, x), 0.2, 55.04842),
]


@pytest.mark.parametrize("f, x, value", SECOND)
def test_second_derivatives(f: Any, x: float, value: float) -> None:
    assert float(pyjax.grad(pyjax.grad(f))(x)) == pytest.approx(value, rel=4e-6)


@pytest.mark.parametrize("name", ["dawsn", "erfcx", "fresnel", "sici", "hyp1f1", "owens_t"])
def test_half_precision_is_rounded_once(name: str) -> None:
    arity = {"hyp1f1": 3, "owens_t": 2}.get(name, 1)
    args = [jnp.array([0.3, 1.7, 2.9]) + k for k in range(arity)]
    for dtype in (jnp.bfloat16, jnp.float16):
        narrow = [a.astype(dtype) for a in args]
        found = getattr(special, name)(*narrow)
        expected = getattr(special, name)(*(a.astype(jnp.float32) for a in narrow))
        for a, b in zip(pyjax.tree.leaves(found), pyjax.tree.leaves(expected), strict=True):
            assert a.dtype == dtype
            np.testing.assert_array_equal(a, b.astype(dtype))


ERRORS = [
    (lambda: special.dawsn(1j), ValueError, "complex"),
    (lambda: special.sici(1j), ValueError, "must be real-valued"),
    (lambda: special.fresnel(1j), NotImplementedError, "wofz"),
    (lambda: special.owens_t(1j, 1.0), ValueError, "complex"),
    (lambda: special.hyp1f1(1j, 1.0, 1.0), ValueError, "complex"),
    (lambda: special.hyp2f1(1j, 1.0, 1.0, 0.5), ValueError, "complex"),
    (lambda: special.spence(1), TypeError, r"x.dtype=int32 is not supported"),
    (lambda: special.dawsn([1.0]), TypeError, "list"),
    (lambda: special.lpmn(1, 2, jnp.ones(3)), NotImplementedError, "m!=n"),
    (lambda: special.lpmn(2, 2, jnp.ones((3, 1))), ValueError, "1D"),
    (lambda: special.lpmn(2, 2, jnp.ones(3, jnp.int32)), TypeError, "int32"),
]


@pytest.mark.parametrize("call, kind, message", ERRORS)
def test_errors(call: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        call()


def test_legendre_functions() -> None:
    points = np.array([-0.95, -0.3, 0.0, 0.5, 0.9])
    with pyjax.enable_x64(True):
        values, slopes = pyjax.jit(lambda z: special.lpmn(5, 5, z))(jnp.asarray(points))
        assert values.shape == slopes.shape == (6, 6, 5)
        normal = special.lpmn_values(5, 5, jnp.asarray(points), True)
    orders, degrees = np.mgrid[:6, :6]
    expected = reference.lpmv(orders[..., None], degrees[..., None], points)
    np.testing.assert_allclose(values, expected, rtol=1e-12, atol=1e-12)
    h = 1e-6
    numeric = reference.lpmv(orders[..., None], degrees[..., None], points + h)
    numeric = (numeric - reference.lpmv(orders[..., None], degrees[..., None], points - h)) / 2 / h
    np.testing.assert_allclose(slopes, numeric, rtol=1e-6, atol=1e-5)
    harmonics = reference.sph_harm_y(degrees[..., None], orders[..., None], np.arccos(points), 0.0)
    np.testing.assert_allclose(normal, harmonics.real, rtol=1e-12, atol=1e-12)
