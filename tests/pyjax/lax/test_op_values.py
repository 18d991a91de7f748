"""Every operator row against its oracle: eagerly, jitted, vmapped and through the HLO evaluator."""

from __future__ import annotations

import numpy as np
import pytest

from pyjax.core.tree_util import tree_leaves
from tests.op_checks import RUNNERS, assert_close, eager
from tests.op_table import F32, case_id, cases
from tests.op_tables import OPS


@pytest.mark.parametrize("run", RUNNERS, ids=case_id)
@pytest.mark.parametrize("op, dtype, shapes", cases(OPS), ids=case_id)
def test_value(op, dtype, shapes, run):
    if run.__name__ == "vmapped" and not op.vmap:
        pytest.skip(op.note)
    args = op.draw(dtype, shapes)
    wanted = tree_leaves(op.oracle(*args))
    got = run(op.fn, args)
    assert len(got) == len(wanted)
    for g, w in zip(got, wanted):
        assert_close(g, w, op.tolerance(dtype))


@pytest.mark.parametrize("op", [op for op in OPS if op.special], ids=case_id)
def test_special_values(op):
    x = np.asarray(op.special, F32)
    with np.errstate(all="ignore"):
        wanted = np.asarray(op.oracle(x))
    (got,) = eager(op.fn, [x])
    assert_close(got, wanted, op.tolerance(F32))
