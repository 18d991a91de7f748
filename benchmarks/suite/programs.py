"""All programs of the suite: importing the families registers them."""

from __future__ import annotations

from benchmarks.suite import arrays, flow, models, products, science
from benchmarks.suite.package import PROGRAMS, Program

FAMILIES = (arrays, products, flow, models, science)

__all__ = ["FAMILIES", "PROGRAMS", "Program"]
