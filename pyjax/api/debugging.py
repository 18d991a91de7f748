"""Looking into compiled programs: print and callback with values at run time."""

from __future__ import annotations

import functools
import logging
import string
from collections.abc import Callable, Sequence
from typing import Any

from pyjax.core.errors import fail, new_error
from pyjax.core.trace import Tracer
from pyjax.core.traceback_filter import api_boundary
from pyjax.lax.callbacks import debug_callback, debug_print
from pyjax.lax.inspect_sharding import inspect_sharding_p
from pyjax.sharding.shardings import Sharding

_logger = logging.getLogger("pyjax.debug")


@api_boundary
def callback(
    callback: Callable[..., None] | None = None,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    **kwargs: Any,
) -> Any:
    """Call a Python function with the run-time values of the arguments, for its side effect.

    Args:
      callback: function without result; left out: what takes it and its arguments is returned.
      ordered: keep the order of ordered callbacks.
      partitioned: each of the devices of a program calls with its parts, in no order; else it is
        called once, with all of them.
    Under grad the function sees the primal values, under vmap it is called for each example.

    >>> seen = []
    >>> pyjax.jit(lambda x: pyjax.debug.callback(lambda x: seen.append(int(x)), x))(3)
    >>> pyjax.effects_barrier()
    >>> seen
    [3]
    """
    if callback is None:
        return functools.partial(debug_callback, ordered=ordered, partitioned=partitioned)
    debug_callback(callback, *args, ordered=ordered, partitioned=partitioned, **kwargs)
    return None


class _Checker(string.Formatter):
    """Finds arguments that a format string leaves unused."""

    unused: Sequence[str] = ()

    def check_unused_args(self, used_args: Any, args: Any, kwargs: Any) -> None:
        unused = [repr(a) for i, a in enumerate(args) if i not in used_args]
        unused += [name for name in kwargs if name not in used_args]
        self.unused = unused

    def format_field(self, value: Any, format_spec: str) -> str:
        return ""  # values are not known yet: only the fields are checked

    def convert_field(self, value: Any, conversion: Any) -> Any:
        return value


@api_boundary
def print(
    fmt: str | None = None,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    skip_format_check: bool = False,
    _use_logging: bool = False,
    **kwargs: Any,
) -> Any:
    """Print `fmt.format(*args, **kwargs)` when the compiled program gets there.

    Args:
      fmt: a format string (not an f-string: values are not known while tracing); left out: what
        takes it and its arguments is returned.
      ordered: keep the order of ordered prints.
      partitioned: each of the devices of a program prints its parts, in no order.
      skip_format_check: allow arguments that `fmt` does not use.
      _use_logging: the text goes to the logger `pyjax.debug` (level info), as that of `debug.log`.
    NumPy's print options are those of the moment when this is called, or traced.
    Raises:
      TypeError: fmt is no string.  ValueError: an argument is not used.

    >>> pyjax.jit(lambda x: pyjax.debug.print("x is {x}", x=x))(3)
    x is 3
    >>> pyjax.effects_barrier()
    """
    if fmt is None:
        return functools.partial(
            print,
            ordered=ordered,
            partitioned=partitioned,
            skip_format_check=skip_format_check,
            _use_logging=_use_logging,
        )
    if not isinstance(fmt, str):
        raise new_error(
            TypeError,
            f"debug.print takes a format string first, got {type(fmt).__name__}; write "
            "debug.print('{}', x).",
        )
    if not skip_format_check:
        checker = _Checker()
        checker.vformat(fmt, args, kwargs)
        if checker.unused:
            fail(
                ValueError,
                f"Unused arguments to debug.print: {', '.join(checker.unused)}.",
                "Values are shown where the format string has a {}.",
                "Put a {} in the format string for each, e.g. debug.print('x = {x}', x=x).",
            )
    show = _logger.info if _use_logging else None
    debug_print(fmt, *args, ordered=ordered, partitioned=partitioned, _show=show, **kwargs)
    return None


log = functools.partial(print, _use_logging=True)


def inspect_array_sharding(value: Any, *, callback: Callable[[Sharding], None]) -> None:
    """Call `callback` with the sharding of an array; inside of `jit` when the program is compiled,
    with the one that the compiler has chosen.

    >>> inspect_array_sharding(jnp.ones(3), callback=lambda s: print(len(s.device_set)))
    1
    """
    if isinstance(value, Tracer):
        inspect_sharding_p.bind_all(value, callback=callback)
    else:
        callback(value.sharding)
