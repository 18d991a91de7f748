"""All tables of the edge-value tests, by the name of their file of recorded results.

A public function that no row can name is in `EXCLUDED` with the reason; test_coverage.py fails on
a function that is in neither.
"""

from __future__ import annotations

from tests.edge_values import (
    table_lax_elementwise,
    table_lax_structural,
    table_linalg,
    table_numpy_bits,
    table_numpy_elementwise,
    table_numpy_indexing,
    table_numpy_makes,
    table_numpy_moves,
    table_numpy_reductions,
    table_numpy_searches,
    table_random,
)
from tests.edge_values.rows import Row

TABLES: dict[str, tuple[Row, ...]] = {
    "lax_elementwise": table_lax_elementwise.ROWS,
    "lax_structural": table_lax_structural.ROWS,
    "linalg": table_linalg.ROWS,
    "numpy_indexing": table_numpy_indexing.ROWS,
    "numpy_bits": table_numpy_bits.ROWS,
    "numpy_elementwise": table_numpy_elementwise.ROWS,
    "numpy_reductions": table_numpy_reductions.ROWS,
    "numpy_shapes": (
        *table_numpy_moves.ROWS,
        *table_numpy_makes.ROWS,
        *table_numpy_searches.ROWS,
    ),
    "random": table_random.ROWS,
}

# How many cases of a table have no recorded result yet; record.py records them. Only what is
# recorded is compared.
PENDING: dict[str, int] = {
    "lax_elementwise": 145,
    "lax_structural": 47,
    "linalg": 321,
    "numpy_elementwise": 452,
    "numpy_reductions": 676,
    "numpy_shapes": 1061,
}

# "module.name": why no row calls it
EXCLUDED: dict[str, str] = {**table_random.EXCLUDED}
