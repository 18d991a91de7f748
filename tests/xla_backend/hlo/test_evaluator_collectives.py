"""Collectives among several participants, against NumPy on the stacked operands."""

import numpy as np
import pytest

from xla_backend.hlo.errors import RuntimeFailure, UnimplementedError
from xla_backend.hlo.evaluator import Host, evaluate, evaluate_partitioned
from xla_backend.hlo.parser import parse_module
from xla_backend.hlo.topology import Topology
from xla_backend.hlo.verifier import verify

CALLEES = """add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b) }
sub { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] subtract(a, b) }
"""


def module_of(body, replicas, partitions):
    module = parse_module(
        f"HloModule m, replica_count={replicas}, num_partitions={partitions}\n{CALLEES}"
        f"ENTRY e {{\n{body}\n}}"
    )
    verify(module)
    return module


def run(line, operands, replicas=1, partitions=1, shape="f32[4]"):
    """Results of `line`, applied to one operand x per participant."""
    module = module_of(f"x = {shape} parameter(0)\nROOT r = {line}", replicas, partitions)
    results = evaluate_partitioned(module, [[x] for x in operands])
    return np.stack([leaves[0] for leaves in results])


def data(count, *shape):
    return np.random.default_rng(count).standard_normal((count, *shape)).astype(np.float32)


def sums(x, groups):
    result = np.zeros_like(x)
    for group in groups:
        result[list(group)] = x[list(group)].astype(np.float64).sum(0)
    return result


# attributes, replicas, partitions, groups of participants (replica * partitions + partition)
MODES = [
    ("replica_groups={}", 4, 1, [(0, 1, 2, 3)]),
    ("replica_groups={{0,2},{3,1}}", 4, 1, [(0, 2), (3, 1)]),
    ("replica_groups=[2,2]<=[4]", 4, 1, [(0, 1), (2, 3)]),
    ("replica_groups=[2,2]<=[2,2]T(1,0)", 4, 1, [(0, 2), (1, 3)]),
    ("replica_groups={{0,1}}", 2, 2, [(0, 2), (1, 3)]),
    ("channel_id=1, replica_groups={{0},{1}}", 2, 2, [(0, 1), (2, 3)]),
    ("channel_id=1, replica_groups={{0,1}}", 2, 2, [(0, 1, 2, 3)]),
    (
        "channel_id=1, replica_groups={{0,3},{1,2}}, use_global_device_ids=true",
        2,
        2,
        [(0, 3), (1, 2)],
    ),
    (
        "channel_id=1, replica_groups=mesh['x'=2,'y'=2] {'x'}, use_global_device_ids=true",
        1,
        4,
        [(0, 2), (1, 3)],
    ),
    ("channel_id=1, replica_groups={}, use_global_device_ids=true", 2, 2, [(0, 1, 2, 3)]),
]
MODE_IDS = [f"{m[0]} on {m[1]}x{m[2]}" for m in MODES]


@pytest.mark.parametrize("attributes, replicas, partitions, groups", MODES, ids=MODE_IDS)
def test_all_reduce(attributes, replicas, partitions, groups):
    x = data(4, 4)
    got = run(f"f32[4] all-reduce(x), {attributes}, to_apply=add", x, replicas, partitions)
    np.testing.assert_allclose(got, sums(x, groups), rtol=1e-6)


def test_all_reduce_with_a_general_reducer_goes_in_group_order():
    x = data(3, 4)
    got = run("f32[4] all-reduce(x), replica_groups={{2,0,1}}, to_apply=sub", x, 3)
    np.testing.assert_array_equal(got, np.broadcast_to((x[2] - x[0]) - x[1], (3, 4)))


@pytest.mark.parametrize("attributes, replicas, partitions, groups", MODES, ids=MODE_IDS)
def test_all_gather_and_reduce_scatter(attributes, replicas, partitions, groups):
    size = len(groups[0])
    x = data(4, 2, 4)
    got = run(
        f"f32[2,{4 * size}] all-gather(x), {attributes}, dimensions={{1}}",
        x,
        replicas,
        partitions,
        "f32[2,4]",
    )
    scattered = run(
        f"f32[2,{4 // size}] reduce-scatter(x), {attributes}, dimensions={{1}}, to_apply=add",
        x,
        replicas,
        partitions,
        "f32[2,4]",
    )
    total = sums(x, groups)
    for group in groups:
        for i, member in enumerate(group):
            np.testing.assert_array_equal(got[member], np.concatenate(x[list(group)], 1))
            part = np.split(total[member], size, 1)[i]
            np.testing.assert_allclose(scattered[member], part, rtol=1e-6)


def test_all_to_all_of_slices():
    x = data(4, 4, 3)
    got = run(
        "f32[4,3] all-to-all(x), replica_groups={{0,2},{1,3}}, dimensions={0}",
        x,
        4,
        shape="f32[4,3]",
    )
    for group in ((0, 2), (1, 3)):
        for i, member in enumerate(group):
            expected = np.concatenate([x[other][2 * i : 2 * i + 2] for other in group])
            np.testing.assert_array_equal(got[member], expected)


