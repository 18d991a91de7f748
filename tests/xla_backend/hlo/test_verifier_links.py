"""One broken module per constraint between instructions, as text."""

import re
from pathlib import Path

import pytest

import xla_backend.hlo
from xla_backend.hlo.errors import VerificationError
from xla_backend.hlo.parser import parse_module
from xla_backend.hlo.verifier import verify

CALLEES = """add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b) }
noisy { a = f32[] parameter(0)
  b = f32[] parameter(1)
  t = token[] after-all()
  o = token[] outfeed(a, t)
  ROOT r = f32[] add(a, b) }
loud { a = f32[4] parameter(0)
  t = token[] after-all()
  o = token[] outfeed(a, t)
  ROOT r = f32[4] negate(a) }
neg { a = f32[4] parameter(0)
  ROOT r = f32[4] negate(a) }
neg2 { a = f32[4] parameter(0)
  ROOT r = f32[4] negate(a) }
"""
PAIR = "(f32[4], f32[4], u32[])"
SHAPE = "(f32[4], u32[], token[])"
# constraint, module header, body of the entry, message
CASES = [
    (
        "start_done_c1",
        "",
        "s = (f32[4], f32[4]) tuple(x, x)\n r = f32[4] all-gather-done(s)",
        r"all-gather-done.*: the operand must be all-gather-start, is %s \(tuple\)",
    ),
    (
        "start_done_c2",
        "",
        f"s = {PAIR} copy-start(x)\n d = f32[4] copy-done(s)\n r = f32[4] copy-done(s)",
        "must have one use, copy-done; it has 2",
    ),
    (
        "start_done_c3",
        "",
        f"s = {PAIR} copy-start(x)\n r = f32[4] get-tuple-element(s), index=0",
        r"its user must be copy-done, is %r[.]?\d* \(get-tuple-element\)",
    ),
    (
        "async_c1",
        "",
        "s = ((f32[4]), f32[4], u32[]) async-start(x), calls=neg\n "
        "r = f32[4] async-done(s), calls=neg2",
        "calls %neg2, not what async-start calls",
    ),
    (
        "async_c2",
        "",
        "s = ((f32[4]), f32[4], u32[]) async-start(x), "
        'async_execution_thread="host", calls=neg\n r = f32[4] async-done(s)',
        'async_execution_thread="host", but %neg runs on "main"',
    ),
    (
        "sharding_c1",
        "",
        "s = (f32[4], f32[4]) tuple(x, x), sharding={{replicated}}\n"
        " r = f32[4] get-tuple-element(s), index=0",
        "has 1 parts",
    ),
    (
        "sharding_c2",
        "",
        "r = f32[4] negate(x), sharding={devices=[2,2]<=[4]}",
        r"is for rank 2, the shape is f32\[4\]",
    ),
    (
        "entry_layout_c1",
        ", entry_computation_layout={()->f32[4]{0}}",
        "r = f32[4] negate(x)",
        "has 0 parameters, the entry 1",
    ),
    (
        "entry_layout_c2",
        ", entry_computation_layout={(f32[5]{0})->f32[4]{0}}",
        "r = f32[4] negate(x)",
        r"says f32\[5\] of parameter 0, f32\[4\]",
    ),
    (
        "entry_layout_c3",
        ", entry_computation_layout={(f32[4]{0})->f32[5]{0}}",
        "r = f32[4] negate(x)",
        r"says f32\[5\] of the result",
    ),
    (
        "transfer_c1",
        "",
        f"r0 = {SHAPE} recv(t), channel_id=1\n r = token[] send-done(r0), channel_id=1",
        r"the operand must be send, is %r0 \(recv\)",
    ),
    (
        "transfer_c2",
        "",
        f"r0 = {SHAPE} recv(t), channel_id=1\n r = (f32[4], token[]) recv-done(r0), channel_id=2",
        "differ from those of %r0",
    ),
    (
        "to_apply_c1",
        "",
        "r = f32[] reduce(x, z), dimensions={0}, to_apply=noisy",
        r"%noisy has a side effect: %o \(outfeed\)",
    ),
    (
        "fusion_c2",
        "",
        "r = f32[4] fusion(x), kind=kLoop, calls=loud",
        r"%o.* \(outfeed\) has",
    ),
    (
        "replica_groups_c1",
        "",
        "r = f32[4] all-reduce(x), replica_groups={{0,1},{1,2}}, to_apply=add",
        "replica_groups name 1 twice",
    ),
    (
        "replica_groups_c2",
        ", replica_count=2",
        "r = f32[4] all-reduce(x), replica_groups={{0},{2}}, to_apply=add",
        "replica_groups name 2, there are 2",
    ),
    (
        "collective_permute_c6",
        ", replica_count=2",
        "r = f32[4] collective-permute(x), source_target_pairs={{0,5}}",
        "source_target_pairs name 5, there are 2",
    ),
    (
        "channel_c1",
        "",
        f"s = {SHAPE} send(x, t), channel_id=1\n r = f32[4] all-reduce(x), "
        "channel_id=1, replica_groups={}, to_apply=add",
        r"channel 1 is that of %s \(send\), too",
    ),
    (
        "channel_c2",
        "",
        f"s = {SHAPE} send(x, t), channel_id=1, is_host_transfer=true\n "
        f"r = {SHAPE} recv(t), channel_id=1",
        "channel 1 is a host transfer for one of %s and it",
    ),
    (
        "buffer_donor_c1",
        ", buffer_donor={ (1, {}) }",
        "r = f32[4] negate(x)",
        r"buffer_donor names parameter 1 \(\), which does not exist",
    ),
    (
        "buffer_donor_c2",
        ", input_output_alias={ {}: (0, {}, may-alias) }, buffer_donor={ (0, {}) }",
        "r = f32[4] negate(x)",
        r"buffer_donor names parameter 0 \(\), which is aliased",
    ),
]


