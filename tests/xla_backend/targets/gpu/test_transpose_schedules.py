"""Transposes on a GPU: tiles through shared memory, whatever the permutation and the type."""

from math import prod

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from native_checks import module_of
from scheduled_checks import check, count, scheduled

from xla_backend.kernels.from_hlo.lower import lower
from xla_backend.kernels.ir import (
    BufferRole,
    Kernel,
    Loop,
    LoopKind,
    walk,
)
from xla_backend.kernels.schedule.collapsing import nest_of
from xla_backend.kernels.schedule.shared_tiles import Tiling, turn_in_tiles, turned_loads
from xla_backend.kernels.schedule.splitting import ScheduleError


def transpose(type: str, sizes: tuple[int, ...], order: tuple[int, ...]) -> str:
    turned = [sizes[d] for d in order]
    return (
        f"a = {type}[{','.join(map(str, sizes))}] parameter(0)\n"
        f"ROOT r = {type}[{','.join(map(str, turned))}] transpose(a), "
        f"dimensions={{{','.join(map(str, order))}}}"
    )


def tiles(kernel: Kernel) -> int:
    return sum(1 for b in kernel.buffers if b.role is BufferRole.SHARED)


def test_tiles_of_32() -> None:
    check(
        transpose("f32", (64, 96), (1, 0)),
        """
        // CHECK: tile0: shared f32[1056]
        // CHECK: for block in grid(6):
        // CHECK-NEXT: for thread in threads(256):
        // CHECK-NEXT: [[A:v[0-9]+]] = p0[32*(block // 2) + 3072*(block % 2) + (thread % 32) + 96*(thread // 32)]
        // CHECK-COUNT-3: = p0[
        // CHECK-NEXT: tile0[33*(thread // 32) + (thread % 32)] = [[A]]
        // CHECK-COUNT-3: tile0[{{.*}}] = v
        // CHECK-NEXT: barrier()
        // CHECK-NEXT: [[B:v[0-9]+]] = tile0[33*(thread % 32) + (thread // 32)]
        // CHECK-COUNT-3: = tile0[33*(thread % 32)
        // CHECK-NEXT: out0[2048*(block // 2) + 32*(block % 2) + 64*(thread // 32) + (thread % 32)] = [[B]]
        """,  # noqa: E501
    )


def test_edges_are_guarded() -> None:
    check(
        transpose("f32", (61, 35), (1, 0)),
        """
        // CHECK: [[C:v[0-9]+]] = 0 <= 32*(block // 2) + (thread % 32) < 35
        // CHECK-NEXT: [[R:v[0-9]+]] = 0 <= 32*(block % 2) + (thread // 32) + 24 < 61
        // CHECK-NEXT: [[W:v[0-9]+]] = [[R]] & [[C]]
        // CHECK-NEXT: p0[{{.*}} + 35*(thread // 32)] if [[C]] else 0
        // CHECK: p0[{{.*}} + 840] if [[W]] else 0
        // CHECK: barrier()
        // CHECK: if {{v[0-9]+}}: out0[
        """,
    )


@pytest.mark.parametrize(
    ("type", "lanes"),
    [
        ("f64", 1),
        ("u32", 1),
        ("bf16", 2),
        ("f8e4m3fn", 4),
        ("pred", 4),
        ("u4", 4),
        ("c64", 1),
        ("c128", 1),
    ],
)
def test_all_types(type: str, lanes: int) -> None:
    for sizes in ((128, 64), (63, 65), (32 * lanes, 40 * lanes)):
        kernel = check(transpose(type, sizes, (1, 0)))
        assert tiles(kernel) == (2 if type[0] == "c" else 1)
    assert [l.var.extent for l in of_kind(kernel, LoopKind.LANES)] == [lanes] * 2 * (lanes > 1)


@pytest.mark.parametrize(
    ("sizes", "order"),
    [
        ((3, 33, 40), (2, 0, 1)),
        ((20, 4, 36), (2, 1, 0)),
        ((40, 10, 4), (2, 1, 0)),
        ((2, 40, 12), (0, 2, 1)),
        ((40, 2, 3, 35), (3, 1, 0, 2)),
        ((3, 34, 5, 2, 33), (4, 1, 0, 3, 2)),
        ((16, 3, 2, 3, 17), (4, 3, 2, 1, 0)),
    ],
)
def test_permutations(sizes: tuple[int, ...], order: tuple[int, ...]) -> None:
    assert tiles(check(transpose("f32", sizes, order))) == 1


def test_short_rows_go_on_in_the_next_one() -> None:
    check(
        transpose("f32", (64, 16, 4), (2, 1, 0)),
        """
        // CHECK: for block in grid(4):
        // CHECK: = p0[32*(block // 2) + 2048*(block % 2) + (thread % 32) + 64*(thread // 32)]
        // CHECK: barrier()
        // CHECK: out0[512*(block // 2) + 32*(block % 2) + {{.*}} + (thread % 32)]
        """,
    )


@pytest.mark.parametrize(
    ("sizes", "order"),
    [((20, 3, 32), (1, 0, 2)), ((3, 400), (1, 0)), ((400, 3), (1, 0)), ((1, 400), (1, 0))],
)
def test_others_stay_plain_loops(sizes: tuple[int, ...], order: tuple[int, ...]) -> None:
    assert tiles(check(transpose("f32", sizes, order))) == 0


