"""`nn` and `scipy.special`.

Gradients of special functions are sums of functions with errors of their own: they are compared
less closely than values.
"""

from __future__ import annotations

from functools import partial

from tests.edge_values.rows import GRAD, Row, rows

special = partial(rows, "scipy.special", grad=GRAD)
nn = partial(rows, "nn", grad=GRAD)
ALL_FLOATS = ("float32", "float16", "bfloat16", "float64", "int32")
SHAPES = ["f(s)", "f(e2)", "f(2)"]
MORE_SHAPES = [*SHAPES, "f(e)", "f(2.5)", "f(True)"]
ALONG_AXIS = ["f(n, axis=1)", "f(m)", "f(e2, axis=1)", "f(m, axis=(0, 1))", "f(s)", "f(m, axis=2)"]
MASKED = ["f(m, axis=1, where=k)", "f(n, axis=1, where=k)", "f(m, axis=1, where=k & ~k)"]

UNARY = "digamma entr erf erfc erfinv expit gammasgn i0e i1e log_ndtr logit ndtr ndtri"
LESS_CLOSE = "factorial gamma gammaln i0 i1 loggamma"
BINARY = "beta betaln boxcox boxcox1p gammainc gammaincc kl_div poch rel_entr xlog1py xlogy zeta"
ACTIVATIONS = (
    "celu elu gelu hard_sigmoid hard_silu hard_swish hard_tanh identity leaky_relu log1mexp "
    "log_sigmoid mish relu relu6 selu sigmoid silu soft_sign softplus sparse_plus "
    "sparse_sigmoid squareplus swish tanh"
)

