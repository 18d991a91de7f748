"""All rows of all areas."""

from __future__ import annotations

from tests.config.effects import (
    compilation,
    debugging,
    devices,
    exporting,
    kernels,
    logging_,
    migration,
    numerics,
)
from tests.config.effects.table import ROWS

__all__ = ["ROWS"]
AREAS = (compilation, debugging, devices, exporting, kernels, logging_, migration, numerics)
