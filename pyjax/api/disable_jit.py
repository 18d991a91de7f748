"""disable_jit: functions run by Python. Layer: api."""

from __future__ import annotations

from pyjax._config import options
from pyjax._config.registry import Override, deviating

# Not empty while compiling is switched off somewhere: calls look at it in place of the option.
_somewhere = deviating((options.disable_jit,), usual=(False,))


def is_jit_disabled() -> bool:
    """Whether `jit` calls its function as it is, here and now."""
    return bool(_somewhere and options.disable_jit.here()[0].value)


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
