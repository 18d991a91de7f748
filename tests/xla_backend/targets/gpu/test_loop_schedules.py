"""Loop fusions on a GPU: how stages of independent loops are spread over threads, and that they
compute what they should."""

from collections.abc import Sequence
from math import prod

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from native_checks import module_of
from scheduled_checks import LARGE, TINY, check, count, scheduled

import xla_backend
from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.errors import UnimplementedError
from xla_backend.kernels.from_hlo.lower import lower
from xla_backend.kernels.ir import Kernel, Loop, LoopKind, walk
from xla_backend.kernels.schedule.collapsing import collapse, nest_of
from xla_backend.kernels.schedule.splitting import ScheduleError
from xla_backend.kernels.schedule.spreading import Spread, spread
from xla_backend.targets.gpu.architectures import Architecture
from xla_backend.targets.gpu.compiler import plan_program
from xla_backend.targets.gpu.schedule.stages import threads_of

ROW_SUM = """f {
  a = f32[10,24] parameter(0)
  b = f32[10] parameter(1)
  c = f32[10,24] broadcast(b), dimensions={0}
  ROOT r = f32[10,24] add(a, c)
}
"""
ROW_SUM_CALL = """
  a = f32[10,24] parameter(0)
  b = f32[10] parameter(1)
  ROOT r = f32[10,24] fusion(a, b), kind=kLoop, calls=f"""


def test_a_vector_of_four_per_thread() -> None:
    check(
        "a = f32[4096] parameter(0)\nROOT r = f32[4096] negate(a)",
        """
        // CHECK: for block in grid(8):
        // CHECK-NEXT: for thread in threads(128):
        // CHECK-NEXT: for lane in lanes(4):
        // CHECK-NEXT: [[V:v[0-9]+]] = p0[512*block + 4*thread + lane]
        // CHECK-NEXT: [[W:v[0-9]+]] = -[[V]]
        // CHECK-NEXT: out0[512*block + 4*thread + lane] = [[W]]
        """,
    )


def test_what_is_left_over_after_whole_vectors_has_threads_of_its_own() -> None:
    check(
        "a = f32[1003] parameter(0)\nROOT r = f32[1003] negate(a)",
        """
        // CHECK: for block in grid(2):
        // CHECK-NEXT: for thread in threads(128):
        // CHECK-NEXT: if 128*block + thread < 250:
        // CHECK-NEXT: for lane in lanes(4):
        // CHECK: if 250 <= 128*block + thread < 253:
        // CHECK-NEXT: p0[128*block + thread + 750]
        """,
    )


def test_large_arrays_have_several_vectors_per_thread_and_loads_first() -> None:
    check(
        "a = f32[5000] parameter(0)\nROOT r = f32[5000] negate(a)",
        """
        // CHECK: for block in grid(2):
        // CHECK-NEXT: for thread in threads(256):
        // CHECK-NEXT: if block < 1:
        // CHECK-NEXT: for lane in lanes(4):
        // CHECK-NEXT: = p0[4096*block + 4*thread + lane]
        // CHECK-NEXT: = p0[4096*block + 4*thread + lane + 1024]
        // CHECK-NEXT: = p0[4096*block + 4*thread + lane + 2048]
        // CHECK-NEXT: = p0[4096*block + 4*thread + lane + 3072]
        // CHECK: if 1 <= block:
        // CHECK-NEXT: for turn in range(4):
        // CHECK-NEXT: if 1024*block + thread + 256*turn < 1250:
        """,
        architecture=TINY,
    )


def test_nests_are_collapsed_and_rows_read_once_per_vector() -> None:
    check(
        ROW_SUM_CALL,
        """
        // CHECK: for thread in threads(128):
        // CHECK-NEXT: if {{.*}}thread < 240:
        // CHECK-NOT: lanes
        // CHECK: = p1[((128*block + thread) // 24)]
        """,
        ROW_SUM,
    )
    check(
        ROW_SUM_CALL.replace("10", "100"),
        """
        // CHECK: for lane in lanes(4):
        // CHECK-NEXT: = p1[((128*block + thread) // 6)]
        // CHECK-NEXT: = p0[512*block + 4*thread + lane]
        """,
        ROW_SUM.replace("10", "100"),
    )


