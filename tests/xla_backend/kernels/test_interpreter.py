"""Scheduled kernels run exactly as scheduled, and accesses that a schedule must not make raise."""

from collections.abc import Callable

import numpy as np
import pytest
from native_checks import arguments_of, assert_close, module_of

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.kernels.builder import LoopBuilder
from xla_backend.kernels.from_hlo.lower import can_lower, lower
from xla_backend.kernels.index import Index, Var, constant
from xla_backend.kernels.interpreter import Interpreter, run_kernel
from xla_backend.kernels.ir import (
    Atomic,
    Barrier,
    Buffer,
    BufferRole,
    Carry,
    Compute,
    Constant,
    If,
    IndexValue,
    Kernel,
    Load,
    Loop,
    LoopKind,
    Shuffle,
    ShuffleMode,
    Statement,
    Store,
    Value,
    walk,
)
from xla_backend.kernels.races import (
    KernelRunError,
    OutOfBoundsError,
    RaceError,
    UnwrittenReadError,
)
from xla_backend.kernels.schedule.copying import replace_atoms
from xla_backend.kernels.verifier import verify_kernel
from xla_backend.llvm.target import make_target
from xla_backend.targets.cpu.pipeline import build_pipeline
from xla_backend.targets.cpu.schedule import schedule

ADD = "add {\n x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT r = f32[] add(x, y)\n}\n"
TARGETS = {
    "v4": make_target("x86_64-unknown-linux-gnu", "x86-64-v4"),
    "v2": make_target("x86_64-unknown-linux-gnu", "x86-64-v2"),
}
PROGRAMS = {
    "elementwise": """x = f32[203] parameter(0)
        y = f32[203] exponential(x)
        ROOT r = f32[203] multiply(x, y)""",
    "heavy": """x = f32[77] parameter(0)
        a = f32[77] tanh(x)
        b = f32[77] cosine(a)
        ROOT r = f32[77] sine(b)""",
    "complex": "x = c64[45] parameter(0)\nROOT r = c64[45] multiply(x, x)",
    "reversed": "x = f32[70] parameter(0)\nROOT r = f32[70] reverse(x), dimensions={0}",
    "rolled": """x = f32[100] parameter(0)
        a = f32[3] slice(x), slice={[97:100]}
        b = f32[97] slice(x), slice={[0:97]}
        ROOT r = f32[100] concatenate(a, b), dimensions={0}""",
    "padded": """x = f32[9,40] parameter(0)
        z = f32[] constant(2)
        p = f32[12,66] pad(x, z), padding=1_2x16_10
        ROOT r = f32[12,66] negate(p)""",
    "transposed": """x = f32[37,50] parameter(0)
        ROOT r = f32[50,37] transpose(x), dimensions={1,0}""",
    "transposed with work": """x = f32[37,50] parameter(0)
        e = f32[37,50] tanh(x)
        ROOT r = f32[50,37] transpose(e), dimensions={1,0}""",
    "row sums": """x = f32[6,70] parameter(0)
        z = f32[] constant(1)
        ROOT r = f32[6] reduce(x, z), dimensions={1}, to_apply=add""",
    "column sums": """x = f32[9,70] parameter(0)
        z = f32[] constant(1)
        ROOT r = f32[70] reduce(x, z), dimensions={0}, to_apply=add""",
    "sum of all": """x = f32[5,3,70] parameter(0)
        z = f32[] constant(1)
        ROOT r = f32[3] reduce(x, z), dimensions={0,2}, to_apply=add""",
    "gathered": """x = f32[50,3] parameter(0)
        i = s32[40,1] parameter(1)
        ROOT r = f32[40,3] gather(x, i), offset_dims={1}, collapsed_slice_dims={0},
          start_index_map={0}, index_vector_dim=1, slice_sizes={1,3}""",
    "large, in blocks": """x = f32[120,130] parameter(0)
        e = f32[120,130] tanh(x)
        f = f32[120,130] tanh(e)
        ROOT r = f32[120,130] tanh(f)""",
    "large sum, in blocks": """x = f32[70000] parameter(0)
        e = f32[70000] tanh(x)
        z = f32[] constant(0)
        ROOT r = f32[] reduce(e, z), dimensions={0}, to_apply=add""",
    "a large transpose, in blocks": """x = f32[70,700] parameter(0)
        e = f32[70,700] tanh(x)
        ROOT r = f32[700,70] transpose(e), dimensions={1,0}""",
}


