"""All tables of the edge-value tests, by the name of their file of recorded results.

A public function that no row can name is in excluded.py with the reason; test_coverage.py fails on
a function that is in neither.
"""

from __future__ import annotations

from tests.edge_values import (
    table_experimental,
    table_image,
    table_lax_elementwise,
    table_lax_structural,
    table_linalg,
    table_numpy_bits,
    table_numpy_elementwise,
    table_numpy_gradients,
    table_numpy_indexing,
    table_numpy_makes,
    table_numpy_moves,
    table_numpy_reductions,
    table_numpy_searches,
    table_random,
    table_scipy_linalg,
    table_scipy_others,
    table_scipy_signal,
    table_scipy_stats,
    table_special,
    table_transformations,
    table_trees,
)
from tests.edge_values.rows import Row

TABLES: dict[str, tuple[Row, ...]] = {
    "experimental": table_experimental.ROWS,
    "image": table_image.ROWS,
    "lax_elementwise": table_lax_elementwise.ROWS,
    "lax_structural": table_lax_structural.ROWS,
    "linalg": table_linalg.ROWS,
    "numpy_indexing": table_numpy_indexing.ROWS,
    "numpy_bits": table_numpy_bits.ROWS,
    "numpy_elementwise": table_numpy_elementwise.ROWS,
    "numpy_gradients": table_numpy_gradients.ROWS,
    "numpy_reductions": table_numpy_reductions.ROWS,
    "numpy_shapes": (
        *table_numpy_moves.ROWS,
        *table_numpy_makes.ROWS,
        *table_numpy_searches.ROWS,
    ),
    "random": table_random.ROWS,
    "scipy_linalg": table_scipy_linalg.ROWS,
    "scipy_others": table_scipy_others.ROWS,
    "scipy_signal": table_scipy_signal.ROWS,
    "scipy_stats": table_scipy_stats.ROWS,
    "special": table_special.ROWS,
    "transformations": table_transformations.ROWS,
    "trees": table_trees.ROWS,
}

# How many cases of a table have no recorded result; only what is recorded is compared. These are
# cases of `binomial` and `expn` that JAX takes more than 45 s for.
PENDING: dict[str, int] = {"random": 4, "special": 6}
