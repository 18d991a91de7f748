"""The code of each kind of statement: PTX of kernels that are built by hand."""

import re

import numpy as np
import pytest
from code_checks import (
    Threads,
    check_assembles,
    check_ptx,
    functions_of,
    ptx_of,
)

from tests.needs_ptxas import NEEDS_PTXAS
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.kernels.index import Index
from xla_backend.kernels.ir import (
    BufferRole,
    LoopKind,
    MatrixTile,
    Move,
    ShuffleMode,
    Transpose,
    Value,
)
from xla_backend.targets.gpu.architectures import ARCHITECTURES
from xla_backend.targets.gpu.kernel_functions import SharedMemoryError

# -- memory ----------------------------------------------------------------------------------------


def copied(type: P, lanes: int, offset: int = 0, unit: int | None = None) -> Threads:
    """Each thread copies `lanes` elements."""
    unit = unit or lanes
    with Threads() as t:
        source, target = t.operand(type, 128 * unit + 16), t.output(type, 128 * unit)

        def body(lane: Index) -> None:
            value = t.b.load(source, t.here * unit + lane + offset)
            t.b.store(target, t.here * unit + lane, [value])

        t.lanes(lanes, body)
    return t


VECTORS = [
    (P.F32, 4, "ld.global.nc.v4.b32", "st.global.v4.b32"),
    (P.F32, 8, "ld.global.nc.v4.b32", "st.global.v4.b32"),
    (P.F64, 2, "ld.global.nc.v2.b64", "st.global.v2.b64"),
    (P.BF16, 8, "ld.global.nc.v4.b32", "st.global.v4.b32"),
    (P.F16, 4, "ld.global.nc.v2.b32", "st.global.v2.b32"),
    (P.S8, 16, "ld.global.nc.v4.b32", "st.global.v4.b32"),
    (P.U64, 2, "ld.global.nc.v2.b64", "st.global.v2.b64"),
]


@pytest.mark.parametrize(("type", "lanes", "load", "store"), VECTORS)
def test_lanes_that_are_neighbours_move_together(type, lanes, load, store) -> None:
    ptx = ptx_of([copied(type, lanes).kernel])
    accesses = lanes * type.byte_size // 16 or 1
    assert ptx.count(load) == ptx.count(store) == accesses


def test_what_is_not_aligned_moves_one_by_one() -> None:
    """The load begins one element too late for a vector, the store does not."""
    ptx = ptx_of([copied(P.F32, 4, offset=1).kernel])
    assert "ld.global.nc.v4" not in ptx and ptx.count("st.global.v4.b32") == 1
    # Threads begin at multiples of six elements.
    ptx = ptx_of([copied(P.F32, 4, unit=6).kernel])
    assert ptx.count("ld.global.nc.v2.b32") == 2 and ptx.count("st.global.v2.b32") == 2


def test_complex_numbers_move_whole() -> None:
    with Threads() as t:
        source, target = t.operand(P.C64, 256), t.output(P.C64, 256)

        def body(lane: Index) -> None:
            at = t.here * 4 + lane * 2
            parts = [t.b.load(source, at + i) for i in range(2)]
            t.b.store(target, at, [parts[0], t.b.compute(Opcode.NEGATE, P.F32, [parts[1]])])

        t.lanes(2, body)
    ptx = ptx_of([t.kernel])
    assert ptx.count("ld.global.nc.v4.b32") == ptx.count("st.global.v4.b32") == 1


def test_operands_that_are_written_meanwhile_are_not_cached() -> None:
    check_ptx(copied(P.F32, 1).kernel, "// CHECK: ld.global.nc.b32")
    check_ptx(copied(P.F32, 1).kernel, "// CHECK-NOT: ld.global.nc", shared=[0])


def test_small_floats_are_copied_as_they_are() -> None:
    ptx = ptx_of([copied(P.F8E4M3FN, 16).kernel])
    assert ptx.count("ld.global.nc.v4.b32") == ptx.count("st.global.v4.b32") == 1
    assert "f32" not in ptx and "shl" not in ptx.split("ld.global")[1]


