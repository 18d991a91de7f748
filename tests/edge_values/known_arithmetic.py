"""Known differences of values, for known_differences.py."""

# ruff: noqa: E501 - the key of a case stays in one piece

from __future__ import annotations

from tests.edge_values.known_difference import Difference

ARITHMETIC: tuple[Difference, ...] = (
    Difference(
        cases=(
            "numpy.sinc f(u) float32",
            "numpy.sinc f(u) float16",
            "numpy.sinc f(u) int32",
            "numpy.sinc f(u) uint8",
            "numpy.sinc f(True) float32",
        ),
        modes="value jit vmap",
        title="sinc of integers",
        reason="It is zero there; JAX gives the sine of pi rounded, over pi.",
        example="numpy.sinc f(True) float32",
    ),
    Difference(
        cases=(
            "lax.exp2 f(u) float16",
            "lax.igamma f(p, r) float32",
            "lax.polygamma f(p, r) float32",
            "lax.zeta f(p, r) float32",
        ),
        modes="value jit vmap",
        title="At NaN, infinities and near zeros",
        reason="pyjax gives the limit (or, in zeta and betainc at arguments without one, NaN) or "
        "leaves out what does not contribute where JAX gives NaN or shares with a NaN, or "
        "keeps digits where JAX's formula cancels.",
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
        reason="Where NaN meets an order of complex numbers, powers of complex zero, or products "
        "overflow, XLA's expansions give other parts than pyjax's.",
        example="lax.integer_pow f(u, 64) complex64",
    ),
    Difference(
        cases=(
            "numpy.linalg.cond f(z) float32",
            "numpy.exp2 f(u) float16",
        ),
        modes="value jit vmap",
        title="Rounding of gradients and halves",
        reason="Both are within the error of the method: powers of two in halves, least squares with "
        "an exact fit, products at the edge of underflow, cond of zero.",
        example="numpy.linalg.cond f(z) float32",
    ),
    Difference(
        cases=(
            "numpy.modf f(u) float32",
            "numpy.modf f(u) int32",
            "numpy.modf f(u) float16",
        ),
        modes="value jit vmap",
        title="Signs and infinities of modf",
        reason="Signs of zeros and the fractional part of infinities are NumPy's; JAX subtracts.",
        example="numpy.modf f(u) float32",
    ),
    Difference(
        cases=(
            "numpy.ndarray v.at[j].power(2) float32",
            "numpy.ndarray v.at[i].power(2) float32",
        ),
        modes="value jit vmap",
        title="Repeated indices in at[].power",
        reason="An element that is named twice is raised once, as NumPy's `x[i] **= 2` does; JAX "
        "raises it once for each time it is named.",
        example="numpy.ndarray v.at[j].power(2) float32",
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
            "nn.one_hot f(u, 3) float32",
            "nn.one_hot f(u, 3) bfloat16",
            "nn.one_hot f(u, 3) float64",
        ),
        modes="value jit vmap vjp",
        title="Subnormals are not zero",
        reason="In comparisons, searches and sorts JAX takes subnormals for zero; here they have "
        "their place between zero and the smallest normal number, as in NumPy. Binary "
        "searches in unsorted vectors also take other ways.",
        example="numpy.nonzero f(u) float32",
    ),
    Difference(
        cases=(
            "numpy.take_along_axis f(v, i, 0, mode='promise_in_bounds') float32",
            "lax.select_n f(j, v[:5], x[:5], v[1:6]) float32",
            "lax.select_n f(i, *[x[0] + v[:1].repeat(11)] * 3) float32",
        ),
        modes="value jit vmap vjp",
        title="Broken promises",
        reason="An index out of bounds that was promised to be in bounds, or a selector without a "
        "case, has no defined result (memory is safe in both).",
        example="numpy.take_along_axis f(v, i, 0, mode='promise_in_bounds') float32",
    ),
    Difference(
        cases=(
            "numpy.partition jnp.sort(f(v, 3)[:3]) float32",
            "numpy.partition f(v, 3)[3] float32",
            "numpy.partition f(v, -1)[-1] float32",
            "numpy.partition f(w, 2)[2] float32",
            "numpy.partition f(m, 1, axis=0)[1] float32",
        ),
        modes="value jit vmap vjp",
        title="Zeros in partition",
        reason="partition sorts, and zeros of both signs keep their order; JAX puts -0.0 first, and "
        "its gradients have zeros of other signs.",
        example="numpy.partition f(w, 2)[2] float32",
    ),
    Difference(
        cases=(
            "numpy.nanquantile f(w, jnp.array([0.0, 0.25, 1.0, nan, -1.0, 2.0])) float32",
            "numpy.nanpercentile f(w, jnp.array([0.0, 0.25, 1.0, nan, -1.0, 2.0])) float32",
        ),
        modes="value jit vmap",
        title="Quantiles that are infinite",
        reason="The least and the largest element are quantiles without interpolation; JAX "
        "multiplies infinities by zero. (Quantiles beyond 0 and 1 are taken as these.)",
        example="numpy.nanquantile f(w, jnp.array([0.0, 0.25, 1.0, nan, -1.0, 2.0])) float32",
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
        reason="Powers wrap around for every exponent (2**64 is 0 in 32 bits), as in NumPy, and "
        "those with negative exponents are rounded to zero; JAX looks at six bits of the "
        "exponent.",
        example="numpy.power f(a, b) int32",
    ),
    Difference(
        cases=(
            "numpy.power f(a, b) complex64",
            "numpy.pow f(a, b) complex64",
            "numpy.float_power f(a, b) complex64",
        ),
        modes="value jit vmap jvp vjp",
        title="Powers of complex zero",
        reason="0 to an exponent with positive real part is 0; JAX gives NaN where the exponent is "
        "not real.",
        example="numpy.power f(a, b) complex64",
    ),
    Difference(
        cases=(
            "numpy.fmod f(a, b) bool",
            "lax.convert_element_type f(u, 'bool') complex64",
            "numpy.roots f(jnp.array([1.0, nan])) float32",
        ),
        modes="value jit vmap",
        title="Booleans, zeros and NaN as in NumPy",
        reason="fmod of booleans by False is 0, an imaginary number is true, and roots of a "
        "polynomial with NaN keep the imaginary part.",
        example="numpy.fmod f(a, b) bool",
    ),
    Difference(
        cases=(
            "numpy.logaddexp2 f(a, b) float32",
            "numpy.logaddexp2 f(a, b) float16",
            "numpy.logaddexp2 f(a, b) int32",
            "numpy.logaddexp2 f(a, b) complex64",
            "numpy.logaddexp2 f(m, t) float32",
        ),
        modes="value jit vmap",
        title="logaddexp2 of equal numbers",
        reason="It is exact: log2(2 * 2**x) is x + 1. JAX scales by log(2) and back, which rounds "
        "twice.",
        example="numpy.logaddexp2 f(a, b) float32",
    ),
    Difference(
        cases=(
            "numpy.ldexp f(u, np.int32(1)) float32",
            "numpy.ldexp f(u, np.int32(1)) bfloat16",
            "numpy.ldexp f(u, np.int32(1)) float64",
        ),
        modes="value jit vmap",
        title="Subnormals in ldexp",
        reason="They are doubled; JAX flushes their exponent.",
        example="numpy.ldexp f(u, np.int32(1)) float32",
    ),
    Difference(
        cases=("numpy.trapezoid f(n) float32",),
        modes="value jit vmap",
        title="Trapezoids with infinite ends",
        reason="The terms are summed as they are. JAX subtracts half of the first and last number "
        "from the sum of all, which is NaN where one of them is infinite.",
        example="numpy.trapezoid f(n) float32",
    ),
    Difference(
        cases=("numpy.unwrap f(u) int32",),
        modes="value jit vmap",
        title="Large integers in unwrap",
        reason="Differences of the largest integers are floats here, and wrap around in JAX; beyond "
        "2**24 the sums of the corrections are rounded.",
        example="numpy.unwrap f(u) int32",
    ),
    Difference(
        cases=(
            "numpy.power f(2, u) int32",
            "numpy.power f(2, u) uint8",
            "numpy.power f(2, u) bool",
            "numpy.power f(-1, u) bool",
            "numpy.power f(0, u) complex64",
            "numpy.power f(0, u) bool",
            "numpy.power f(0.0, u) complex64",
            "numpy.power f(u, 64) complex64",
            "numpy.power f(u, 100) complex64",
            "numpy.power 2 ** u int32",
            "numpy.power 2 ** u uint8",
            "numpy.power 2 ** u bool",
            "numpy.power u ** u int32",
            "numpy.power u ** u uint8",
            "numpy.power u ** u complex64",
        ),
        modes="value jit vmap jvp vjp",
        title="Powers of scalars",
        reason="Large integer exponents and powers of complex zero are as in the entries on powers. "
        "An int to a boolean power is weakly typed here.",
        example="numpy.power f(u, 64) complex64",
    ),
    Difference(
        cases=(
            "numpy.digitize f(x, u) float16",
            "numpy.searchsorted f(u, x) float16",
        ),
        modes="value jit vmap",
        title="Unsorted and subnormal numbers in searches",
        reason="Binary searches in unsorted vectors take other ways.",
        example="numpy.digitize f(x, u) float16",
    ),
    Difference(
        cases=(
            "nn.soft_sign f(u) int32",
            "nn.squareplus f(u) int32",
            "nn.log1mexp f(u) int32",
            "nn.log_sigmoid f(u) int32",
            "nn.softmax f(u) int32",
            "nn.log_softmax f(u) int32",
            "nn.standardize f(u) int32",
            "scipy.special.softmax f(u) int32",
            "scipy.special.log_softmax f(u) int32",
        ),
        modes="value jit vmap",
        title="Integers in nn",
        reason="They are converted to floats before anything is computed. JAX computes differences, "
        "squares and negatives of integers, which wrap around at the largest ones.",
        example="scipy.special.softmax f(u) int32",
    ),
    Difference(
        cases=("scipy.special.polygamma f(p, r) *float*",),
        modes="value",
        title="Orders of polygamma",
        reason="Orders may be floats that are whole numbers; JAX refuses them, if they are arrays.",
        example="scipy.special.polygamma f(p, r) float32",
    ),
    Difference(
        cases=(
            "random.gamma f(key, w) float32",
            "random.gamma f(key, w) float16",
            "random.gamma f(key, w) bfloat16",
            "random.gamma f(key, w) float64",
            "random.loggamma f(key, w) float32",
            "random.loggamma f(key, w) float16",
            "random.loggamma f(key, w) bfloat16",
            "random.loggamma f(key, w) float64",
            "random.chisquare f(key, w) float32",
            "random.chisquare f(key, w) float16",
            "random.chisquare f(key, w) bfloat16",
            "random.chisquare f(key, w) float64",
            "random.t f(key, w) float32",
            "random.t f(key, w) float16",
            "random.t f(key, w) bfloat16",
            "random.t f(key, w) float64",
            "random.beta f(key, w, 2.0) float32",
            "random.beta f(key, w, 2.0) float16",
            "random.beta f(key, w, 2.0) bfloat16",
            "random.beta f(key, w, 2.0) float64",
            "random.beta f(key, 2.0, w) float32",
            "random.beta f(key, 2.0, w) float16",
            "random.beta f(key, 2.0, w) bfloat16",
            "random.beta f(key, 2.0, w) float64",
            "random.f f(key, w, 2.0) float32",
            "random.f f(key, w, 2.0) float16",
            "random.f f(key, w, 2.0) bfloat16",
            "random.f f(key, w, 2.0) float64",
            "random.f f(key, 2.0, w) float32",
            "random.f f(key, 2.0, w) float16",
            "random.f f(key, 2.0, w) bfloat16",
            "random.f f(key, 2.0, w) float64",
        ),
        modes="value jit vmap",
        title="Distributions without mass",
        reason="A parameter of -0.0 is one of 0, and a negative one has no distribution: NaN. JAX "
        "divides by them, and gives infinities or numbers.",
        example="random.gamma f(key, w) float32",
    ),
    Difference(
        cases=(
            "numpy.logical_or f.reduceat(v, jnp.array([0, 3, 1])) float32",
            "numpy.logical_or f.reduceat(v, jnp.array([0, 3, 1])) int32",
        ),
        modes="value jit vmap vjp",
        title="reduceat of logical functions",
        reason="Truth values, as in NumPy. JAX puts elements of the operand among them, in its type.",
        example="numpy.logical_or f.reduceat(v, jnp.array([0, 3, 1])) float32",
    ),
)