def test_what_a_fusion_does_beside() -> None:
    called = """f {
      a = f32[40,36] parameter(0)
      b = f32[36,40] parameter(1)
      c = f32[40,36] parameter(2)
      d = f32[40] parameter(3)
      at = f32[36,40] transpose(a), dimensions={1,0}
      ct = f32[36,40] transpose(c), dimensions={1,0}
      s = f32[36,40] add(at, b)
      bd = f32[36,40] broadcast(d), dimensions={1}
      m = f32[36,40] multiply(s, bd)
      t = f32[36,40] subtract(m, ct)
      ROOT r = (f32[36,40], f32[36,40]) tuple(t, m)
    }
    """
    body = """
      a = f32[40,36] parameter(0)
      b = f32[36,40] parameter(1)
      c = f32[40,36] parameter(2)
      d = f32[40] parameter(3)
      ROOT r = (f32[36,40], f32[36,40]) fusion(a, b, c, d), kind=kLoop, calls=f
    """
    assert tiles(check(body, called=called)) == 2


def test_padded_before_it_is_turned() -> None:
    called = """f {
      a = f32[40,36] parameter(0)
      z = f32[] parameter(1)
      p = f32[43,40] pad(a, z), padding=1_2x3_1
      ROOT t = f32[40,43] transpose(p), dimensions={1,0}
    }
    """
    body = """
      a = f32[40,36] parameter(0)
      z = f32[] parameter(1)
      ROOT r = f32[40,43] fusion(a, z), kind=kLoop, calls=f
    """
    assert tiles(check(body, called=called)) == 1


def test_heavy_bodies_are_there_once() -> None:
    called = """f {
      a = f32[64,64] parameter(0)
      t = f32[64,64] transpose(a), dimensions={1,0}
      u = f32[64,64] tan(t)
      ROOT v = f32[64,64] atan2(u, t)
    }
    """
    body = "a = f32[64,64] parameter(0)\nROOT r = f32[64,64] fusion(a), kind=kLoop, calls=f"
    check(body, "// CHECK: barrier()\n// CHECK-NEXT: for row in range(4):", called)


def test_no_more_tiles_than_there_is_shared_memory() -> None:
    count = 6
    lines = [f"p{i} = f64[64,64] parameter({i})" for i in range(count)]
    sums = [f"t{i} = f64[64,64] transpose(p{i}), dimensions={{1,0}}" for i in range(count)]
    sums += ["s1 = f64[64,64] add(t0, t1)"]
    sums += [f"s{i} = f64[64,64] add(s{i - 1}, t{i})" for i in range(2, count)]
    sums[-1] = "ROOT " + sums[-1]
    names = ", ".join(f"p{i}" for i in range(count))
    body = "\n".join([*lines, f"ROOT r = f64[64,64] fusion({names}), kind=kLoop, calls=f"])
    kernel = check(body, called="f {\n" + "\n".join([*lines, *sums]) + "\n}\n")
    shared = [b for b in kernel.buffers if b.role is BufferRole.SHARED]
    assert len(shared) == 5
    assert sum(b.size * b.element_type.byte_size for b in shared) <= 48 << 10


@pytest.mark.parametrize("type", ["f64", "f32", "f16", "s8", "c64"])
@pytest.mark.parametrize("sizes", [(128, 128), (70, 33)])
def test_no_two_threads_meet_in_a_bank(type: str, sizes: tuple[int, int]) -> None:
    kernel = scheduled(transpose(type, sizes, (1, 0)))
    counted = count(kernel, transpose(type, sizes, (1, 0)))
    for traffic in (*counted.shared_reads.values(), *counted.shared_writes.values()):
        assert traffic.passes == traffic.least > 0


@pytest.mark.parametrize("type", ["f64", "f32", "bf16", "pred"])
def test_all_that_is_fetched_is_asked_for(type: str) -> None:
    body = transpose(type, (128, 256), (1, 0))
    counted = count(scheduled(body), body)
    assert counted.reads["p0"].efficiency == counted.writes["out0"].efficiency == 1.0


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_any_permutation(data: st.DataObject) -> None:
    rank = data.draw(st.integers(2, 5))
    size = st.sampled_from([1, 2, 3, 5, 16, 17, 32, 33])
    sizes: list[int] = []
    for _ in range(rank):
        sizes.append(data.draw(size.filter(lambda n: prod(sizes) * n <= 6000)))
    order = data.draw(st.permutations(range(rank)))
    type = data.draw(st.sampled_from(["f32", "f16", "s8", "f64", "c64"]))
    check(transpose(type, tuple(sizes), tuple(order)))


# -- the step ------------------------------------------------------------------------------------


def of_kind(kernel: Kernel, kind: LoopKind) -> list[Loop]:
    return [s for s in walk(kernel.stages) if isinstance(s, Loop) and s.kind is kind]


def test_groups_of_lanes_must_be_whole() -> None:
    root = module_of(transpose("f16", (35, 64), (1, 0))).entry.root  # type: ignore[union-attr]
    assert root is not None
    kernel = lower(root, "k")
    (stage,) = kernel.stages
    assert isinstance(stage, Loop)
    nest = nest_of(stage)
    loads = turned_loads(nest, nest[0])
    with pytest.raises(ScheduleError, match="loop 'i' has no whole groups of 2"):
        turn_in_tiles(kernel, nest, nest[0], loads, Tiling(lanes=2))
    with pytest.raises(ScheduleError, match="loop 'j' is not in a nest that is a stage"):
        turn_in_tiles(kernel, nest, nest[1], loads, Tiling())
