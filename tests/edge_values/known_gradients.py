"""Known differences of gradients, for known_differences.py."""

# ruff: noqa: E501 - the key of a case stays in one piece

from __future__ import annotations

from tests.edge_values.known_difference import Difference

GRADIENTS: tuple[Difference, ...] = (
    Difference(
        cases=(
            "lax.pow f(a, b) float32",
            "lax.igamma f(p, r) float32",
            "lax.scatter_min f(v, i[:, None], x[0] + v[:1].repeat(11), lax.ScatterDimensionNumbers(update_window_dims=(), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,)), mode='clip') float32",
            "lax.scatter_min f(w, jnp.array([[1], [4], [4]]), v[:3], lax.ScatterDimensionNumbers(update_window_dims=(), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))) float32",
            "lax.scatter_max f(w, jnp.array([[1], [4], [4]]), v[:3], lax.ScatterDimensionNumbers(update_window_dims=(), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))) float32",
            "lax.cumprod f(n, 1, reverse=True) float32",
            "lax.cumlogsumexp f(w) float32",
            "lax.cumlogsumexp f(n, 1, reverse=True) float32",
            "numpy.sinc f(u) float32",
            "numpy.i0 f(u) float32",
            "numpy.frexp f(u) float32",
            "numpy.ndarray w.at[::2].min(1) float32",
            "numpy.ndarray w.at[::2].max(1) float32",
            "numpy.ndarray w.at[jnp.array([1, 2])].max(1) float32",
            "lax.igammac f(p, r) float32",
        ),
        modes="jvp vjp",
        title="At NaN, infinities and near zeros (gradients)",
        reason="pyjax gives the limit (or, in zeta and betainc at arguments without one, NaN) or "
        "leaves out what does not contribute where JAX gives NaN or shares with a NaN, or "
        "keeps digits where JAX's formula cancels.",
        example="lax.pow f(a, b) float32",
    ),
    Difference(
        cases=("lax.pow f(a, b) complex64",),
        modes="jvp vjp",
        title="Complex numbers with NaN or overflow (gradients)",
        reason="Where NaN meets an order of complex numbers, powers of complex zero, or products "
        "overflow, XLA's expansions give other parts than pyjax's.",
        example="lax.pow f(a, b) complex64",
    ),
    Difference(
        cases=(
            "numpy.linalg.lstsq f(c, c[:, 0])[0] float32",
            "numpy.linalg.solve f(qq, qq) float32",
        ),
        modes="vjp",
        title="Rounding of gradients and halves (gradients)",
        reason="Both are within the error of the method: powers of two in halves, least squares with "
        "an exact fit, products at the edge of underflow, cond of zero.",
        example="numpy.linalg.lstsq f(c, c[:, 0])[0] float32",
    ),
    Difference(
        cases=("numpy.linalg.eigvalsh f(q, symmetrize_input=False) float32",),
        modes="vjp",
        title="Gradient of eigvalsh of one triangle",
        reason="pyjax differentiates at the matrix whose eigenvalues it returns, that of one "
        "triangle. JAX differentiates at the mean of the matrix and its transpose, which has "
        "other eigenvalues.",
        example="numpy.linalg.eigvalsh f(q, symmetrize_input=False) float32",
    ),
    Difference(
        cases=("numpy.linalg.pinv f(m, rtol=0.9) float32",),
        modes="vjp",
        title="Gradient of pinv with truncated singular values",
        reason="The gradient is that of the truncated inverse, and agrees with finite differences. "
        "JAX's formula holds for matrices whose other singular values are zero.",
        example="numpy.linalg.pinv f(m, rtol=0.9) float32",
    ),
    Difference(
        cases=("numpy.modf f(u) float32",),
        modes="jvp vjp",
        title="Signs and infinities of modf (gradients)",
        reason="Signs of zeros and the fractional part of infinities are NumPy's; JAX subtracts.",
        example="numpy.modf f(u) float32",
    ),
    Difference(
        cases=(
            "numpy.ndarray v.at[j].power(2) float32",
            "numpy.ndarray v.at[i].power(2) float32",
        ),
        modes="vjp",
        title="Repeated indices in at[].power (gradients)",
        reason="An element that is named twice is raised once, as NumPy's `x[i] **= 2` does; JAX "
        "raises it once for each time it is named.",
        example="numpy.ndarray v.at[j].power(2) float32",
    ),
    Difference(
        cases=("lax.sort f(u) float32",),
        modes="vjp",
        title="Order of subnormals",
        reason="JAX sorts subnormals as equal to zero, pyjax by their value.",
        example="lax.sort f(u) float32",
    ),
    Difference(
        cases=(
            "lax.acosh f(u) float32",
            "lax.acosh f(u) complex64",
            "numpy.arccosh f(u) float32",
            "numpy.arccosh f(u) complex64",
            "numpy.acosh f(u) float32",
        ),
        modes="jvp vjp",
        title="Gradient of acosh",
        reason="The derivative is 1 / (sqrt(x - 1) sqrt(x + 1)). JAX takes one root of the product, "
        "which has the wrong sign in half of the complex plane.",
        example="lax.acosh f(u) complex64",
    ),
    Difference(
        cases=("lax.digamma f(u) float32",),
        modes="jvp vjp",
        title="Gradient of digamma at infinity",
        reason="It is 0, the limit; JAX gives NaN.",
        example="lax.digamma f(u) float32",
    ),
    Difference(
        cases=(
            "numpy.unique f(w) float32",
            "numpy.unique f(w, equal_nan=False) float32",
            "numpy.unique f(m, axis=0) float32",
            "numpy.unique f(n, axis=1) float32",
            "numpy.unique f(v, return_index=True, return_inverse=True, return_counts=True) float32",
            "numpy.unique f(w, return_index=True, return_inverse=True, return_counts=True) float32",
            "numpy.unique f(m, return_inverse=True) float32",
            "numpy.unique f(m, axis=1, return_inverse=True) float32",
            "numpy.unique_all f(v) float32",
            "numpy.unique_all f(w) float32",
            "numpy.unique_all f(m) float32",
            "numpy.unique_counts f(v) float32",
            "numpy.unique_counts f(w) float32",
            "numpy.unique_inverse f(v) float32",
            "numpy.unique_inverse f(w) float32",
            "numpy.unique_inverse f(m) float32",
            "numpy.unique_values f(v) float32",
            "numpy.unique_values f(w) float32",
            "numpy.union1d f(v, x) float32",
            "numpy.union1d f(w, v) float32",
            "numpy.union1d f(m, s) float32",
            "numpy.intersect1d f(v, x) float32",
            "numpy.intersect1d f(w, w) float32",
            "numpy.intersect1d f(v, x, return_indices=True) float32",
            "numpy.setdiff1d f(v, x) float32",
            "numpy.setdiff1d f(w, v) float32",
            "numpy.setdiff1d f(v, e) float32",
            "numpy.setxor1d f(v, x) float32",
            "numpy.setxor1d f(w, w) float32",
            "numpy.setxor1d f(e, v) float32",
        ),
        modes="vjp",
        title="Gradients of sets",
        reason="The distinct values are elements of the operand, and gradients go back to the first "
        "of each; JAX gives zeros.",
        example="numpy.unique_values f(v) float32",
    ),
    Difference(
        cases=("scipy.special.ndtr f(u) float32", "scipy.special.factorial f(u) float32"),
        modes="vjp",
        title="Signs of gradients that are zero",
        reason="The gradient underflows, or is that of a constant: its zero has the cotangent's sign.",
        example="scipy.special.ndtr f(u) float32",
    ),
    Difference(
        cases=(
            "numpy.vander f(v) float32",
            "numpy.vander f(v, 3) float32",
            "numpy.vander f(v, 3, increasing=True) float32",
        ),
        modes="vjp",
        title="Gradient of vander at zero",
        reason="The derivative of a power of zero is that of the polynomial; JAX gives NaN.",
        example="numpy.vander f(v) float32",
    ),
    Difference(
        cases=(
            "numpy.power f(a, b) float32",
            "numpy.pow f(a, b) float32",
            "numpy.float_power f(a, b) float32",
            "numpy.corrcoef f(v) float32",
        ),
        modes="jvp vjp",
        title="Gradients near underflow",
        reason="Products at the edge of underflow keep their digits; the gradient of a correlation "
        "with itself, which is 0, is rounding.",
        example="numpy.power f(a, b) float32",
    ),
    Difference(
        cases=(
            "numpy.hypot f(a, b) float32",
            "numpy.ldexp f(u, np.int32(1)) float32",
            "numpy.ldexp f(v, -200) float32",
            "numpy.logaddexp* f(a, b) float32",
        ),
        modes="jvp vjp",
        title="Gradients of hypot, ldexp and logaddexp",
        reason="The derivative of ldexp is 2**n for all n, that of logaddexp at an infinity is the "
        "limit.",
        example="numpy.hypot f(a, b) float32",
    ),
    Difference(
        cases=(
            "numpy.interp f(u, x, x) float32",
            "numpy.interp f(u, x, x, left=-9, right=9) float32",
            "numpy.interp f(u, x, v, period=5) float32",
            "numpy.polyfit f(x, x, 1) float32",
            "numpy.polyfit f(x, x * x, 2) float32",
            "numpy.polyfit f(x, x, 1, w=x * x) float32",
        ),
        modes="vjp",
        title="Rounding of gradients of fits",
        reason="The gradients are zero up to rounding, and an operand is subnormal.",
        example="numpy.interp f(u, x, x) float32",
    ),
    Difference(
        cases=(
            "lax.atanh f(u) complex64",
            "numpy.arctanh f(u) complex64",
            "lax.div f(a, b) float32",
        ),
        modes="jvp",
        title="Gradients at poles",
        reason="The derivative is infinite; JAX gives NaN, or the other sign.",
        example="lax.atanh f(u) complex64",
    ),
    Difference(
        cases=(
            "numpy.divide f(a, b) float32",
            "numpy.true_divide f(a, b) float32",
        ),
        modes="jvp",
        title="Tangents of quotients",
        reason="Both are roundings of zero, where the two terms cancel.",
        example="numpy.divide f(a, b) float32",
    ),
    Difference(
        cases=("scipy.special.entr f(u) float32",),
        modes="jvp",
        title="Tangent of entr below zero",
        reason="NaN, as in the gradient, forwards and backwards; JAX's tangent is 0.",
        example="scipy.special.entr f(u) float32",
    ),
    Difference(
        cases=(
            "scipy.special.digamma f(u) float32",
            "scipy.special.polygamma f(0, u) float32",
            "scipy.special.exp1 f(u) float32",
            "scipy.special.gammainc f(p, r) float32",
            "scipy.special.gammaincc f(p, r) float32",
            "scipy.special.log_ndtr f(u) float32",
            "scipy.special.i0 f(u) float32",
        ),
        modes="jvp vjp",
        title="Gradients of special functions at infinity",
        reason="pyjax gives the limit, JAX NaN; so too where i0 overflows. JAX's gradient of i0 at 0 "
        "is 1, not 0.",
        example="scipy.special.digamma f(u) float32",
    ),
    Difference(
        cases=(
            "scipy.special.beta f(p, r) float32",
            "scipy.special.betaln f(p, r) float32",
        ),
        modes="vjp",
        title="Gradients of beta and betaln of a negative argument and 1",
        reason="beta(a, 1) is 1 / a, with a derivative; JAX gives NaN, backwards only.",
        example="scipy.special.beta f(p, r) float32",
    ),
    Difference(
        cases=("scipy.special.expn f(3, unit) float32",),
        modes="vjp",
        title="Gradient of expn at zero",
        reason="It is -expn of n - 1, so -1 / (n - 2) at 0, where JAX gives -1 / (n - 1).",
        example="scipy.special.expn f(3, unit) float32",
    ),
    Difference(
        cases=(
            "scipy.special.zeta f(p, r) float32",
            "scipy.special.polygamma f(1, u) float32",
        ),
        modes="jvp vjp",
        title="Gradients of zeta and polygamma at poles and infinity",
        reason="They are infinite at the poles, and limits at infinity, where JAX gives NaN; and NaN "
        "for orders below 1, where zeta is NaN, and JAX's series go on.",
        example="scipy.special.zeta f(p, r) float32",
    ),
    Difference(
        cases=("scipy.special.zeta f(s, v) float32",),
        modes="vjp",
        title="Gradient of zeta at its poles",
        reason="By the argument it is infinite there, as zeta is; JAX gives NaN.",
        example="scipy.special.zeta f(s, v) float32",
    ),
    Difference(
        cases=(
            "nn.tanh f(u) float32",
            "nn.gelu f(u) float32",
            "nn.squareplus f(u, 0) float32",
            "nn.squareplus f(u, 0.1) float32",
            "scipy.special.i0e f(u) float32",
            "scipy.special.i1e f(u) float32",
        ),
        modes="jvp vjp",
        title="Digits of gradients",
        reason="1 - tanh**2 and the differences of Bessel functions cancel, and the square of ndtri "
        "magnifies its rounding: at 3 the derivative of tanh is 5.6e-6 off here and 6.4e-6 in "
        "JAX, that of gelu at -3 1.1e-5 and 2.2e-5, that of i0e at 100 3e-6 and 1.5e-5, that of "
        "i1e at 100 1e-5 and 8e-6, that of ndtri at 1e-38 1.6e-5 and 1e-7. That of squareplus "
        "with b = 0 is exactly 0 below 0, and with b = 0.1 at -10 all digits of it are right.",
        example="nn.tanh f(u) float32",
    ),
    Difference(
        cases=(
            "nn.squareplus f(u) float32",
            "nn.squareplus f(u, -2.0) float32",
            "nn.squareplus f(u, inf) float32",
        ),
        modes="vjp",
        title="Gradient of squareplus where the square overflows",
        reason="It is 0 far below zero and 1 far above, and 1/2 with an infinite b; JAX's 2 x times "
        "0 is NaN there.",
        example="nn.squareplus f(u) float32",
    ),
    Difference(
        cases=("scipy.special.i1 f(u) float32",),
        modes="jvp vjp",
        title="Gradient of i1 where it overflows",
        reason="It is infinite; JAX's is a difference of infinities, NaN.",
        example="scipy.special.i1 f(u) float32",
    ),
    Difference(
        cases=(
            "nn.tanh f(s) float32",
            "scipy.special.i1e f(s) float32",
        ),
        modes="vjp",
        title="Digits of gradients at one number",
        reason="As above: at 2.5 the derivative of tanh is 8e-7 off here and 3.6e-6 in JAX, that of "
        "i1e 2e-7 and 3e-6.",
        example="nn.tanh f(s) float32",
    ),
    Difference(
        cases=(
            "lax.expm1 f(u) float32",
            "numpy.expm1 f(u) float32",
            "nn.celu f(u) float32",
            "nn.celu f(u, 0.5) float32",
            "nn.celu f(m, m[0]) float32",
            "nn.elu f(u) float32",
            "nn.elu f(u, 0.5) float32",
            "nn.elu f(u, -1.0) float32",
            "nn.selu f(u) float32",
        ),
        modes="vjp jvp",
        title="Slopes of expm1 far below zero",
        reason="The slope is exp(x). JAX's is 1 + expm1(x), which has few digits there, or none.",
        example="lax.expm1 f(u) float32",
    ),
    Difference(
        cases=("nn.log1mexp f(u) float32",),
        modes="jvp vjp",
        title="Gradients of log1mexp below zero",
        reason="Far outside of the domain, where the value is NaN, so is the gradient; JAX's is -1.",
        example="nn.log1mexp f(u) float32",
    ),
)
