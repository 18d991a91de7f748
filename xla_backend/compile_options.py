"""CompileOptions: all that a compilation depends on besides the module. Frozen, hashable: part of
cache keys.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """Options of one compilation.

    Fields:
      optimization_level: 0 (only what is needed for correctness) to 3 (everything; the default is
        2).
      num_threads: threads generated code may use; None: the CPUs this process may run on.
      verify: run the HLO verifier before and after each pass, and audit the changed flags.
      disabled_passes: pass names to leave out.
      dump: where and what to dump, or None (the type belongs to debug_options; this file stays
        free of it).
      target_cpu, target_features: LLVM names; None: this machine.
    """

    optimization_level: int = 2
    num_threads: int | None = None
    verify: bool = False
    disabled_passes: frozenset[str] = field(default_factory=frozenset)
    dump: object | None = None
    target_cpu: str | None = None
    target_features: str | None = None
