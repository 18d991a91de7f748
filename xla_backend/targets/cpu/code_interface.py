"""What those who write the code of programs, and those who run it, agree on."""

from __future__ import annotations

# Estimates of run times.
CYCLES_PER_MICROSECOND = 2500.0
# What a kernel has in the table of times: nanoseconds, and how often it ran.
TIMES_BYTES = 16
# The word of first code that is the address of optimised code, once there is any.
OPTIMISED = "pyjax_optimised"


def host_call_symbol(index: int) -> str:
    """What stands in the code for the number of a program's host call."""
    return f"pyjax_host_{index}"
