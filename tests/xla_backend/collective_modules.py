"""Modules with collectives, for tests of those who run them."""

from __future__ import annotations

import numpy as np

from xla_backend.hlo.module import HloModule
from xla_backend.hlo.parser import parse_module
from xla_backend.hlo.topology import Topology

SUM = """sum { a = TYPE[] parameter(0)
  b = TYPE[] parameter(1)
  ROOT c = TYPE[] add(a, b) }
"""


def module_of(body: str, replicas: int, partitions: int, type: str = "f32", called: str = SUM):
    text = f"HloModule m, replica_count={replicas}, num_partitions={partitions}\n"
    return parse_module((text + called + f"ENTRY e {{\n{body}\n}}").replace("TYPE", type))


# attributes, replicas, partitions
MODES = [
    ("replica_groups={}", 2, 1),
    ("replica_groups={}", 4, 1),
    ("replica_groups={{0,2},{3,1}}", 4, 1),
    ("replica_groups={{0},{1},{2},{3}}", 4, 1),
    ("replica_groups={{0,1}}", 2, 2),
    ("channel_id=1, replica_groups={{0},{1}}", 2, 2),
    ("channel_id=1, replica_groups={{1,0}}", 2, 2),
    ("channel_id=1, replica_groups={{0,3},{1,2}}, use_global_device_ids=true", 2, 2),
    ("channel_id=3, replica_groups={}, use_global_device_ids=true", 1, 4),
]
MODE_IDS = [f"{m[0]} on {m[1]}x{m[2]}" for m in MODES]
TYPES = ("f32", "s32", "bf16", "pred", "c64")
REDUCERS = {"pred": "or"}


