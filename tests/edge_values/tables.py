"""All tables of the edge-value tests, by the name of their file of recorded results.

A public function that no row can name is in `EXCLUDED` with the reason; test_coverage.py fails on
a function that is in neither.
"""

from __future__ import annotations

from tests.edge_values import table_numpy_bits
from tests.edge_values.rows import Row

TABLES: dict[str, tuple[Row, ...]] = {
    "numpy_bits": table_numpy_bits.ROWS,
}

# "module.name": why no row calls it
EXCLUDED: dict[str, str] = {}
