"""The persistent compilation cache: what it holds, and how to empty it."""

from pyjax.experimental.compilation_cache import compilation_cache as compilation_cache