def test_all_to_all_of_operands_across_partitions():
    module = module_of(
        "x = f32[2] parameter(0)\ny = f32[2] parameter(1)\n"
        "ROOT r = (f32[2], f32[2]) all-to-all(x, y), channel_id=1, replica_groups={{1,0}}",
        1,
        2,
    )
    x = data(2, 2, 2)
    got = evaluate_partitioned(module, [list(x[0]), list(x[1])])
    # The group is (1, 0): member 0 is participant 1.
    np.testing.assert_array_equal(got[1], [x[1][0], x[0][0]])
    np.testing.assert_array_equal(got[0], [x[1][1], x[0][1]])


def test_collective_broadcast():
    x = data(4, 4)
    got = run("f32[4] collective-broadcast(x), replica_groups={{2,0}}", x, 4)
    np.testing.assert_array_equal(got, [x[2], 0 * x[1], x[2], 0 * x[3]])


def test_collective_permute_across_replicas_and_across_partitions():
    x = data(4, 4)
    pairs = "source_target_pairs={{0,1},{1,0}}"
    across_replicas = run(f"f32[4] collective-permute(x), {pairs}", x, 2, 2)
    np.testing.assert_array_equal(across_replicas, x[[2, 3, 0, 1]])
    across_partitions = run(f"f32[4] collective-permute(x), channel_id=1, {pairs}", x, 2, 2)
    np.testing.assert_array_equal(across_partitions, x[[1, 0, 3, 2]])
    shifted = run("f32[4] collective-permute(x), source_target_pairs={{0,1},{1,2}}", x, 4)
    np.testing.assert_array_equal(shifted, [0 * x[0], x[0], x[1], 0 * x[3]])


def test_collective_permute_in_place_is_refused():
    line = "f32[4] collective-permute(x), source_target_pairs={{0,1}}, slice_sizes={{4}}"
    with pytest.raises(UnimplementedError, match=r"in-place form of .*; write slices around it"):
        run(line, data(2, 4), 2)


def test_ragged_all_to_all():
    module = module_of(
        "x = f32[4] parameter(0)\no = f32[6] parameter(1)\ni = s32[2] parameter(2)\n"
        "s = s32[2] parameter(3)\np = s32[2] parameter(4)\nq = s32[2] parameter(5)\n"
        "ROOT r = f32[6] ragged-all-to-all(x, o, i, s, p, q), replica_groups={{0,1}}",
        2,
        1,
    )

    def s32(*values):
        return np.array(values, np.int32)

    blank = np.full(6, -1, np.float32)
    first = [np.arange(4, dtype=np.float32), blank, s32(0, 1), s32(1, 2), s32(0, 0), s32(1, 3)]
    second = [
        np.arange(10, 14, dtype=np.float32),
        blank,
        s32(0, 3),
        s32(3, 1),
        s32(1, 2),
        s32(2, 1),
    ]
    got = evaluate_partitioned(module, [first, second])
    np.testing.assert_array_equal(got[0][0], [0, 10, 11, 12, -1, -1])
    np.testing.assert_array_equal(got[1][0], [1, 2, 13, -1, -1, -1])


STARTED = {
    "all-reduce": ("f32[4] all-reduce-start(x), replica_groups={}, to_apply=add", "f32[4]"),
    "all-gather": (
        "(f32[4], f32[8]) all-gather-start(x), replica_groups={{0,1}}, dimensions={0}",
        "f32[8]",
    ),
    "collective-permute": (
        "(f32[4], f32[4], u32[], u32[]) collective-permute-start(x), "
        "source_target_pairs={{0,1},{1,0}}",
        "f32[4]",
    ),
}
EXPECTED = {
    "all-reduce": lambda x: sums(x, [(0, 1)]),
    "all-gather": lambda x: np.stack([x.reshape(-1)] * 2),
    "collective-permute": lambda x: x[::-1],
}


@pytest.mark.parametrize("name", STARTED)
def test_start_and_done(name):
    start, result = STARTED[name]
    x = data(2, 4)
    module = module_of(
        f"x = f32[4] parameter(0)\ns = {start}\nROOT d = {result} {name}-done(s)", 2, 1
    )
    got = evaluate_partitioned(module, [[v] for v in x])
    np.testing.assert_allclose(np.stack([g[0] for g in got]), EXPECTED[name](x), rtol=1e-6)


def test_collectives_inside_a_loop_meet_iteration_by_iteration():
    module = parse_module(f"""HloModule m, num_partitions=3
{CALLEES}
more {{ s = (s32[], f32[2]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)
  ROOT r = pred[] compare(i, n), direction=LT }}
step {{ s = (s32[], f32[2]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  v = f32[2] get-tuple-element(s), index=1
  w = f32[2] all-reduce(v), channel_id=7, replica_groups={{{{0,1,2}}}}, use_global_device_ids=true,
    to_apply=add
  p = u32[] partition-id()
  f = f32[] convert(p)
  b = f32[2] broadcast(f), dimensions={{}}
  u = f32[2] add(w, b)
  ROOT t = (s32[], f32[2]) tuple(j, u) }}
ENTRY e {{ v = f32[2] parameter(0)
  z = s32[] constant(0)
  t = (s32[], f32[2]) tuple(z, v)
  l = (s32[], f32[2]) while(t), condition=more, body=step
  ROOT r = f32[2] get-tuple-element(l), index=1 }}""")
    verify(module)
    x = np.ones((3, 2), np.float32)
    expected = x.copy()
    for _ in range(5):
        expected = expected.sum(0) + np.arange(3, dtype=np.float32)[:, None]
    got = evaluate_partitioned(module, [[v] for v in x])
    np.testing.assert_array_equal(np.stack([g[0] for g in got]), expected)


