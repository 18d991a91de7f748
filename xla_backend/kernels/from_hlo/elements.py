"""The emitter of elements with all its rules: the modules that register some are imported here."""

from __future__ import annotations

from xla_backend.kernels.from_hlo import indexing_rules, reductions, shape_rules
from xla_backend.kernels.from_hlo.elemental import HANDLERS, Element, ElementalEmitter, Indices

__all__ = ["HANDLERS", "RULE_MODULES", "Element", "ElementalEmitter", "Indices"]

RULE_MODULES = (indexing_rules, reductions, shape_rules)
