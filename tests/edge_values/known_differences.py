"""Differences to the reference that stay, with their reasons.

The tests accept exactly these; docs/differences_to_jax.md is generated from them by
`python -m tests.edge_values.document`. Each names one case that shows it, and a test fails when
that case no longer differs.
"""

# ruff: noqa: E501 - the key of a case stays in one piece

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True)
class Difference:
    """Cases that differ, and why.

    Args:
      cases: patterns of case keys, as of `fnmatch` but that brackets stand for themselves.
      modes: which of value, jit, vmap, jvp, vjp differ.
      title: what differs, for the documentation.
      reason: why it stays.
      example: the key of a case that differs in the first of the modes.
    """

    cases: tuple[str, ...]
    modes: str
    title: str
    reason: str
    example: str

    def covers(self, key: str, mode: str) -> bool:
        patterns = (re.sub(r"\[", "[[]", p) for p in self.cases)
        return mode in self.modes.split() and any(fnmatchcase(key, p) for p in patterns)


# What no list of cases can say.
GENERAL = (
    (
        "Subnormal numbers",
        "pyjax computes with subnormals as IEEE 754 says. XLA's CPU backend flushes them to zero "
        "in most operations, and keeps them in some.",
    ),
    (
        "Complex functions at infinities and signed zeros",
        "Where a part of a complex operand is infinite, NaN, -0.0 or so large that its square "
        "overflows, pyjax's elementary functions keep the signs of zeros (and so the side of the "
        "branch cut) as C99 and NumPy do; XLA's formulas lose them, and give NaN in other places. "
        "These elements, and signs of zeros in complex results that round, are not compared.",
    ),
    (
        "gcd and lcm of the smallest integer",
        "pyjax gives what NumPy gives. JAX does not return for most pairs with the smallest "
        "integer of a signed type, so that no result could be recorded.",
    ),
)

