"""The functions and classes of `pyjax` itself that come together, each from where it lives. `pyjax`
has them from here, with the first use of one, and type checkers through `__init__.pyi`. Those that
many programs do without are in `_ON_DEMAND` of `__init__.py`. Layer: top.
"""

from pyjax import lax as lax
from pyjax import numpy as numpy
from pyjax._config import options as _options
from pyjax.api.eval_shape import ShapeDtypeStruct as ShapeDtypeStruct
from pyjax.api.eval_shape import eval_shape as eval_shape
from pyjax.api.jit import jit as jit
from pyjax.core.array import Array as Array
from pyjax.core.compile_log import assert_compiles as assert_compiles
from pyjax.core.dtypes import float0 as float0
from pyjax.core.dynamic_slices import ds as ds
from pyjax.core.refs import Ref as Ref
from pyjax.lax.callbacks import pure_callback as pure_callback
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