def module_of(header, body):
    head, _, last = body.rpartition("\n")
    return parse_module(
        f"HloModule m{header}\n{CALLEES}ENTRY e {{\n x = f32[4] parameter(0)\n"
        f" z = f32[] constant(0)\n t = token[] after-all()\n{head}\n ROOT {last.strip()}\n}}"
    )


@pytest.mark.parametrize("header, body, message", [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_broken(header, body, message):
    with pytest.raises(VerificationError, match=message):
        verify(module_of(header, body))


GOOD = [
    ("", f"s = {PAIR} copy-start(x)\n r = f32[4] copy-done(s)"),
    (
        "",
        "s = ((f32[4]), f32[4], u32[]) async-start(x), calls=neg\n "
        "u = ((f32[4]), f32[4], u32[]) async-update(s)\n r = f32[4] async-done(u), calls=neg",
    ),
    (
        ", num_partitions=4",
        "r = f32[4] collective-permute(x), channel_id=1, source_target_pairs={{0,3}}",
    ),
    (
        ", replica_count=2, num_partitions=4",
        "r = f32[4] all-reduce(x), channel_id=1, "
        "replica_groups={{0,7}}, use_global_device_ids=true, to_apply=add",
    ),
    (", buffer_donor={ (0, {}) }", "r = f32[4] negate(x)"),
    (", num_partitions=2", "r = f32[4] negate(x), sharding={{mesh['a'=2], replicated}}"),
]


@pytest.mark.parametrize("header, body", GOOD, ids=range(len(GOOD)))
def test_whole(header, body):
    verify(module_of(header, body))


def test_every_constraint_between_instructions_has_a_case():
    folder = Path(xla_backend.hlo.__path__[0])
    texts = [(folder / f"verifier_{name}.py").read_text() for name in ("links", "sharding")]
    cited = re.findall(r"^\s*# (\w+_c\d+)$", "\n".join(texts), re.MULTILINE)
    assert len(cited) >= 16 and set(cited) <= {case[0] for case in CASES}