def test_ids_of_replicas_and_partitions():
    module = module_of(
        "a = u32[] replica-id()\nb = u32[] partition-id()\nROOT r = (u32[], u32[]) tuple(a, b)",
        2,
        3,
    )
    got = evaluate_partitioned(module, [[]] * 6)
    assert [tuple(map(int, g)) for g in got] == [(r, p) for r in range(2) for p in range(3)]
    swapped = evaluate_partitioned(module, [[]] * 2, replica_count=2, num_partitions=1)
    assert [tuple(map(int, g)) for g in swapped] == [(0, 0), (1, 0)]


def test_send_and_recv_between_partitions():
    pairs = "frontend_attributes={_xla_send_recv_source_target_pairs={{0,1},{1,2}}}"
    module = module_of(
        "x = f32[2] parameter(0)\nt = token[] after-all()\n"
        f"r0 = (f32[2], u32[], token[]) recv(t), channel_id=5, {pairs}\n"
        f"s0 = (f32[2], u32[], token[]) send(x, t), channel_id=5, {pairs}\n"
        "s1 = token[] send-done(s0), channel_id=5\n"
        "r1 = (f32[2], token[]) recv-done(r0), channel_id=5\n"
        "ROOT y = f32[2] get-tuple-element(r1), index=0",
        1,
        3,
    )
    x = data(3, 2)
    got = evaluate_partitioned(module, [[v] for v in x])
    np.testing.assert_array_equal(np.stack([g[0] for g in got]), [0 * x[0], x[0], x[1]])


def test_groups_of_one_need_no_partner():
    module = module_of(
        "x = f32[4] parameter(0)\nROOT r = f32[4] all-reduce(x), "
        "replica_groups={{0},{1}}, to_apply=add",
        2,
        1,
    )
    x = np.ones(4, np.float32)
    np.testing.assert_array_equal(evaluate(module, [x])[0], x)


def test_one_participant_cannot_stand_for_several():
    module = module_of(
        "x = f32[4] parameter(0)\nROOT r = f32[4] all-reduce(x), replica_groups={{0,1}}, "
        "to_apply=add",
        2,
        1,
    )
    with pytest.raises(UnimplementedError, match="use evaluate_partitioned"):
        evaluate(module, [np.ones(4, np.float32)])


def test_missing_partner_is_reported_instead_of_waiting_forever():
    branches = f"""HloModule m, replica_count=2
{CALLEES}
yes {{ x = f32[] parameter(0)
  ROOT r = f32[] all-reduce(x), replica_groups={{{{0,1}}}}, to_apply=add }}
no {{ ROOT x = f32[] parameter(0) }}
ENTRY e {{ p = pred[] parameter(0)
  x = f32[] parameter(1)
  ROOT r = f32[] conditional(p, x, x), true_computation=yes, false_computation=no }}"""
    module = parse_module(branches)
    one = np.float32(1)
    with pytest.raises(RuntimeFailure, match=r"never come: 0 in %r\.2 \(all-reduce\)"):
        evaluate_partitioned(module, [[np.bool_(True), one], [np.bool_(False), one]])


def test_participant_outside_all_groups():
    module = module_of(
        "x = f32[4] parameter(0)\nROOT r = f32[4] all-reduce(x), replica_groups={{0,1}}, "
        "to_apply=add",
        3,
        1,
    )
    with pytest.raises(RuntimeFailure, match="participant 2 is in no replica group"):
        evaluate_partitioned(module, [[np.ones(4, np.float32)]] * 3)


def test_number_of_argument_lists_and_hosts():
    module = module_of("ROOT r = u32[] replica-id()", 2, 1)
    with pytest.raises(ValueError, match=r"2 replica\(s\) x 1 partition\(s\), got 1 lists"):
        evaluate_partitioned(module, [[]])
    with pytest.raises(ValueError, match="got 3 hosts"):
        evaluate_partitioned(module, [[]] * 2, hosts=[Host()] * 3)


def test_seeds_differ_between_participants_and_repeat():
    module = module_of(
        "z = f32[] constant(0)\no = f32[] constant(1)\n"
        "ROOT r = f32[8] rng(z, o), distribution=rng_uniform",
        2,
        1,
    )
    first = evaluate_partitioned(module, [[]] * 2, seed=3)
    again = evaluate_partitioned(module, [[]] * 2, seed=3)
    np.testing.assert_array_equal(first[0][0], again[0][0])
    assert not np.array_equal(first[0][0], first[1][0])


def test_participants_are_numbered_replica_major():
    assert Topology(2, 3).number(1, 2) == 5