@pytest.mark.parametrize(
    ("type", "lanes"),
    [
        ("f64", 2),
        ("s32", 4),
        ("bf16", 8),
        ("f8e4m3fn", 16),
        ("pred", 16),
        ("s4", 16),
        ("c64", 2),
        ("c128", 1),
    ],
)
def test_a_thread_takes_16_bytes(type: str, lanes: int) -> None:
    kernel = check(f"a = {type}[4096] parameter(0)\nROOT r = {type}[4096] copy(a)")
    assert widths(kernel) == ([lanes] if lanes > 1 else [])


def test_the_widest_element_decides() -> None:
    kernel = check("a = s8[4096] parameter(0)\nROOT r = f32[4096] convert(a)")
    assert widths(kernel) == [4]


def test_accesses_that_are_not_aligned_are_not_in_lanes() -> None:
    kernel = check("a = f32[4099] parameter(0)\nROOT r = f32[4096] slice(a), slice={[3:4099]}")
    assert not widths(kernel)
    kernel = check("a = f32[4100] parameter(0)\nROOT r = f32[4096] slice(a), slice={[4:4100]}")
    assert widths(kernel) == [4]


def test_small_arrays_have_few_threads() -> None:
    for size, threads in ((7, 32), (33, 64), (100, 128)):
        kernel = check(f"a = f32[{size}] parameter(0)\nROOT r = f32[{size}] negate(a)")
        (stage,) = grids(kernel)
        assert (stage.var.extent, threads_of(stage).var.extent) == (1, threads)


def test_heavy_bodies_have_more_threads_rather_than_vectors() -> None:
    for size, lanes in ((1 << 14, []), (1 << 17, [4])):
        text = f"a = f32[{size}] parameter(0)\nROOT r = f32[{size}] tan(a)"
        assert widths(scheduled(text)) == lanes


def test_heavy_bodies_have_fewer_lanes() -> None:
    size = 1 << 20
    for opcode, lanes in (("negate", 8), ("tan", 4)):
        text = f"a = f16[{size}] parameter(0)\nROOT r = f16[{size}] {opcode}(a)"
        assert widths(scheduled(text)) == [lanes]


def test_gathered_rows_are_read_in_vectors() -> None:
    check(
        """
        a = f32[64,96] parameter(0)
        i = s32[50,1] parameter(1)
        ROOT r = f32[50,96] gather(a, i), offset_dims={1}, collapsed_slice_dims={0},
            start_index_map={0}, index_vector_dim=1, slice_sizes={1,96}""",
        """
        // CHECK: for lane in lanes(4):
        // CHECK-NEXT: [[I:v[0-9]+]] = p1[((128*block + thread) // 24)]
        // CHECK-NEXT: [[R:v[0-9]+]] = clamp(0, [[I]], 63)
        // CHECK-NEXT: = p0[96*[[R]] + 4*((128*block + thread) % 24) + lane]
        """,
    )


def test_what_is_the_same_for_all_rows_is_read_once() -> None:
    called = """f {
      a = f32[64,128] parameter(0)
      b = f32[128] parameter(1)
      m = f32[64] parameter(2)
      c = f32[64,128] broadcast(b), dimensions={1}
      n = f32[64,128] broadcast(m), dimensions={0}
      s = f32[64,128] add(a, c)
      ROOT r = f32[64,128] multiply(s, n)
    }
    """
    body = """
      a = f32[64,128] parameter(0)
      b = f32[128] parameter(1)
      m = f32[64] parameter(2)
      ROOT r = f32[64,128] fusion(a, b, m), kind=kLoop, calls=f
    """
    kernel = check(
        body,
        """
        // CHECK: for block in grid(2):
        // CHECK-NEXT: for thread in threads(256):
        // CHECK-NEXT: for lane in lanes(4):
        // CHECK-NEXT: = p1[4*(thread % 32) + lane]
        // CHECK-NEXT: = p2[32*block + 4*(thread // 32)]
        // CHECK-COUNT-3: = p2[
        // CHECK-NEXT: = p0[4096*block + 4*(thread % 32) + 512*(thread // 32) + lane]
        // CHECK-COUNT-3: = p0[
        """,
        called,
        TINY,
    )
    counted = count(kernel, body, called)
    assert counted.reads["p0"].efficiency == 1.0
    assert counted.reads["p1"].bytes * 4 == counted.reads["p0"].bytes


