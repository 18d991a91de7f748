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
            "scipy.linalg.cho_factor f(-h) float32",
            "scipy.linalg.cho_factor f(h * nan) float32",
            "scipy.linalg.cholesky f(-h) float32",
            "scipy.linalg.lu_factor f(q * nan) float32",
            "scipy.linalg.expm f(q * 1e6, max_squarings=40) float32",
            "scipy.linalg.expm f(q * nan) float32",
            "scipy.linalg.solve_sylvester f(h, -h, q, tol=1e-3) float32",
            "scipy.linalg.companion f(v * 0) float32",
            "scipy.linalg.fiedler_companion f(v * 0) float32",
            "scipy.stats.cauchy.pdf f(v, 0.5, -1.5) float32",
            "scipy.stats.gennorm.pdf f(v, -1.5) float32",
            "scipy.stats.gumbel_l.pdf f(v, 0.5, -1.5) float32",
            "scipy.stats.gumbel_r.pdf f(v, 0.5, -1.5) float32",
            "scipy.stats.laplace.pdf f(v, 0.5, -1.5) float32",
            "scipy.stats.logistic.pdf f(v, 0.5, -1.5) float32",
            "scipy.stats.norm.pdf f(v, 0.5, -1.5) float32",
            "scipy.stats.t.pdf f(v, -1.5) float32",
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
            "scipy.linalg.cho_factor f(h) float32",
            "scipy.linalg.cho_factor f(h, lower=True) float32",
            "scipy.linalg.cho_factor f(q) float32",
            "scipy.linalg.cho_solve f(jax.scipy.linalg.cho_factor(h), v[:3]) float32",
            "scipy.linalg.cho_solve f(jax.scipy.linalg.cho_factor(h), q) float32",
            "scipy.linalg.cho_solve f(jax.scipy.linalg.cho_factor(h, lower=True), q) float32",
            "scipy.linalg.cholesky f(h) float32",
            "scipy.linalg.cholesky f(h, lower=True) float32",
            "scipy.linalg.cholesky f(q) float32",
            "scipy.linalg.solve f(h, v[:3], assume_a='pos') float32",
            "scipy.linalg.solve f(q, v[:3], assume_a='pos') float32",
            "scipy.linalg.solve f(*, assume_a='pos', lower=True) float32",
            "scipy.sparse.linalg.cg f(h, v[:3])[0] float32",
            "scipy.sparse.linalg.cg f(lambda y: h @ y, v[:3])[0] float32",
            "scipy.sparse.linalg.cg f(h, v[:3], x0=x[:3])[0] float32",
            "scipy.sparse.linalg.cg f(h, v[:3], M=jnp.linalg.inv(h))[0] float32",
            "scipy.sparse.linalg.cg f(h, v[:3], M=lambda y: y / jnp.diagonal(h))[0] float32",
        ),
        modes="hvp vhp",
        title="Symmetric matrices only",
        reason="Without symmetrize_input the derivative is that among symmetric matrices, and so are "
        "those of Cholesky factors and of solutions by them or by conjugate gradients; neither the "
        "point nor the direction is one.",
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
            "scipy.linalg.solve_triangular f(qq, q[:2]) float32",
            "scipy.interpolate.RegularGridInterpolator f((x[:2],), v) float32",
            "scipy.interpolate.RegularGridInterpolator f((m,), m) float32",
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
    Difference(
        cases=("scipy.sparse.linalg.bicgstab f(h, v[:3], x0=x[:3])[0] float32",),
        modes="hvp vhp",
        title="Solved up to a tolerance",
        reason="Solutions of the default tolerance are off by more than differences may be.",
        example="scipy.sparse.linalg.bicgstab f(h, v[:3], x0=x[:3])[0] float32",
    ),
    Difference(
        cases=("scipy.linalg.qr f(c, pivoting=True)[2] float32",),
        modes="hvp vhp",
        title="Columns that complete an orthogonal factor",
        reason="They are made of packed reflectors, which have no derivative, and so no second one.",
        example="scipy.linalg.qr f(c, pivoting=True)[2] float32",
    ),
    Difference(
        cases=(
            "custom_jvp (lambda g: (g.defjvp(*lax.scan(*",
            "custom_jvp (lambda g: (g.defjvp(*g(v, x))[1])(f(lambda y, d: y * d)) *",
            "custom_jvp (lambda g: (g.defjvps(lambda t, ans, y, d: 2 * d * t, None), *",
            "custom_vjp (lambda g: (g.defvjp(*lax.scan(*",
            "custom_vjp (lambda g: (g.defvjp(*g(v, x))[1])(f(lambda y, d: y * d)) *",
            "custom_gradient f(lambda y, d: (y * d, lambda t: (2 * t * d, t * y)))(v, x) *",
            "custom_derivatives.linear_call f(lambda r, y: r * y, lambda r, t: 2 * r * t, v, x) *",
        ),
        modes="vhp",
        title="Rules that are no derivatives",
        reason="So that one sees that they are asked, they say something else than the derivative: "
        "what they make a gradient of has no symmetric second derivative.",
        example="custom_gradient f(lambda y, d: (y * d, lambda t: (2 * t * d, t * y)))(v, x) float32",
    ),
    Difference(
        cases=(
            "custom_jvp (lambda g: (g.defjvps(lambda t, ans, y, d: 2 * d * t, lambda t, ans, y, d: ans * t), *",
        ),
        modes="hvp vhp",
        title="Rules that use a value with a rule",
        reason="The rule has the value of the function, whose own derivative is that of the rule.",
        example="custom_jvp (lambda g: (g.defjvps(lambda t, ans, y, d: 2 * d * t, lambda t, ans, y, d: ans * t), g(v, x))[1])(f(lambda y, d: y * d)) float32",
    ),
    Difference(
        cases=("experimental.ode.odeint *",),
        modes="hvp vhp",
        title="Solutions of differential equations",
        reason="There is a rule for reverse mode only; its second derivatives are exact up to the "
        "tolerance of the solver.",
        example="experimental.ode.odeint f(lambda y, d: -y, s, unit[:4]) float32",
    ),
    Difference(
        cases=(
            "experimental.ode.mean_error_ratio f(v * 0, 1e-3, 1e-2, x, v) *",
            "experimental.ode.optimal_step_size f(s, nan) *",
        ),
        modes="hvp vhp vmap_vjp",
        title="Errors of steps that are zero or NaN",
        reason="Roots have no derivative at zero, and NaN has none.",
        example="experimental.ode.optimal_step_size f(s, nan) float32",
    ),
    Difference(
        cases=(
            "experimental.sparse.bcoo_dot_general f(*preferred_element_type=jnp.float16) float32",
        ),
        modes="hvp vhp",
        title="Sums in half precision (sparse products)",
        reason="Differences of results that are rounded to float16 say nothing.",
        example="experimental.sparse.bcoo_dot_general f(jax.experimental.sparse.BCOO.fromdense(m, nse=12), c, dimension_numbers=(((1,), (0,)), ((), ())), preferred_element_type=jnp.float16) float32",
    ),
    Difference(
        cases=(
            "scipy.stats.beta.logpdf f(unit, 0.5, s, 0.25, 2.0) float32",
            "scipy.stats.beta.pdf f(unit, 0.5, s, 0.25, 2.0) float32",
        ),
        modes="hvp vhp",
        title="Near a pole",
        reason="The generic point is a few steps of the differences away from one.",
        example="scipy.stats.beta.logpdf f(unit, 0.5, s, 0.25, 2.0) float32",
    ),
)
