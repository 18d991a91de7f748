"""Reductions down columns in groups of rows: as text, by the verifier, by the interpreter."""

import numpy as np
import pytest
from native_checks import check_text

from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.kernels.builder import LoopBuilder
from xla_backend.kernels.interpreter import Interpreter
from xla_backend.kernels.ir import BufferRole, Kernel, Loop, walk
from xla_backend.kernels.printer import kernel_to_text
from xla_backend.kernels.schedule.blocks import bind_to_grid
from xla_backend.kernels.schedule.lanes import vectorise
from xla_backend.kernels.schedule.row_groups import reduce_in_groups, rows_of
from xla_backend.kernels.schedule.splitting import ScheduleError
from xla_backend.kernels.verifier import verify_kernel


def sums(rows: int, columns: int) -> tuple[Kernel, Loop]:
    """out[i] = 1 + p[0, i] + p[1, i] + ..., and the loop over columns."""
    b = LoopBuilder("k")
    p = b.buffer("p0", P.F32, rows * columns, BufferRole.OPERAND)
    out = b.buffer("out0", P.F32, columns, BufferRole.OUTPUT)
    one = b.constant(P.F32, 1)
    i, _ = b.open_loop(columns, independent=True, may_vectorize=True)
    j, (phi,) = b.open_loop(rows, inits=[one])
    total = b.compute(Opcode.ADD, P.F32, (phi, b.load(p, j * columns + i)))
    (result,) = b.close_loop([total])
    b.store(out, i, (result,))
    b.close_loop()
    return b.kernel, next(s for s in b.kernel.stages if isinstance(s, Loop))


def check(kernel: Kernel, rows: int, columns: int) -> None:
    """In the order of the rows, whatever the order of blocks."""
    verify_kernel(kernel)
    x = np.random.default_rng(0).standard_normal((rows, columns), np.float32)
    want = np.ones(columns, np.float32)
    for row in x:
        want = want + row
    for order in (range, lambda n: range(n - 1, -1, -1)):
        (got,) = Interpreter(kernel, [x.reshape(-1)], grid_order=order).run()
        np.testing.assert_array_equal(got, want)


def test_groups_of_rows() -> None:
    kernel, columns = sums(20, 100)
    reduce_in_groups(kernel, columns, 40, 8)
    check_text(
        kernel_to_text(kernel),
        """
        // CHECK: for part in range(3):
        // CHECK-NEXT: for i in range(min(40, -40*part + 100)):
        // CHECK-NEXT: kept0[i] = 1.0
        // CHECK-NEXT: for group in range(3):
        // CHECK-NEXT: for i in range(min(40, -40*part + 100)):
        // CHECK-NEXT: = kept0[i]
        // CHECK-NEXT: acc
        // CHECK-NEXT: for j in range(min(8, -8*group + 20)):
        // CHECK-NEXT: = p0[40*part + 800*group + i + 100*j]
        // CHECK:      kept0[i] = acc
        // CHECK-NEXT: for i in range(min(40, -40*part + 100)):
        // CHECK-NEXT: = kept0[i]
        // CHECK-NEXT: out0[40*part + i] =
        """,
    )
    check(kernel, 20, 100)


def test_row_by_row() -> None:
    """No loop inside, so that columns are lanes of plain code."""
    kernel, columns = sums(20, 100)
    reduce_in_groups(kernel, columns, 100, 1)
    check_text(
        kernel_to_text(kernel),
        """
        // CHECK: for group in range(20):
        // CHECK-NEXT: for i in range(100):
        // CHECK-NEXT: = kept0[i]
        // CHECK-NEXT: = p0[100*part + 100*group + i]
        // CHECK-NEXT: +
        // CHECK-NEXT: kept0[i] =
        """,
    )
    check(kernel, 20, 100)


@pytest.mark.parametrize("height", [1, 8])
@pytest.mark.parametrize(("rows", "columns"), [(16, 96), (20, 100), (3, 33), (8, 200)])
@pytest.mark.parametrize("blocks", [0, 1, 2])
@pytest.mark.parametrize("masked", [False, True])
def test_in_lanes_and_blocks(
    rows: int, columns: int, blocks: int, masked: bool, height: int
) -> None:
    """Several parts in a block of a grid: the rest belongs to the last of all."""
    kernel, loop = sums(rows, columns)
    parts = reduce_in_groups(kernel, loop, 32, height)
    if blocks:
        bind_to_grid(kernel, parts, blocks)
    for s in walk(kernel.stages):
        if isinstance(s, Loop) and s.may_vectorize and s.var.extent == 32:
            vectorise(kernel, s, 8, masked=masked)
    check(kernel, rows, columns)


def test_what_is_no_reduction_down_columns() -> None:
    kernel, columns = sums(20, 100)
    rows = rows_of(columns)
    assert rows is not None and rows_of(rows) is None
    with pytest.raises(ScheduleError, match="does not reduce down columns"):
        reduce_in_groups(kernel, rows, 40, 8)
    columns.independent = False
    with pytest.raises(ScheduleError, match="does not reduce down columns"):
        reduce_in_groups(kernel, columns, 40, 8)