def kernels_of(body: str) -> list[tuple[Kernel, list[np.ndarray], list]]:
    """Kernels of a program of one fusion or operation, operands and shapes of results."""
    module = module_of(body, ADD)
    arguments = arguments_of(module, low=-1, high=1)
    build_pipeline(CompileOptions()).run(module)
    skipped = (Opcode.PARAMETER, Opcode.CONSTANT)
    (node,) = (n for n in module.entry if n.opcode not in skipped and can_lower(n))
    values = []
    for o in node.operands:
        literal = None if o.opcode is Opcode.PARAMETER else o.attributes.literal.array
        values.append(arguments[o.parameter_number] if literal is None else literal)
    return lower(node, "k"), values, node.shape.flatten()


def scheduled(name: str, target: str) -> tuple[Kernel, list[np.ndarray], list]:
    """A kernel after its schedule, verified after each step."""
    kernel, values, shapes = kernels_of(PROGRAMS[name])
    steps = []

    def check(step: str, kernel: Kernel) -> None:
        steps.append(step)
        verify_kernel(kernel, step)

    schedule(kernel, TARGETS[target], on_step=check)
    assert "vectorise" in steps or "tile" in steps
    return kernel, values, shapes


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", [n for n in PROGRAMS if "large" not in n])
def test_a_scheduled_kernel_means_the_same(name: str, target: str) -> None:
    plain, values, shapes = kernels_of(PROGRAMS[name])
    want = run_kernel(plain, values, shapes)
    kernel, _, _ = scheduled(name, target)
    for r, w, s in zip(run_kernel(kernel, values, shapes), want, shapes):
        assert_close(r, w, s.element_type, scale=4)


@pytest.mark.parametrize("name", [n for n in PROGRAMS if "large" in n])
def test_blocks_run_in_any_order(name: str) -> None:
    kernel, (x,), (shape,) = scheduled(name, "v4")
    assert any(isinstance(s, Loop) and s.kind is LoopKind.GRID for s in kernel.stages)
    (result,) = run_kernel(kernel, [x], [shape])
    shuffled = np.random.default_rng(0).permutation
    (again,) = run_kernel(kernel, [x], [shape], grid_order=shuffled)
    np.testing.assert_array_equal(result, again)
    want = {
        "large, in blocks": lambda: np.tanh(np.tanh(np.tanh(x))),
        "large sum, in blocks": lambda: np.tanh(x).sum(dtype=np.float64).astype(np.float32),
        "a large transpose, in blocks": lambda: np.tanh(x).T,
    }[name]()
    assert_close(result, want, shape.element_type, scale=10)


def test_steps_show_lanes_as_an_axis() -> None:
    kernel, values, _ = kernels_of("x = f32[32] parameter(0)\nROOT r = f32[32] negate(x)")
    schedule(kernel, TARGETS["v4"])
    interpreter = Interpreter(kernel, values)
    steps = list(interpreter.steps())
    assert [type(s.statement).__name__ for s in steps] == ["Load", "Compute", "Store"]
    np.testing.assert_array_equal(steps[1].result, -values[0])


# -- accesses that no kernel may make --------------------------------------------------------------


