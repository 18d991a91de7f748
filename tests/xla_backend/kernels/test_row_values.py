"""Values of rows, computed a block of them ahead: as text, by the verifier, by the interpreter."""

import numpy as np
import pytest
from native_checks import check_text

from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.kernels.builder import LoopBuilder
from xla_backend.kernels.index import Index, constant
from xla_backend.kernels.interpreter import Interpreter
from xla_backend.kernels.ir import BufferRole, Kernel, Loop, walk
from xla_backend.kernels.printer import kernel_to_text
from xla_backend.kernels.schedule.blocks import bind_to_grid
from xla_backend.kernels.schedule.lanes import vectorise
from xla_backend.kernels.schedule.row_values import compute_ahead, values_of_rows
from xla_backend.kernels.schedule.splitting import ScheduleError
from xla_backend.kernels.verifier import verify_kernel

ROWS_OF_TABLE = 9


def gathered(rows: int, columns: int) -> tuple[Kernel, Loop]:
    """out[i, j] = p1[clamp(p0[i] - p2[0]), j], and the loop over rows."""
    b = LoopBuilder("k")
    places = b.buffer("p0", P.S32, rows, BufferRole.OPERAND)
    table = b.buffer("p1", P.F32, ROWS_OF_TABLE * columns, BufferRole.OPERAND, 1)
    first = b.buffer("p2", P.S32, 1, BufferRole.OPERAND, 2)
    out = b.buffer("out0", P.F32, rows * columns, BufferRole.OUTPUT)
    zero, most = b.constant(P.S32, 0), b.constant(P.S32, ROWS_OF_TABLE - 1)
    i, _ = b.open_loop(rows, independent=True)
    origin = b.load(first, constant(0))
    moved = b.compute(Opcode.SUBTRACT, P.S32, (b.load(places, i), origin))
    bounds = (0, ROWS_OF_TABLE - 1)
    place = b.compute(Opcode.CLAMP, P.S32, (zero, moved, most), bounds=bounds)
    j, _ = b.open_loop(columns, independent=True, may_vectorize=True)
    b.store(out, i * columns + j, (b.load(table, Index.of(place) * columns + j),))
    b.close_loop()
    b.close_loop()
    return b.kernel, next(s for s in b.kernel.stages if isinstance(s, Loop))


def check(kernel: Kernel, rows: int, columns: int) -> None:
    verify_kernel(kernel)
    rng = np.random.default_rng(0)
    table = rng.standard_normal((ROWS_OF_TABLE, columns), np.float32)
    places = rng.integers(-3, 15, rows, np.int32)
    want = table[np.clip(places - 1, 0, ROWS_OF_TABLE - 1)]
    operands = [places, table.reshape(-1), np.ones(1, np.int32)]
    for order in (range, lambda n: range(n - 1, -1, -1)):
        (got,) = Interpreter(kernel, operands, grid_order=order).run()
        np.testing.assert_array_equal(got.reshape(rows, columns), want)


def test_places_of_rows() -> None:
    kernel, rows = gathered(20, 3)
    assert len(values_of_rows(rows)) == 1
    compute_ahead(kernel, rows, 8)
    check_text(
        kernel_to_text(kernel),
        """
        // CHECK: kept0: local s32[8]
        // CHECK: for part in range(3):
        // CHECK-NEXT: for i in range(min(8, -8*part + 20)):
        // CHECK:      = p0[8*part + i]
        // CHECK:      clamp
        // CHECK-NEXT: kept0[i] =
        // CHECK-NEXT: for i in range(min(8, -8*part + 20)):
        // CHECK-NEXT: = kept0[i]
        // CHECK-NEXT: for j in range(3):
        """,
    )
    check(kernel, 20, 3)


@pytest.mark.parametrize(("rows", "columns"), [(16, 4), (20, 5), (3, 2), (8, 1)])
@pytest.mark.parametrize("blocks", [0, 1, 2])
@pytest.mark.parametrize("masked", [False, True])
def test_in_lanes_and_blocks(rows: int, columns: int, blocks: int, masked: bool) -> None:
    kernel, loop = gathered(rows, columns)
    parts = compute_ahead(kernel, loop, 8)
    if blocks:
        bind_to_grid(kernel, parts, blocks)
    ahead = next(s for s in walk([parts]) if isinstance(s, Loop) and s.may_vectorize)
    vectorise(kernel, ahead, 4, masked=masked)
    check(kernel, rows, columns)


def test_rows_without_values() -> None:
    kernel, rows = gathered(20, 3)
    (inner,) = (s for s in rows.body if isinstance(s, Loop))
    assert not values_of_rows(inner)
    with pytest.raises(ScheduleError, match="compute nothing for a loop"):
        compute_ahead(kernel, inner, 8)
    rows.independent = False
    with pytest.raises(ScheduleError, match="compute nothing for a loop"):
        compute_ahead(kernel, rows, 8)
