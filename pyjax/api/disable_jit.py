"""disable_jit: functions run by Python. Layer: api."""

from __future__ import annotations

from pyjax._config import options
from pyjax._config.registry import Override


def disable_jit(disable: bool = True) -> Override:
    """Context manager: `jit` calls its function as it is, and loops and branches run in Python.

    So prints and debuggers see values. With `disable=False` jit compiles in the block, also where
    the option `jax_disable_jit` says otherwise.

    >>> import pyjax
    >>> with disable_jit():
    ...     pyjax.jit(lambda x: print(x))(1.5)
    1.5
    """
    return options.disable_jit(disable)
