"""Matrix factorisations and solvers: `pyjax.lax.linalg`. Public names only."""

from pyjax.lax.linalg_eigen import (
    EighImplementation as EighImplementation,
)
from pyjax.lax.linalg_eigen import (
    EigImplementation as EigImplementation,
)
from pyjax.lax.linalg_eigen import (
    eig as eig,
)
from pyjax.lax.linalg_eigen import (
    eig_p as eig_p,
)
from pyjax.lax.linalg_eigen import (
    eigh as eigh,
)
from pyjax.lax.linalg_eigen import (
    eigh_p as eigh_p,
)
from pyjax.lax.linalg_eigen import (
    hessenberg as hessenberg,
)
from pyjax.lax.linalg_eigen import (
    hessenberg_p as hessenberg_p,
)
from pyjax.lax.linalg_eigen import (
    schur as schur,
)
from pyjax.lax.linalg_eigen import (
    schur_p as schur_p,
)
from pyjax.lax.linalg_eigen import (
    tridiagonal as tridiagonal,
)
from pyjax.lax.linalg_eigen import (
    tridiagonal_p as tridiagonal_p,
)
from pyjax.lax.linalg_lu import (
    lu as lu,
)
from pyjax.lax.linalg_lu import (
    lu_p as lu_p,
)
from pyjax.lax.linalg_lu import (
    lu_pivots_to_permutation as lu_pivots_to_permutation,
)
from pyjax.lax.linalg_lu import (
    lu_pivots_to_permutation_p as lu_pivots_to_permutation_p,
)
from pyjax.lax.linalg_qr import (
    geqp3_p as geqp3_p,
)
from pyjax.lax.linalg_qr import (
    geqrf as geqrf,
)
from pyjax.lax.linalg_qr import (
    geqrf_p as geqrf_p,
)
from pyjax.lax.linalg_qr import (
    householder_product as householder_product,
)
from pyjax.lax.linalg_qr import (
    householder_product_p as householder_product_p,
)
from pyjax.lax.linalg_qr import (
    ormqr as ormqr,
)
from pyjax.lax.linalg_qr import (
    ormqr_p as ormqr_p,
)
from pyjax.lax.linalg_qr import (
    qr as qr,
)
from pyjax.lax.linalg_qr import (
    qr_p as qr_p,
)
from pyjax.lax.linalg_solve import (
    cholesky as cholesky,
)
from pyjax.lax.linalg_solve import (
    cholesky_p as cholesky_p,
)
from pyjax.lax.linalg_solve import (
    triangular_solve as triangular_solve,
)
from pyjax.lax.linalg_solve import (
    triangular_solve_p as triangular_solve_p,
)
from pyjax.lax.linalg_svd import (
    SvdAlgorithm as SvdAlgorithm,
)
from pyjax.lax.linalg_svd import (
    qdwh as qdwh,
)
from pyjax.lax.linalg_svd import (
    svd as svd,
)
from pyjax.lax.linalg_svd import (
    svd_p as svd_p,
)
from pyjax.lax.linalg_tridiagonal import (
    cholesky_update as cholesky_update,
)
from pyjax.lax.linalg_tridiagonal import (
    cholesky_update_p as cholesky_update_p,
)
from pyjax.lax.linalg_tridiagonal import (
    symmetric_product as symmetric_product,
)
from pyjax.lax.linalg_tridiagonal import (
    symmetric_product_p as symmetric_product_p,
)
from pyjax.lax.linalg_tridiagonal import (
    tridiagonal_solve as tridiagonal_solve,
)
from pyjax.lax.linalg_tridiagonal import (
    tridiagonal_solve_p as tridiagonal_solve_p,
)
