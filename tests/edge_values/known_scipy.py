"""Known differences of `scipy` (but `scipy.special`), `image` and `ops`."""

# ruff: noqa: E501 - the key of a case stays in one piece

from __future__ import annotations

from tests.edge_values.known_difference import Difference

SCIPY: tuple[Difference, ...] = (
    Difference(
        cases=(
            "image.resize f(e2, (2, 2), 'linear') *",
            "image.scale_and_translate f(m, (5, 6), (0,), unit[1:3] + 1, unit[2:4], 'linear') *",
            "scipy.fft.dct f(v, n=0) *",
            "scipy.fft.idct f(v, n=0) *",
            "scipy.linalg.eigh f(m) *",
            "scipy.linalg.eigh_tridiagonal f(v, x, eigvals_only=True) *",
            "scipy.linalg.eigh_tridiagonal f(m, m, eigvals_only=True) *",
            "scipy.linalg.lu f(v) *",
            "scipy.linalg.lu_factor f(v) *",
            "scipy.linalg.qr f(v) *",
            "scipy.linalg.svd f(v) *",
            "scipy.linalg.hadamard f(2.5) *",
            "scipy.integrate.trapezoid f(e) *",
            "scipy.ndimage.map_coordinates f(s, [], 1) *",
            "scipy.optimize.minimize f(lambda y: jnp.sum(y * y), m, method='BFGS') *",
            "scipy.spatial.transform.Rotation f.from_rotvec(q[0]).apply(v) *",
            "scipy.sparse.linalg.gmres f(h, v[:3], x0=v) *",
        ),
        modes="value",
        title="Classes of exceptions (scipy and image)",
        reason="pyjax raises ValueError for shapes and values that do not fit; JAX raises the error of "
        "what fails on the way.",
        example="image.resize f(e2, (2, 2), 'linear') float32",
    ),
    Difference(
        cases=(
            "image.scale_and_translate f(m, (5, 6), (0, 1), unit[1:3] + 1, unit[2:4], 'cubic') float16",
        ),
        modes="value jit vmap",
        title="Weights of images in half precision",
        reason="Weights of neighbours are computed in float32; in JAX they are sums of halves.",
        example="image.scale_and_translate f(m, (5, 6), (0, 1), unit[1:3] + 1, unit[2:4], 'cubic') float16",
    ),
    Difference(
        cases=(
            "scipy.fft.dctn f(m, s=(2,), axes=(0, 1)) *",
            "scipy.fft.idctn f(m, s=(2,), axes=(0, 1)) *",
            "scipy.signal.fftconvolve f(v, e) *",
            "scipy.linalg.dft f(-1) *",
            "scipy.linalg.solve_triangular f(qq, q[:2]) *",
            "scipy.interpolate.RegularGridInterpolator f((x[:2],), v) *",
            "scipy.interpolate.RegularGridInterpolator f((m,), m) *",
        ),
        modes="value jit vmap vjp",
        title="Refused where JAX gives a result (scipy)",
        reason="As in SciPy, `s` has a size for each axis; a convolution with nothing is not zeros of "
        "some length (SciPy's is empty), so it is refused as by `convolve`; the order of a matrix is "
        "not negative; points of a grid are as many as values. A `b` of two dimensions is a matrix, "
        "not a stack of vectors, in all solvers, as JAX has it in `solve` and announces it for the "
        "others.",
        example="scipy.fft.dctn f(m, s=(2,), axes=(0, 1)) float32",
    ),
    Difference(
        cases=(
            "scipy.fft.dct f(e) *",
            "scipy.fft.idct f(e) *",
            "scipy.signal.istft f(jax.scipy.signal.stft(m, nperseg=3)[2], nperseg=3) *",
            "scipy.linalg.block_diag f([1, 2], [[3]]) *",
            "scipy.linalg.eigh_tridiagonal f(v, x[:6], eigvals_only=True, select='v', select_range=(-1, 4)) *",
            "scipy.linalg.hankel f(s) *",
            "scipy.linalg.hilbert f(-1) *",
            "scipy.linalg.lu f(eq) *",
            "scipy.linalg.lu f(qq) *",
            "scipy.linalg.polar f(q, side='left') *",
            *(
                f"scipy.linalg.{name} f(h * 1) float16"
                for name in "cholesky eigh expm inv lu".split()
            ),
            "scipy.spatial.transform.Rotation f.from_euler('x', v).as_quat() *",
            "scipy.spatial.transform.Rotation f.identity(2).as_quat() *",
            "scipy.spatial.transform.Rotation f.random(*",
            "scipy.spatial.transform.Slerp f.init(x[:3], *(m) *",
        ),
        modes="value",
        title="Accepted where JAX raises an error (scipy)",
        reason="Transforms of nothing are nothing. Segments of an odd length overlap by half of it, "
        "rounded down, in `istft` as in `stft`. Factorisations take stacks and half precision, "
        "rotations more shapes and keys.",
        example="scipy.fft.dct f(e) float32",
    ),
    Difference(
        cases=(
            "scipy.linalg.eigh_tridiagonal f(v, x[:6], eigvals_only=True) *",
            "scipy.linalg.eigh_tridiagonal f(v, x[:6], eigvals_only=True, select='i', select_range=(1, 3)) *",
            "scipy.linalg.eigh_tridiagonal jnp.abs(f(v, x[:6], key=jax.random.key(0))[1]) *",
            "scipy.linalg.polar f(q) *",
            "scipy.linalg.polar f(c) *",
            "scipy.linalg.polar f(c.T, side='left') *",
            "scipy.linalg.qr_multiply jnp.abs(f(c, v[:4])[0]) *",
            "scipy.linalg.qr_multiply jnp.abs(f(c, c[:3, :], mode='left')[0]) *",
            "scipy.linalg.qr_multiply jnp.abs(f(c, q[0], mode='left')[0]) *",
            "scipy.linalg.qr_multiply jnp.abs(f(c, m[:, :4], pivoting=True)[0]) *",
            "scipy.linalg.qr_multiply jnp.abs(f(c, m, conjugate=True)[1]) *",
            "scipy.linalg.hessenberg f(one) *",
            "scipy.linalg.solve_sylvester f(h, h + q, q) *",
            "scipy.linalg.solve_sylvester f(h, h, q, method='eigen') *",
            "scipy.linalg.solve_sylvester f(h, -h, q, tol=1e-3) *",
            "scipy.linalg.solve_sylvester f(h, one * one, q[:, :1]) *",
        ),
        modes="vjp",
        title="Gradients that JAX has not (scipy)",
        reason="Solutions of Sylvester's equation, polar factors, products with orthogonal factors and "
        "eigenvalues of tridiagonal matrices have gradients; JAX's are made by loops, or by "
        "factorisations without a rule.",
        example="scipy.linalg.polar f(q) float32",
    ),
    Difference(
        cases=(
            "scipy.linalg.eigh_tridiagonal f(v, x[:6] * 0, eigvals_only=True) *",
            "scipy.linalg.eigh_tridiagonal f(v, x[:6], eigvals_only=True, tol=0.5) *",
        ),
        modes="value jit vmap vjp",
        title="Eigenvalues of tridiagonal matrices",
        reason="They are those of a dense method, exact whatever `tol` is. JAX's bisection gives the "
        "largest for all where the off-diagonal is zero.",
        example="scipy.linalg.eigh_tridiagonal f(v, x[:6] * 0, eigvals_only=True) float32",
    ),
    Difference(
        cases=(
            *(f"scipy.linalg.hankel f(w) {dtype}" for dtype in ("float32", "float16", "complex64")),
            *(
                f"scipy.linalg.toeplitz f(w) {dtype}"
                for dtype in ("float32", "float16", "complex64")
            ),
        ),
        modes="value jit vmap",
        title="Toeplitz and Hankel matrices of NaN and infinities",
        reason="Elements are copied; JAX multiplies them by zeros and ones, and adds.",
        example="scipy.linalg.hankel f(w) float32",
    ),
    Difference(
        cases=(
            "scipy.linalg.invhilbert f(4) *",
            "scipy.linalg.invhilbert f(1) *",
            "scipy.linalg.invhilbert f(9) *",
            "scipy.linalg.pascal f(4) *",
            "scipy.linalg.pascal f(1) *",
            "scipy.linalg.invpascal f(1) *",
        ),
        modes="value jit",
        title="Matrices of whole numbers",
        reason="`pascal`, `invpascal` and `invhilbert` are exact, and float64 where float64 is enabled; "
        "JAX's have rounding errors and are float32.",
        example="scipy.linalg.pascal f(4) float32",
    ),
    Difference(
        cases=(
            "scipy.linalg.expm f(h * 1) float64",
            "scipy.linalg.cholesky f(h * 1) complex64",
        ),
        modes="value jit vmap",
        title="Digits of expm, zeros beside NaN of cholesky",
        reason="In float64 the exponential of a matrix of norm 8 is within 5e-12 of the exact one, "
        "JAX's within 1e-8. The triangle that a Cholesky factor has not is zero even if the factor "
        "is NaN.",
        example="scipy.linalg.expm f(h * 1) float64",
    ),
    Difference(
        cases=tuple(f"scipy.integrate.trapezoid f(n, axis=1) {d}" for d in ("float32", "float16")),
        modes="value jit vmap",
        title="Integrals of infinities",
        reason="Sums with an infinity are that infinity; JAX gives NaN.",
        example="scipy.integrate.trapezoid f(n, axis=1) float32",
    ),
    Difference(
        cases=("scipy.spatial.transform.Rotation f.concatenate(*",),
        modes="value jit vmap",
        title="Rotations side by side",
        reason="Single rotations become a stack of rotations; JAX makes one of eight numbers.",
        example="scipy.spatial.transform.Rotation f.concatenate([f.from_rotvec(q[0]), f.from_rotvec(q[0])]).as_quat() float32",
    ),
    Difference(
        cases=(
            "scipy.spatial.transform.Slerp f.init(x[:3], *(x[:3] + unit[1]).as_quat() *",
            "scipy.spatial.transform.Slerp f.init(x[:3], *(x[:3] + unit[1]).as_rotvec() *",
            "scipy.spatial.transform.Slerp f.init(x[:3], *(s).as_quat() *",
        ),
        modes="value jit vmap vjp",
        title="Rotations beyond the last time",
        reason="The last piece goes on; in JAX it starts anew at its beginning.",
        example="scipy.spatial.transform.Slerp f.init(x[:3], jax.scipy.spatial.transform.Rotation.from_rotvec(q))(s).as_quat() float32",
    ),
    Difference(
        cases=("scipy.spatial.transform.Slerp f.init(x[:3], *(x[:3]).as_quat() *",),
        modes="vjp",
        title="Gradients of rotations at their times",
        reason="Where nothing is turned the gradient is a number; JAX's is NaN.",
        example="scipy.spatial.transform.Slerp f.init(x[:3], jax.scipy.spatial.transform.Rotation.from_rotvec(q))(x[:3]).as_quat() float32",
    ),
    Difference(
        cases=(
            "scipy.linalg.lu_solve f(jax.scipy.linalg.lu_factor(q), q) float32",
            "scipy.linalg.solve f(qq, qq) float32",
        ),
        modes="vjp",
        title="Gradients of solutions that are exact",
        reason="They are zero up to rounding.",
        example="scipy.linalg.solve f(qq, qq) float32",
    ),
    Difference(
        cases=tuple(
            f"scipy.linalg.eigh f(h * 1) {d}" for d in ("int32", "bool", "float64", "complex64")
        ),
        modes="value jit vmap",
        title="Signs of eigenvectors",
        reason="Eigenvectors of small matrices have other signs, or phases, than LAPACK's: each is an "
        "eigenvector of the same length.",
        example="scipy.linalg.eigh f(h * 1) int32",
    ),
)
