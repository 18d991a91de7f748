"""Bytes that collectives of a device's program move, and how often."""

import pytest

from xla_backend.hlo.parser import parse_module
from xla_backend.passes.while_trip_count import WhileTripCountAnnotator
from xla_backend.spmd.traffic import Transfer, transfers

SUM = """sum { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
"""
GROUPS = "channel_id=1, replica_groups={{0,1,2,3},{4,5,6,7}}, use_global_device_ids=true"
CASES = {  # instruction on x: f32[8,4], of 128 bytes -> bytes of the array, sent by a device
    "all-reduce": (f"f32[8,4] all-reduce(x), {GROUPS}, to_apply=sum", 128, 192),
    "all-gather": (f"f32[32,4] all-gather(x), {GROUPS}, dimensions={{0}}", 512, 384),
    "reduce-scatter": (
        f"f32[2,4] reduce-scatter(x), {GROUPS}, dimensions={{0}}, to_apply=sum",
        128,
        96,
    ),
    "all-to-all": (f"f32[8,4] all-to-all(x), {GROUPS}, dimensions={{0}}", 128, 96),
    "collective-permute": (
        "f32[8,4] collective-permute(x), channel_id=1, source_target_pairs={{0,1},{1,0},{2,2}}",
        128,
        128,
    ),
    "collective-broadcast": (f"f32[8,4] collective-broadcast(x), {GROUPS}", 128, 128),
}


def of_entry(body: str, called: str = "") -> list[Transfer]:
    text = f"HloModule m, num_partitions=8\n{SUM}{called}ENTRY e {{\n{body}\n}}"
    module = parse_module(text)
    WhileTripCountAnnotator().run(module)
    return transfers(module)


@pytest.mark.parametrize("name", CASES)
def test_bytes(name: str) -> None:
    text, bytes, sent = CASES[name]
    (found,) = of_entry(f"x = f32[8,4] parameter(0)\nROOT r = {text}")
    assert (str(found.opcode), found.bytes, found.sent) == (name, bytes, sent)
    members = (0, 1) if name == "collective-permute" else (0, 1, 2, 3)
    assert found.group == members


def test_operands_of_a_combined_one_count_together() -> None:
    (found,) = of_entry(
        f"""x = f32[8,4] parameter(0)  y = f32[6] parameter(1)
        ROOT r = (f32[8,4], f32[6]) all-reduce(x, y), {GROUPS}, to_apply=sum"""
    )
    assert found.bytes == 4 * (8 * 4 + 6)


def test_groups_of_one_move_nothing() -> None:
    groups = "channel_id=1, replica_groups={{0},{1},{2},{3},{4},{5},{6},{7}}"
    assert not of_entry(
        f"""x = f32[8,4] parameter(0)
        ROOT r = f32[8,4] all-reduce(x), {groups}, use_global_device_ids=true, to_apply=sum"""
    )


LOOP = f"""
below {{ s = (s32[], f32[8,4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)
  ROOT c = pred[] compare(i, n), direction=LT }}
body {{ s = (s32[], f32[8,4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  x = f32[8,4] get-tuple-element(s), index=1
  y = f32[8,4] all-reduce(x), {GROUPS}, to_apply=sum
  ROOT t = (s32[], f32[8,4]) tuple(j, y) }}
few {{ p = f32[8,4] parameter(0)
  ROOT q = f32[8,4] negate(p) }}
many {{ p = f32[8,4] parameter(0)
  q = f32[32,4] all-gather(p), {GROUPS}, dimensions={{0}}
  ROOT r = f32[8,4] slice(q), slice={{[0:8], [0:4]}} }}
"""


def test_loops_multiply() -> None:
    (found,) = of_entry(
        """x = f32[8,4] parameter(0)  z = s32[] constant(0)
        t = (s32[], f32[8,4]) tuple(z, x)
        ROOT r = (s32[], f32[8,4]) while(t), condition=below, body=body""",
        LOOP,
    )
    assert found.times == 5


def test_of_branches_the_dearest_counts() -> None:
    found = of_entry(
        """x = f32[8,4] parameter(0)  k = s32[] parameter(1)
        ROOT r = f32[8,4] conditional(k, x, x), branch_computations={few, many}""",
        LOOP,
    )
    assert [str(t.opcode) for t in found] == ["all-gather"]