class Written:
    """A kernel written by hand: a grid of 4 blocks of 8 threads, and what each thread does."""

    def __init__(self, blocks: int = 4, threads: int = 8) -> None:
        self.block, self.thread = Var("b", blocks, 0), Var("t", threads, 1)
        self.body: list[Statement] = []
        self.out = Buffer("out0", P.F32, 64, BufferRole.OUTPUT)
        self.shared = Buffer("s", P.F32, threads, BufferRole.SHARED)
        threads_loop = Loop(self.thread, self.body, kind=LoopKind.THREAD, independent=True)
        grid = Loop(self.block, [threads_loop], kind=LoopKind.GRID, independent=True)
        self.kernel = Kernel("k", [self.out, self.shared], [grid])
        self.t, self.b = Index.of(self.thread), Index.of(self.block)

    def value(self, number: float) -> Value:
        result = Value(P.F32, 0, 0)
        self.body.append(Constant(result, np.float32(number)))
        return result

    def load(self, buffer: Buffer, index: Index) -> Value:
        result = Value(P.F32, 0, 0)
        self.body.append(Load(result, buffer, index))
        return result

    def store(self, buffer: Buffer, index: Index, value: Value | None = None) -> None:
        self.body.append(Store(buffer, index, (value or self.value(1),)))

    def run(self) -> np.ndarray:
        verify_kernel(self.kernel)
        return Interpreter(self.kernel, []).run()[0]


def test_threads_exchange_through_shared_memory() -> None:
    w = Written()
    w.store(w.out, w.b * 8 + w.t)
    w.store(w.shared, w.t, w.load(w.out, w.b * 8 + w.t))
    w.body.append(Barrier())
    neighbour = w.load(w.shared, constant(7) - w.t)
    w.store(w.out, w.b * 8 + w.t + 32, neighbour)
    np.testing.assert_array_equal(w.run(), np.ones(64))


def test_a_missing_barrier_is_a_race() -> None:
    w = Written()
    w.store(w.shared, w.t)
    w.load(w.shared, constant(7) - w.t)
    with pytest.raises(
        RaceError,
        match=r"kernel 'k': element 7 of buffer s is read at \[b=0, thread 0\] and written at "
        r"\[b=0, thread 7\], and nothing orders the two",
    ):
        w.run()


def test_a_missing_barrier_after_reading_is_a_race() -> None:
    w = Written()
    w.store(w.shared, w.t)
    w.body.append(Barrier())
    w.load(w.shared, constant(7) - w.t)
    w.store(w.shared, w.t)
    with pytest.raises(RaceError, match=r"element 0 of buffer s is written .* read at"):
        w.run()


def test_a_value_that_all_threads_read_may_not_change_under_them() -> None:
    w = Written()
    w.store(w.shared, w.t)
    w.body.append(Barrier())
    w.load(w.shared, constant(0))
    w.body.append(If(w.t, 0, 1, [Store(w.shared, constant(0), (w.value(2),))]))
    with pytest.raises(RaceError, match=r"element 0 of buffer s is written"):
        w.run()


def test_two_blocks_that_write_one_element_race() -> None:
    w = Written(threads=1)
    w.store(w.out, constant(5))
    with pytest.raises(
        RaceError,
        match=r"element 5 of buffer out0 is written at \[b=0, .*and at \[b=1, .*two blocks",
    ):
        w.run()


def test_two_blocks_that_read_what_a_third_writes_race() -> None:
    w = Written(threads=1)
    w.kernel.stages.insert(0, Store(w.out, constant(0), (Value(P.F32, 0, 1),)))
    w.kernel.stages.insert(0, Constant(w.kernel.stages[0].values[0], np.float32(3)))
    w.load(w.out, constant(0))
    w.body.append(If(w.b, 3, 4, [Store(w.out, constant(0), (w.value(2),))]))
    with pytest.raises(RaceError, match=r"element 0 of buffer out0 is written at \[b=3"):
        w.run()


def test_a_barrier_does_not_order_blocks() -> None:
    w = Written(threads=1)
    w.store(w.out, w.b)
    w.body.append(Barrier())
    w.body.append(If(w.b, 1, 4, [Store(w.out, constant(0), (w.value(2),))]))
    with pytest.raises(RaceError, match=r"element 0 of buffer out0 is written at \[b=1"):
        w.run()


