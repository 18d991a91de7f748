"""An HLO compiler that stands alone: HLO or StableHLO text in, executables out.

>>> import numpy as np, xla_backend
>>> text = "ENTRY e { x = f32[3] parameter(0)  ROOT r = f32[3] multiply(x, x) }"
>>> executable = xla_backend.compile(xla_backend.parse_hlo(text))
>>> executable.execute([np.array([1, 2, 3], np.float32)])
[array([1., 4., 9.], dtype=float32)]

The names load with their first use, because `pyjax` imports parts of this package on a budget.
"""

from typing import Any as _Any

from xla_backend.process.on_first_use import import_now as _import_now

_PUBLIC = {
    "Executable": "xla_backend.library",
    "compile": "xla_backend.library",
    "evaluate": "xla_backend.library",
    "hlo_to_stablehlo": "xla_backend.stablehlo",
    "module_to_stablehlo": "xla_backend.stablehlo",
    "parse_hlo": "xla_backend.library",
    "parse_stablehlo": "xla_backend.stablehlo",
    "CompileOptions": "xla_backend.compile_options",
    "TargetCode": "xla_backend.runtime.target_code",
    "HloError": "xla_backend.hlo.errors",
    "HloModule": "xla_backend.hlo.module",
    "HloPass": "xla_backend.passes.base",
    "Target": "xla_backend.compile_target",
    "make_pass": "xla_backend.passes.registry",
    "pass_names": "xla_backend.passes.registry",
    "register_pass": "xla_backend.passes.registry",
    "run_checks": "xla_backend.check_runner",
    "unregister_pass": "xla_backend.passes.registry",
    "user_passes": "xla_backend.user_passes",
}

__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> _Any:
    if name in _PUBLIC:
        return getattr(_import_now(_PUBLIC[name]), name)
    raise AttributeError(f"module 'xla_backend' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
