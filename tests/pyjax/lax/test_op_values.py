"""Every operator row against its oracle: eagerly, jitted, vmapped, through the HLO evaluator, and
with its kernels as they are scheduled for the CPU and for GPUs in the emulator."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from pyjax.core.tree_util import tree_leaves
from tests.op_checks import RUNNERS, assert_close, eager, emulated, emulated_gpu
from tests.op_table import F32, Op, case_id, cases
from tests.op_tables import OPS


@pytest.mark.parametrize("run", RUNNERS, ids=case_id)
@pytest.mark.parametrize("op, dtype, shapes", cases(OPS), ids=case_id)
def test_value(op, dtype, shapes, run):
    if run.__name__ == "vmapped" and not op.vmap:
        pytest.skip(op.note)
    check_value(op, dtype, shapes, run)


def check_value(op, dtype, shapes, run):
    args = op.draw(dtype, shapes)
    wanted = tree_leaves(op.oracle(*args))
    got = run(op.fn, args)
    assert len(got) == len(wanted)
    for g, w in zip(got, wanted):
        assert_close(g, w, op.tolerance(dtype))


# Sums of many terms: seconds each in Python.
LONG = {
    *("bessel_i0e", "bessel_i1e", "igamma", "igamma_grad_a", "igammac", "lgamma", "digamma"),
    *("polygamma", "random_gamma_grad", "regularized_incomplete_beta", "zeta"),
}


def _rest_is_slow(ops: Sequence[Op]) -> list[object]:
    """All cases; one of each primitive runs always, but for those that take long."""
    found = []
    seen = set(LONG)
    for case in cases(ops):
        primitive = case[0].primitive
        found.append(pytest.param(*case, marks=pytest.mark.slow if primitive in seen else ()))
        seen.add(primitive)
    return found


@pytest.mark.parametrize("run", [emulated, emulated_gpu], ids=case_id)
@pytest.mark.parametrize("op, dtype, shapes", _rest_is_slow(OPS), ids=case_id)
def test_value_emulated(op, dtype, shapes, run):
    check_value(op, dtype, shapes, run)


@pytest.mark.parametrize("op", [op for op in OPS if op.special], ids=case_id)
def test_special_values(op):
    x = np.asarray(op.special, F32)
    with np.errstate(all="ignore"):
        wanted = np.asarray(op.oracle(x))
    (got,) = eager(op.fn, [x])
    assert_close(got, wanted, op.tolerance(F32))
