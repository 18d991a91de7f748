"""The machine that a compilation is for, as its options say."""

from __future__ import annotations

from xla_backend.compile_options import CompileOptions
from xla_backend.debug_options import FlagError
from xla_backend.llvm.target import TargetInfo, host_target, make_target

# xla_cpu_max_isa -> LLVM's CPU level and further features. None: whatever this machine has.
_ISAS: dict[str, tuple[str, str] | None] = {
    "SSE4_2": ("x86-64-v2", ""),
    "AVX": ("x86-64-v2", "+avx"),
    "AVX2": ("x86-64-v3", ""),
    "AVX512": ("x86-64-v4", ""),
    "AVX512_VNNI": None,
    "AVX512_BF16": None,
    "AMX": None,
    "AMX_FP16": None,
}
_NARROWEST = 128
_instead: TargetInfo | None = None


def compile_as_for(target: TargetInfo) -> None:
    """From now on programs of this process are compiled as on a machine of another kind, and kept
    as such; they run here, so it must be a level of this one."""
    global _instead
    _instead = target


def target_for(options: CompileOptions) -> TargetInfo:
    """This host, or the target that the options name, without what `max_isa` and `vector_bits`
    exclude.

    Raises:
      FlagError: no such instruction set.
    """
    named = options.target
    if named is None:
        target = _instead or host_target()
    else:
        target = make_target(named.triple, named.cpu, named.features)
    if options.max_isa:
        target = _limited(target, options.max_isa)
    if options.vector_bits is not None:
        bits = min(target.vector_bits, max(_NARROWEST, options.vector_bits))
        target = target._replace(vector_bits=bits)
    return target


def _limited(target: TargetInfo, isa: str) -> TargetInfo:
    if isa not in _ISAS:
        raise FlagError(f"--xla_cpu_max_isa={isa}: expected one of {', '.join(_ISAS)}")
    level = _ISAS[isa]
    if level is None or not target.is_x86:
        return target
    limited = make_target(target.triple, *level)
    # The limit never adds what the machine lacks.
    return limited if limited.vector_bits <= target.vector_bits else target
