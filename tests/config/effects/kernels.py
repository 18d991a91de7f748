"""Options of the kernel language."""

from __future__ import annotations

from tests.config.effects.table import inert, waits

inert("jax_mosaic_allow_hlo", True, "that compiler is not part of pyjax")
inert("jax_pallas_use_mosaic_gpu", True, "that compiler is not part of pyjax")
inert("mosaic_use_python_pipeline", True, "that compiler is not part of pyjax")

waits("jax_pallas_dump_promela_to", lambda scratch: str(scratch), "pyjax has no kernel language")
waits("jax_pallas_enable_runtime_assert", True, "pyjax has no kernel language")
waits("jax_pallas_verbose_errors", False, "pyjax has no kernel language")
