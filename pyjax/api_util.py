"""Functions of pytrees as functions of flat values, for libraries with transformations of their
own."""

from pyjax.api.wrapped_calls import argnums_partial as argnums_partial
from pyjax.api.wrapped_calls import debug_info as debug_info
from pyjax.api.wrapped_calls import donation_vector as donation_vector
from pyjax.api.wrapped_calls import flatten_axes as flatten_axes
from pyjax.api.wrapped_calls import flatten_fun as flatten_fun
from pyjax.api.wrapped_calls import flatten_fun_nokwargs as flatten_fun_nokwargs
from pyjax.api.wrapped_calls import rebase_donate_argnums as rebase_donate_argnums
from pyjax.api.wrapped_calls import safe_map as safe_map
from pyjax.api.wrapped_calls import shaped_abstractify as shaped_abstractify
