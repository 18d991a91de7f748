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
        cases=("numpy.linalg.lstsq f(c, c[:, 0])[0] float32",),
        modes="vjp jvp",
        title="Rounding of gradients and halves (gradients)",
        reason="Both are within the error of the method: powers of two in halves, "
        "least squares with an exact fit, products at the edge of "
        "underflow, cond of zero.",
        example="numpy.linalg.lstsq f(c, c[:, 0])[0] float32",
    ),
    Difference(
        cases=("numpy.linalg.eigvalsh f(q, symmetrize_input=False) float32",),
        modes="vjp jvp",
        title="Gradient of eigvalsh of one triangle",
        reason="pyjax differentiates at the matrix whose eigenvalues it returns, that of one triangle. "
        "JAX differentiates at the mean of the matrix and its transpose, which has other eigenvalues.",
        example="numpy.linalg.eigvalsh f(q, symmetrize_input=False) float32",
    ),
    Difference(
        cases=("numpy.linalg.pinv f(m, rtol=0.9) float32",),
        modes="vjp jvp",
        title="Gradient of pinv with truncated singular values",
        reason="The gradient is that of the truncated inverse, and agrees with finite differences. "
        "JAX's formula holds for matrices whose other singular values are zero.",
        example="numpy.linalg.pinv f(m, rtol=0.9) float32",
    ),
    Difference(
        cases=("numpy.linalg.cond f(z) float32", "numpy.exp2 f(u) float16"),
        modes="value jit vmap",
        title="Rounding of gradients and halves",
        reason="Both are within the error of the method: powers of two in halves, "
        "least squares with an exact fit, products at the edge of "
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
    Difference(
        cases=(
            "numpy.nonzero f(u) float32",
            "numpy.count_nonzero f(u) float32",
            "numpy.unique f(u) float32",
            "numpy.where f(u) float32",
            "numpy.where f(a > b, a, b) float32",
            "numpy.isin f(u, v) float32",
            "numpy.sort f(u) float32",
            "numpy.argsort f(u) float32",
            "numpy.sort_complex f(u) float32",
            "numpy.digitize f(x, u) float32",
            "numpy.searchsorted f(u, x) float32",
            "numpy.searchsorted f(jnp.sort(w), u) float32",
            "numpy.searchsorted f(jnp.sort(w), u, side='right') float32",
            "numpy.searchsorted f(v, u, sorter=jnp.argsort(v)) float32",
        ),
        modes="value jit vmap vjp jvp",
        title="Subnormals are not zero",
        reason="In comparisons, searches and sorts JAX takes subnormals for zero; here they have their place between zero and the smallest normal number, as in NumPy. Binary searches in unsorted vectors also take other ways.",
        example="numpy.nonzero f(u) float32",
    ),
    Difference(
        cases=(
            "numpy.unique* float32",
            "numpy.union1d * float32",
            "numpy.intersect1d * float32",
            "numpy.setdiff1d * float32",
            "numpy.setxor1d * float32",
        ),
        modes="vjp jvp",
        title="Gradients of sets",
        reason="The distinct values are elements of the operand, and gradients go back to the first of each; JAX gives zeros.",
        example="numpy.unique_values f(v) float32",
    ),
    Difference(
        cases=(
            "numpy.repeat f(m, jnp.array([0, 2, 1]), axis=0) float32",
            "numpy.repeat f(one, jnp.array([2]), axis=0) float32",
            "numpy.split f(m, jnp.array([1])) float32",
            "numpy.delete f(v, jnp.array([0, 0])) float32",
            "numpy.compress f(jnp.array([True, False]), v) float32",
            "numpy.choose f(jnp.array([0, 1, 0]), [v[:3], x[:3]]) float32",
            "numpy.trim_zeros f(jnp.array([0, 0, 1, 2, 0])) float32",
            "numpy.from_dlpack f(m) float32",
            "numpy.ravel_multi_index f((jnp.array([0, 1]), jnp.array([2, 0])), (2, 3)) float32",
            "numpy.unique f(e) *",
            "numpy.unique f(e2, axis=0) *",
            "numpy.union1d f(e, e) *",
        ),
        modes="jit",
        title="Constants under jit",
        reason="An array that is made of constants, or has no elements, is known while a function is traced, so that shapes may depend on it.",
        example="numpy.repeat f(m, jnp.array([0, 2, 1]), axis=0) float32",
    ),
    Difference(
        cases=(
            "numpy.intersect1d f(x, v[:2], assume_unique=True) *",
            "numpy.setxor1d f(x, v[:2], assume_unique=True) *",
            "numpy.array_repr f(e) float32",
            "numpy.array_str f(e) float32",
        ),
        modes="jit vmap",
        title="Classes of exceptions (traced)",
        reason="Values that must be known while tracing raise ConcretizationTypeError or TracerArrayConversionError; JAX raises another class, or prints an empty array.",
        example="numpy.intersect1d f(x, v[:2], assume_unique=True) float32",
    ),
    Difference(
        cases=(
            "numpy.apply_over_axes f(jnp.max, m, 0) float32",
            "numpy.polyadd f(e, v) float32",
            "numpy.sort f(v, kind='quicksort') *",
            "numpy.meshgrid f(s, v) float32",
            "numpy.ix_ f(kv) float32",
            "numpy.ix_ f(j, kv) float32",
            "numpy.bartlett f(-2) float32",
            "numpy.blackman f(-2) float32",
            "numpy.hamming f(-2) float32",
            "numpy.hanning f(-2) float32",
            "numpy.array_str f(s) float32",
            "numpy.quantile f(v, 0) *",
            "numpy.quantile f(v, 1) *",
            "numpy.quantile f(v, 2) *",
            "numpy.nanquantile f(v, 0) *",
            "numpy.nanquantile f(v, 1) *",
            "numpy.nanquantile f(v, 2) *",
            "numpy.histogram f(e) *",
            "numpy.histogram_bin_edges f(e) *",
            "numpy.histogramdd f((v, x), bins=(2, 3)) *",
        ),
        modes="value jit vmap vjp jvp",
        title="Accepted as by NumPy",
        reason="pyjax takes these arguments as NumPy does (integers as quantiles, boolean indices of ix_, empty windows and histograms, names of sorting algorithms); JAX refuses them.",
        example="numpy.apply_over_axes f(jnp.max, m, 0) float32",
    ),
    Difference(
        cases=(
            "lax.linalg.cholesky_update f(*) float32",
            "lax.linalg.qdwh f(*) float32",
            "lax.linalg.qdwh f(h, is_hermitian=True)[1] float32",
            "lax.linalg.qdwh f(q)[0] float32",
            "lax.linalg.symmetric_product f(*) float32",
        ),
        modes="vjp jvp",
        title="Gradients that JAX lacks",
        reason="These have derivatives here; JAX raises an error.",
        example="lax.linalg.symmetric_product f(m, q) float32",
    ),
    Difference(
        cases=("lax.linalg.cholesky_update f(z, h[0]) float32",),
        modes="value jit vmap",
        title="Update of a singular Cholesky factor",
        reason="Open: the update of a factor that is zero gives NaN; JAX gives the factor of the rank-one matrix.",
        example="lax.linalg.cholesky_update f(z, h[0]) float32",
    ),
    Difference(
        cases=(
            "numpy.place f(v, kv, [1]) float32",
            "numpy.fill_diagonal f(q, 9) float32",
            "numpy.diagonal f(m, 0, 0, 0) float32",
            "numpy.polyval f(m, v) float32",
            "numpy.arange f(0, 1, 0) float32",
            "numpy.arange f(1j) float32",
            "numpy.arange f(None) float32",
            "numpy.arange f(inf) float32",
            "numpy.tri f(-1) float32",
            "numpy.zeros f(-1) float32",
            "numpy.ones f(-1) float32",
            "numpy.empty f(-1) float32",
            "numpy.full f(-1, 0) float32",
            "numpy.full_like f(m, v) float32",
            "numpy.array f(None) float32",
            "numpy.array f([1, None]) float32",
            "numpy.asarray f(None) float32",
            "numpy.broadcast_shapes f((2,), (3,)) float32",
            "numpy.broadcast_shapes f((-1,)) float32",
            "numpy.ravel_multi_index f((1,), (2, 3)) float32",
            "numpy.sort f(v, order='a') *",
            "numpy.median f(e) *",
            "numpy.median f(e2, axis=0) *",
            "numpy.nanmedian f(e) *",
            "numpy.nanmedian f(e2, axis=0) *",
            "numpy.quantile f(e, 0.5) *",
            "numpy.percentile f(e, 0.5) *",
            "numpy.nanquantile f(e, 0.5) *",
            "numpy.nanpercentile f(e, 0.5) *",
            "numpy.histogram f(v, bins='auto') *",
            "numpy.matvec f(m, v) *",
            "numpy.matvec f(qq, q) *",
            "numpy.vecmat f(v, m) *",
            "numpy.vecmat f(q, qq) *",
            "numpy.fft.ihfft f(s) float32",
            "numpy.fft.ihfft f(m, axis=2) float32",
            "lax.linalg.cholesky f(m) float32",
            "lax.linalg.eigh f(m) float32",
            "lax.linalg.hessenberg f(eq) float32",
            "lax.linalg.householder_product f(v, v) float32",
            "lax.linalg.lu f(v) float32",
            "lax.linalg.qr f(v) float32",
            "lax.linalg.svd f(v) float32",
            "lax.linalg.triangular_solve f(v, q) float32",
            "lax.bitcast_convert_type f(v, '*') bool",
        ),
        modes="value jit vmap",
        title="Classes of exceptions (numpy and linear algebra)",
        reason="ValueError for shapes and values that do not fit, TypeError for types, NotImplementedError for what is missing; in these cases JAX raises another class for the same mistake.",
        example="numpy.fill_diagonal f(q, 9) float32",
    ),
    Difference(
        cases=(
            "numpy.select f([v], [x]) float32",
            "numpy.unravel_index f(1.5, (2, 3)) float32",
            "numpy.fft.fft f(e) float32",
            "numpy.fft.ifft f(e) float32",
            "numpy.fft.irfft f(e) float32",
            "numpy.fft.hfft f(e) float32",
            "numpy.fft.fft2 f(e2) float32",
            "numpy.fft.ifft2 f(e2) float32",
            "numpy.fft.rfft2 f(e2) float32",
            "numpy.fft.irfft2 f(e2) float32",
            "numpy.fft.fftn f(e2) float32",
            "numpy.fft.ifftn f(e2) float32",
            "numpy.fft.rfftn f(e2) float32",
            "numpy.fft.irfftn f(e2) float32",
            "numpy.fft.fftfreq f(2.5) float32",
        ),
        modes="value jit vmap vjp jvp",
        title="Refused as by NumPy",
        reason="NumPy refuses these arguments too: transforms of no points, conditions and indices that are floating point numbers.",
        example="numpy.fft.fft f(e) float32",
    ),
    Difference(
        cases=("lax.linalg.qr jnp.abs(f(m)[1]) float32",),
        modes="vjp jvp",
        title="Gradient of the QR decomposition of wide matrices",
        reason="Open: there is no rule; NotImplementedError says so.",
        example="lax.linalg.qr jnp.abs(f(m)[1]) float32",
    ),
    Difference(
        cases=("lax.linalg.lu f(*) float32", "lax.linalg.schur f(eq) float32"),
        modes="value",
        title="Tuples for lists (linear algebra)",
        reason="Decompositions return tuples, as documented; these of JAX return lists.",
        example="lax.linalg.lu f(q) float32",
    ),
    Difference(
        cases=(
            "numpy.take_along_axis f(v, i, 0, mode='promise_in_bounds') float32",
            "lax.select_n f(j, v[:5], x[:5], v[1:6]) float32",
            "lax.select_n f(i, *[x[0] + v[:1].repeat(11)] * 3) float32",
        ),
        modes="value jit vmap vjp jvp",
        title="Broken promises",
        reason="An index out of bounds that was promised to be in bounds, or a selector without a case, has no defined result (memory is safe in both).",
        example="numpy.take_along_axis f(v, i, 0, mode='promise_in_bounds') float32",
    ),
    Difference(
        cases=("numpy.array_repr f(*) float32",),
        modes="value",
        title="Name of the class in texts",
        reason="NumPy's, `array(...)`; JAX writes the name of its class.",
        example="numpy.array_repr f(v) float32",
    ),
    Difference(
        cases=("numpy.fromfunction f(lambda i: 1, (2,)) float32",),
        modes="value jit",
        title="fromfunction with a constant",
        reason="The result is what the function returns, as in NumPy; JAX maps it and makes an array of constants.",
        example="numpy.fromfunction f(lambda i: 1, (2,)) float32",
    ),
    Difference(
        cases=(
            "numpy.unravel_index f(5, (2, 3)) float32",
            "numpy.unravel_index f(0, (0,)) float32",
        ),
        modes="value jit",
        title="Weak types of unravel_index",
        reason="The indices are int32 here; weakly typed in JAX if the index is a Python scalar.",
        example="numpy.unravel_index f(5, (2, 3)) float32",
    ),
    Difference(
        cases=("numpy.vander f(v*) float32",),
        modes="vjp jvp",
        title="Gradient of vander at zero",
        reason="The derivative of a power of zero is that of the polynomial; JAX gives NaN.",
        example="numpy.vander f(v) float32",
    ),
    Difference(
        cases=("numpy.partition *",),
        modes="value jit vmap vjp jvp",
        title="Zeros in partition",
        reason="partition sorts, and zeros of both signs keep their order; JAX puts -0.0 first, and its gradients have zeros of other signs.",
        example="numpy.partition f(w, 2)[2] float32",
    ),
    Difference(
        cases=(
            "numpy.nanquantile f(w, jnp.array([0.0, 0.25, 1.0, nan, -1.0, 2.0])) float32",
            "numpy.nanpercentile f(w, jnp.array([0.0, 0.25, 1.0, nan, -1.0, 2.0])) float32",
        ),
        modes="value jit vmap vjp jvp",
        title="Quantiles that are infinite",
        reason="The least and the largest element are quantiles without interpolation; JAX multiplies infinities by zero. (Quantiles beyond 0 and 1 are taken as these.)",
        example="numpy.nanquantile f(w, jnp.array([0.0, 0.25, 1.0, nan, -1.0, 2.0])) float32",
    ),
    Difference(
        cases=("numpy.histogram f(w) float32", "numpy.histogram f(v, bins=3, weights=v) int32"),
        modes="value jit vmap",
        title="Histograms of NaN and of integer weights",
        reason="Edges that are NaN have no defined counts; integer weights are summed as integers, as in NumPy.",
        example="numpy.histogram f(v, bins=3, weights=v) int32",
    ),
    Difference(
        cases=(
            "numpy.power f(a, b) int32",
            "numpy.power f(a, b) uint8",
            "numpy.pow f(a, b) int32",
            "numpy.pow f(a, b) uint8",
        ),
        modes="value jit vmap",
        title="Integer powers with large exponents",
        reason="Powers wrap around for every exponent (2**64 is 0 in 32 bits), as in NumPy, and those with negative exponents are rounded to zero; JAX looks at six bits of the exponent.",
        example="numpy.power f(a, b) int32",
    ),
    Difference(
        cases=(
            "numpy.power f(a, b) complex64",
            "numpy.pow f(a, b) complex64",
            "numpy.float_power f(a, b) complex64",
        ),
        modes="value jit vmap vjp jvp",
        title="Powers of complex zero",
        reason="0 to an exponent with positive real part is 0; JAX gives NaN where the exponent is not real.",
        example="numpy.power f(a, b) complex64",
    ),
    Difference(
        cases=(
            "numpy.power f(a, b) float32",
            "numpy.pow f(a, b) float32",
            "numpy.float_power f(a, b) float32",
            "numpy.corrcoef f(v) float32",
        ),
        modes="vjp jvp",
        title="Gradients near underflow",
        reason="Products at the edge of underflow keep their digits; the gradient of a correlation with itself, which is 0, is rounding.",
        example="numpy.power f(a, b) float32",
    ),
    Difference(
        cases=(
            "numpy.fmod f(a, b) bool",
            "lax.convert_element_type f(u, 'bool') complex64",
            "numpy.fmax f(a, b) float32",
            "numpy.roots f(jnp.array([1.0, nan])) float32",
        ),
        modes="value jit vmap",
        title="Booleans, zeros and NaN as in NumPy",
        reason="fmod of booleans by False is 0, an imaginary number is true, the larger of two zeros is the first, and roots of a polynomial with NaN keep the imaginary part.",
        example="numpy.fmod f(a, b) bool",
    ),
    Difference(
        cases=(
            "scipy.special.digamma f(u) float32",
            "scipy.special.log_ndtr f(u) float32",
            "scipy.special.gammaln f(u) float32",
            "scipy.special.loggamma f(u) float32",
            "scipy.special.betaln f(p, r) float32",
            "scipy.special.bernoulli f(5) float32",
            "scipy.special.bernoulli f(20) float32",
            "scipy.special.expn f(3, unit) float32",
            "nn.gelu f(u) float32",
        ),
        modes="value jit vmap vjp jvp",
        title="Digits of special functions",
        reason="JAX's series lose digits near zeros of these functions and in their tails, and expn at 0 is 1 / (n - 1).",
        example="scipy.special.gammaln f(u) float32",
    ),
    Difference(
        cases=(
            "scipy.special.exp1 f(u) float32",
            "scipy.special.expi f(u) float32",
            "scipy.special.gammainc f(p, r) float32",
            "scipy.special.rel_entr f(p, r) float32",
            "scipy.special.zeta f(p, r) float32",
        ),
        modes="value jit vmap vjp jvp",
        title="Special functions at the ends of their domains",
        reason="The limits are SciPy's (exponential integrals at 0 and infinity, gammainc at order 0, NaN for a NaN in rel_entr). Zeta has no derivative by its order, which JAX lets pass; at order 0 it is NaN.",
        example="scipy.special.expi f(u) float32",
    ),
    Difference(
        cases=(
            "scipy.special.i0e f(u) float32",
            "scipy.special.i1e f(u) float32",
            "scipy.special.ndtri f(u) float32",
            "scipy.special.i0 f(u) float32",
            "scipy.special.beta f(p, r) float32",
            "scipy.special.gammaincc f(p, r) float32",
            "scipy.special.poch f(p, r) float32",
            "nn.tanh f(u) float32",
            "nn.glu f(m) float32",
        ),
        modes="vjp jvp",
        title="Gradients of special functions at the ends of their domains",
        reason="pyjax gives the limit, or keeps digits, where JAX's formulas cancel or give NaN.",
        example="scipy.special.i0 f(u) float32",
    ),
    Difference(
        cases=(
            "nn.sigmoid f(2) float32",
            "nn.standardize f(*) float32",
            "nn.glu f(*) float32",
            "nn.dot_product_attention f(*) float32",
        ),
        modes="value jit vmap vjp jvp",
        title="Arguments of nn",
        reason="A Python scalar is an operand of sigmoid; ValueError stands for shapes that do not fit, where JAX raises another class; values of attention may have a width of their own; attention needs a batch of heads.",
        example="nn.sigmoid f(2) float32",
    ),
)


def known(key: str, mode: str) -> bool:
    return any(d.covers(key, mode) for d in KNOWN)
