"""Writing the stages of a compilation to files or to stdout, with XLA's names and formats.

Loads only when a compilation asks for a dump.
"""

from xla_backend.dump.dumper import Dumper, make_dumper

__all__ = ["Dumper", "make_dumper"]
