"""Which variant of a routine a program calls: sizes are known where it is compiled, so the code of
one way of doing it is enough.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.llvm.target import TargetInfo
from xla_backend.process.on_first_use import import_now
from xla_backend.targets.cpu.routines.gemm_tiles import GEMM_TYPES


def _subject(name: str) -> Any:
    """A module of routines: most programs call those of one or two."""
    return import_now(f"{__package__}.{name}")


def variant(routine: str, operands: Mapping[str, Any], target: TargetInfo) -> str:
    """The name with which a program calls a routine; `operands` by name of the parameter, numbers
    as they are."""
    family, _, rest = routine.partition("_")
    if family == "gemm":
        name = rest.removeprefix("fused_").removeprefix("batched_")
        path = _subject("gemm_paths").path_of(GEMM_TYPES[name], target, operands)
        return f"{routine}.{path.name}"
    if family == "conv" and rest in GEMM_TYPES:
        conv = _subject("conv")
        dims = dict(zip(conv.FIELDS, operands["dims"], strict=True))
        return f"{routine}.{conv.variant_of(GEMM_TYPES[rest], target, dims)}"
    if family in ("sort", "argsort", "argsort64"):
        return f"{routine}{_subject('sort').path_of(operands['inner'] != 1)}"
    if family == "select":
        return f"{routine}{_subject('selection').path_of(P(rest), operands['first'])}"
    if "fft" in routine and routine.rpartition("_")[0] in _subject("fft_plan").KINDS:
        return f"{routine}{_subject('fft_forms').form_of(operands).suffix}"
    return routine
