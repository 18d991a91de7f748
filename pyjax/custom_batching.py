"""Functions with rules of their own for vmap."""

from pyjax.api.custom_vmap import custom_vmap as custom_vmap
from pyjax.api.custom_vmap import sequential_vmap as sequential_vmap
