"""The rules by which types say how results are split, given to their primitives."""

from __future__ import annotations

from pyjax.interpreters.rules import all_primitives
from pyjax.interpreters.splits import split_rules, told_of_sums
from pyjax.lax import (  # noqa: F401  (their primitives have rules)
    bitwise,
    buffer_callbacks,
    callbacks,
    creation,
    cumulative,
    fft,
    inspect_sharding,
    misc,
    ragged_dot,
    random_bits,
    random_generators,
    random_hashes,
    random_keys,
    reduce_general,
    shape_extra,
    sort,
    split_rules_indexing,
    split_rules_products,
    varying,
)
from pyjax.lax import split_rules as dimensions
from pyjax.lax.control_flow import linear_solve, platform, root  # noqa: F401
from pyjax.lax.indexing import gather, scatter, slicing  # noqa: F401
from pyjax.lax.linalg import (  # noqa: F401
    eigen,
    lu_factors,
    qr_factors,
    solve,
    svd_factors,
    tridiagonal_systems,
)
from pyjax.lax.refs import primitives  # noqa: F401
from pyjax.lax.windows import convolution, reduce_window, windowed_select  # noqa: F401

for _rules in (dimensions.RULES, split_rules_indexing.RULES, split_rules_products.RULES):
    split_rules.update({all_primitives[name]: rule for name, rule in _rules.items()})
told_of_sums.update(all_primitives[name] for name in ("dot_general", "reduce_sum"))