KNOWN: tuple[Difference, ...] = (
    Difference(
        cases=(
            "lax.exp2 f(u) float16",
            "lax.igamma f(p, r) float32",
            "lax.betainc f(p, r, o) float32",
            "lax.polygamma f(p, r) float32",
            "lax.zeta f(p, r) float32",
        ),
        modes="value jit vmap",
        title="At NaN, infinities and near zeros",
        reason="pyjax gives the limit (or, in zeta and betainc at arguments without one, NaN) or"
        " leaves out what does not contribute where JAX gives NaN or shares with a NaN, "
        "or keeps digits where JAX's formula cancels.",
        example="lax.exp2 f(u) float16",
    ),
    Difference(
        cases=(
            "lax.integer_pow f(u, 64) complex64",
            "lax.integer_pow f(u, 100) complex64",
            "lax.pow f(a, b) complex64",
            "numpy.angle f(u, deg=True) complex64",
            "numpy.multiply f(a, b) complex64",
            "numpy.max f(u) complex64",
            "numpy.min f(u) complex64",
            "numpy.amax f(u) complex64",
            "numpy.amin f(u) complex64",
        ),
        modes="value jit vmap",
        title="Complex numbers with NaN or overflow",
        reason="Where NaN meets an order of complex numbers, powers of complex zero, or products"
        " overflow, XLA's expansions give other parts than pyjax's.",
        example="lax.integer_pow f(u, 64) complex64",
    ),
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
        modes="vjp jvp",
        title="At NaN, infinities and near zeros (gradients)",
        reason="pyjax gives the limit (or, in zeta and betainc at arguments without one, NaN) or"
        " leaves out what does not contribute where JAX gives NaN or shares with a NaN, "
        "or keeps digits where JAX's formula cancels.",
        example="lax.pow f(a, b) float32",
    ),
    Difference(
        cases=("lax.pow f(a, b) complex64",),
        modes="vjp jvp",
        title="Complex numbers with NaN or overflow (gradients)",
        reason="Where NaN meets an order of complex numbers, powers of complex zero, or products"
        " overflow, XLA's expansions give other parts than pyjax's.",
        example="lax.pow f(a, b) complex64",
    ),
    Difference(
        cases=(
            "lax.broadcast_in_dim f(m, (4, 3), (1, 0)) float32",
            "lax.broadcast_to_rank f(m, 1) float32",
            "lax.slice f(v, (-1,), (2,)) float32",
            "lax.reduce f(m, 0, lax.add, (0,)) float32",
            "numpy.linalg.norm f(e, inf) float32",
            "numpy.ndarray v == 'a' *",
            "numpy.vsplit f(v, 1) float32",
            "numpy.insert f(m, 1, jnp.ones(3), axis=1) float32",
            "numpy.take f(e, jnp.array([], int)) float32",
            "lax.clamp f(p, r, o) complex64",
            "lax.clamp f(s, v, s) complex64",
            "numpy.linalg.lstsq f(e2, e) float32",
        ),
        modes="value jit vmap",
        title="Refused where JAX gives a result",
        reason="Open: pyjax raises an error that says what to write instead (negative limits of "
        "lax.slice, permuting broadcast_in_dim, comparison with a string), or has no rule"
        " yet (gradient of the QR decomposition of wide matrices).",
        example="lax.broadcast_in_dim f(m, (4, 3), (1, 0)) float32",
    ),
    Difference(
        cases=("lax.broadcast_in_dim f(m, (4, 3), (1, 0)) float32",),
        modes="vjp jvp",
        title="Classes of exceptions (gradients)",
        reason="pyjax raises ValueError for shapes and values that do not fit and TypeError for "
        "types; in these cases JAX raises another class for the same mistake.",
        example="lax.broadcast_in_dim f(m, (4, 3), (1, 0)) float32",
    ),
    Difference(
        cases=(
            "lax.broadcast_to_rank f(m, 1) float32",
            "lax.reduce f(m, 0, lax.add, (0,)) float32",
            "numpy.linalg.qr jnp.abs(f(m)[1]) float32",
            "numpy.linalg.qr f(m, mode='complete')[0].shape float32",
            "numpy.vsplit f(v, 1) float32",
            "numpy.insert f(m, 1, jnp.ones(3), axis=1) float32",
            "lax.while_loop f(lambda c: False, lambda c: c, v) float32",
        ),
        modes="vjp jvp",
        title="Refused where JAX gives a result (gradients)",
        reason="Open: pyjax raises an error that says what to write instead (negative limits of "
        "lax.slice, permuting broadcast_in_dim, comparison with a string), or has no rule"
        " yet (gradient of the QR decomposition of wide matrices).",
        example="lax.broadcast_to_rank f(m, 1) float32",
    ),
    Difference(
        cases=(
            "lax.broadcast_like f(v, m) float32",
            "lax.stack f([v, m]) float32",
            "lax.pad f(v, v, [(0, 0, 0)]) float32",
            "lax.reshape f(m, (5,)) float32",
            "lax.tile f(v, (2, 2)) float32",
            "lax.slice f(v, (0,), (5,), (0,)) float32",
            "lax.slice f(v, (0, 0), (1, 1)) float32",
            "numpy.linalg.cholesky f(m) float32",
            "numpy.linalg.eigvalsh f(m) float32",
            "numpy.linalg.eigh f(m) float32",
            "numpy.linalg.svd f(v) float32",
            "numpy.linalg.svdvals f(v) float32",
            "numpy.linalg.qr f(v) float32",
            "numpy.linalg.cond f(eq) float32",
            "numpy.std f(m, axis=2) *",
            "numpy.var f(m, axis=2) *",
            "numpy.argmax f(m, axis=2) *",
            "numpy.reshape f(e2, (0, -1)) float32",
            "numpy.reshape f(m, (-1, -1)) float32",
            "numpy.transpose f(t, (0, 1)) float32",
            "numpy.transpose f(t, (0, 0, 1)) float32",
            "numpy.permute_dims f(t, (0, 1)) float32",
            "numpy.swapaxes f(t, 0, 3) float32",
            "numpy.swapaxes f(s, 0, 0) float32",
            "numpy.moveaxis f(t, (0, 0), (1, 2)) float32",
            "numpy.broadcast_arrays f(m, c) float32",
            "numpy.repeat f(v, -1) float32",
            "numpy.tile f(v, -1) float32",
            "numpy.concatenate f([m, v]) float32",
            "numpy.concat f([m, v]) float32",
            "numpy.hstack f([m, v]) float32",
            "numpy.append f(m, v, axis=0) float32",
            "numpy.split f(v, 0) float32",
            "numpy.split f(s, 1) float32",
            "numpy.split f(m, 2, axis=2) float32",
            "numpy.array_split f(v, 0) float32",
            "numpy.hsplit f(s, 1) float32",
            "numpy.dsplit f(m, 2) float32",
            "numpy.delete f(v, 7) float32",
            "numpy.take f(v, jnp.array([1.0])) float32",
            "lax.fft f(v + 0j, 'irfft', (4,)) float32",
            "lax.top_k f(s, 1) float32",
            "numpy.mean f(m, axis=2) *",
            "numpy.argmin f(m, axis=2) *",
        ),
        modes="value jit vmap",
        title="Classes of exceptions",
        reason="pyjax raises ValueError for shapes and values that do not fit and TypeError for "
        "types; in these cases JAX raises another class for the same mistake.",
        example="lax.broadcast_like f(v, m) float32",
    ),
    Difference(
        cases=(
            "lax.broadcast_shapes f() float32",
            "lax.dynamic_slice f(v, (-2,), (3,), allow_negative_indices=False) float32",
            "numpy.round f(u) bool",
            "numpy.round f(u, 1) bool",
            "numpy.round f(u, -1) *",
            "numpy.round f(u, decimals=2) bool",
            "numpy.round f(u, -3) *",
            "numpy.round f(e2, 2) bool",
            "numpy.around f(u) bool",
            "numpy.around f(u, 1) bool",
            "numpy.around f(u, -1) *",
            "numpy.around f(u, decimals=2) bool",
            "numpy.around f(u, -3) *",
            "numpy.around f(e2, 2) bool",
            "numpy.ndarray v.at[i].get(mode='wrap') float32",
            "numpy.ndarray v.at[i].set(9, mode='wrap') float32",
            "numpy.ndarray v.round(-1) uint8",
            "numpy.split f(m, [2, 1]) float32",
            "numpy.split f(v, [-2, 9]) float32",
            "numpy.delete f(v, [1, 3]) float32",
            "numpy.delete f(v, []) float32",
            "numpy.pad f(m, {0: 1}) float32",
            "numpy.take f(e, j) float32",
            "numpy.take_along_axis f(v, i, 0, mode='wrap') float32",
            "lax.clamp f(-1, v, 2) uint8",
            "lax.conv_general_dilated f(t, t[:1, :, :0], (1,), 'VALID') float32",
        ),
        modes="value jit vmap",
        title="Accepted where JAX raises an error",
        reason="pyjax computes what NumPy computes, or the derivative that JAX lacks.",
        example="lax.broadcast_shapes f() float32",
    ),
    Difference(
        cases=(
            "lax.zeta f(jnp.abs(v) + 1, jnp.abs(x) + 0.5) *",
            "lax.pad f(e, s, [(1, 1, 1)]) float32",
            "lax.reduce f((m, m), (s, s), lambda a, b: (a[0] + b[0], a[1] * b[1]), (1,)) float32",
            "lax.reduce_window f(n, jnp.array(-9, dtype), lax.max, (2, 1), None, ((1, 1), (0, 0))) float32",
            "lax.reduce_window f(m, jnp.array(1, dtype), lax.mul, (9, 9)) float32",
            "lax.clamp f(s, v, s) float32",
        ),
        modes="vjp jvp",
        title="Accepted where JAX raises an error (gradients)",
        reason="pyjax computes what NumPy computes, or the derivative that JAX lacks.",
        example="lax.pad f(e, s, [(1, 1, 1)]) float32",
    ),
    Difference(
        cases=(
            "numpy.linalg.eigvalsh f(q, symmetrize_input=False) float32",
            "numpy.linalg.pinv f(m, rtol=0.9) float32",
            "numpy.linalg.lstsq f(c, c[:, 0])[0] float32",
        ),
        modes="vjp jvp",
        title="Rounding of gradients and halves (gradients)",
        reason="Both are within the error of the method: powers of two in halves, truncated "
        "singular values, least squares with an exact fit, products at the edge of "
        "underflow, cond of zero.",
        example="numpy.linalg.eigvalsh f(q, symmetrize_input=False) float32",
    ),
    Difference(
        cases=("numpy.linalg.cond f(z) float32", "numpy.exp2 f(u) float16"),
        modes="value jit vmap",
        title="Rounding of gradients and halves",
        reason="Both are within the error of the method: powers of two in halves, truncated "
        "singular values, least squares with an exact fit, products at the edge of "
        "underflow, cond of zero.",
        example="numpy.linalg.cond f(z) float32",
    ),
    Difference(
        cases=(
            "numpy.sinc f(2) float32",
            "numpy.deg2rad f(2) float32",
            "numpy.rad2deg f(2) float32",
            "numpy.degrees f(2) float32",
            "numpy.radians f(2) float32",
            "numpy.angle f(2) float32",
            "numpy.spacing f(2) float32",
        ),
        modes="value jit vmap",
        title="Weak types of results of Python scalars",
        reason="Whether the result is weakly typed differs for these functions; the dtype is the"
        " same.",
        example="numpy.sinc f(2) float32",
    ),
    Difference(
        cases=("numpy.spacing f(u) float16", "numpy.modf f(u) *"),
        modes="value jit vmap",
        title="modf and spacing",
        reason="Signs of zeros and the fractional part of infinities are NumPy's; JAX subtracts."
        " The spacing of a negative half has the sign of the number, as in NumPy.",
        example="numpy.spacing f(u) float16",
    ),
    Difference(
        cases=("numpy.modf f(u) float32",),
        modes="vjp jvp",
        title="modf and spacing (gradients)",
        reason="Signs of zeros and the fractional part of infinities are NumPy's; JAX subtracts."
        " The spacing of a negative half has the sign of the number, as in NumPy.",
        example="numpy.modf f(u) float32",
    ),
    Difference(
        cases=("numpy.ndarray v.at[j].power(2) float32", "numpy.ndarray v.at[i].power(2) float32"),
        modes="value jit vmap",
        title="Repeated indices in at[].power",
        reason="An element that is named twice is raised once, as NumPy's `x[i] **= 2` does; JAX"
        " raises it once for each time it is named.",
        example="numpy.ndarray v.at[j].power(2) float32",
    ),
    Difference(
        cases=("numpy.ndarray v.at[j].power(2) float32", "numpy.ndarray v.at[i].power(2) float32"),
        modes="vjp jvp",
        title="Repeated indices in at[].power (gradients)",
        reason="An element that is named twice is raised once, as NumPy's `x[i] **= 2` does; JAX"
        " raises it once for each time it is named.",
        example="numpy.ndarray v.at[j].power(2) float32",
    ),
    Difference(
        cases=(
            "lax.approx_max_k f(m, 2, reduction_dimension=0) float32",
            "lax.approx_max_k f(v, 2) float32",
            "lax.approx_min_k f(m, 1) float32",
            "lax.approx_min_k f(v, 2) float32",
            "lax.conv_general_shape_tuple f((1, 2, 8), (3, 2, 3), (1,), 'VALID', ('NCW', 'OIW', 'NCW')) float32",
            "lax.conv_shape_tuple f((1, 2, 8), (3, 2, 3), (1,), ((0, 0),)) float32",
            "lax.conv_transpose_shape_tuple f((1, 2, 8), (2, 3, 3), (2,), 'VALID', ('NCW', 'IOW', 'NCW')) float32",
            "lax.top_k f(m, 2, axis=0) float32",
            "lax.top_k f(m, 4) float32",
            "lax.top_k f(u, 5) float32",
            "lax.top_k f(v, 0) float32",
            "lax.top_k f(v, 2) float32",
            "lax.top_k f(w, 5) float32",
        ),
        modes="value jit vmap",
        title="Tuples for lists",
        reason="top_k and its approximations return a tuple, as documented; JAX returns a list. "
        "Shapes of convolutions are tuples of Python ints.",
        example="lax.approx_max_k f(m, 2, reduction_dimension=0) float32",
    ),
    Difference(
        cases=("lax.sort f(u) float32",),
        modes="vjp jvp",
        title="Order of subnormals",
        reason="JAX sorts subnormals as equal to zero, pyjax by their value.",
        example="lax.sort f(u) float32",
    ),
    Difference(
        cases=("lax.acosh f(u) *", "numpy.arccosh f(u) *", "numpy.acosh f(u) *"),
        modes="vjp jvp",
        title="Gradient of acosh",
        reason="The derivative is 1 / (sqrt(x - 1) sqrt(x + 1)). JAX takes one root of the "
        "product, which has the wrong sign in half of the complex plane.",
        example="lax.acosh f(u) complex64",
    ),
    Difference(
        cases=("lax.digamma f(u) *",),
        modes="vjp jvp",
        title="Gradient of digamma at infinity",
        reason="It is 0, the limit; JAX gives NaN.",
        example="lax.digamma f(u) float32",
    ),
    Difference(
        cases=("numpy.isreal f(2) *", "numpy.iscomplex f(2) *", "numpy.logical_* f(2*) *"),
        modes="value jit",
        title="Booleans are never weakly typed",
        reason="Some predicates of Python scalars give weakly typed booleans in JAX. A boolean "
        "gives way to every other type anyway, so the mark has no effect, and pyjax drops it.",
        example="numpy.logical_not f(2) float32",
    ),
)


def known(key: str, mode: str) -> bool:
    return any(d.covers(key, mode) for d in KNOWN)