def test_masked_lanes() -> None:
    """The last of a row's lanes: two of four for all threads, then those below a bound."""
    with Threads(blocks=1, threads=32) as t:
        source, target = t.operand(P.F32, 128), t.output(P.F32, 128)

        def body(lane: Index) -> None:
            with t.b.where(lane, 0, 2):
                t.b.store(target, t.here * 4 + lane, [t.b.load(source, t.here * 4 + lane)])

        t.lanes(4, body)
    ptx = ptx_of([t.kernel])
    assert "setp" not in ptx
    assert ptx.count("ld.global.nc") == ptx.count("st.global") == 2

    with Threads(blocks=1, threads=32) as t:
        source, target = t.operand(P.F32, 126), t.output(P.F32, 126)

        def rest(lane: Index) -> None:
            with t.b.where(t.here * 4 + lane, 0, 126):
                t.b.store(target, t.here * 4 + lane, [t.b.load(source, t.here * 4 + lane)])

        t.lanes(4, rest)
    ptx = ptx_of([t.kernel])
    assert ptx.count("setp") == ptx.count("st.global.b32") == 4


def test_guarded_loads_have_no_branch() -> None:
    with Threads() as t:
        source, target = t.operand(P.F32, 100), t.output(P.F32, 128)
        guard = t.b.in_range(t.here, 0, 100)
        assert isinstance(guard, Value)
        t.b.store(target, t.here, [t.b.load(source, t.here, guard)])
    check_ptx(
        t.kernel,
        """
        // CHECK-NOT: bra
        // CHECK: setp
        // CHECK: selp
        // CHECK: ld.global.nc.b32
        """,
    )


def test_sums_of_lanes_over_a_loop() -> None:
    """Four accumulators in a loop around one load."""
    with Threads() as t:
        source, target = t.operand(P.F32, 128 * 64), t.output(P.F32, 128)

        def body(lane: Index) -> None:
            zero = t.b.constant(P.F32, 0)
            i, (phi,) = t.b.open_loop(16, inits=[zero])
            value = t.b.load(source, t.here * 64 + i * 4 + lane)
            (total,) = t.b.close_loop([t.b.compute(Opcode.ADD, P.F32, [phi, value])])
            t.b.store(target, t.here, [total], t.b.in_range(lane, 0, 1))  # type: ignore[arg-type]

        t.lanes(4, body)
    ptx = ptx_of([t.kernel])
    assert ptx.count("ld.global.nc.v4.b32") == 1


