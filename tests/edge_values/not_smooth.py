"""Cases without a second derivative at their generic point, and why.

Entries are those of known_differences.py, but what differs are differences of the gradient, not the
reference; so they are no part of its documentation.
"""

# ruff: noqa: E501 - the key of a case stays in one piece

from __future__ import annotations

from tests.edge_values.known_difference import Difference

NOT_SMOOTH: tuple[Difference, ...] = (
    Difference(
        cases=(
            "numpy.linalg.inv f(q * nan) float32",
            "numpy.linalg.det f(q * inf) float32",
            "numpy.linalg.cholesky f(-h) float32",
            "numpy.linalg.cholesky f(h * nan) float32",
            "numpy.linalg.eigvalsh f(h * nan) float32",
            "lax.linalg.cholesky f(-h) float32",
            "lax.linalg.lu f(q * nan) float32",
            "lax.linalg.tridiagonal_solve f(v, x * 0, v * 0, jnp.ones((7, 1))) float32",
            "lax.polygamma f(jnp.abs(v) + 1, jnp.abs(x) + 0.5) float32",
            "numpy.ldexp f(s, i) float32",
            "numpy.power f(-1, u) float32",
            "numpy.std f(s) float32",
            "numpy.std f(one, axis=-2) float32",
            "numpy.std f(m, axis=()) float32",
            "numpy.std f(m, axis=1, ddof=4) float32",
            "numpy.var f(m, axis=1, ddof=4) float32",
            "numpy.average f(m, axis=0, weights=jnp.zeros(3)) float32",
            "scipy.special.erfinv f(s) float32",
            "scipy.special.ndtri f(s) float32",
            "scipy.special.polygamma f(-2, u) float32",
            "nn.celu f(u, 0.0) float32",
            "nn.celu f(u, inf) float32",
            "nn.celu f(u, nan) float32",
            "nn.leaky_relu f(u, inf) float32",
            "nn.standardize f(m, axis=1, where=k & ~k) float32",
            "nn.standardize f(m, mean=nan) float32",
        ),
        modes="hvp vhp vmap_vjp",
        title="Nowhere finite",
        reason="The call is made for NaN, an infinity or a point outside the domain.",
        example="numpy.linalg.inv f(q * nan) float32",
    ),
    Difference(
        cases=(
            "numpy.linalg.cholesky f(q, symmetrize_input=False) float32",
            "lax.linalg.cholesky f(q, symmetrize_input=False) float32",
            "numpy.linalg.eigvalsh f(q, symmetrize_input=False) float32",
        ),
        modes="hvp vhp",
        title="Symmetric matrices only",
        reason="Without symmetrize_input the derivative is that among symmetric matrices; neither "
        "the point nor the direction is one.",
        example="lax.linalg.cholesky f(q, symmetrize_input=False) float32",
    ),
    Difference(
        cases=(
            "numpy.linalg.eigvals jnp.sort(f(h)) float32",
            "numpy.linalg.eigvals jnp.sort(f(q)) float32",
            "numpy.linalg.eigvals f(h * nan) float32",
            "lax.linalg.eig jnp.sort(f(h, *)[0]) float32",
            "numpy.roots jnp.sort(f(v[:3])) float32",
            "numpy.roots jnp.sort(f(x[:2])) float32",
            "numpy.poly f(q) float32",
        ),
        modes="hvp vhp vmap_vjp",
        title="Eigenvectors of general matrices",
        reason="The second derivative of their eigenvalues needs the first of their eigenvectors, "
        "whose scale is arbitrary; an error says so, here as in the reference.",
        example="numpy.linalg.eigvals jnp.sort(f(h)) float32",
    ),
    Difference(
        cases=(
            *(
                f"random.{name} f(key, {alpha}) float32"
                for name in ("gamma", "loggamma", "chisquare", "t")
                for alpha in ("s, (9,)", "unit + 0.5")
            ),
            "random.beta f(key, s, 1.5, (9,)) float32",
            "random.f f(key, s, 1.5, (9,)) float32",
            "random.dirichlet f(key, unit + 0.5) float32",
            "random.dirichlet f(key, unit, (2,)) float32",
        ),
        modes="hvp vhp",
        title="Derivatives of samples at a fixed quantile",
        reason="The derivative says how the sample moves at a fixed quantile (implicit "
        "reparametrisation), and the sample itself, made by rejection from a fixed key, moves "
        "otherwise: their differences are no derivatives of each other.",
        example="random.gamma f(key, s, (9,)) float32",
    ),
    Difference(
        cases=(
            "lax.broadcast_in_dim f(m, (4, 3), (1, 0)) float32",
            "lax.broadcast_to_rank f(m, 1) float32",
            "lax.reduce f(m, 0, lax.add, (0,)) float32",
            "numpy.vsplit f(v, 1) float32",
            "numpy.select f([v], [x]) float32",
            "nn.dot_product_attention f(m, m, m) float32",
            "scipy.fft.dctn f(m, s=(2,), axes=(0, 1)) float32",
            "scipy.fft.idctn f(m, s=(2,), axes=(0, 1)) float32",
        ),
        modes="hvp vhp vmap_vjp",
        title="Calls that are refused",
        reason="The call is an error here; known_errors.py says why.",
        example="numpy.vsplit f(v, 1) float32",
    ),
    Difference(
        cases=("scipy.special.zeta f(p, r) float32",),
        modes="vhp",
        title="Outside the domain",
        reason="Below one zeta is NaN, and its derivatives, which other formulas give, are not those "
        "of each other.",
        example="scipy.special.zeta f(p, r) float32",
    ),
    Difference(
        cases=(
            "lax.dot f(m, c, preferred_element_type='float32') float32",
            "nn.dot_product_attention f(t[None], t[None], t[None]) float32",
        ),
        modes="hvp vhp",
        title="Computed in float32",
        reason="As asked for, or because attention is, as in the reference: differences in a step of "
        "a thousandth do not have enough digits.",
        example="lax.dot f(m, c, preferred_element_type='float32') float32",
    ),
)
