"""Looking into compiled programs: print and callback with values at run time."""

from pyjax.api.debugging import callback, inspect_array_sharding, print
from pyjax.core.effects import DebugEffect, OrderedDebugEffect

__all__ = [
    "DebugEffect",
    "OrderedDebugEffect",
    "callback",
    "inspect_array_sharding",
    "print",
]
