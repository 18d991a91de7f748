"""Known differences of arithmetic, statistics and collectives, for known_differences.py."""

# ruff: noqa: E501 - the key of a case stays in one piece

from __future__ import annotations

from tests.edge_values.known_difference import Difference

ARITHMETIC: tuple[Difference, ...] = (
    Difference(
        cases=("numpy.fmax f(a, b) *", "numpy.fmin f(a, b) *"),
        modes="value jit vmap vjp jvp",
        title="fmax and fmin at ties",
        reason="Equal operands share the gradient, as in maximum; JAX gives all of it to the second. Of two zeros, and of two complex NaN, the first is taken.",
        example="numpy.fmax f(a, b) float32",
    ),
    Difference(
        cases=(
            "numpy.hypot f(a, b) float32",
            "numpy.ldexp f(u, np.int32(1)) float32",
            "numpy.ldexp f(v, -200) float32",
            "numpy.logaddexp* f(a, b) float32",
            "numpy.nextafter f(a, b) float32",
        ),
        modes="vjp jvp",
        title="Gradients of hypot, ldexp and logaddexp",
        reason="The derivative of ldexp is 2**n for all n, that of logaddexp at an infinity is the limit, nextafter has none.",
        example="numpy.ldexp f(u, np.int32(1)) float32",
    ),
    Difference(
        cases=(
            "numpy.logaddexp* f(a, b) *",
            "numpy.logaddexp2 f(m, t) float32",
            "numpy.ldexp f(u, np.int32(1)) float32",
        ),
        modes="value jit vmap",
        title="Digits and branches of logaddexp",
        reason="logaddexp2 of equal numbers is exact; the imaginary part of a complex logaddexp is not wrapped around.",
        example="numpy.logaddexp f(a, b) complex64",
    ),
    Difference(
        cases=(
            "numpy.power f(2, u) *",
            "numpy.power f(-1, u) bool",
            "numpy.power f(0, u) *",
            "numpy.power f(2.0, u) *",
            "numpy.power f(0.0, u) *",
            "numpy.power f(u, 64) complex64",
            "numpy.power f(u, 100) complex64",
            "numpy.power 2 ** u *",
            "numpy.power u ** u *",
        ),
        modes="value jit vmap vjp jvp",
        title="Powers of scalars",
        reason="Large integer exponents and powers of complex zero are as in the entries on powers. Open: results of a Python scalar to an integer power are weakly typed here.",
        example="numpy.power f(2, u) int32",
    ),
    Difference(
        cases=(
            "numpy.hypot f(2, 3) float32",
            "numpy.logaddexp2 f(2, 3) float32",
            "numpy.heaviside f(2, 3) float32",
            "numpy.gradient f(v, 2.0) int32",
        ),
        modes="value jit vmap",
        title="Weak types of results of Python scalars (two operands)",
        reason="Whether the result is weakly typed differs for these functions; the dtype is the same.",
        example="numpy.hypot f(2, 3) float32",
    ),
    Difference(
        cases=("numpy.interp f(u, x, *) float32", "numpy.polyfit f(*) float32"),
        modes="vjp jvp",
        title="Rounding of gradients of fits",
        reason="The gradients are zero up to rounding, and an operand is subnormal.",
        example="numpy.interp f(u, x, x) float32",
    ),
    Difference(
        cases=(
            "numpy.unwrap f(e) int32",
            "numpy.unwrap f(u) int32",
            "numpy.trapezoid f(*) *",
            "numpy.poly f(e) *",
            "numpy.polyfit f(*) int32",
        ),
        modes="value jit vmap",
        title="Statistics and polynomials of integers, of infinities and of nothing",
        reason="Open: classes of exceptions and dtypes of empty operands differ, and differences of the largest integers overflow in other places. polyfit takes integers.",
        example="numpy.polyfit f(x, x, 1) int32",
    ),
    Difference(
        cases=(
            "lax.stop_gradient f((v, 1)) float32",
            "lax.shape_as_value f((2, 3)) float32",
            "lax.pmax *",
            "lax.pmin *",
            "lax.ppermute *",
            "lax.pbroadcast *",
            "lax.rng_bit_generator f(jnp.array([1, 2], 'uint32'), (3,), algorithm=lax.RandomAlgorithm.RNG_THREE_FRY) float32",
        ),
        modes="value jit vmap vjp jvp",
        title="Collectives and structures of lax",
        reason="pmax and pmin have derivatives, collectives under vmap are complete; Python scalars stay Python scalars, and a shape of several numbers stays a tuple.",
        example="lax.stop_gradient f((v, 1)) float32",
    ),
)
