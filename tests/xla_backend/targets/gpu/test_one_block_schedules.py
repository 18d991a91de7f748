"""Stages with an order outside and none inside on a GPU, and stages side by side in one launch."""

import numpy as np
import pytest
from scheduled_checks import check, scheduled

from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.kernels.builder import LoopBuilder
from xla_backend.kernels.index import Index
from xla_backend.kernels.interpreter import Interpreter
from xla_backend.kernels.ir import Barrier, BufferRole, Kernel, Loop, LoopKind, walk
from xla_backend.kernels.races import RaceError
from xla_backend.kernels.schedule.one_block import divide_among_threads
from xla_backend.kernels.schedule.side_by_side import need_no_order, side_by_side
from xla_backend.kernels.schedule.splitting import ScheduleError
from xla_backend.kernels.schedule.spreading import Spread, spread
from xla_backend.kernels.verifier import verify_kernel
from xla_backend.targets.gpu.architectures import ARCHITECTURES
from xla_backend.targets.gpu.schedule import one_block

CALLED = """add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}
ge {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=GE
}
"""


def grids(kernel: Kernel) -> list[Loop]:
    return [s for s in kernel.stages if isinstance(s, Loop) and s.kind is LoopKind.GRID]


def barriers(kernel: Kernel) -> int:
    return sum(isinstance(s, Barrier) for s in walk(kernel.stages))


# -- one block -----------------------------------------------------------------------------------


def test_windows_that_overlap_are_written_in_their_order() -> None:
    check(
        """
        a = f32[2,7,7,40] parameter(0)
        u = f32[2,3,3,40] parameter(1)
        z = f32[] parameter(2)
        ROOT r = f32[2,7,7,40] select-and-scatter(a, u, z),
            window={size=1x3x3x1 stride=1x2x2x1}, select=ge, scatter=add""",
        """
        // CHECK: for block in grid(8):
        // CHECK: for block in grid(2):
        // CHECK-NEXT: for thread in threads(64):
        // CHECK-NEXT: for k in range(3):
        // CHECK-NEXT: for l in range(3):
        // CHECK-NEXT: if thread < 40:
        // CHECK: out0[{{v[0-9]+}}] = v
        // CHECK-NEXT: barrier()
        """,
        called=CALLED,
    )


def running(rows: int, columns: int) -> Kernel:
    """out[j] += p[i, j] * last, last = out[0]: row after row."""
    b = LoopBuilder("k")
    p = b.buffer("p0", P.F32, rows * columns, BufferRole.OPERAND, 0)
    out = b.buffer("out0", P.F32, columns, BufferRole.OUTPUT, 0)
    sums = b.buffer("out1", P.F32, rows, BufferRole.OUTPUT, 1)
    j, _ = b.open_loop(columns, independent=True)
    b.store(out, j, (b.constant(P.F32, 1),))
    b.close_loop()
    i, (carried,) = b.open_loop(rows, inits=[b.constant(P.F32, 0)])
    last = b.load(out, Index({}, 0), mutable=True)
    j, _ = b.open_loop(columns, independent=True)
    old = b.load(out, j, mutable=True)
    new = b.compute(Opcode.MULTIPLY, P.F32, (b.load(p, i * columns + j), last))
    b.store(out, j, (b.compute(Opcode.ADD, P.F32, (old, new)),))
    b.close_loop()
    total = b.compute(Opcode.ADD, P.F32, (carried, last))
    b.store(sums, i, (total,))
    (result,) = b.close_loop([total])
    b.store(out, Index({}, columns - 1), (result,))
    return b.kernel


def run(kernel: Kernel, x: np.ndarray) -> list[np.ndarray]:
    return Interpreter(kernel, [x]).run()


@pytest.mark.parametrize("columns", [8, 32, 70])
def test_values_that_are_handed_on_stay_in_the_block(columns: int) -> None:
    x = np.linspace(-1, 1, 5 * columns, dtype=np.float32)
    want = run(running(5, columns), x)
    kernel = running(5, columns)
    one_block.schedule(kernel, ARCHITECTURES["sm_90"], lambda step: verify_kernel(kernel, step))
    (stage,) = grids(kernel)
    assert kernel.stages == [stage] and stage.var.extent == 1
    for got, expected in zip(run(kernel, x), want):
        np.testing.assert_array_equal(got, expected)


def test_more_iterations_than_threads() -> None:
    x = np.linspace(-1, 1, 5 * 70, dtype=np.float32)
    kernel = running(5, 70)
    divide_among_threads(kernel, kernel.stages, [], 32)
    verify_kernel(kernel)
    for got, expected in zip(run(kernel, x), run(running(5, 70), x)):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("dropped", [[0], [1], [3, 2]])
