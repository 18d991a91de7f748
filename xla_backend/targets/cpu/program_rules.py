"""All rules of the CPU: importing their modules registers them."""

from __future__ import annotations

from xla_backend.targets.cpu import (
    conv_rules,
    dot_rules,
    effect_rules,
    extreme_rules,
    fft_rules,
    lapack_rules,
    loop_rules,
    matrix_rules,
    output_fusion_rules,
    scan_rules,
    sort_rules,
    transpose_rules,
)
from xla_backend.targets.cpu.rules import RULES as RULES

# Imported for the rules they register.
_RULE_MODULES = (
    conv_rules,
    dot_rules,
    effect_rules,
    extreme_rules,
    fft_rules,
    lapack_rules,
    loop_rules,
    matrix_rules,
    output_fusion_rules,
    scan_rules,
    sort_rules,
    transpose_rules,
)
