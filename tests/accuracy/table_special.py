"""`scipy.special` and the special functions of `lax`."""

from __future__ import annotations

from typing import Any

from scipy import special

from tests.accuracy.measure import mp
from tests.accuracy.operands import alike, between, each, nonzero, positive, reals, whole
from tests.accuracy.rows import Row
from tests.accuracy.table_elementwise import OF_ONE, ONE, TWO, UNIT

THREE = "f(x, y, z)"
FOUR = "f(x, y, z, w)"
PROBABILITY = between(0, 1)


def _ndtr(x: Any) -> Any:
    return mp.erfc(-x / mp.sqrt(2)) / 2


def _log_ndtr(x: Any) -> Any:
    if x > 0:
        return mp.log1p(-_ndtr(-x))
    return mp.log(_ndtr(x))


def _ndtri(p: Any) -> Any:
    """Newton's method on the logarithm, which is concave."""
    if p in (0, 1):
        return mp.inf if p else mp.ninf
    if p > 0.5:
        return -_ndtri(1 - p)
    x = mp.mpf(float(special.ndtri_exp(float(mp.log(p)))))
    for _ in range(3):
        value = _ndtr(x)
        x -= mp.log(value / p) * value / mp.npdf(x)
    return x


def _erfinv(x: Any) -> Any:
    if abs(x) == 1:
        return x * mp.inf
    if abs(x) < 1e-10:
        root = mp.sqrt(mp.pi) / 2
        return root * x * (1 + (root * x) ** 2 / 3)
    return mp.sign(x) * -_ndtri((1 - abs(x)) / 2) / mp.sqrt(2)


def _log_gamma(x: Any) -> Any:
    if x <= 0 and x == mp.floor(x):
        return mp.inf
    return mp.loggamma(x).real if x < 1e4 else mp.loggamma(x)


def _gamma(x: Any) -> Any:
    return mp.gamma(x) if x > 0 or x != mp.floor(x) else mp.nan if x else mp.inf


def _entr(x: Any) -> Any:
    return -x * mp.log(x) if x > 0 else mp.zero if x == 0 else mp.ninf


def _rel_entr(x: Any, y: Any) -> Any:
    if x == 0 and y >= 0:
        return mp.zero
    return x * mp.log(x / y) if x > 0 and y > 0 else mp.inf


def _kl_div(x: Any, y: Any) -> Any:
    return _rel_entr(x, y) - x + y


def _xlogy(x: Any, y: Any) -> Any:
    return mp.zero if x == 0 else x * mp.log(y) if y else -mp.sign(x) * mp.inf


def _boxcox1p(x: Any, y: Any) -> Any:
    return mp.expm1(y * mp.log1p(x)) / y if y else mp.log1p(x)


def _boxcox(x: Any, y: Any) -> Any:
    if x == 0:
        return -1 / y if y > 0 else mp.ninf
    return mp.expm1(y * mp.log(x)) / y if y else mp.log(x)


def _exp1(x: Any) -> Any:
    return mp.e1(x) if x else mp.inf


def _dawsn(x: Any) -> Any:
    if abs(x) > 1e4:
        return 1 / (2 * x) + 1 / (4 * x**3)
    return mp.sqrt(mp.pi) / 2 * mp.exp(-x * x) * mp.erfi(x)


def _erfcx(x: Any) -> Any:
    if x > 1e6:
        return (1 - 1 / (2 * x * x)) / (x * mp.sqrt(mp.pi))
    return mp.exp(x * x) * mp.erfc(x)


def _digamma(x: Any) -> Any:
    return mp.digamma(x) if x > 0 or x != mp.floor(x) else mp.nan


def _owens_t(h: Any, a: Any) -> Any:
    def of_part(s: Any) -> Any:
        square = 1 + (a * s) ** 2
        return mp.exp(-h * h * square / 2) / square

    return a * mp.quad(of_part, [0, 1]) / (2 * mp.pi)


def _zeta(s: Any, a: Any) -> Any:
    with mp.workprec(500):  # its sum is of numbers near 1
        return mp.zeta(s, a)


