"""Jaxprs and primitives, for libraries that read or transform programs."""

from pyjax.core import AbstractToken as AbstractToken
from pyjax.core import ClosedJaxpr as ClosedJaxpr
from pyjax.core import DebugInfo as DebugInfo
from pyjax.core import DropVar as DropVar
from pyjax.core import Effect as Effect
from pyjax.core import Effects as Effects
from pyjax.core import Jaxpr as Jaxpr
from pyjax.core import JaxprEqn as JaxprEqn
from pyjax.core import JaxprTypeError as JaxprTypeError
from pyjax.core import Literal as Literal
from pyjax.core import Primitive as Primitive
from pyjax.core import Var as Var
from pyjax.core import check_jaxpr as check_jaxpr
from pyjax.core import find_top_trace as find_top_trace
from pyjax.core import get_opaque_trace_state as get_opaque_trace_state
from pyjax.core import jaxpr_as_fun as jaxpr_as_fun
from pyjax.core import jaxprs_in_params as jaxprs_in_params
from pyjax.core import no_effects as no_effects
from pyjax.core import nonempty_axis_env_DO_NOT_USE as nonempty_axis_env_DO_NOT_USE
from pyjax.core import subjaxprs as subjaxprs
from pyjax.core import unsafe_get_axis_names_DO_NOT_USE as unsafe_get_axis_names_DO_NOT_USE
from pyjax.core import valid_jaxtype as valid_jaxtype
from pyjax.core.trace_state import set_current_trace as set_current_trace
from pyjax.extend.core import primitives as primitives
