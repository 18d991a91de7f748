"""Writing the stages of a compilation to files or to stdout, with XLA's names and formats.

What does the writing loads with the first compilation that asks for a dump.
"""

from __future__ import annotations

from importlib import import_module

from xla_backend.dump.interface import CompilationListener
from xla_backend.dump_options import DumpOptions


def make_dumper(options: DumpOptions | None, module_name: str) -> CompilationListener | None:
    """The dumper of one compilation, or None if nothing is to be dumped."""
    if options is None or not options.wanted:
        return None
    return import_module("xla_backend.dump.dumper").new_dumper(options, module_name)
