"""Programs and values: avals, primitives, traces, jaxprs; the names that libraries use."""

from typing import Any as _Any

from pyjax.core.avals import AbstractToken as AbstractToken
from pyjax.core.avals import AbstractValue as AbstractValue
from pyjax.core.avals import ShapedArray as ShapedArray
from pyjax.core.avals import abstract_token as abstract_token
from pyjax.core.avals import is_valid_value as valid_jaxtype
from pyjax.core.avals import pytype_aval_mappings as pytype_aval_mappings
from pyjax.core.check_jaxpr import check_jaxpr as check_jaxpr
from pyjax.core.debug_info import DebugInfo as DebugInfo
from pyjax.core.effects import Effect as Effect
from pyjax.core.effects import Effects as Effects
from pyjax.core.effects import no_effects as no_effects
from pyjax.core.errors import InconclusiveDimensionOperation as InconclusiveDimensionOperation
from pyjax.core.errors import JaxprTypeError as JaxprTypeError
from pyjax.core.jaxpr import Atom as Atom
from pyjax.core.jaxpr import ClosedJaxpr as ClosedJaxpr
from pyjax.core.jaxpr import DropVar as DropVar
from pyjax.core.jaxpr import Jaxpr as Jaxpr
from pyjax.core.jaxpr import JaxprEqn as JaxprEqn
from pyjax.core.jaxpr import Literal as Literal
from pyjax.core.jaxpr import Var as Var
from pyjax.core.jaxpr import eval_jaxpr as eval_jaxpr
from pyjax.core.jaxpr import jaxpr_as_fun as jaxpr_as_fun
from pyjax.core.jaxpr import jaxprs_in_params as jaxprs_in_params
from pyjax.core.jaxpr import subjaxprs as subjaxprs
from pyjax.core.library_queries import OutputType as OutputType
from pyjax.core.library_queries import ParamDict as ParamDict
from pyjax.core.library_queries import Value as Value
from pyjax.core.library_queries import aval_mapping_handlers as aval_mapping_handlers
from pyjax.core.library_queries import concrete_or_error as concrete_or_error
from pyjax.core.library_queries import (
    concretization_function_error as concretization_function_error,
)
from pyjax.core.library_queries import eval_context as eval_context
from pyjax.core.library_queries import gensym as gensym
from pyjax.core.library_queries import is_constant_dim as is_constant_dim
from pyjax.core.library_queries import is_constant_shape as is_constant_shape
from pyjax.core.library_queries import mapped_aval as mapped_aval
from pyjax.core.library_queries import max_dim as max_dim
from pyjax.core.library_queries import min_dim as min_dim
from pyjax.core.library_queries import new_jaxpr_eqn as new_jaxpr_eqn
from pyjax.core.library_queries import (
    primal_dtype_to_tangent_dtype as primal_dtype_to_tangent_dtype,
)
from pyjax.core.library_queries import trace_ctx as trace_ctx
from pyjax.core.library_queries import unmapped_aval as unmapped_aval
from pyjax.core.primitive import CallPrimitive as CallPrimitive
from pyjax.core.primitive import Primitive as Primitive
from pyjax.core.trace import Tracer as Tracer
from pyjax.core.trace import is_concrete as is_concrete
from pyjax.core.trace_queries import axis_names_in_context as unsafe_get_axis_names_DO_NOT_USE
from pyjax.core.trace_queries import find_top_trace as find_top_trace
from pyjax.core.trace_queries import get_opaque_trace_state as get_opaque_trace_state
from pyjax.core.trace_queries import nonempty_axis_env as nonempty_axis_env_DO_NOT_USE
from pyjax.core.trace_queries import take_current_trace as take_current_trace
from pyjax.core.trace_queries import under_jit as unsafe_am_i_under_a_jit_DO_NOT_USE
from pyjax.core.trace_queries import under_vmap as unsafe_am_i_under_a_vmap_DO_NOT_USE
from pyjax.core.user_trace import Trace as Trace
from pyjax.core.user_trace import TraceTag as TraceTag
from xla_backend.process.on_first_use import import_now as _import_now


def __getattr__(name: str) -> _Any:
    # Of a higher layer.
    if name == "ensure_compile_time_eval":
        return _import_now("pyjax.api.compile_time").ensure_compile_time_eval
    raise AttributeError(f"module 'pyjax.core' has no attribute {name!r}")
