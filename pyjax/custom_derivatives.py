"""Functions with derivative rules of their own."""

from pyjax.api.custom_gradient import closure_convert as closure_convert
from pyjax.api.custom_gradient import custom_gradient as custom_gradient
from pyjax.api.custom_jvp import SymbolicZero as SymbolicZero
from pyjax.api.custom_jvp import custom_jvp as custom_jvp
from pyjax.api.custom_jvp import custom_jvp_call_p as custom_jvp_call_p
from pyjax.api.custom_jvp import zero_from_primal as zero_from_primal
from pyjax.api.custom_vjp import CustomVJPPrimal as CustomVJPPrimal
from pyjax.api.custom_vjp import custom_vjp as custom_vjp
from pyjax.api.custom_vjp import custom_vjp_call_p as custom_vjp_call_p
from pyjax.api.linear_call import linear_call as linear_call
