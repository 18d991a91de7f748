"""Eigenvalues: eigh, eig, Schur form, and the reductions to Hessenberg and tridiagonal form."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

from pyjax._config import options
from pyjax.core.array import Array, ArrayLike
from pyjax.core.avals import ShapedArray
from pyjax.core.errors import fail
from pyjax.core.primitive import Primitive
from pyjax.interpreters import ad
from pyjax.interpreters.rules import FullJvp, Unsupported
from pyjax.lax.arithmetic import add, div, mul, real, sub
from pyjax.lax.arithmetic import complex as complex_
from pyjax.lax.common import aval_of, complex_dtype, dtype_of, is_complex, real_dtype, shape_of
from pyjax.lax.compare import full_value
from pyjax.lax.convert import convert_element_type
from pyjax.lax.indexing.slicing import slice_in_dim
from pyjax.lax.linalg.common import (
    INT32,
    array_shape,
    check_matrix,
    checked_subset,
    columns,
    define_on_matrices,
    identity_like,
    in_lapack_type,
    lapack_call,
    matmul,
    mH,
    nan_where_failed,
    rows,
    symmetrized,
    without_diagonal,
)
from pyjax.lax.linalg.lu_factors import lu
from pyjax.lax.linalg.solve import triangular_solve
from pyjax.lax.nary import expand_to
from pyjax.lax.reduce import reduce_sum
from pyjax.lax.sort import take_along
from xla_backend.hlo.opcode import Opcode
from xla_backend.process.on_first_use import on_first_use

_find_library = on_first_use("ctypes.util", "find_library")


class EighImplementation(enum.Enum):
    """Algorithm of eigh; accepted for compatibility, CPUs use LAPACK.

    >>> _, w = lax.linalg.eigh(jnp.eye(2), implementation=EighImplementation.QR)
    >>> w.tolist()
    [1.0, 1.0]
    """

    QR = "qr"
    JACOBI = "jacobi"
    QDWH = "qdwh"


class EigImplementation(enum.Enum):
    """Library of eig; accepted for compatibility, CPUs use LAPACK.

    >>> w, _ = lax.linalg.eig(
    ...     jnp.eye(2), compute_left_eigenvectors=False, implementation=EigImplementation.LAPACK
    ... )[:2]
    >>> w.tolist()
    [(1+0j), (1+0j)]
    """

    CUSOLVER = "cusolver"
    MAGMA = "magma"
    LAPACK = "lapack"


def diagonal_of(x: Array) -> Array:
    """The main diagonals of square matrices."""
    kept = mul(x, identity_like(x))
    return reduce_sum(kept, (len(shape_of(x)) - 1,))


# -- eigh ------------------------------------------------------------------------------------------


def _eigh_aval(x: ShapedArray, *, subset_by_index: Any, **params: Any) -> list[ShapedArray]:
    batch, n, _ = check_matrix("eigh", x, square=True)
    if subset_by_index is not None and tuple(subset_by_index) != (0, n):
        fail(
            NotImplementedError,
            f"eigh subset_by_index={subset_by_index} is not implemented on CPU.",
            "LAPACK's routine here finds all of them.",
            "Slice its results: they are sorted.",
        )
    return [x, x.update(shape=(*batch, n), dtype=real_dtype(x.dtype))]


def _eigh_lowering(ctx: Any, x: Any, *, lower: bool, **params: Any) -> list[Any]:
    batch = ctx.avals_in[0].shape[:-2]
    shapes = [*ctx.shapes_out, array_shape(INT32, batch)]
    vectors, values, info = lapack_call(
        ctx, "syevd", (x,), shapes, mode="V", uplo="L" if lower else "U"
    )
    return nan_where_failed(ctx, info, vectors, values)


def _eigh_jvp(
    primals: Sequence[Array], tangents: Sequence[Any], **params: Any
) -> tuple[list, list]:
    """First-order perturbation: dw = diag(V^H dA V), dV = V (F * V^H dA V), F_ij = 1 /
    (w_j - w_i).
    """
    (x,), (dx,) = primals, tangents
    v, w = outs = eigh_p.bind(x, **params)
    if type(dx) is ad.Zero:
        return outs, [ad.Zero(aval_of(o)) for o in outs]
    inner = matmul(mH(v), matmul(symmetrized(dx), v))
    real_like = real(inner) if is_complex(dtype_of(inner)) else inner
    gaps = sub(columns(w, inner), rows(w, inner))
    gaps = add(gaps, identity_like(real_like))
    weights = without_diagonal(div(full_value(gaps, 1), gaps))
    dv = matmul(v, mul(inner, convert_element_type(weights, dtype_of(inner))))
    return outs, [dv, diagonal_of(real_like)]


eigh_p: Primitive = define_on_matrices(
    "eigh",
    multiple_results=True,
    abstract_eval=_eigh_aval,
    jvp=FullJvp(_eigh_jvp),
    transpose=Unsupported("eigh is not linear"),
    lowering=in_lapack_type(_eigh_lowering),
)


def eigh(
    x: ArrayLike,
    *,
    lower: bool = True,
    symmetrize_input: bool = True,
    sort_eigenvalues: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    implementation: EighImplementation | None = None,
) -> tuple[Array, Array]:
    """Eigenvectors (columns) and ascending eigenvalues of Hermitian matrices.

    Args:
      x: [..., n, n].  lower: which triangle is read if `symmetrize_input` is False.
      subset_by_index: (start, end): eigenvalues number start to end - 1, and their vectors.
    Returns:
      (v [..., n, n], w [..., n] real); nan where LAPACK does not converge.
    Raises:
      ValueError: not square matrices; a subset that is not within them.

    >>> eigh(jnp.array([[2.0, 0.0], [0.0, 3.0]]))[1]
    Array([2., 3.], dtype=float32)
    """
    check_matrix("eigh", aval_of(x), square=True)
    if symmetrize_input:
        x = symmetrized(x)
    v, w = eigh_p.bind(
        x,
        lower=bool(lower),
        sort_eigenvalues=bool(sort_eigenvalues),
        subset_by_index=None,
        algorithm=implementation,
    )
    if subset_by_index is not None:
        start, end = checked_subset("eigh", subset_by_index, shape_of(x)[-1])
        v, w = (slice_in_dim(a, start, end, axis=-1) for a in (v, w))
    return v, w


# -- eig -------------------------------------------------------------------------------------------


def _eig_aval(
    x: ShapedArray,
    *,
    compute_left_eigenvectors: bool,
    compute_right_eigenvectors: bool,
    **params: Any,
) -> list[ShapedArray]:
    batch, n, _ = check_matrix("eig", x, square=True)
    dtype = complex_dtype(x.dtype)
    count = int(compute_left_eigenvectors) + int(compute_right_eigenvectors)
    return [x.update(shape=(*batch, n), dtype=dtype)] + [x.update(dtype=dtype)] * count


def _eig_lowering(
    ctx: Any,
    x: Any,
    *,
    compute_left_eigenvectors: bool,
    compute_right_eigenvectors: bool,
    **params: Any,
) -> list[Any]:
    from_real = not is_complex(ctx.avals_in[0].dtype)
    *batch, n, _ = ctx.avals_in[0].shape
    values, vectors = ctx.shapes_out[0], ctx.shapes_out[0].with_dimensions((*batch, n, n))
    part = array_shape(ctx.avals_in[0].dtype, (*batch, n))
    shapes = [part, part] if from_real else [values]
    outs = lapack_call(
        ctx,
        "geev",
        (x,),
        [*shapes, vectors, vectors, array_shape(INT32, batch)],
        compute_left="V" if compute_left_eigenvectors else "N",
        compute_right="V" if compute_right_eigenvectors else "N",
    )
    *w, left, right, info = outs
    if from_real:
        w = [ctx.builder.add(Opcode.COMPLEX, w, shape=values)]
    wanted = [left] * compute_left_eigenvectors + [right] * compute_right_eigenvectors
    return nan_where_failed(ctx, info, *w, *wanted)


def solve_matrix(a: Array, b: Array) -> Array:
    """a^-1 b through LU."""
    factors, _, permutation = lu(a)
    shape = shape_of(b)
    axis = len(shape) - 2
    b = take_along(b, expand_to(permutation, shape, tuple(range(axis + 1))), axis)
    y = triangular_solve(factors, b, left_side=True, lower=True, unit_diagonal=True)
    return triangular_solve(factors, y, left_side=True)


def _eig_jvp(
    primals: Sequence[Array],
    tangents: Sequence[Any],
    *,
    compute_left_eigenvectors: bool,
    compute_right_eigenvectors: bool,
    enable_eigvec_derivs: bool,
    **params: Any,
) -> tuple[list, list]:
    (x,), (dx,) = primals, tangents
    flags = {
        "compute_left_eigenvectors": compute_left_eigenvectors,
        "compute_right_eigenvectors": compute_right_eigenvectors,
        "enable_eigvec_derivs": enable_eigvec_derivs,
    }
    if compute_left_eigenvectors or (compute_right_eigenvectors and not enable_eigvec_derivs):
        fail(
            NotImplementedError,
            "The derivatives of non-symmetric eigenvectors are not implemented, only those of "
            "eigenvalues.",
            "eigenvectors are defined up to a complex factor each.",
            "use eigvals, or pass enable_eigvec_derivs=True (right vectors, normalised as "
            "LAPACK does).",
        )
    outs = eig_p.bind(x, **flags, **params)
    if type(dx) is ad.Zero:
        return outs, [ad.Zero(aval_of(o)) for o in outs]
    w, v = eig_p.bind(
        x,
        compute_left_eigenvectors=False,
        compute_right_eigenvectors=True,
        enable_eigvec_derivs=enable_eigvec_derivs,
        **params,
    )
    inner = solve_matrix(v, matmul(convert_element_type(dx, dtype_of(v)), v))
    tangents_out = [diagonal_of(inner)]
    if compute_right_eigenvectors:
        gaps = add(sub(columns(w, inner), rows(w, inner)), identity_like(inner))
        turned = matmul(v, without_diagonal(div(inner, gaps)))
        # LAPACK's vectors have norm 1: take out the part along each vector.
        along = diagonal_of(matmul(mH(v), turned))
        part = real(along)
        along = complex_(part, full_value(part, 0))
        tangents_out.append(sub(turned, mul(v, columns(along, v))))
    return outs, tangents_out


eig_p: Primitive = define_on_matrices(
    "eig",
    multiple_results=True,
    abstract_eval=_eig_aval,
    jvp=FullJvp(_eig_jvp),
    transpose=Unsupported("eig is not linear"),
    lowering=in_lapack_type(_eig_lowering),
)


def eig(
    x: ArrayLike,
    *,
    compute_left_eigenvectors: bool = True,
    compute_right_eigenvectors: bool = True,
    enable_eigvec_derivs: bool = False,
    implementation: EigImplementation | None = None,
    use_magma: bool | None = None,
) -> list[Array]:
    """Complex eigenvalues of general matrices, then left and right eigenvectors as asked for.

    Args:
      x: [..., n, n].
    Returns:
      [w [..., n], vl, vr]: x vr = vr diag(w), vl^H x = diag(w) vl^H; columns have norm 1.

    >>> (w,) = lax.linalg.eig(
    ...     jnp.diag(jnp.array([1.0, 2.0])),
    ...     compute_left_eigenvectors=False,
    ...     compute_right_eigenvectors=False,
    ... )
    >>> w
    Array([1.+0.j, 2.+0.j], dtype=complex64)
    """
    check_matrix("eig", aval_of(x), square=True)
    _check_magma(implementation, use_magma)
    return eig_p.bind(
        x,
        compute_left_eigenvectors=bool(compute_left_eigenvectors),
        compute_right_eigenvectors=bool(compute_right_eigenvectors),
        enable_eigvec_derivs=bool(enable_eigvec_derivs),
        implementation=implementation,
    )


def _check_magma(implementation: EigImplementation | None, use_magma: bool | None) -> None:
    """MAGMA computes on GPUs. Where it must be used, it must be there."""
    wanted = options.use_magma.value == "on" if use_magma is None else use_magma
    if implementation is not None:
        wanted = implementation is EigImplementation.MAGMA
    if wanted and _find_library("magma") is None:
        fail(
            RuntimeError,
            "eig: the MAGMA library was not found",
            "jax_use_magma='on' (or use_magma, implementation) says that it must be used",
            "install libmagma, or set jax_use_magma to 'auto': LAPACK computes then",
        )


# -- schur -----------------------------------------------------------------------------------------


def _schur_aval(x: ShapedArray, *, compute_schur_vectors: bool, **params: Any) -> list[ShapedArray]:
    check_matrix("schur", x, square=True)
    x = x.update(weak_type=False)
    return [x, x] if compute_schur_vectors else [x]


def _schur_lowering(
    ctx: Any, x: Any, *, compute_schur_vectors: bool, sort_eig_vals: bool, select_callable: Any
) -> list[Any]:
    if sort_eig_vals or select_callable is not None:
        fail(
            NotImplementedError,
            "schur does not sort eigenvalues on CPU.",
            "LAPACK sorts by a function that calls back into the program.",
            "Pass sort_eig_vals=False, and sort the eigenvalues: jnp.sort(eigvals(x)).",
        )
    *batch, n, _ = ctx.avals_in[0].shape
    values = [array_shape(ctx.avals_in[0].dtype, (*batch, n))]
    values = values if is_complex(ctx.avals_in[0].dtype) else values * 2
    flag = array_shape(INT32, batch)
    outs = lapack_call(
        ctx,
        "gees",
        (x,),
        [x.shape, x.shape, *values, flag, flag],
        mode="V" if compute_schur_vectors else "N",
    )
    return nan_where_failed(ctx, outs[-1], *outs[: 1 + compute_schur_vectors])


schur_p: Primitive = define_on_matrices(
    "schur",
    multiple_results=True,
    abstract_eval=_schur_aval,
    jvp=Unsupported(
        "a Schur form is not unique, and the order of its eigenvalues jumps, so that it has no "
        "derivative; differentiate eig or eigvals instead"
    ),
    transpose=Unsupported("schur is not linear"),
    lowering=in_lapack_type(_schur_lowering),
)


def schur(
    x: ArrayLike,
    *,
    compute_schur_vectors: bool = True,
    sort_eig_vals: bool = False,
    select_callable: Any = None,
) -> list[Array]:
    """Schur form: x = z t z^H with unitary z; t is (real input: quasi-) triangular.

    Returns:
      [t, z], or [t] without vectors.

    >>> schur(jnp.diag(jnp.array([1.0, 2.0])))[0].shape
    (2, 2)
    """
    return schur_p.bind(
        x,
        compute_schur_vectors=bool(compute_schur_vectors),
        sort_eig_vals=bool(sort_eig_vals),
        select_callable=select_callable,
    )


# -- hessenberg, tridiagonal -----------------------------------------------------------------------


def _hessenberg_aval(a: ShapedArray) -> list[ShapedArray]:
    batch, n, _ = check_matrix("hessenberg", a, square=True)
    if n < 1:
        fail(ValueError, f"Input to hessenberg must have at least one row, got shape {a.shape}")
    return [a, a.update(shape=(*batch, n - 1))]


def _hessenberg_lowering(ctx: Any, a: Any) -> list[Any]:
    *batch, n, _ = ctx.avals_in[0].shape
    shapes = [*ctx.shapes_out, array_shape(INT32, batch)]
    packed, taus, info = lapack_call(ctx, "gehrd", (a,), shapes, low=1, high=n)
    return nan_where_failed(ctx, info, packed, taus)


hessenberg_p: Primitive = define_on_matrices(
    "hessenberg",
    multiple_results=True,
    abstract_eval=_hessenberg_aval,
    jvp=Unsupported(
        "a Hessenberg form has no derivative where an entry below the diagonal vanishes, which "
        "splits it; differentiate eig, expm or sqrtm instead"
    ),
    transpose=Unsupported("hessenberg is not linear"),
    lowering=in_lapack_type(_hessenberg_lowering),
)


def hessenberg(a: ArrayLike) -> list[Array]:
    """Reduce to upper Hessenberg form by reflectors, packed below the first subdiagonal.

    Returns:
      [packed, taus] of shapes [..., n, n] and [..., n - 1], for householder_product.

    >>> hessenberg(jnp.eye(3))[0].shape
    (3, 3)
    """
    return hessenberg_p.bind(a)


def _tridiagonal_aval(a: ShapedArray, *, lower: bool) -> list[ShapedArray]:
    batch, n, _ = check_matrix("tridiagonal", a, square=True)
    if n < 1:
        fail(ValueError, f"Input to tridiagonal must have at least one row, got shape {a.shape}")
    part = real_dtype(a.dtype)
    return [
        a,
        a.update(shape=(*batch, n), dtype=part),
        a.update(shape=(*batch, n - 1), dtype=part),
        a.update(shape=(*batch, n - 1)),
    ]


def _tridiagonal_lowering(ctx: Any, a: Any, *, lower: bool) -> list[Any]:
    batch = ctx.avals_in[0].shape[:-2]
    shapes = [*ctx.shapes_out, array_shape(INT32, batch)]
    *outs, info = lapack_call(ctx, "sytrd", (a,), shapes, uplo="L" if lower else "U")
    return nan_where_failed(ctx, info, *outs)


tridiagonal_p: Primitive = define_on_matrices(
    "tridiagonal",
    multiple_results=True,
    abstract_eval=_tridiagonal_aval,
    jvp=Unsupported(
        "a tridiagonal form has no derivative where an entry beside the diagonal vanishes, which "
        "splits it; differentiate eigh or eigvalsh instead"
    ),
    transpose=Unsupported("tridiagonal is not linear"),
    lowering=in_lapack_type(_tridiagonal_lowering),
)


def tridiagonal(a: ArrayLike, *, lower: bool = True) -> list[Array]:
    """Reduce a Hermitian matrix to tridiagonal form by reflectors.

    Returns:
      [packed reflectors, diagonal, off-diagonal, taus], as LAPACK's sytrd.

    >>> packed, d, e, taus = lax.linalg.tridiagonal(jnp.diag(jnp.array([1.0, 2.0, 3.0])))
    >>> d, e
    (Array([1., 2., 3.], dtype=float32), Array([0., 0.], dtype=float32))
    """
    return tridiagonal_p.bind(a, lower=bool(lower))
