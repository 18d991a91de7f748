"""Fuzzing of the compiler: random programs run three ways and compared; failures shrink to
regression cases. `python -m xla_backend.tools.fuzz --help`."""
