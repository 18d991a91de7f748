"""Programs that run before LLVM has compiled them: which, and who waits for the compiler.

Layer: runtime.
"""

from __future__ import annotations

from pyjax._config import options
from xla_backend.compile_options import CompileOptions
from xla_backend.process import later

# The latest, without and with it: keys know options by their identity.
_latest: tuple[CompileOptions, CompileOptions] = (CompileOptions(), CompileOptions())


def with_first_code(compile_for: CompileOptions) -> CompileOptions:
    """How to compile a program that is about to run. (No key depends on it.)"""
    global _latest
    if not options.first_code.value:
        return compile_for
    plain, first = _latest
    if plain is not compile_for:
        first = compile_for._replace(first_code=True)
        _latest = compile_for, first
    return first


def compilation_barrier() -> None:
    """Wait until each program that was called so far runs on its optimised code.

    With the option `jax_first_code` the first call of a function does not wait for LLVM, which
    compiles on another thread meanwhile. Who measures calls waits here before.

    >>> import pyjax
    >>> f = pyjax.jit(lambda x: x * 2 + 1)
    >>> f(1.0).item()
    3.0
    >>> pyjax.compilation_barrier()
    """
    later.finish_all()
