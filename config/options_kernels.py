"""Options of the kernel language."""

from __future__ import annotations

from .kinds import Bool, Str
from .registry import Affects, Scope, option

mosaic_allow_hlo = option(
    "jax_mosaic_allow_hlo",
    kind=Bool(),
    default=False,
    affects=Affects.TRACE,
    scope=Scope.GLOBAL,
    help="Allow HLO inside kernels of another project's compiler.",
    no_effect="that compiler is not part of pyjax",
)

pallas_dump_promela_to = option(
    "jax_pallas_dump_promela_to",
    kind=Str(),
    default="",
    affects=Affects.NOTHING,
    scope=Scope.GLOBAL,
    help="Directory for models of the barriers of kernels.",
    waits_for="pyjax has no kernel language",
)

pallas_enable_runtime_assert = option(
    "jax_pallas_enable_runtime_assert",
    kind=Bool(),
    default=False,
    affects=Affects.TRACE,
    scope=Scope.THREAD,
    help="Run debug checks inside kernels.",
    waits_for="pyjax has no kernel language",
)

pallas_use_mosaic_gpu = option(
    "jax_pallas_use_mosaic_gpu",
    kind=Bool(),
    default=False,
    affects=Affects.TRACE,
    scope=Scope.GLOBAL,
    help="Lower kernels through another project's GPU compiler.",
    no_effect="that compiler is not part of pyjax",
)

pallas_verbose_errors = option(
    "jax_pallas_verbose_errors",
    kind=Bool(),
    default=True,
    affects=Affects.NOTHING,
    scope=Scope.GLOBAL,
    help="Long error messages from the kernel language.",
    waits_for="pyjax has no kernel language",
)

mosaic_use_python_pipeline = option(
    "mosaic_use_python_pipeline",
    kind=Bool(),
    default=False,
    affects=Affects.TRACE,
    scope=Scope.GLOBAL,
    help="Use the Python pipeline of another project's compiler.",
    no_effect="that compiler is not part of pyjax",
)
