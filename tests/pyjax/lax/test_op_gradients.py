"""Derivatives of every differentiable operator row: jvp, vjp and differences agree, to the
row's order.
"""

from __future__ import annotations

import pyjax
from tests.op_checks import check_gradients
from tests.op_table import case_id, cases
from tests.op_tables import OPS
from tests.sampling import sampled

DIFFERENTIABLE = [
    (op, dtype, shapes)
    for op, dtype, shapes in cases([op for op in OPS if op.grad_order])
    if dtype.kind in "fc" and dtype.itemsize >= 4
]


@sampled("op, dtype, shapes", DIFFERENTIABLE, every=3, ids=case_id)
def test_gradient(op, dtype, shapes):
    with pyjax.enable_x64(True):
        check_gradients(op, dtype, shapes, op.grad_order)