def _multigammaln(d: int) -> Any:
    return lambda a: (
        d * (d - 1) * mp.log(mp.pi) / 4 + sum(mp.loggamma(a - mp.mpf(j) / 2) for j in range(d))
    )


def _log_beta(x: Any, y: Any) -> Any:
    if not x or not y:
        return mp.inf
    if max(x, y) > max(1e6 * min(x, y), mp.mpf(1e6)):
        little, large = min(x, y), max(x, y)
        return mp.loggamma(little) - little * mp.log(large) - little * (little - 1) / (2 * large)
    return mp.loggamma(x) + mp.loggamma(y) - mp.loggamma(x + y)


def _lower(a: Any, x: Any) -> Any:
    return mp.gammainc(a, 0, x, regularized=True)


def _upper(a: Any, x: Any) -> Any:
    return mp.gammainc(a, x, regularized=True)


def _beta_integral(a: Any, b: Any, x: Any) -> Any:
    return mp.betainc(a, b, 0, x, regularized=True)


# Docstrings say so.
_FIVE_UNITS = "float32 to 5 units in the last place"
_NORMAL = (
    Row(
        "lax.erfc scipy.special.erfc",
        mp.erfc,
        between(-30, 30),
        ulp=6,
        note="float32 to 5.1 units in the last place",
    ),
    Row("lax.erf_inv scipy.special.erfinv", _erfinv, UNIT),
    Row("scipy.special.ndtr", _ndtr, between(-40, 40), ulp=5, note=_FIVE_UNITS),
    Row("scipy.special.log_ndtr", _log_ndtr, between(-1e4, 40), ulp=5, note=_FIVE_UNITS),
    Row("scipy.special.ndtri", _ndtri, PROBABILITY),
    Row(
        "scipy.special.logit",
        lambda x: mp.log(x / (1 - x)) if 0 < x < 1 else (mp.inf if x else mp.ninf),
        PROBABILITY,
    ),
    Row("scipy.special.dawsn", _dawsn, reals),
    Row("scipy.special.erfcx", _erfcx, between(-30, 1e6)),
    Row(
        "scipy.special.owens_t",
        _owens_t,
        each(between(-10, 10), between(-10, 10)),
        call=TWO,
        cost=50,
        wide=100,
    ),
)
_GAMMA = (
    Row("scipy.special.gamma", mp.gamma, between(1e-3, 180), wide=30),
    Row("scipy.special.gamma", _gamma, between(-20.1, -0.01, spread=False), wide=400),
    Row(
        "lax.lgamma scipy.special.gammaln", _log_gamma, between(-100, 100, spread=False), wide=4000
    ),
    Row(
        "lax.lgamma scipy.special.gammaln scipy.special.loggamma",
        _log_gamma,
        nonzero(positive),
        wide=2000,
    ),
    Row("lax.digamma scipy.special.digamma", _digamma, positive, wide=4000),
    Row("lax.digamma scipy.special.digamma", _digamma, between(-30, 30, spread=False), wide=4000),
    Row("scipy.special.factorial", lambda x: mp.gamma(x + 1), between(0, 175), wide=30),
    Row(
        "scipy.special.polygamma lax.polygamma",
        lambda n, x: mp.psi(int(n), x),
        each(whole(0, 8), between(0.01, 500)),
        call=TWO,
        wide=80,
    ),
    Row(
        "scipy.special.zeta lax.zeta",
        _zeta,
        each(between(1.01, 40), between(0.01, 100)),
        call=TWO,
        cost=3,
    ),
    Row(
        "scipy.special.beta",
        mp.beta,
        each(between(1e-3, 100), between(1e-3, 100)),
        call=TWO,
        wide=1000,
    ),
    Row("scipy.special.betaln", _log_beta, each(positive, positive), call=TWO, wide=800),
    Row(
        "scipy.special.betaln",
        _log_beta,
        each(between(1e-3, 100), between(1e-3, 100)),
        call=TWO,
        wide=800,
    ),
    Row("scipy.special.poch", mp.rf, each(between(0.01, 30), between(0, 10)), call=TWO, wide=200),
    Row("scipy.special.comb", mp.binomial, each(whole(0, 120), whole(0, 60)), call=TWO, wide=600),
    Row(
        "scipy.special.comb",
        lambda n, k: mp.binomial(n, k) if k <= n else mp.zero,
        each(between(0, 100), between(0, 30)),
        call=TWO,
        wide=400,
    ),
    Row(
        "scipy.special.multigammaln", _multigammaln(3), between(1.001, 1e6), call="f(x, 3)", wide=40
    ),
    Row(
        "lax.igamma scipy.special.gammainc",
        _lower,
        alike(between(0.01, 100)),
        call=TWO,
        cost=5,
        wide=1200,
    ),
    Row(
        "lax.igammac scipy.special.gammaincc",
        _upper,
        alike(between(0.01, 100)),
        call=TWO,
        cost=5,
        wide=300,
    ),
    Row(
        "lax.betainc scipy.special.betainc",
        _beta_integral,
        each(between(0.01, 50), between(0.01, 50), PROBABILITY),
        call=THREE,
        cost=5,
        wide=4000,
    ),
)
_INTEGRALS = (
    Row("scipy.special.exp1", _exp1, between(0, 100), wide=30),
    Row("scipy.special.expi", lambda x: mp.ei(x) if x else mp.ninf, between(-100, 100), wide=60),
    Row(
        "scipy.special.expn",
        lambda n, x: mp.expint(n, x),
        each(whole(0, 20), between(1e-3, 80)),
        call=TWO,
        wide=30,
    ),
    Row("scipy.special.fresnel", mp.fresnels, between(-1000, 1000), call="f(x)[0]"),
    Row("scipy.special.fresnel", mp.fresnelc, between(-1000, 1000), call="f(x)[1]"),
    Row("scipy.special.sici", mp.si, between(-1000, 1000), call="f(x)[0]"),
    Row(
        "scipy.special.sici", lambda x: mp.ci(x) if x else mp.ninf, between(0, 1000), call="f(x)[1]"
    ),
    Row("scipy.special.spence", lambda x: mp.polylog(2, 1 - x).real, between(0, 1000)),
)
_BESSEL = (
    Row("scipy.special.i1", lambda x: mp.besseli(1, x), between(-100, 100)),
    Row(
        "lax.bessel_i1e scipy.special.i1e",
        lambda x: mp.exp(-abs(x)) * mp.besseli(1, x),
        between(-1e5, 1e5),
    ),
    Row(
        "scipy.special.bessel_jn",
        lambda x: mp.besselj(3, x),
        between(-15, 15),
        call="f(x, v=3)[3]",
        scale=ONE,
        note=OF_ONE,
    ),
    Row(
        "scipy.special.hyp1f1",
        mp.hyp1f1,
        each(between(0.1, 9), between(0.1, 9), between(-20, 20)),
        call=THREE,
        wide=1e5,
    ),
    Row(
        "scipy.special.hyp2f1",
        mp.hyp2f1,
        each(between(0.1, 9), between(0.1, 9), between(0.1, 9), between(-20, 0.99)),
        call=FOUR,
        wide=1e9,
    ),
)
_ENTROPY = (
    Row("scipy.special.entr", _entr, reals),
    Row("scipy.special.rel_entr", _rel_entr, alike(positive), call=TWO),
    Row("scipy.special.kl_div", _kl_div, alike(positive), call=TWO, wide=20),
    Row("scipy.special.xlogy", _xlogy, each(reals, positive), call=TWO),
    Row("scipy.special.xlog1py", lambda x, y: x * mp.log1p(y), each(reals, positive), call=TWO),
    Row("scipy.special.boxcox", _boxcox, each(positive, between(-3, 3)), call=TWO, wide=2000),
    Row("scipy.special.boxcox1p", _boxcox1p, each(positive, between(-3, 3)), call=TWO, wide=2000),
)

ROWS = (*_NORMAL, *_GAMMA, *_INTEGRALS, *_BESSEL, *_ENTROPY)
