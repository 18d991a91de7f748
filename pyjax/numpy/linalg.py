"""pyjax.numpy.linalg: factorizations, solvers, norms and products of matrices.

All functions work on stacks of matrices in the last two axes.  Integers are promoted to floats
(products keep them).  The functions are defined as those of numpy.linalg, or of the Python array
API standard, that have their names.  Arrays of fewer than two axes, and those that are not square
where they must be, are ValueErrors.  The factorizations themselves are in lax.linalg.
"""

from pyjax.numpy.linalg_factorizations import EighResult as EighResult
from pyjax.numpy.linalg_factorizations import EigResult as EigResult
from pyjax.numpy.linalg_factorizations import QRResult as QRResult
from pyjax.numpy.linalg_factorizations import SVDResult as SVDResult
from pyjax.numpy.linalg_factorizations import (
    cholesky,
    eig,
    eigh,
    eigvals,
    eigvalsh,
    qr,
    svd,
    svdvals,
)
from pyjax.numpy.linalg_norms import cond, matrix_norm, matrix_rank, norm, vector_norm
from pyjax.numpy.linalg_products import (
    cross,
    diagonal,
    matmul,
    matrix_power,
    matrix_transpose,
    multi_dot,
    outer,
    tensordot,
    trace,
    vecdot,
)
from pyjax.numpy.linalg_solvers import SlogdetResult as SlogdetResult
from pyjax.numpy.linalg_solvers import det, inv, lstsq, pinv, slogdet, solve, tensorinv, tensorsolve

__all__ = [
    "cholesky",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "inv",
    "lstsq",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "multi_dot",
    "norm",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "tensorinv",
    "tensorsolve",
    "trace",
    "vecdot",
    "vector_norm",
]
