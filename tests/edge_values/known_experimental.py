"""Known differences of `experimental` and `example_libraries`."""

# ruff: noqa: E501 - the key of a case stays in one piece

from __future__ import annotations

from tests.edge_values.known_difference import Difference

_NEGATIVE = "BCOO((v[:4], jnp.array([[0], [-1], [2], [5]])), shape=(5,))"
_NEGATIVE_2 = "BCOO((v[:3], jnp.array([[0, -1], [-2, 1], [1, 7]])), shape=(2, 3))"

EXPERIMENTAL: tuple[Difference, ...] = (
    Difference(
        cases=(
            f"experimental.sparse.bcoo_dot_general f(jax.experimental.sparse.{_NEGATIVE_2}, jax.experimental.sparse.BCOO.fromdense(q, *",
            f"experimental.sparse.bcoo_concatenate f([jax.experimental.sparse.{_NEGATIVE}, *",
            f"experimental.sparse.bcoo_reshape f(jax.experimental.sparse.{_NEGATIVE_2}, *",
            f"experimental.sparse.bcoo_rev f(jax.experimental.sparse.{_NEGATIVE}, *",
        ),
        modes="value jit vmap vjp",
        title="Negative indices of sparse arrays, and those out of bounds",
        reason="Negative indices count from the end and elements out of bounds are none, in every "
        "operation, as `todense` has it. Some of JAX's put them elsewhere.",
        example=f"experimental.sparse.bcoo_rev f(jax.experimental.sparse.{_NEGATIVE}, dimensions=(0,)).todense() float32",
    ),
    Difference(
        cases=(
            "experimental.sparse.bcoo_broadcast_in_dim f(jax.experimental.sparse.BCOO.fromdense(m, nse=12), shape=(3, 4, 2), *",
            "experimental.sparse.bcoo_concatenate f([jax.experimental.sparse.BCOO.fromdense(t, nse=6, n_dense=1), *], dimension=2)*",
            "experimental.sparse.random_bcoo f(jax.random.key(0), (2, 3, 4), nse=3, n_batch=1, n_dense=1, *",
        ),
        modes="value",
        title="More layouts of sparse arrays",
        reason="Dense dimensions are added and joined, and there are random arrays with batch and "
        "dense dimensions; JAX raises NotImplementedError or ValueError.",
        example="experimental.sparse.bcoo_broadcast_in_dim f(jax.experimental.sparse.BCOO.fromdense(m, nse=12), shape=(3, 4, 2), broadcast_dimensions=(0, 1)).todense() float32",
    ),
    Difference(
        cases=(
            "experimental.sparse.bcoo_extract f(jax.experimental.sparse.BCOO((v[:4], *",
            "experimental.sparse.bcoo_dot_general f(jax.experimental.sparse.BCOO.fromdense(m, nse=12), jax.experimental.sparse.BCOO.fromdense(c, *",
            "experimental.sparse.bcoo_dot_general f(jax.experimental.sparse.BCOO.fromdense(t, nse=6, n_dense=1), *",
            "experimental.sparse.jacfwd f(lambda y: y @ v[:4])(*",
        ),
        modes="vjp",
        title="Gradients of sparse arrays where JAX has none",
        reason="Products of two sparse arrays or of one with dense dimensions, `bcoo_extract` of "
        "repeated indices, and results of `sparse.jacfwd` have gradients; JAX raises "
        "NotImplementedError or TypeError.",
        example="experimental.sparse.jacfwd f(lambda y: y @ v[:4])(jax.experimental.sparse.BCOO.fromdense(m, nse=12)).todense() float32",
    ),
    Difference(
        cases=(
            "experimental.sparse.bcoo_dot_general f(*preferred_element_type=jnp.float16) float32",
        ),
        modes="vjp",
        title="Gradients of sparse products with a preferred dtype",
        reason="The cotangent of an operand has its dtype; in JAX that of the dense one has the "
        "preferred dtype.",
        example="experimental.sparse.bcoo_dot_general f(jax.experimental.sparse.BCOO.fromdense(m, nse=12), c, dimension_numbers=(((1,), (0,)), ((), ())), preferred_element_type=jnp.float16) float32",
    ),
    Difference(
        cases=(
            "experimental.sparse.coo_todense f(jax.experimental.sparse.coo_fromdense(m, nse=12)) *",
            "experimental.sparse.coo_mat??? f(jax.experimental.sparse.coo_fromdense(m, nse=12), *",
            "experimental.sparse.csr_mat??? f(jax.experimental.sparse.csr_fromdense(m, nse=12), *, True) *",
            "experimental.sparse.csr_mat??? f(jax.experimental.sparse.csr_fromdense(m, nse=12), *, transpose=True) *",
        ),
        modes="vjp",
        title="Gradients of COO and CSR matrices",
        reason="They are those of the dense matrices. JAX counts an element for each place that is "
        "stored beyond the elements, and takes those of transposed products from the wrong sides.",
        example="experimental.sparse.coo_matvec f(jax.experimental.sparse.coo_fromdense(m, nse=12), v[:4]) float32",
    ),
    Difference(
        cases=(
            "experimental.sparse.coo_matvec f(jax.experimental.sparse.coo_fromdense(m, nse=12), v) *",
        ),
        modes="value",
        title="Products of COO matrices and arrays of another size",
        reason="They raise TypeError; JAX fails an assertion.",
        example="experimental.sparse.coo_matvec f(jax.experimental.sparse.coo_fromdense(m, nse=12), v) float32",
    ),
    Difference(
        cases=("experimental.sparse.todense f([*",),
        modes="value jit vjp",
        title="sparse.todense of containers",
        reason="It raises; JAX gives the container back, with sparse arrays as they were.",
        example="experimental.sparse.todense f([jax.experimental.sparse.BCOO.fromdense(m, nse=12), v]) float32",
    ),
    Difference(
        cases=(
            "experimental.jet.jet f(lambda y: y * 2 + 1, (j,), *",
            "experimental.jet.jet f(lambda y: (y * y, jnp.sin(y)), (j,), *",
            "experimental.jet.jet f(lambda y: lax.cond(*",
            "experimental.jet.jet f(lambda y: jnp.linalg.inv(*",
        ),
        modes="value",
        title="jet of more functions",
        reason="Integers move along curves, control flow and operations without a rule of their own "
        "have Taylor series; JAX raises TypeError or KeyError.",
        example="experimental.jet.jet f(lambda y: jnp.linalg.inv(y), (q,), ((h, q),)) float32",
    ),
    Difference(
        cases=("experimental.jet.jet f(lambda y: jnp.sum(jnp.maximum(y, 0) ** 2), *",),
        modes="vjp",
        title="Gradient of jet where maximum has a tie",
        reason="At a tie the series is that of half of each operand, as elsewhere.",
        example="experimental.jet.jet f(lambda y: jnp.sum(jnp.maximum(y, 0) ** 2), (v,), ((x, x),)) float32",
    ),
    Difference(
        cases=("experimental.ode.optimal_step_size f(s, 0 * s) *",),
        modes="vjp",
        title="Gradient of a step without error",
        reason="`optimal_step_size` is ten times the step where the error is zero, and so is its "
        "gradient; in JAX that is NaN.",
        example="experimental.ode.optimal_step_size f(s, 0 * s) float32",
    ),
    Difference(
        cases=("experimental.checkify.check f(True, 'no') *",),
        modes="jit",
        title="Checks that are not functionalized",
        reason="What is recorded is JAX's tracing, which goes through; its compilation raises "
        "ValueError, too.",
        example="experimental.checkify.check f(True, 'no') float32",
    ),
    Difference(
        cases=("example_libraries.optimizers.make_schedule f('no') *",),
        modes="value jit",
        title="Schedules of what is no number",
        reason="`make_schedule` raises TypeError; JAX makes a schedule that gives the string.",
        example="example_libraries.optimizers.make_schedule f('no') float32",
    ),
)
