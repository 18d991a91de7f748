"""The primitives, under the names libraries match on."""

from pyjax import lax
from pyjax.api.call_primitives import call_p as call_p
from pyjax.api.call_primitives import closed_call_p as closed_call_p
from pyjax.api.checkpoint import name_p as name_p
from pyjax.api.checkpoint import remat_p as remat_p
from pyjax.api.custom_jvp import custom_jvp_call_p as custom_jvp_call_p
from pyjax.api.custom_vjp import custom_lin_p as custom_lin_p
from pyjax.api.custom_vjp import custom_vjp_call_p as custom_vjp_call_p
from pyjax.api.jit import jit_p as jit_p
from pyjax.core.structural import add_any_p as add_any_p
from pyjax.core.structural import get_p as get_p
from pyjax.core.structural import swap_p as swap_p
from pyjax.lax.collectives_ragged import ragged_all_to_all_p as ragged_all_to_all_p
from pyjax.lax.linalg import cholesky_p as cholesky_p
from pyjax.lax.linalg import eig_p as eig_p
from pyjax.lax.linalg import eigh_p as eigh_p
from pyjax.lax.linalg import hessenberg_p as hessenberg_p
from pyjax.lax.linalg import householder_product_p as householder_product_p
from pyjax.lax.linalg import lu_p as lu_p
from pyjax.lax.linalg import qr_p as qr_p
from pyjax.lax.linalg import schur_p as schur_p
from pyjax.lax.linalg import svd_p as svd_p
from pyjax.lax.linalg import triangular_solve_p as triangular_solve_p
from pyjax.lax.linalg import tridiagonal_p as tridiagonal_p
from pyjax.lax.linalg import tridiagonal_solve_p as tridiagonal_solve_p
from pyjax.lax.random_hashes import threefry2x32_p as threefry2x32_p
from pyjax.lax.random_keys import random_bits_p as random_bits_p
from pyjax.lax.random_keys import random_fold_in_p as random_fold_in_p
from pyjax.lax.random_keys import random_seed_p as random_seed_p
from pyjax.lax.random_keys import random_split_p as random_split_p

# Of `interpreters.ad` it has this name.
add_jaxvals_p = add_any_p
# All of lax, whatever family they belong to.
globals().update({name: value for name, value in vars(lax).items() if name.endswith("_p")})
