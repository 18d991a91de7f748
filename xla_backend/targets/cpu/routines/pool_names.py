"""Names of the thread pool's functions."""

from __future__ import annotations

# What a limited library calls the functions of the pool that it has under the same names itself.
POOL_NAMES = {
    "pyjax_num_threads": "pyjax_pool_num_threads",
    "pyjax_parallel_for": "pyjax_pool_parallel_for",
}
