"""The functions and classes of `pyjax` itself, each from where it lives. `pyjax` has them from
here, with their first use, and type checkers through `__init__.pyi`. Layer: top.
"""

from pyjax import lax as lax
from pyjax import numpy as numpy
from pyjax._config import options as _options
from pyjax.api.checkpoint import checkpoint as checkpoint
from pyjax.api.checkpoint import remat as remat
from pyjax.api.checkpoint_policies import checkpoint_policies as checkpoint_policies
from pyjax.api.compile_time import ensure_compile_time_eval as ensure_compile_time_eval
from pyjax.api.custom_gradient import closure_convert as closure_convert
from pyjax.api.custom_gradient import custom_gradient as custom_gradient
from pyjax.api.custom_jvp import custom_jvp as custom_jvp
from pyjax.api.custom_vjp import custom_vjp as custom_vjp
from pyjax.api.disable_jit import disable_jit as disable_jit
from pyjax.api.eval_shape import ShapeDtypeStruct as ShapeDtypeStruct
from pyjax.api.eval_shape import eval_shape as eval_shape
from pyjax.api.grad import grad as grad
from pyjax.api.grad import value_and_grad as value_and_grad
from pyjax.api.jacobian import hessian as hessian
from pyjax.api.jacobian import jacfwd as jacfwd
from pyjax.api.jacobian import jacobian as jacobian
from pyjax.api.jacobian import jacrev as jacrev
from pyjax.api.jit import jit as jit
from pyjax.api.jvp import jvp as jvp
from pyjax.api.jvp import linearize as linearize
from pyjax.api.make_jaxpr import make_jaxpr as make_jaxpr
from pyjax.api.naming import named_call as named_call
from pyjax.api.naming import named_scope as named_scope
from pyjax.api.user_context import make_user_context as make_user_context
from pyjax.api.vjp import linear_transpose as linear_transpose
from pyjax.api.vjp import vjp as vjp
from pyjax.api.vmap import vmap as vmap
from pyjax.core.array import Array as Array
from pyjax.core.compile_log import assert_compiles as assert_compiles
from pyjax.core.dtypes import float0 as float0
from pyjax.core.dynamic_slices import ds as ds
from pyjax.core.refs import Ref as Ref
from pyjax.lax.callbacks import pure_callback as pure_callback
from pyjax.lax.refs.access import empty_ref as empty_ref
from pyjax.lax.refs.access import free_ref as free_ref
from pyjax.lax.refs.access import freeze as freeze
from pyjax.lax.refs.access import new_ref as new_ref
from pyjax.parallel import shard_map_faults as _shard_map_faults  # registers its rules
from pyjax.parallel.global_arrays import make_array_from_callback as make_array_from_callback
from pyjax.parallel.global_arrays import (
    make_array_from_process_local_data as make_array_from_process_local_data,
)
from pyjax.parallel.global_arrays import (
    make_array_from_single_device_arrays as make_array_from_single_device_arrays,
)
from pyjax.parallel.global_arrays import make_mesh as make_mesh
from pyjax.parallel.pmap import pmap as pmap
from pyjax.parallel.reshard import reshard as reshard
from pyjax.parallel.shard_map import shard_map as shard_map
from pyjax.runtime.devices import default_backend as default_backend
from pyjax.runtime.devices import device_count as device_count
from pyjax.runtime.devices import devices as devices
from pyjax.runtime.devices import local_device_count as local_device_count
from pyjax.runtime.devices import local_devices as local_devices
from pyjax.runtime.devices import process_count as host_count
from pyjax.runtime.devices import process_count as process_count
from pyjax.runtime.devices import process_index as host_id
from pyjax.runtime.devices import process_index as process_index
from pyjax.runtime.devices import process_indices as host_ids
from pyjax.runtime.devices import process_indices as process_indices
from pyjax.runtime.dispatch import clear_caches as clear_caches
from pyjax.runtime.first_code import compilation_barrier as compilation_barrier
from pyjax.runtime.placement import block_until_ready as block_until_ready
from pyjax.runtime.placement import copy_to_host_async as copy_to_host_async
from pyjax.runtime.placement import device_get as device_get
from pyjax.runtime.placement import device_put as device_put
from pyjax.runtime.placement import effects_barrier as effects_barrier
from pyjax.runtime.placement import live_arrays as live_arrays
from pyjax.runtime.placement import typeof as typeof
from pyjax.sharding import NamedSharding as NamedSharding
from pyjax.sharding import Shard as Shard
from pyjax.sharding.mesh import set_mesh as set_mesh
from pyjax.sharding.partition_spec import PartitionSpec as P
from xla_backend.runtime.client import Device as Device

# Options that a block may override: `with pyjax.enable_x64(True): ...`
allow_f16_reductions = _options.allow_f16_reductions
array_garbage_collection_guard = _options.array_garbage_collection_guard
auto_pcast = _options.auto_pcast
check_tracer_leaks = _options.check_tracer_leaks
checking_leaks = _options.check_tracer_leaks
debug_infs = _options.debug_infs
debug_key_reuse = _options.debug_key_reuse
debug_nans = _options.debug_nans
default_device = _options.default_device
default_matmul_precision = _options.default_matmul_precision
default_prng_impl = _options.default_prng_impl
enable_checks = _options.enable_checks
enable_custom_prng = _options.enable_custom_prng
enable_x64 = _options.enable_x64
explain_cache_misses = _options.explain_cache_misses
explicit_x64_dtypes = _options.explicit_x64_dtypes
legacy_prng_key = _options.legacy_prng_key
log_compiles = _options.log_compiles
no_execution = _options.no_execution
no_tracing = _options.no_tracing
jax2tf_associative_scan_reductions = _options.jax2tf_associative_scan_reductions
num_threads = _options.num_threads
numpy_dtype_promotion = _options.numpy_dtype_promotion
numpy_rank_promotion = _options.numpy_rank_promotion
remove_size_one_mesh_axis_from_type = _options.remove_size_one_mesh_axis_from_type
softmax_custom_jvp = _options.softmax_custom_jvp
thread_guard = _options.thread_guard
threefry_partitionable = _options.threefry_partitionable
transfer_guard = _options.transfer_guard
transfer_guard_device_to_device = _options.transfer_guard_device_to_device
transfer_guard_device_to_host = _options.transfer_guard_device_to_host
transfer_guard_host_to_device = _options.transfer_guard_host_to_device
