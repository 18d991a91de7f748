"""All rows, and the functions that have none."""

from __future__ import annotations

from tests.accuracy import table_complex, table_elementwise, table_nn, table_special
from tests.accuracy.rows import Row

ROWS: tuple[Row, ...] = (
    *table_elementwise.ROWS,
    *table_complex.ROWS,
    *table_special.ROWS,
    *table_nn.ROWS,
)

_NO_ROUNDING = "nothing is rounded: results are operands or constants"
_DECIMALS = "decimals are scaled to whole numbers and back, as in the reference"

# Functions that the tables of edge values compare with a tolerance, and why no row measures them.
NOT_MEASURED: dict[str, str] = {
    **dict.fromkeys(
        "lax.neg nn.identity nn.relu nn.relu6 nn.hard_tanh numpy.where "
        "scipy.special.gammasgn".split(),
        _NO_ROUNDING,
    ),
    "numpy.around": _DECIMALS,
    "numpy.round": _DECIMALS,
}
