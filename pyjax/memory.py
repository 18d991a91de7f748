"""Kinds of memory."""

from pyjax.core.memory_space import MemorySpace as Space

__all__ = ["Space"]