def test_interleaved_arrays_are_read_by_one_thread() -> None:
    check(
        "a = f32[2,400,3] parameter(0)\nROOT r = f32[2,3,400] transpose(a), dimensions={0,2,1}",
        """
        // CHECK: if 128*block + thread < 800:
        // CHECK-NEXT: = p0[384*block + 3*thread]
        // CHECK-NEXT: = p0[384*block + 3*thread + 1]
        // CHECK-NEXT: = p0[384*block + 3*thread + 2]
        // CHECK-NEXT: out0[1200*((128*block + thread) // 400) + ((128*block + thread) % 400)]
        """,
    )
    check(
        "a = s16[400,2] parameter(0)\nROOT r = s16[2,400] transpose(a), dimensions={1,0}",
        """
        // CHECK: for lane in lanes(2):
        // CHECK-NEXT: = p0[512*block + 4*thread + 2*lane]
        // CHECK-NEXT: = p0[512*block + 4*thread + 2*lane + 1]
        // CHECK-NEXT: out0[256*block + 2*thread + lane]
        // CHECK-NEXT: out0[256*block + 2*thread + lane + 400]
        """,
    )


def test_random_bits_are_one_launch_in_vectors() -> None:
    module = module_of(
        """
        s = u64[2] parameter(0)
        g = (u64[2], u32[1048576]) rng-bit-generator(s), algorithm=rng_three_fry
        ROOT r = u32[1048576] get-tuple-element(g), index=1"""
    )
    kernels = list(plan_program(module, CompileOptions()).program.kernels.values())
    large = [k for k in kernels if any(b.size >= 1 << 20 for b in k.buffers)]
    (kernel,) = large
    assert len(grids(kernel)) == 1 and widths(kernel)


CASES = {
    "scalar": "a = f32[] parameter(0)\nROOT r = f32[] negate(a)",
    "empty": "a = f32[0,3] parameter(0)\nROOT r = f32[0,3] negate(a)",
    "ones": "a = f32[1,1,1] parameter(0)\nROOT r = f32[1,1,1] negate(a)",
    "iota": "ROOT r = s32[7,33] iota(), iota_dimension=1",
    "broadcast of a scalar": "a = f16[] parameter(0)\n"
    "ROOT r = f16[77,3] broadcast(a), dimensions={}",
    "columns": "a = f32[33] parameter(0)\nROOT r = f32[9,33] broadcast(a), dimensions={1}",
    "reverse": "a = s8[5,40] parameter(0)\nROOT r = s8[5,40] reverse(a), dimensions={0,1}",
    "slice": "a = f32[20,40] parameter(0)\nROOT r = f32[6,17] slice(a), slice={[2:20:3], [5:39:2]}",
    "pad": "a = f32[5,6] parameter(0)\nb = f32[] parameter(1)\n"
    "ROOT r = f32[12,20] pad(a, b), padding=1_2_1x3_11",
    "concatenate": "a = f32[5,6] parameter(0)\nb = f32[5,9] parameter(1)\n"
    "ROOT r = f32[5,15] concatenate(a, b), dimensions={1}",
    "rank 6": "a = f32[2,3,1,4,2,5] parameter(0)\n"
    "ROOT r = f32[2,3,2,1,4,2,5] broadcast(a), dimensions={0,1,3,4,5,6}",
    "interleaved complex": "a = c64[33,4] parameter(0)\n"
    "ROOT r = c64[4,33] transpose(a), dimensions={1,0}",
    "complex": "a = c64[5,31] parameter(0)\nb = c64[5,31] parameter(1)\n"
    "ROOT r = c64[5,31] multiply(a, b)",
    "pred": "a = f32[300] parameter(0)\nROOT r = pred[300] is-finite(a)",
    "dynamic-slice": "a = f32[20,40] parameter(0)\ni = s32[] parameter(1)\nj = s32[] parameter(2)\n"
    "ROOT r = f32[7,16] dynamic-slice(a, i, j), dynamic_slice_sizes={7,16}",
    "dynamic-update-slice": "a = f32[20,40] parameter(0)\nb = f32[3,16] parameter(1)\n"
    "i = s32[] parameter(2)\nj = s32[] parameter(3)\n"
    "ROOT r = f32[20,40] dynamic-update-slice(a, b, i, j)",
    "bitcast-convert": "a = u32[40] parameter(0)\nROOT r = u8[40,4] bitcast-convert(a)",
}


