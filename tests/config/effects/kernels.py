"""Options of the kernel language."""

from __future__ import annotations

from tests.config.effects.table import inert

inert("jax_mosaic_allow_hlo", True, "that compiler is not part of pyjax")
inert("jax_pallas_use_mosaic_gpu", True, "that compiler is not part of pyjax")
inert("mosaic_use_python_pipeline", True, "that compiler is not part of pyjax")
