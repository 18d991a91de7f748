"""Options that have no row yet. To finish one, write its row and take its name out of here."""

from __future__ import annotations

PENDING = frozenset(
    {
        "jax_bcoo_cusparse_lowering",
        "jax_cpu_collectives_implementation",
        "jax_cpu_enable_async_dispatch",
        "jax_cpu_enable_gloo_collectives",
        "jax_enable_custom_vjp_by_custom_transpose",
        "jax_enable_empty_arrays",
        "jax_pallas_dump_promela_to",
        "jax_pallas_enable_runtime_assert",
        "jax_pallas_verbose_errors",
        "jax_threefry_gpu_kernel_lowering",
    }
)
