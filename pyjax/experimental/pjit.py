"""The older name of jit with shardings."""

from pyjax.api.jit import jit as pjit

__all__ = ["pjit"]