ROWS: tuple[Row, ...] = (
    *special(UNARY, ["f(u)"], ALL_FLOATS, ulp=20, grad_ulp=100, elementwise=True),
    *special(LESS_CLOSE, ["f(u)"], ALL_FLOATS, ulp=40, grad_ulp=200, elementwise=True),
    # The reference does not return for float64.
    *special(
        "exp1 expi",
        ["f(u)"],
        ("float32", "float16", "bfloat16", "int32"),
        ulp=40,
        grad_ulp=200,
        elementwise=True,
    ),
    *special(f"{UNARY} {LESS_CLOSE} exp1 expi", MORE_SHAPES, ulp=20),
    *special(BINARY, ["f(p, r)"], ALL_FLOATS, ulp=100, grad_ulp=400, elementwise=True),
    *special(
        BINARY,
        ["f(s, v)", "f(e2, one)", "f(2, 3)"],
        ulp=20,
        grad_ulp=100,
    ),
    *special("betainc", ["f(x[3:], x[3:], unit[:4])"], norm=100, grad_norm=1000),
    *special("betainc", ["f(2.5, 1.5, unit)"], norm=100, grad_norm=1000),
    *special(
        "betainc",
        ["f(p, r, o)", "f(2.5, 1.5, u)", "f(2, 3, 1)", "f(e, s, s)"],
        ALL_FLOATS,
        norm=100,
        ulp=1024,
        grad="",
        elementwise=True,
    ),
    *special("polygamma", ["f(0, x[3:])", "f(2, x[3:])", "f(-1, s)"], ulp=100, grad_ulp=400),
    *special(
        "polygamma",
        ["f(0, u)", "f(1, u)", "f(-2, u)", "f(p, r)"],
        ALL_FLOATS,
        ulp=256,
        grad="u",
        grad_ulp=1024,
        elementwise=True,
    ),
    *special("expn", ["f(2, x[2:])", "f(0, s)", "f(3, unit)"], ulp=40, grad_ulp=200),
    *special(
        "expn",
        ["f(0, u)", "f(1, u)", "f(7, u)", "f(1, e)"],
        ALL_FLOATS,
        ulp=40,
        grad_ulp=400,
        elementwise=True,
    ),
    *special("comb", ["f(x, 2)", "f(5, 2)", "f(s, -1)"], ulp=100, grad_ulp=400),
    *special(
        "comb",
        ["f(p, r)", "f(7, u)", "f(e, 1)"],
        ALL_FLOATS,
        ulp=200,
        grad="",
        elementwise=True,
    ),
    *special("multigammaln", ["f(x[3:], 2)", "f(s, 1)", "f(s, 0)"], ulp=40, grad_ulp=200),
    *special(
        "multigammaln",
        ["f(u, 1)", "f(u, 3)", "f(e, 2)"],
        ALL_FLOATS,
        ulp=200,
        norm=40,
        grad="",
        elementwise=True,
    ),
    *special("bernoulli", ["f(5)", "f(0)", "f(20)", "f(1)", "f(2)", "f(-1)"], ulp=8),
    *special("softmax log_softmax logsumexp", ALONG_AXIS, ulp=20, grad_norm=40),
    *special(
        "softmax log_softmax logsumexp",
        ["f(v)", "f(u)", "f(w)", "f(e)", "f(n)", "f(2.5)", "f(m, axis=())"],
        ALL_FLOATS,
        ulp=20,
        norm=20,
        grad="",
    ),
    *special("logsumexp", ["f(m, b=k)", "f(n, return_sign=True)"], ulp=20, grad_norm=40),
    *special(
        "logsumexp",
        [
            "f(m, b=-m, return_sign=True)",
            "f(m, axis=1, b=n)",
            "f(m, where=k)",
            "f(m, axis=1, where=k & ~k)",
            "f(n, axis=1, keepdims=True)",
            "f(v, b=0)",
            "f(v, b=inf)",
        ],
        ALL_FLOATS,
        ulp=20,
        norm=20,
        grad="",
    ),
    *nn(ACTIVATIONS, ["f(u)"], ALL_FLOATS, ulp=20, grad_ulp=100, elementwise=True),
    *nn(ACTIVATIONS, MORE_SHAPES, ulp=20),
    *nn("relu relu6 hard_tanh leaky_relu identity", ["f(u)"], ("uint8", "bool")),
    *nn("gelu", ["f(v, approximate=False)"], ulp=40, grad_ulp=200),
    *nn(
        "gelu",
        ["f(u, approximate=False)"],
        ALL_FLOATS,
        ulp=40,
        grad_ulp=400,
        elementwise=True,
    ),
    *nn(
        "celu elu",
        ["f(u, 0.5)", "f(u, 0.0)", "f(u, -1.0)", "f(u, inf)", "f(u, nan)", "f(m, m[0])"],
        ulp=20,
        grad_ulp=100,
        elementwise=True,
    ),
    *nn(
        "leaky_relu squareplus",
        ["f(u, 0.1)", "f(u, 0)", "f(u, -2.0)", "f(u, inf)", "f(m, m[0])"],
        ulp=20,
        grad_ulp=100,
        elementwise=True,
    ),
    *nn("softmax log_softmax logsumexp logmeanexp standardize", ALONG_AXIS, norm=40, grad_norm=200),
    *nn(
        "softmax log_softmax logsumexp logmeanexp standardize",
        ["f(v)", "f(u)", "f(w)", "f(e)", "f(n)", "f(2.5)", "f(m, axis=())", "f(m, axis=0)"],
        ALL_FLOATS,
        norm=40,
        grad="",
    ),
    *nn("softmax logsumexp logmeanexp standardize", MASKED, ALL_FLOATS, norm=40, grad_norm=200),
    *nn("log_softmax", MASKED, ALL_FLOATS, norm=40, grad_norm=200),
    *nn(
        "standardize",
        [
            "f(m, mean=0.0)",
            "f(m, variance=4.0, epsilon=0)",
            "f(m, axis=1, epsilon=0)",
            "f(z, epsilon=0)",
            "f(m, mean=nan)",
        ],
        norm=40,
        grad_norm=200,
    ),
    *nn("glu", ["f(m)", "f(m, axis=0)", "f(v)", "f(t, axis=0)"], ulp=20, grad_ulp=100),
    *nn("glu", ["f(u)", "f(n)", "f(w[:8])", "f(e)", "f(e2)", "f(s)"], ALL_FLOATS, ulp=20, grad=""),
    *nn("one_hot", ["f(j, 4)", "f(i, 3)", "f(j, 0)", "f(v, 3)", "f(j, 4, axis=0)"]),
    *nn(
        "one_hot",
        [
            "f(u, 3)",
            "f(w, 3)",
            "f(m, 4)",
            "f(e, 3)",
            "f(s, 3)",
            "f(2, 3)",
            "f(j, 3, dtype=dtype)",
            "f(j, -1)",
            "f(m, 2, axis=1)",
            "f(m, 2, axis=3)",
        ],
        (*ALL_FLOATS, "uint8", "bool"),
        grad="",
    ),
    *nn(
        "dot_product_attention",
        ["f(t[None], t[None], t[None])", "f(m, m, m)", "f(t[None], t[None], t[None, :, :, :2])"],
        norm=40,
        grad_norm=200,
    ),
    *nn(
        "dot_product_attention",
        [
            "f(t, t, t)",
            "f(t, t, t, is_causal=True)",
            "f(t, t, t, scale=0.0)",
            "f(t, t, t, mask=jnp.zeros((3, 2, 2), bool))",
            "f(t, t, t, mask=jnp.array([[[True, False]]]))",
            "f(t, t, t, bias=jnp.full((3, 2, 2), -inf, dtype))",
            "f(t, t, t, bias=jnp.array([[[nan, 0.0]]], dtype))",
            "f(n[None], n[None], n[None])",
            "f(t[:0], t, t)",
        ],
        ALL_FLOATS,
        norm=40,
        grad="",
    ),
)