def test_large_arrays_need_long_indices() -> None:
    def kernel(size: int) -> Threads:
        with Threads(blocks=size // 64, threads=64) as t:
            source, target = t.operand(P.F32, 4 * size), t.output(P.F32, size)
            t.b.store(target, t.here, [t.b.load(source, t.here * 4)])
        return t

    assert "mad.lo.s64" not in ptx_of([kernel(1 << 16).kernel])
    assert " i32 %" in functions_of([kernel(1 << 16).kernel]).module.to_text()
    large = functions_of([kernel(1 << 30).kernel])
    assert "getelementptr inbounds float, ptr addrspace(1) %operand0, i64" in (
        large.module.to_text()
    )
    (launch,) = large.functions["k"]
    assert (launch.blocks, launch.threads) == (1 << 24, 64)


def test_constants_are_part_of_the_module() -> None:
    with Threads(blocks=1, threads=4) as t:
        data = np.array([1, 2, 3, 5], np.float32)
        table = t.b.buffer("table", P.F32, 4, BufferRole.CONSTANT, data=data)
        t.b.store(t.output(P.F32, 4), t.here, [t.b.load(table, t.here)])
    check_ptx(
        t.kernel,
        """
        // CHECK: .global .align 16 .b8 constant_0[16]
        // CHECK: ld.global.nc.b32
        """,
    )


def test_moves_and_turned_tiles() -> None:
    with Threads(blocks=1, threads=1) as t:
        source, target = t.operand(P.BF16, 16), t.output(P.BF16, 16)
        tile = t.buffer(BufferRole.LOCAL, P.BF16, 16)
        turned = t.buffer(BufferRole.LOCAL, P.BF16, 16)
        for one, other in ((tile, source), (target, turned)):
            with t.b.loop(8, LoopKind.LANES) as lane:
                t.statements.extend(Move(one, lane + i, other, lane + i) for i in (0, 8))
            if one is tile:
                t.statements.append(Transpose(turned, tile, 4))
    ptx = check_ptx(t.kernel, "// CHECK-NOT: .local")
    assert ptx.count("ld.global.nc.v4.b32") == ptx.count("st.global.v4.b32") == 2


# -- blocks ----------------------------------------------------------------------------------------


def exchanged(threads: int, size: int) -> Threads:
    """Each thread writes an element that another one reads."""
    with Threads(blocks=3, threads=threads) as t:
        source, target = t.operand(P.F32, 3 * threads), t.output(P.F32, 3 * threads)
        shared = t.shared(P.F32, size)
        t.b.store(shared, t.thread, [t.b.load(source, t.here)])
        t.b.barrier()
        value = t.b.load(shared, t.thread * -1 + (threads - 1), mutable=True)
        t.b.store(target, t.here, [value])
    return t


def test_shared_memory_and_barriers() -> None:
    check_ptx(
        exchanged(64, 64).kernel,
        """
        // CHECK: .reqntid 64
        // CHECK: .shared .align 16 .b8 kernel_k_shared[256]
        // CHECK: st.shared.b32
        // CHECK: bar.sync
        // CHECK: ld.shared.b32
        """,
    )


def test_a_single_warp_waits_for_itself() -> None:
    check_ptx(exchanged(32, 32).kernel, "// CHECK: bar.warp.sync")


def test_more_shared_memory_is_asked_for_at_the_launch() -> None:
    functions = functions_of([exchanged(64, 16384).kernel])
    (launch,) = functions.functions["k"]
    assert launch.shared_bytes == launch.dynamic_shared == 65536
    check_ptx(
        exchanged(64, 16384).kernel, "// CHECK: .extern .shared .align 16 .b8 kernel_k_shared"
    )
    (launch,) = functions_of([exchanged(64, 64).kernel]).functions["k"]
    assert (launch.shared_bytes, launch.dynamic_shared) == (256, 0)


def test_too_much_shared_memory() -> None:
    with pytest.raises(SharedMemoryError, match=r"shares 131072 bytes, and sm_120 has 101376"):
        functions_of([exchanged(64, 32768).kernel], "sm_120")


def test_each_stage_is_a_function() -> None:
    first, second = exchanged(64, 64), exchanged(32, 32)
    first.kernel.stages += second.kernel.stages
    first.kernel.buffers += second.kernel.buffers
    for n, buffer in enumerate(second.kernel.buffers):
        buffer.name, buffer.number = f"other{n}", buffer.number + 1
    names = [f.name for f in functions_of([first.kernel]).launches(first.kernel)]
    assert names == ["kernel_k_stage0", "kernel_k_stage1"]
    ptx_of([first.kernel])


# -- warps -----------------------------------------------------------------------------------------


SHUFFLES = [
    (ShuffleMode.XOR, 32, "shfl.sync.bfly.b32 %r{{[0-9]+}}, %r{{[0-9]+}}, 3, 31, -1"),
    (ShuffleMode.DOWN, 32, "shfl.sync.down.b32 %r{{[0-9]+}}, %r{{[0-9]+}}, 3, 31, -1"),
    (ShuffleMode.UP, 32, "shfl.sync.up.b32 %r{{[0-9]+}}, %r{{[0-9]+}}, 3, 0, -1"),
    (ShuffleMode.FROM, 32, "shfl.sync.idx.b32 %r{{[0-9]+}}, %r{{[0-9]+}}, 3, 31, -1"),
    (ShuffleMode.XOR, 8, "shfl.sync.bfly.b32 %r{{[0-9]+}}, %r{{[0-9]+}}, 3, 6175, %r"),
    (ShuffleMode.UP, 16, "shfl.sync.up.b32 %r{{[0-9]+}}, %r{{[0-9]+}}, 3, 4096, %r"),
]
SHUFFLED = [P.PRED, P.S8, P.U16, P.BF16, P.F64, P.S64]


def shuffled(type: P, mode: ShuffleMode, width: int) -> Threads:
    with Threads() as t:
        value = t.b.load(t.operand(type, 128), t.here)
        t.b.store(t.output(type, 128), t.here, [t.b.shuffle(value, mode, 3, width)])
    return t


@pytest.mark.parametrize(("mode", "width", "expected"), SHUFFLES)
def test_shuffles(mode, width, expected) -> None:
    check_ptx(shuffled(P.F32, mode, width).kernel, f"// CHECK: {expected}")


@pytest.mark.parametrize("type", SHUFFLED)
def test_shuffles_of_other_types(type) -> None:
    ptx = ptx_of([shuffled(type, ShuffleMode.DOWN, 32).kernel])
    assert ptx.count("shfl.sync.down.b32") == (2 if type.byte_size == 8 else 1)


def test_no_shuffle_is_wider_than_a_warp() -> None:
    with pytest.raises(AssertionError, match="a shuffle of 64 threads"):
        functions_of([shuffled(P.F32, ShuffleMode.XOR, 64).kernel])


def tile(shape: tuple[int, int, int], type: P, counts: tuple[int, int]) -> Threads:
    sum = P.S32 if type.is_integral else P.F32
    with Threads(blocks=1, threads=32) as t:
        target = t.output(sum, 128)
        factors = t.operand(type, 32 * 16)
        parts = [
            tuple(t.b.load(factors, t.thread * 16 + i) for i in range(count)) for count in counts
        ]
        sums = tuple(t.b.constant(sum, 0) for _ in range(4))
        results = tuple(Value(sum, 2, 1000 + i) for i in range(4))
        t.statements.append(MatrixTile(shape, results, parts[0], parts[1], sums))
        for i, result in enumerate(results):
            t.b.store(target, t.thread * 4 + i, [result])
    return t


TILES = [
    ((16, 8, 16), P.F16, (8, 4), "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"),
    ((16, 8, 16), P.BF16, (8, 4), "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"),
    ((16, 8, 8), P.F32, (4, 2), "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"),
    ((16, 8, 32), P.S8, (16, 8), "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32"),
    ((16, 8, 32), P.U8, (16, 8), "mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32"),
]


@pytest.mark.parametrize(("shape", "type", "counts", "expected"), TILES)
def test_matrix_tiles(shape, type, counts, expected) -> None:
    ptx = check_ptx(tile(shape, type, counts).kernel, f"// CHECK: {expected}")
    # Factors stay as they are loaded.
    assert not re.search(r"cvt\.(rn|f32|u16|u32)", ptx)


def test_no_tile_of_other_types() -> None:
    with pytest.raises(AssertionError, match=r"no instruction multiplies tiles .* of f64 and f64"):
        functions_of([tile((16, 8, 16), P.F64, (8, 4)).kernel])


# -- atomics ---------------------------------------------------------------------------------------

INSTRUCTIONS = [
    (P.S32, Opcode.ADD, "atom.global.add.u32"),
    (P.S64, Opcode.ADD, "atom.global.add.u64"),
    (P.U32, Opcode.MAXIMUM, "atom.global.max.u32"),
    (P.S32, Opcode.MINIMUM, "atom.global.min.s32"),
    (P.S64, Opcode.MAXIMUM, "atom.global.max.s64"),
    (P.U64, Opcode.OR, "atom.global.or.b64"),
    (P.S32, Opcode.XOR, "atom.global.xor.b32"),
    (P.F32, Opcode.ADD, "atom.global.add.f32"),
    (P.F64, Opcode.ADD, "atom.global.add.f64"),
    (P.F16, Opcode.ADD, "atom.global.add.noftz.f16"),
    (P.BF16, Opcode.ADD, "atom.global.add.noftz.bf16"),
]
LOOPS = [
    (P.F32, Opcode.MAXIMUM, "b32"),
    (P.F64, Opcode.MINIMUM, "b64"),
    (P.F16, Opcode.MAXIMUM, "b32"),
    (P.BF16, Opcode.MINIMUM, "b32"),
    (P.S8, Opcode.ADD, "b32"),
    (P.U8, Opcode.MAXIMUM, "b32"),
    (P.S16, Opcode.ADD, "b32"),
    (P.PRED, Opcode.OR, "b32"),
    (P.F8E4M3FN, Opcode.ADD, "b32"),
]


def updated(type: P, opcode: Opcode) -> Threads:
    with Threads() as t:
        value = t.b.load(t.operand(type, 128), t.here)
        t.b.atomic(t.output(type, 8), t.here % 8, opcode, value)
    return t


@pytest.mark.parametrize(("type", "opcode", "expected"), INSTRUCTIONS)
def test_atomic_instructions(type, opcode, expected) -> None:
    check_ptx(updated(type, opcode).kernel, f"// CHECK: {expected}")


@pytest.mark.parametrize(("type", "opcode", "width"), LOOPS)
def test_other_updates_compare_and_swap(type, opcode, width) -> None:
    check_ptx(
        updated(type, opcode).kernel,
        f"""
        // CHECK: $L__BB0_1:
        // CHECK: atom.relaxed.gpu.global.cas.{width}
        // CHECK: bra
        """,
    )


def test_older_generations_have_fewer_sums() -> None:
    check_ptx(updated(P.BF16, Opcode.ADD).kernel, "// CHECK: .cas.b", architecture="sm_80")


def test_updates_of_shared_memory() -> None:
    with Threads() as t:
        shared = t.shared(P.S32, 4)
        t.b.store(shared, t.thread % 4, [t.b.constant(P.S32, 0)])
        t.b.barrier()
        t.b.atomic(shared, t.thread % 4, Opcode.ADD, t.b.constant(P.S32, 1))
        t.b.barrier()
        t.b.store(t.output(P.S32, 128), t.here, [t.b.load(shared, t.thread % 4, mutable=True)])
    check_ptx(t.kernel, "// CHECK: atom.shared.add.u32")


# -- arithmetic ------------------------------------------------------------------------------------


def test_sums_of_products_are_not_contracted() -> None:
    with Threads() as t:
        a, b, c = (t.b.load(t.operand(P.F32, 128), t.here) for _ in range(3))
        product = t.b.compute(Opcode.MULTIPLY, P.F32, [a, b])
        t.b.store(t.output(P.F32, 128), t.here, [t.b.compute(Opcode.ADD, P.F32, [product, c])])
    check_ptx(
        t.kernel,
        """
        // CHECK: mul.rn.f32
        // CHECK: add.rn.f32
        """,
    )


def test_unrolled_loops_keep_a_threads_memory_in_registers() -> None:
    with Threads() as t:
        source, target = t.operand(P.F32, 128 * 8), t.output(P.F32, 128 * 8)
        local = t.buffer(BufferRole.LOCAL, P.F32, 8)
        for first, last in ((source, local), (local, target)):
            with t.b.loop(8, LoopKind.UNROLLED) as i:
                far = t.here + i * 128
                value = t.b.load(first, i if first is local else far, mutable=True)
                t.b.store(last, i if last is local else far, [value])
    check_ptx(t.kernel, "// CHECK-NOT: local")


# -- all of it -------------------------------------------------------------------------------------


@NEEDS_PTXAS
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_assembler_takes_it(architecture) -> None:
    made = [
        *(copied(type, lanes) for type, lanes, _, _ in VECTORS),
        copied(P.F32, 4, offset=1),
        exchanged(64, 64),
        exchanged(64, 16384),
        exchanged(32, 32),
        *(shuffled(P.F32, mode, width) for mode, width, _ in SHUFFLES),
        *(shuffled(type, ShuffleMode.DOWN, 32) for type in SHUFFLED),
        *(tile(shape, type, counts) for shape, type, counts, _ in TILES),
        *(updated(type, opcode) for type, opcode, _ in [*INSTRUCTIONS, *LOOPS]),
    ]
    resources = check_assembles([t.kernel for t in made], architecture)
    assert not any(r.spill_stores or r.spill_loads for r in resources.values())
    assert {r.shared for r in resources.values()} == {0, 128, 256}
    assert all(r.registers for r in resources.values())
