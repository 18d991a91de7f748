"""The stages of compilation: Wrapped → Traced → Lowered → Compiled."""

from pyjax.api.jit import PjitFunction as Wrapped
from pyjax.api.stages import ArgInfo, Compiled, CompilerOptions, Lowered, Traced

__all__ = ["ArgInfo", "Compiled", "CompilerOptions", "Lowered", "Traced", "Wrapped"]