def test_barriers_are_needed(dropped: list[int]) -> None:
    """The last two are one behind the other, where only one thread stores between them."""
    kernel = running(3, 40)
    divide_among_threads(kernel, kernel.stages, [], 64)
    assert barriers(kernel) == 4
    for number in dropped:
        _drop_barrier(kernel, number)
    with pytest.raises(RaceError, match="nothing orders the two"):
        run(kernel, np.zeros(120, np.float32))


def rows_in_place() -> Kernel:
    """out[i, j] = p[i, 0] * ... * p[i, 3] + p[i, j], where both are 3 rows of 64."""
    b = LoopBuilder("k")
    p = b.buffer("p0", P.F32, 192, BufferRole.OPERAND, 0)
    out = b.buffer("out0", P.F32, 192, BufferRole.OUTPUT, 0)
    i, _ = b.open_loop(3, independent=True)
    k, (carried,) = b.open_loop(4, inits=[b.constant(P.F32, 1)])
    first = b.compute(Opcode.MULTIPLY, P.F32, (carried, b.load(p, i * 64 + k)))
    (first,) = b.close_loop([first])
    j, _ = b.open_loop(64, independent=True)
    b.store(out, i * 64 + j, (b.compute(Opcode.ADD, P.F32, (first, b.load(p, i * 64 + j))),))
    b.close_loop()
    b.close_loop()
    return b.kernel


def test_an_output_in_the_memory_of_an_operand_is_written_when_all_have_read() -> None:
    kernel = rows_in_place()
    x = np.linspace(0.5, 2, 192, dtype=np.float32)
    (want,) = run(rows_in_place(), x)
    one_block.schedule(kernel, ARCHITECTURES["sm_90"], lambda step: verify_kernel(kernel, step))
    (stage,) = grids(kernel)
    assert stage.var.extent == 3 and barriers(kernel) == 1
    memory = x.copy()
    both = dict.fromkeys(kernel.buffers, memory)
    Interpreter(kernel, memory=both).run()
    np.testing.assert_array_equal(memory, want)
    _drop_barrier(kernel, 0)
    both = dict.fromkeys(kernel.buffers, x.copy())
    with pytest.raises(RaceError, match="nothing orders the two"):
        Interpreter(kernel, memory=both).run()


def _drop_barrier(kernel: Kernel, number: int) -> None:
    for s in walk(list(kernel.stages)):
        if isinstance(s, Loop):
            for n, inner in enumerate(s.body):
                if isinstance(inner, Barrier):
                    if not number:
                        del s.body[n]
                        return
                    number -= 1


def test_few_iterations_inside_are_not_worth_a_block() -> None:
    kernel = running(5, 4)
    one_block.schedule(kernel, ARCHITECTURES["sm_90"], lambda step: None)
    assert not grids(kernel)


# -- side by side --------------------------------------------------------------------------------


def test_parts_of_a_concatenation_are_one_launch() -> None:
    check(
        """
        a = f32[50,36] parameter(0)
        b = f32[50,61] parameter(1)
        c = f32[50,3] parameter(2)
        ROOT r = f32[50,100] concatenate(a, b, c), dimensions={1}""",
        """
        // CHECK: for block in grid(30):
        // CHECK-NEXT: for thread in threads(128):
        // CHECK-NEXT: if block < 4:
        // CHECK-NEXT: if 128*block + thread < 450:
        // CHECK-NEXT: for lane in lanes(4):
        // CHECK: p0[512*block + 4*thread + lane]
        // CHECK: if 4 <= block < 28:
        // CHECK: p1[128*block + thread - 512]
        // CHECK: if 28 <= block:
        // CHECK: p2[128*block + thread - 3584]
        """,
    )


@pytest.mark.parametrize(("dimension", "type"), [(0, "f32"), (1, "s8"), (2, "c64"), (2, "f16")])
def test_concatenations(dimension: int, type: str) -> None:
    sizes = [[5, 6, 8], [5, 6, 8], [5, 6, 8]]
    lines = []
    for n, size in enumerate(sizes):
        size[dimension] = 3 * n + 2
        lines.append(f"p{n} = {type}[{','.join(map(str, size))}] parameter({n})")
    total = [5, 6, 8]
    total[dimension] = sum(size[dimension] for size in sizes)
    lines.append(
        f"ROOT r = {type}[{','.join(map(str, total))}] concatenate(p0, p1, p2), "
        f"dimensions={{{dimension}}}"
    )
    assert len(grids(check("\n".join(lines)))) == 1


