"""`nn` and `scipy.special`.

Gradients of special functions are sums of functions with errors of their own: they are compared
less closely than values.
"""

from __future__ import annotations

from functools import partial

from tests.edge_values.rows import GRAD, Row, rows

special = partial(rows, "scipy.special", grad=GRAD)
nn = partial(rows, "nn", grad=GRAD)
HALF_TOO = ("float32", "float16")
SHAPES = ["f(s)", "f(e2)", "f(2)"]
ALONG_AXIS = ["f(n, axis=1)", "f(m)", "f(e2, axis=1)", "f(m, axis=(0, 1))", "f(s)", "f(m, axis=2)"]

ROWS: tuple[Row, ...] = (
    *special(
        "digamma entr erf erfc erfinv expit gammasgn i0e i1e log_ndtr logit ndtr ndtri",
        ["f(u)"],
        HALF_TOO,
        ulp=20,
        grad_ulp=100,
        elementwise=True,
    ),
    *special(
        "exp1 expi factorial gamma gammaln i0 i1 loggamma",
        ["f(u)"],
        ulp=40,
        grad_ulp=200,
        elementwise=True,
    ),
    *special("erf gamma gammaln entr logit ndtri expit", SHAPES, ulp=20),
    *special(
        "beta betaln boxcox boxcox1p gammainc gammaincc kl_div poch rel_entr xlog1py xlogy zeta",
        ["f(p, r)"],
        ulp=100,
        grad_ulp=400,
        elementwise=True,
    ),
    *special("xlogy betaln boxcox", ["f(s, v)", "f(e2, one)", "f(2, 3)"], ulp=20, grad_ulp=100),
    *special("betainc", ["f(x[3:], x[3:], unit[:4])"], norm=100, grad_norm=1000),
    *special("polygamma", ["f(0, x[3:])", "f(2, x[3:])", "f(-1, s)"], ulp=100, grad_ulp=400),
    *special("expn", ["f(2, x[2:])", "f(0, s)", "f(3, unit)"], ulp=40, grad_ulp=200),
    *special("comb", ["f(x, 2)", "f(5, 2)", "f(s, -1)"], ulp=100, grad_ulp=400),
    *special("multigammaln", ["f(x[3:], 2)", "f(s, 1)", "f(s, 0)"], ulp=40, grad_ulp=200),
    *special("bernoulli", ["f(5)", "f(0)", "f(20)"], ulp=8),
    *special("softmax log_softmax logsumexp", ALONG_AXIS, ulp=20, grad_norm=40),
    *special("logsumexp", ["f(m, b=k)", "f(n, return_sign=True)"], ulp=20, grad_norm=40),
    *nn(
        "celu elu gelu hard_sigmoid hard_silu hard_swish hard_tanh identity leaky_relu log1mexp "
        "log_sigmoid mish relu relu6 selu sigmoid silu soft_sign softplus sparse_plus "
        "sparse_sigmoid squareplus swish tanh",
        ["f(u)"],
        HALF_TOO,
        ulp=20,
        grad_ulp=100,
        elementwise=True,
    ),
    *nn("relu sigmoid gelu elu", SHAPES, ulp=20),
    *nn("gelu", ["f(v, approximate=False)"], ulp=40, grad_ulp=200),
    *nn("softmax log_softmax logsumexp logmeanexp standardize", ALONG_AXIS, norm=40, grad_norm=200),
    *nn("glu", ["f(m)", "f(m, axis=0)", "f(v)", "f(t, axis=0)"], ulp=20, grad_ulp=100),
    *nn("one_hot", ["f(j, 4)", "f(i, 3)", "f(j, 0)", "f(v, 3)", "f(j, 4, axis=0)"]),
    *nn(
        "dot_product_attention",
        ["f(t[None], t[None], t[None])", "f(m, m, m)", "f(t[None], t[None], t[None, :, :, :2])"],
        norm=40,
        grad_norm=200,
    ),
)
