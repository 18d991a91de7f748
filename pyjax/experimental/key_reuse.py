"""Checks that a random key is used once: `jax_debug_key_reuse`, or the block `debug_key_reuse`.

A key is consumed by what draws from it, and by `split`; it may be used again as a fresh one after
`clone`. `KeyReuseError` says where it was used before.
"""

from pyjax._config import options as _options
from pyjax.core.errors import KeyReuseError as KeyReuseError

debug_key_reuse = _options.debug_key_reuse

__all__ = ["KeyReuseError", "debug_key_reuse"]