def with_groups(
    attributes: str,
    replicas: int,
    partitions: int,
    line: str,
    type: str,
    operation: str | None = None,
) -> HloModule:
    """x is TYPE[4,8]; ALL in the line is how many there are in a group, times 8; PART a part.
    `operation`: of reductions, instead of sums."""
    probe = module_of(
        f"x = TYPE[4,8] parameter(0)\nROOT r = TYPE[4,8] all-reduce(x), {attributes}, to_apply=sum",
        replicas,
        partitions,
        type,
    )
    assert probe.entry is not None and probe.entry.root is not None
    size = len(Topology(replicas, partitions).groups(probe.entry.root)[0])
    line = line.replace("ALL", str(8 * size)).replace("PART", str(8 // size))
    called = SUM.replace("add", operation or REDUCERS.get(type, "add"))
    body = f"x = TYPE[4,8] parameter(0)\nROOT r = {line}, {attributes}"
    return module_of(body, replicas, partitions, type, called)


MOVES = {
    "all-to-all": ("TYPE[4,8] all-to-all(x), replica_groups={{0,2},{3,1}}, dimensions={1}", 4, 1),
    "all-to-all of operands": (
        "(TYPE[4,8], TYPE[4,8]) all-to-all(x, y), channel_id=1, replica_groups={{1,0}}",
        2,
        2,
    ),
    "broadcast": ("TYPE[4,8] collective-broadcast(x), replica_groups={{2,0}}", 4, 1),
    "broadcast over partitions": (
        "TYPE[4,8] collective-broadcast(x), channel_id=1, replica_groups={{1,0}}",
        1,
        2,
    ),
    "permute": ("TYPE[4,8] collective-permute(x), source_target_pairs={{0,1},{1,2}}", 4, 1),
    "permute two": (
        "(TYPE[4,8], TYPE[4,8]) collective-permute(x, y), source_target_pairs={{0,1},{1,0}}",
        2,
        1,
    ),
    "permute partitions": (
        "TYPE[4,8] collective-permute(x), channel_id=1, source_target_pairs={{0,1},{1,0}}",
        2,
        2,
    ),
    "permute nothing": ("TYPE[4,8] collective-permute(x), source_target_pairs={}", 2, 1),
    "several operands": (
        "(TYPE[4,16], TYPE[4,16]) all-gather(x, y), replica_groups={}, dimensions={1}",
        2,
        1,
    ),
}


def s32(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def ragged() -> tuple[HloModule, list[list[np.ndarray]]]:
    """The module, and the arguments of each member."""
    module = module_of(
        "x = f32[4] parameter(0)\no = f32[6] parameter(1)\ni = s32[2] parameter(2)\n"
        "s = s32[2] parameter(3)\np = s32[2] parameter(4)\nq = s32[2] parameter(5)\n"
        "ROOT r = f32[6] ragged-all-to-all(x, o, i, s, p, q), replica_groups={{0,1}}",
        2,
        1,
        called="",
    )
    x, blank = np.arange(4, dtype=np.float32), np.full(6, -1, np.float32)
    first = [x, blank, s32(0, 1), s32(1, 2), s32(0, 0), s32(1, 3)]
    second = [x + 10, blank, s32(0, 3), s32(3, 1), s32(1, 2), s32(2, 1)]
    return module, [first, second]


# Offsets and sizes of which some are out of bounds, by how much ever.
WILD = (
    -(2**63),
    -(2**62),
    -(2**31),
    -(2**30),
    -7,
    -2,
    -1,
    0,
    1,
    2,
    3,
    4,
    5,
    6,
    9,
    127,
    255,
    2**30,
    2**31 - 1,
    2**62,
    2**63 - 1,
    2**64 - 1,
)


def wild_ragged(
    type: str, members: int, seed: int
) -> tuple[HloModule, list[list[np.ndarray]], list[np.ndarray]]:
    """Rows of 4 that go to places in 6, as wild offsets and sizes of a type say; with two slices
    for each member. And what each member has to get."""
    rng, dtype = (
        np.random.default_rng(seed),
        np.dtype(type.replace("s", "int").replace("u", "uint")),
    )
    ends = np.iinfo(dtype)
    count = 2 * members
    lists = "".join(f"l{k} = {type}[{count}] parameter({k + 2})\n" for k in range(4))
    groups = "{{" + ",".join(map(str, range(members))) + "}}"
    module = module_of(
        f"x = f32[4,3] parameter(0)\no = f32[6,3] parameter(1)\n{lists}"
        f"ROOT r = f32[6,3] ragged-all-to-all(x, o, l0, l1, l2, l3), replica_groups={groups}",
        members,
        1,
        called="",
    )
    possible = np.array([n for n in WILD if ends.min <= n <= ends.max], dtype)
    arguments = [
        [
            rng.random((4, 3), np.float32),
            -rng.random((6, 3), np.float32),
            *rng.choice(possible, (4, count)),
        ]
        for _ in range(members)
    ]
    wanted = [np.array(each[1]) for each in arguments]
    for source, _, starts, sizes, places, _ in arguments:
        for k in range(count):
            for row in range(6):
                at = row - int(places[k]) + int(starts[k])
                if 0 <= row - int(places[k]) < int(sizes[k]) and 0 <= at < 4:
                    wanted[k // 2][row] = source[at]
    return module, arguments, wanted


REDUCTIONS = {
    "several operands": """y = f32[5] parameter(1)
      ROOT r = (f32[4,8], f32[5]) all-reduce(x, y), replica_groups={}, to_apply=sum""",
    "in an order that counts": """
      ROOT r = f32[4,8] all-reduce(x), replica_groups={{2,0,1}}, to_apply=difference""",
    "of several operations": """
      ROOT r = f32[4,8] all-reduce(x), replica_groups={}, to_apply=larger""",
    "of what was started": """
      s = f32[4,8] all-reduce-start(x), replica_groups={}, to_apply=sum
      ROOT r = f32[4,8] all-reduce-done(s)""",
    "of a scalar": """y = f32[] parameter(1)
      ROOT r = f32[] all-reduce(y), replica_groups={}, to_apply=sum""",
    "of nothing": """y = f32[0,3] parameter(1)
      ROOT r = (f32[4,8], f32[0,3]) all-reduce(x, y), replica_groups={}, to_apply=sum""",
    "of what was computed": """
      y = f32[4,8] tanh(x)
      s = f32[4,8] all-reduce(y), replica_groups={}, to_apply=sum
      n = u32[] replica-id()
      m = f32[] convert(n)
      k = f32[4,8] broadcast(m), dimensions={}
      ROOT r = f32[4,8] multiply(s, k)""",
}
CALLED = """
difference { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] subtract(a, b) }
larger { a = f32[] parameter(0)
  b = f32[] parameter(1)
  two = f32[] constant(2)
  c = f32[] multiply(b, two)
  g = pred[] compare(a, c), direction=GT
  ROOT r = f32[] select(g, a, c) }
"""


LOOP = """
more { s = (s32[], f32[2]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)
  ROOT r = pred[] compare(i, n), direction=LT }
step { s = (s32[], f32[2]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  v = f32[2] get-tuple-element(s), index=1
  w = f32[2] all-reduce(v), channel_id=7, replica_groups={{0,1,2}}, use_global_device_ids=true,
    to_apply=sum
  p = u32[] partition-id()
  f = f32[] convert(p)
  b = f32[2] broadcast(f), dimensions={}
  u = f32[2] add(w, b)
  ROOT t = (s32[], f32[2]) tuple(j, u) }
"""


def in_a_loop() -> HloModule:
    """Sums over three partitions, five times."""
    body = """v = f32[2] parameter(0)
      z = s32[] constant(0)
      t = (s32[], f32[2]) tuple(z, v)
      l = (s32[], f32[2]) while(t), condition=more, body=step
      ROOT r = f32[2] get-tuple-element(l), index=1"""
    return module_of(body, 1, 3, called=SUM + LOOP)


BRANCHES = """
yes { x = f32[4] parameter(0)
  s = f32[4] sine(x)
  ROOT r = f32[4] all-reduce(s), CHANNELreplica_groups={{0,1}}, to_apply=sum }
no { x = f32[4] parameter(0)
  c = f32[4] cosine(x)
  ROOT r = f32[4] OTHER }
"""
CHOICE = """p = pred[] parameter(0)
  x = f32[4] parameter(1)
  ROOT r = f32[4] conditional(p, x, x), true_computation=yes, false_computation=no"""
X = np.arange(4, dtype=np.float32)
BOTH = [[np.bool_(True), X], [np.bool_(False), X + 1]]


def choice(channel: str, other: str) -> HloModule:
    called = SUM + BRANCHES.replace("CHANNEL", channel).replace("OTHER", other)
    return module_of(CHOICE, 2, 1, called=called)
