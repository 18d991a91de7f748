"""Special functions against SciPy over wide ranges: float32 to an ulp or two, float64 to
the tolerance stated.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.special as sp

import pyjax
import pyjax.numpy as jnp
from pyjax import lax
from pyjax.scipy import special

_rng = np.random.default_rng(0)
_a = _rng.uniform(0.1, 50, 800)
_near = _a * _rng.uniform(0.5, 2, 800)

# name, function, oracle, operands, float32 tolerance in ulp (None: the value itself may underflow),
# float64 relative
CASES = [
    ("erfc", lax.erfc, sp.erfc, (np.linspace(-6, 9, 3001),), 5, 1e-13),
    ("erf_inv", lax.erf_inv, sp.erfinv, (np.linspace(-0.99999, 0.99999, 3001) + 1e-9,), 3, 1e-13),
    ("lgamma", lax.lgamma, sp.gammaln, (np.linspace(-8.93, 60.1, 3001),), 1, 1e-12),
    ("digamma", lax.digamma, sp.digamma, (np.linspace(-8.93, 60.1, 3001),), 1, 1e-12),
    # In float32 all along: JAX 0.10.2 is 4.9 and 10.2 ulp off.
    ("bessel_i0e", lax.bessel_i0e, sp.i0e, (np.linspace(-40, 40, 3001),), 4, 1e-13),
    ("bessel_i1e", lax.bessel_i1e, sp.i1e, (np.linspace(-40, 40.1, 3000),), 4, 1e-12),
    ("zeta", lax.zeta, sp.zeta, (_rng.uniform(1.1, 20, 800), _a), 1, 1e-14),
    ("igamma", lax.igamma, sp.gammainc, (_a, _near), 1, 1e-12),
    ("igammac", lax.igammac, sp.gammaincc, (_a, _near), 1, 1e-12),
    ("gamma", special.gamma, sp.gamma, (np.linspace(-8.93, 34.1, 3001),), 1, 1e-12),
    ("factorial", special.factorial, sp.factorial, (np.linspace(0, 33, 3001),), 1, 1e-12),
    # These too: JAX is up to 20 units off above -4, and all of them beyond.
    ("ndtr", special.ndtr, sp.ndtr, (np.linspace(-12, 9, 3001),), 5, 1e-12),
    ("log_ndtr", special.log_ndtr, sp.log_ndtr, (np.linspace(-30, 12, 3001),), 5, 1e-8),
    ("logit", special.logit, sp.logit, (np.linspace(1e-4, 0.9999, 3001),), 3, 1e-11),
    ("expi", special.expi, sp.expi, (np.linspace(-60, 60.1, 3000),), 1, 1e-12),
    ("exp1", special.exp1, sp.exp1, (np.linspace(1e-4, 60, 3001),), 1, 1e-12),
    ("sinc", jnp.sinc, np.sinc, (_rng.uniform(-30, 30, 3001),), 4, 1e-12),
    ("betainc", lax.betainc, sp.betainc, (_a, _near, _rng.uniform(0.2, 0.8, 800)), 1, 1e-12),
]


@pytest.mark.parametrize(
    "fn, oracle, operands, ulps", [c[1:5] for c in CASES], ids=[c[0] for c in CASES]
)
def test_float32(fn, oracle, operands, ulps):
    operands = [x.astype(np.float32) for x in operands]
    want = oracle(*[x.astype(np.float64) for x in operands])
    got = np.asarray(fn(*operands)).astype(np.float64)
    normal = np.abs(want) > 1e-37
    error = np.abs(got - want) / np.spacing(np.abs(want).astype(np.float32))
    assert error[normal].max() <= ulps


@pytest.mark.parametrize(
    "fn, oracle, operands, tol", [(*c[1:4], c[5]) for c in CASES], ids=[c[0] for c in CASES]
)
def test_float64(fn, oracle, operands, tol):
    with pyjax.enable_x64(True):
        got = np.asarray(fn(*operands))
    want = oracle(*operands)
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, want, rtol=tol, atol=1e-14)


@pytest.mark.parametrize("name", ["erf_inv", "bessel_i0e", "bessel_i1e"])
def test_float64_to_a_few_ulps(name):
    # Polynomials fitted to rounded values, and powers that cancel, had cost up to 240.
    (fn, oracle, operands), *_ = [c[1:4] for c in CASES if c[0] == name]
    with pyjax.enable_x64(True):
        got = np.asarray(fn(*operands))
    want = oracle(*operands)
    assert (np.abs(got - want) <= 12 * np.spacing(np.abs(want))).all()


@pytest.mark.parametrize("step", [2.0**-9, 2.0**-20, 2.0**-40, 2.0**-50])
@pytest.mark.parametrize("sign", [1, -1])
def test_lgamma_beside_its_zeros(step: float, sign: int) -> None:
    """Against its Taylor series in float64, which needs few terms there; relative, not absolute."""
    z = sign * step
    zetas = (
        1.6449340668482264,
        1.2020569031595942,
        1.0823232337111382,
        1.03692775514337,
        1.01734306,
    )
    terms = [-0.57721566490153286 * z]
    terms += [(-z) ** k * zeta / k for k, zeta in enumerate(zetas, 2)]
    at_one = math.fsum(terms)
    at_two = math.fsum([z, *terms, *((-1) ** (k + 1) * z**k / k for k in range(2, 7))])
    with pyjax.enable_x64(True):
        found = np.asarray(pyjax.lax.lgamma(np.array([1 + z, 2 + z, 1.0, 2.0])))
    np.testing.assert_allclose(found, [at_one, at_two, 0, 0], rtol=2e-14, atol=0)