@pytest.mark.parametrize("architecture", [TINY, LARGE], ids=["tiny", "large"])
@pytest.mark.parametrize("name", CASES)
def test_values(name: str, architecture: Architecture) -> None:
    check(CASES[name], architecture=architecture)


def test_windows_are_loops_of_a_thread() -> None:
    check(
        """
        a = f32[6,40] parameter(0)
        z = f32[] parameter(1)
        ROOT r = f32[6,20] reduce-window(a, z), window={size=1x3 stride=1x2 pad=0_0x0_1},
            to_apply=add""",
        """
        // CHECK: for block in grid(1):
        // CHECK-NEXT: for thread in threads(128):
        // CHECK-NEXT: if thread < 120:
        // CHECK: for {{.*}} in range(3):
        """,
        called="add {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n"
        " ROOT r = f32[] add(a, b)\n}",
    )


@pytest.mark.parametrize("type", ["f64", "f32", "bf16", "pred"])
def test_all_that_is_fetched_is_asked_for(type: str) -> None:
    for size in (512, 4096):
        body = f"a = {type}[{size}] parameter(0)\nROOT r = {type}[{size}] copy(a)"
        counted = count(scheduled(body), body)
        assert counted.reads["p0"].efficiency == counted.writes["out0"].efficiency == 1.0
        assert counted.reads["p0"].touched == counted.reads["p0"].bytes


OPERATIONS = ["add", "pad", "slice", "reverse", "broadcast", "reshape", "transpose", "concatenate"]


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_any_fusion_that_moves_elements(data: st.DataObject) -> None:
    """A chain of operations on one array, of any shape."""
    type = data.draw(st.sampled_from(["f32", "s8", "f16", "c64", "f64"]))
    rank = data.draw(st.integers(1, 4))
    sizes = data.draw(
        st.lists(st.sampled_from([1, 2, 3, 4, 7, 8, 16]), min_size=rank, max_size=rank)
    )
    lines = [f"v0 = {shape(type, sizes)} parameter(0)", f"z = {type}[] parameter(1)"]
    for n in range(data.draw(st.integers(1, 4))):
        line, sizes = _operation(data, n, type, sizes)
        lines.append(line)
    inside = "f {\n" + "\n".join([*lines[:-1], "ROOT " + lines[-1]]) + "\n}\n"
    call = f"ROOT r = {shape(type, sizes)} fusion(v0, z), kind=kLoop, calls=f"
    check("\n".join([*lines[:2], call]), called=inside, architecture=TINY)


def shape(type: str, sizes: Sequence[int]) -> str:
    return f"{type}[{','.join(map(str, sizes))}]"


