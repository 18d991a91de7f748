"""Which primitives move arrays of random keys about: they look at no element, so keys pass through.

Lowering applies them to the words of the keys, batched over the key's own axes.
"""

from pyjax.interpreters.hlo import data_movement_primitives
from pyjax.interpreters.rules import all_primitives

_NAMES = (
    "broadcast_in_dim",
    "concatenate",
    "copy",
    "dynamic_slice",
    "dynamic_update_slice",
    "gather",
    "pad",
    "reshape",
    "rev",
    "scatter",
    "select_n",
    "slice",
    "split",
    "squeeze",
    "stack",
    "tile",
    "transpose",
    "unstack",
)
data_movement_primitives.update(all_primitives[n] for n in _NAMES)
