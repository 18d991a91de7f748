"""Looking into compiled programs: print and callback with values at run time."""

from pyjax.api.breakpoints import breakpoint
from pyjax.api.debugging import callback, inspect_array_sharding, log, print
from pyjax.api.visualize import visualize_array_sharding, visualize_sharding
from pyjax.core.effects import DebugEffect, OrderedDebugEffect

__all__ = [
    "DebugEffect",
    "OrderedDebugEffect",
    "breakpoint",
    "callback",
    "inspect_array_sharding",
    "log",
    "print",
    "visualize_array_sharding",
    "visualize_sharding",
]