def _operation(data: st.DataObject, n: int, type: str, sizes: list[int]) -> tuple[str, list[int]]:
    """A line that computes v<n + 1> from v<n>, and its sizes."""
    opcode = data.draw(st.sampled_from(OPERATIONS))
    rank = len(sizes)
    axis = data.draw(st.integers(0, rank - 1))
    new, operands, attributes = list(sizes), f"v{n}", ""
    if opcode == "add":
        operands = f"v{n}, v{n}"
    elif opcode == "pad":
        low, high = data.draw(st.integers(0, 3)), data.draw(st.integers(0, 5))
        interior = data.draw(st.integers(0, 1))
        new[axis] += low + high + interior * (sizes[axis] - 1)
        parts = ["0_0_0"] * rank
        parts[axis] = f"{low}_{high}_{interior}"
        operands, attributes = f"v{n}, z", f", padding={'x'.join(parts)}"
    elif opcode == "slice":
        first = data.draw(st.integers(0, sizes[axis] - 1))
        step = data.draw(st.integers(1, 2))
        new[axis] = -(-(sizes[axis] - first) // step)
        bounds = [f"[0:{size}]" for size in sizes]
        bounds[axis] = f"[{first}:{sizes[axis]}:{step}]"
        attributes = f", slice={{{', '.join(bounds)}}}"
    elif opcode == "reverse":
        attributes = f", dimensions={{{axis}}}"
    elif opcode == "broadcast":
        if rank > 4:
            return _operation(data, n, type, sizes)
        new.insert(axis, data.draw(st.integers(1, 4)))
        kept = [d for d in range(rank + 1) if d != axis]
        attributes = f", dimensions={{{','.join(map(str, kept))}}}"
    elif opcode == "reshape":
        new = [prod(sizes[:axis]), prod(sizes[axis:])]
    elif opcode == "transpose":
        order = data.draw(st.permutations(range(rank)))
        new = [sizes[d] for d in order]
        attributes = f", dimensions={{{','.join(map(str, order))}}}"
    else:
        new[axis] *= 2
        operands, attributes = f"v{n}, v{n}", f", dimensions={{{axis}}}"
    return f"v{n + 1} = {shape(type, new)} {opcode}({operands}){attributes}", new


# -- steps ---------------------------------------------------------------------------------------


def grids(kernel: Kernel) -> list[Loop]:
    return [s for s in kernel.stages if isinstance(s, Loop) and s.kind is LoopKind.GRID]


def widths(kernel: Kernel) -> list[int]:
    """The extents of the loops of lanes."""
    loops = [s for s in walk(kernel.stages) if isinstance(s, Loop) and s.kind is LoopKind.LANES]
    return sorted({loop.var.extent for loop in loops})


def nest(body: str, called: str = "") -> tuple[Kernel, Loop]:
    root = module_of(body, called).entry.root  # type: ignore[union-attr]
    assert root is not None
    kernel = lower(root, "k")
    (stage,) = (s for s in kernel.stages if isinstance(s, Loop))
    return kernel, stage


SCAN = (
    "a = f32[6,40] parameter(0)\nz = f32[] parameter(1)\nROOT r = f32[6,40] "
    "reduce-window(a, z), window={size=1x40 pad=0_0x39_0}, to_apply=add"
)
ADD = "add {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT r = f32[] add(a, b)\n}"


def test_only_independent_loops_collapse() -> None:
    kernel, stage = nest(SCAN, ADD)
    loops = [s for s in walk([stage]) if isinstance(s, Loop)]
    assert nest_of(stage) == loops[:2] and nest_of(loops[2]) == []
    with pytest.raises(ScheduleError, match="iterations of loop 'k' need their order"):
        collapse(kernel, loops)
    with pytest.raises(ScheduleError, match="loop 'j' does more than contain a loop"):
        collapse(kernel, [loops[1], loops[0]])


def test_only_whole_stages_are_spread() -> None:
    kernel, stage = nest(ROW_SUM_CALL, ROW_SUM)
    inner = stage.body[-1]
    assert isinstance(inner, Loop)
    with pytest.raises(ScheduleError, match="loop 'j' is not the whole of a stage"):
        spread(kernel, inner, Spread(32))
    stage.independent = False
    with pytest.raises(ScheduleError, match="iterations of loop 'i' need their order"):
        spread(kernel, stage, Spread(32))


def test_more_blocks_than_there_may_be() -> None:
    text = "x = u8[] parameter(0)\n ROOT r = u8[1152921504606846976] broadcast(x), dimensions={}"
    with pytest.raises(UnimplementedError, match="blocks, and GPUs take 2147483647"):
        xla_backend.compile(module_of(text), target="sm_90")
