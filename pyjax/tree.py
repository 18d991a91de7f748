"""Short names for pytree functions: `pyjax.tree.map` is `pyjax.tree_util.tree_map`."""

from pyjax.core.pytree import tree_flatten as flatten
from pyjax.core.pytree import tree_unflatten as unflatten
from pyjax.core.tree_util import Static as static
from pyjax.core.tree_util import tree_all as all
from pyjax.core.tree_util import tree_broadcast as broadcast
from pyjax.core.tree_util import tree_flatten_with_path as flatten_with_path
from pyjax.core.tree_util import tree_leaves as leaves
from pyjax.core.tree_util import tree_leaves_with_path as leaves_with_path
from pyjax.core.tree_util import tree_map as map
from pyjax.core.tree_util import tree_map_with_path as map_with_path
from pyjax.core.tree_util import tree_reduce as reduce
from pyjax.core.tree_util import tree_reduce_associative as reduce_associative
from pyjax.core.tree_util import tree_structure as structure
from pyjax.core.tree_util import tree_transpose as transpose

__all__ = [
    "all",
    "broadcast",
    "flatten",
    "flatten_with_path",
    "leaves",
    "leaves_with_path",
    "map",
    "map_with_path",
    "reduce",
    "reduce_associative",
    "static",
    "structure",
    "transpose",
    "unflatten",
]