def test_threads_that_write_one_element_race() -> None:
    w = Written()
    w.store(w.out, w.b)
    with pytest.raises(RaceError, match=r"element 0 .* by two threads of one statement"):
        w.run()


def test_lanes_that_write_one_element_race() -> None:
    lane = Var("lane", 4, 0)
    out, value = Buffer("out0", P.F32, 4, BufferRole.OUTPUT), Value(P.F32, 0, 0)
    body = [Constant(value, np.float32(1)), Store(out, Index.of(lane) // 2, (value,))]
    kernel = Kernel("k", [out], [Loop(lane, body, kind=LoopKind.LANES)])
    with pytest.raises(RaceError, match=r"element 0 of buffer out0 .* by two lanes"):
        Interpreter(kernel, []).run()


def rounds(index: Callable[[Index], Index], buffer: BufferRole) -> Kernel:
    """for i: memory[index(i)] = i; out[i] = memory[index(i)], rounds of which are said to be
    independent."""
    b = LoopBuilder("k")
    out = b.buffer("out0", P.S32, 64, BufferRole.OUTPUT)
    memory = b.buffer("m", P.S32, 64, buffer)
    i, _ = b.open_loop(64, independent=True)
    value = Value(P.S32, 1, 1000)
    loaded = Value(P.S32, 1, 1001)
    b.close_loop()
    (loop,) = b.kernel.stages
    assert isinstance(loop, Loop)
    loop.body[:] = [
        IndexValue(value, i),
        Store(memory, index(i), (value,)),
        Load(loaded, memory, index(i)),
        Store(out, i, (loaded,)),
    ]
    return b.kernel


@pytest.mark.parametrize("role", [BufferRole.LOCAL, BufferRole.SCRATCH])
def test_independent_rounds_may_run_together(role: BufferRole) -> None:
    """Together or one after another, each has its own local memory."""
    for index in (lambda i: i, lambda i: constant(0) if role is BufferRole.LOCAL else i):
        kernel = rounds(index, role)
        np.testing.assert_array_equal(Interpreter(kernel).run()[0], np.arange(64))
        stepped = Interpreter(kernel)
        assert len(list(stepped.steps())) == 4 * 64
        np.testing.assert_array_equal(stepped.outputs()[0], np.arange(64))


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (lambda i: i // 2, r"element 0 of buffer m is written at \[i=0\] and at \[i=1\] by two"),
        (lambda i: constant(3), "element 3 of buffer m is written at"),
    ],
)
def test_rounds_that_are_not_independent(index: Callable[[Index], Index], message: str) -> None:
    with pytest.raises(RaceError, match=message):
        Interpreter(rounds(index, BufferRole.SCRATCH)).run()


def test_a_round_that_reads_what_another_writes() -> None:
    kernel = rounds(lambda i: i, BufferRole.SCRATCH)
    (load,) = [s for s in walk(kernel.stages) if isinstance(s, Load)]
    load.index = constant(5)
    with pytest.raises(
        RaceError, match=r"element 5 of buffer m is read at \[i=0\] and written at "
    ):
        Interpreter(kernel).run()


def test_atomic_updates_do_not_race() -> None:
    w = Written()
    w.kernel.stages.insert(0, Store(w.out, constant(0), (Value(P.F32, 0, 1),)))
    w.kernel.stages.insert(0, Constant(w.kernel.stages[0].values[0], np.float32(3)))
    w.body.append(Atomic(w.out, constant(0), Opcode.ADD, w.value(2)))
    assert w.run()[0] == 3 + 2 * 32
    w.load(w.out, constant(0))
    with pytest.raises(RaceError, match="element 0 of buffer out0 is read"):
        w.run()


def test_a_barrier_that_some_threads_miss() -> None:
    w = Written()
    w.body.append(If(w.t, 0, 3, [Barrier()]))
    with pytest.raises(KernelRunError, match=r"barrier that only some threads of a block come to"):
        w.run()


@pytest.mark.parametrize(("shift", "element"), [(-1, -1), (33, 64)])
def test_out_of_bounds(shift: int, element: int) -> None:
    w = Written()
    w.store(w.out, w.b * 8 + w.t + shift)
    with pytest.raises(
        OutOfBoundsError, match=rf"element {element} of buffer out0 .*\[b=.*64 elements"
    ):
        w.run()


def test_what_does_not_take_part_may_be_out_of_bounds() -> None:
    w = Written(blocks=9)
    w.body.append(If(w.b * 8 + w.t, 0, 64, [Store(w.out, w.b * 8 + w.t, (w.value(1),))]))
    assert w.run().sum() == 64


@pytest.mark.parametrize("role", [BufferRole.SCRATCH, BufferRole.SHARED, BufferRole.LOCAL])
def test_reading_what_nothing_wrote(role: BufferRole) -> None:
    w = Written()
    buffer = Buffer("work", P.F32, 64, role)
    w.kernel.buffers.append(buffer)
    w.load(buffer, w.t)
    with pytest.raises(
        UnwrittenReadError, match=r"of buffer work is read at \[b=0, thread 0\], and "
    ):
        w.run()


def test_memory_of_a_block_holds_nothing_for_the_next() -> None:
    w = Written(threads=1)
    w.body.append(If(w.b, 0, 1, [Store(w.shared, constant(0), (w.value(1),))]))
    w.load(w.shared, constant(0))
    with pytest.raises(UnwrittenReadError, match=r"buffer s is read at \[b=1, "):
        w.run()


def test_each_thread_has_its_own_local_memory() -> None:
    w = Written()
    local = Buffer("l", P.F32, 1, BufferRole.LOCAL)
    w.kernel.buffers.append(local)
    w.store(local, constant(0), w.value(5))
    w.store(w.out, w.b * 8 + w.t, w.load(local, constant(0)))
    assert w.run().sum() == 5 * 32


# -- blocks at once --------------------------------------------------------------------------------


def test_blocks_at_once_do_what_they_do_one_after_another() -> None:
    """Sums of blocks in shared memory, by halves."""
    b = LoopBuilder("k")
    p, out, s = (
        b.buffer("p0", P.S32, 40, BufferRole.OPERAND),
        b.buffer("out0", P.S32, 5, BufferRole.OUTPUT),
        b.buffer("s", P.S32, 8, BufferRole.SHARED),
    )
    with b.loop(5, LoopKind.GRID) as block, b.loop(8, LoopKind.THREAD) as thread:
        b.store(s, thread, (b.load(p, block * 8 + thread),))
        for half in (4, 2, 1):
            b.barrier()
            with b.where(thread, 0, half):
                pair = b.load(s, thread), b.load(s, thread + half)
                b.store(s, thread, (b.compute(Opcode.ADD, P.S32, pair),))
        with b.where(thread, 0, 1):
            b.store(out, block, (b.load(s, constant(0)),))
    verify_kernel(b.kernel)
    x = np.arange(40, dtype=np.int32)
    want = x.reshape(5, 8).sum(axis=1)
    np.testing.assert_array_equal(Interpreter(b.kernel, [x]).run()[0], want)
    stepped = Interpreter(b.kernel, [x])
    assert len(list(stepped.steps())) == 5 * 19
    np.testing.assert_array_equal(stepped.outputs()[0], want)


def test_some_blocks_may_come_to_a_barrier_and_others_not() -> None:
    """It orders the threads of those that do, and of no other."""

    def exchange(blocks_with_a_barrier: int) -> Written:
        w = Written()
        w.store(w.shared, w.t)
        w.body.append(If(w.b, 0, blocks_with_a_barrier, [Barrier()]))
        w.load(w.shared, constant(7) - w.t)
        return w

    exchange(4).run()
    with pytest.raises(RaceError, match=r"element 7 of buffer s is read at \[b=3, thread 0\]"):
        exchange(3).run()


def test_rounds_of_blocks_that_differ_in_number() -> None:
    w = Written(threads=1)
    one, body = w.value(1), w.body
    phi, init, total, result = (Value(P.F32, 0, 0) for _ in range(4))
    loop = Loop(Var("r", 4, 2), [], [Carry(phi, init, result, total)], limits=(w.b,))
    loop.body.append(Compute(total, Opcode.ADD, (phi, one)))
    body += [Constant(init, np.float32(0)), loop]
    w.store(w.out, w.b, result)
    np.testing.assert_array_equal(w.run()[:4], [0, 1, 2, 3])


def test_atomic_updates_of_all_blocks_come_in_their_order() -> None:
    """Floats are added one after another: no two of these orders give the same sum."""
    w = Written(blocks=3)
    source = Buffer("p0", P.F32, 24, BufferRole.OPERAND)
    w.kernel.buffers.append(source)
    w.kernel.stages.insert(0, Store(w.out, constant(0), (Value(P.F32, 0, 1),)))
    w.kernel.stages.insert(0, Constant(w.kernel.stages[0].values[0], np.float32(0)))
    w.body.append(Atomic(w.out, constant(0), Opcode.ADD, w.load(source, w.b * 8 + w.t)))
    x = np.random.default_rng(0).normal(size=24).astype(np.float32)
    want = np.float32(0)
    for value in x:
        want = want + value
    verify_kernel(w.kernel)
    assert Interpreter(w.kernel, [x]).run()[0][0] == want
    backwards = Interpreter(w.kernel, [x], grid_order=lambda n: range(n - 1, -1, -1)).run()[0][0]
    assert backwards != want


def test_an_update_after_a_plain_write_of_another_thread_races() -> None:
    w = Written(blocks=1)
    w.body.append(If(w.t, 0, 1, [Store(w.out, constant(0), (w.value(1),))]))
    w.body.append(Atomic(w.out, constant(0), Opcode.ADD, w.value(2)))
    with pytest.raises(RaceError, match=r"element 0 of buffer out0 is updated at .* written at"):
        w.run()


def test_a_shuffled_constant_is_one_for_each_thread_of_each_block() -> None:
    w = Written(blocks=3, threads=32)
    w.out.size = 96
    result = Value(P.F32, 0, 0)
    w.body.append(Shuffle(result, w.value(5), ShuffleMode.DOWN, 4, 32))
    w.store(w.out, w.b * 32 + w.t, result)
    np.testing.assert_array_equal(w.run(), np.full(96, 5))


def test_shuffles_among_threads_that_are_away() -> None:
    w = Written(threads=32)
    w.out.size = 128
    value, result = w.value(1), Value(P.F32, 0, 0)
    shuffle = Shuffle(result, value, ShuffleMode.XOR, 1, 32)
    w.body.append(If(w.b, 1, 3, [shuffle]))  # whole blocks are
    w.run()
    w.body[-1] = If(w.t, 0, 16, [shuffle])
    with pytest.raises(KernelRunError, match="shuffles values of threads that do not take part"):
        w.run()


def test_run_time_extents() -> None:
    b = LoopBuilder("k")
    n = b.parameter("n", (0, 1 << 40))
    p, out = (
        b.buffer("p0", P.F32, n, BufferRole.OPERAND),
        b.buffer("out0", P.F32, n, BufferRole.OUTPUT),
    )
    i, _ = b.open_loop(n, independent=True, may_vectorize=True)
    b.store(out, i, (b.compute(Opcode.NEGATE, P.F32, (b.load(p, i),)),))
    b.close_loop()
    schedule(b.kernel, TARGETS["v4"], threads=False)
    verify_kernel(b.kernel)
    assert sum(isinstance(s, Loop) for s in walk(b.kernel.stages)) > 1
    for length in (0, 1, 15, 16, 17, 63, 64, 100):
        x = np.arange(length, dtype=np.float32)
        (got,) = Interpreter(b.kernel, [x], {"n": length}).run()
        np.testing.assert_array_equal(got, -x)


def in_place(step: int, loop: Callable[[Var, list[Statement]], Loop]) -> tuple[Kernel, list]:
    """out[i] = p[i + step], for 32 of 33 elements of either."""
    kernel = Kernel("k")
    p = Buffer("p0", P.F32, 33, BufferRole.OPERAND)
    out = Buffer("out0", P.F32, 33, BufferRole.OUTPUT)
    kernel.buffers += [p, out]
    i = Var("i", 32, 0)
    value = Value(P.F32, 1, 0)
    body: list[Statement] = [
        Load(value, p, Index.of(i) + step),
        Store(out, Index.of(i), (value,)),
    ]
    kernel.stages.append(loop(i, body))
    return kernel, [p, out]


def in_blocks(i: Var, body: list[Statement]) -> Loop:
    return Loop(i, body, kind=LoopKind.GRID)


def in_threads(i: Var, body: list[Statement]) -> Loop:
    block = Loop(Var("b", 1, 0), kind=LoopKind.GRID)
    block.body.append(Loop(i, body, kind=LoopKind.THREAD))
    return block


def in_rounds(i: Var, body: list[Statement]) -> Loop:
    return Loop(i, body, independent=True)


def in_lanes(i: Var, body: list[Statement]) -> Loop:
    """Groups that are blocks; the lanes of one are in step."""
    group, lane = Var("i", 4, 0), Var("lane", 8, 1)
    replace_atoms(body, {i: Index.of(group) * 8 + Index.of(lane)})
    return Loop(group, [Loop(lane, body, kind=LoopKind.LANES)], kind=LoopKind.GRID)


WAYS = [in_blocks, in_threads, in_rounds, in_lanes]


@pytest.mark.parametrize("way", WAYS)
def test_buffers_that_share_memory_race(way: Callable[[Var, list[Statement]], Loop]) -> None:
    """What one thread, block or round reads through one buffer, another writes through another."""
    for step, shift in ((1, 0), (0, 1)):
        kernel, (p, out) = in_place(step, way)
        data = np.arange(34, dtype=np.float32)
        memory = {p: data[:33], out: data[shift : 33 + shift]}
        with pytest.raises(
            RaceError, match=r"element \d+ of buffer \w+ is .* as element \d+ of buffer .* nothing"
        ):
            Interpreter(kernel, memory=memory).run()
        apart = {p: np.arange(33, dtype=np.float32), out: np.zeros(33, np.float32)}
        (got,) = Interpreter(kernel, memory=apart).run()
        np.testing.assert_array_equal(got[:32], np.arange(32) + step)


@pytest.mark.parametrize("way", WAYS)
def test_an_update_in_place_of_the_same_elements_is_none(
    way: Callable[[Var, list[Statement]], Loop],
) -> None:
    kernel, (p, out) = in_place(0, way)
    data = np.arange(33, dtype=np.float32)
    Interpreter(kernel, memory={p: data, out: data}).run()


def test_elements_of_other_sizes_share_memory() -> None:
    """Two halves of one element: the second one's reader and the writer of all of it clash."""
    kernel, (p, out) = in_place(0, in_blocks)
    p.element_type = P.F16
    (loop,) = kernel.stages
    assert isinstance(loop, Loop)
    load = loop.body[0]
    assert isinstance(load, Load)
    load.result.type = P.F16
    load.index = Index.of(loop.var) * 2 + 3
    p.size = 68
    data = np.zeros(34, np.float32)
    with pytest.raises(
        RaceError,
        match=r"element 1 of buffer out0 is written at \[i=1\] and read as element 3 of buffer p0 "
        r"at \[i=0\]",
    ):
        Interpreter(kernel, memory={p: data.view(np.float16), out: data[:33]}).run()
