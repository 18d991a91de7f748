"""All rules of GPUs: importing their modules registers them."""

from __future__ import annotations

from xla_backend.targets.gpu import (
    attention_rules,
    product_rules,
    scan_rules,
    scatter_rules,
    small_linalg_rules,
    solver_rules,
    sort_rules,
    state_rules,
)
from xla_backend.targets.gpu.rules import RULES as RULES

# Imported for the rules they register.
_RULE_MODULES = (
    attention_rules,
    product_rules,
    scan_rules,
    scatter_rules,
    small_linalg_rules,
    solver_rules,
    sort_rules,
    state_rules,
)
