from typing import Any

from pyjax._config import config as config
from pyjax._public import *
from pyjax.api.checkpoint import checkpoint as checkpoint
from pyjax.api.checkpoint import remat as remat
from pyjax.api.checkpoint_policies import checkpoint_policies as checkpoint_policies
from pyjax.api.compile_time import ensure_compile_time_eval as ensure_compile_time_eval
from pyjax.api.custom_gradient import closure_convert as closure_convert
from pyjax.api.custom_gradient import custom_gradient as custom_gradient
from pyjax.api.custom_jvp import custom_jvp as custom_jvp
from pyjax.api.custom_vjp import custom_vjp as custom_vjp
from pyjax.api.disable_jit import disable_jit as disable_jit
from pyjax.api.fwd_and_bwd import fwd_and_bwd as fwd_and_bwd
from pyjax.api.grad import grad as grad
from pyjax.api.grad import value_and_grad as value_and_grad
from pyjax.api.jacobian import hessian as hessian
from pyjax.api.jacobian import jacfwd as jacfwd
from pyjax.api.jacobian import jacobian as jacobian
from pyjax.api.jacobian import jacrev as jacrev
from pyjax.api.jvp import jvp as jvp
from pyjax.api.jvp import linearize as linearize
from pyjax.api.make_jaxpr import make_jaxpr as make_jaxpr
from pyjax.api.naming import named_call as named_call
from pyjax.api.naming import named_scope as named_scope
from pyjax.api.user_context import make_user_context as make_user_context
from pyjax.api.vjp import linear_transpose as linear_transpose
from pyjax.api.vjp import vjp as vjp
from pyjax.api.vmap import vmap as vmap
from pyjax.lax.refs.access import empty_ref as empty_ref
from pyjax.lax.refs.access import free_ref as free_ref
from pyjax.lax.refs.access import freeze as freeze
from pyjax.lax.refs.access import new_ref as new_ref
from pyjax.parallel.global_arrays import make_array_from_callback as make_array_from_callback
from pyjax.parallel.global_arrays import (
    make_array_from_process_local_data as make_array_from_process_local_data,
)
from pyjax.parallel.global_arrays import (
    make_array_from_single_device_arrays as make_array_from_single_device_arrays,
)
from pyjax.parallel.global_arrays import make_mesh as make_mesh
from pyjax.parallel.plan import plan as plan
from pyjax.parallel.pmap import pmap as pmap
from pyjax.parallel.reshard import reshard as reshard
from pyjax.parallel.shard_map import shard_map as shard_map
from pyjax.parallel.smap import smap as smap
from pyjax.tools.environment import print_environment_info as print_environment_info
from pyjax.tools.explorer import explain as explain
from pyjax.version import __version__ as __version__
from pyjax.version import __version_info__ as __version_info__

def __getattr__(name: str) -> Any: ...
