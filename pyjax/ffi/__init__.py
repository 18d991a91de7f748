"""Functions of shared libraries, and of Python, as operations of programs."""

from pyjax.ffi.calls import build_ffi_lowering_function as build_ffi_lowering_function
from pyjax.ffi.calls import ffi_call as ffi_call
from pyjax.ffi.calls import ffi_lowering as ffi_lowering
from pyjax.ffi.registration import include_dir as include_dir
from pyjax.ffi.registration import pycapsule as pycapsule
from pyjax.ffi.registration import register_ffi_target as register_ffi_target
from pyjax.ffi.registration import (
    register_ffi_target_as_batch_partitionable as register_ffi_target_as_batch_partitionable,
)
from pyjax.ffi.registration import register_ffi_type as register_ffi_type
from pyjax.ffi.registration import register_ffi_type_id as register_ffi_type_id