def test_outputs_of_several_shapes_are_one_launch() -> None:
    called = """f {
      a = f32[40,36] parameter(0)
      b = f32[100] parameter(1)
      n = f32[40,36] negate(a)
      m = f32[100] abs(b)
      ROOT r = (f32[40,36], f32[100]) tuple(n, m)
    }
    """
    body = """
      a = f32[40,36] parameter(0)
      b = f32[100] parameter(1)
      ROOT r = (f32[40,36], f32[100]) fusion(a, b), kind=kLoop, calls=f
    """
    assert len(grids(check(body, called=called))) == 1


def two_stages(*, kind: str) -> tuple[Kernel, list[Loop]]:
    b = LoopBuilder("k")
    p = b.buffer("p0", P.F32, 64, BufferRole.OPERAND, 0)
    outs = [b.buffer(f"out{n}", P.F32, 128, BufferRole.OUTPUT, n) for n in range(2)]
    i, _ = b.open_loop(64, independent=True)
    b.store(outs[0], i * 2, (b.load(p, i),))
    b.close_loop()
    j, _ = b.open_loop(64, independent=True)
    source, target, at = {
        "apart": (p, outs[1], j),
        "in other columns": (p, outs[0], j * 2 + 1),
        "over it": (p, outs[0], j * 2),
        "across": (p, outs[0], j),
        "reads it": (outs[0], outs[1], j),
    }[kind]
    b.store(target, at, (b.load(source, at, mutable=True),))
    b.close_loop()
    return b.kernel, [s for s in b.kernel.stages if isinstance(s, Loop)]


@pytest.mark.parametrize(
    ("kind", "free"),
    [
        ("apart", True),
        ("in other columns", True),
        ("over it", False),
        ("across", False),
        ("reads it", False),
    ],
)
def test_which_stages_need_an_order(kind: str, free: bool) -> None:
    _, (one, other) = two_stages(kind=kind)
    assert need_no_order(one, other) is free
    assert need_no_order(other, one) is free


@pytest.mark.parametrize(("size", "free"), [(64, True), (128, False)])
def test_outputs_may_have_the_memory_of_operands(size: int, free: bool) -> None:
    kernel, (one, other) = two_stages(kind="apart")
    kernel.buffers[0].size = size
    assert need_no_order(one, other) is free


def test_an_update_in_place_comes_after_what_reads_its_target() -> None:
    called = """f {
      a = f32[40] parameter(0)
      u = f32[10] parameter(1)
      i = s32[] parameter(2)
      n = f32[40] negate(a)
      d = f32[40] dynamic-update-slice(a, u, i)
      ROOT r = (f32[40], f32[40]) tuple(n, d)
    }
    """
    body = """
      a = f32[40] parameter(0)
      u = f32[10] parameter(1)
      i = s32[] parameter(2)
      ROOT r = (f32[40], f32[40]) fusion(a, u, i), kind=kLoop, calls=f
    """
    kernel = check(body, called=called)
    assert len(grids(kernel)) == 2 and kernel.in_place == {1: 0}


def test_many_parts_are_several_launches() -> None:
    lines = [f"p{n} = f32[8] parameter({n})" for n in range(20)]
    names = ", ".join(f"p{n}" for n in range(20))
    lines.append(f"ROOT r = f32[160] concatenate({names}), dimensions={{0}}")
    assert [len(_parts(g)) for g in grids(scheduled("\n".join(lines)))] == [16, 4]


def _parts(grid: Loop) -> list:
    (threads,) = (s for s in grid.body if isinstance(s, Loop))
    return threads.body


def test_blocks_of_one_size_only() -> None:
    kernel, (one, other) = two_stages(kind="apart")
    grids = [spread(kernel, one, Spread(32)), spread(kernel, other, Spread(64))]
    with pytest.raises(ScheduleError, match=r"stages have blocks of \[32, 64\] threads"):
        side_by_side(kernel, grids)


def test_no_barrier_where_other_stages_are() -> None:
    kernel, (one, other) = two_stages(kind="apart")
    grids = [spread(kernel, one, Spread(32)), spread(kernel, other, Spread(32))]
    (threads,) = (s for s in grids[1].body if isinstance(s, Loop))
    threads.body.append(Barrier())
    with pytest.raises(ScheduleError, match="threads of 'block' come to a barrier"):
        side_by_side(kernel, grids)
