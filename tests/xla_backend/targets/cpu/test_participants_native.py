"""Collectives among one participant, asynchronous forms, transfers and queues of the host, native
code against the evaluator."""

from collections import deque

import numpy as np
import pytest
from native_checks import check_native, module_of

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.errors import RuntimeFailure, UnimplementedError
from xla_backend.hlo.parser import parse_module
from xla_backend.runtime.hlo_client import host_device
from xla_backend.targets.cpu.compiler import compile_module

ADD = """add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}
"""
DOUBLE = """double {
  a = f32[4] parameter(0)
  ROOT r = f32[4] add(a, a)
}
"""
X = "x = f32[4] parameter(0)\n"
PROGRAMS = {
    "all-reduce": "ROOT r = f32[4] all-reduce(x), replica_groups={}, to_apply=add",
    "all-reduce-variadic": """y = f32[2] parameter(1)
        ROOT r = (f32[4], f32[2]) all-reduce(x, y), replica_groups={{0}}, to_apply=add""",
    "all-reduce-start": """s = f32[4] all-reduce-start(x), replica_groups={}, to_apply=add
        ROOT r = f32[4] all-reduce-done(s)""",
    "all-gather": "ROOT r = f32[4] all-gather(x), replica_groups={{0}}, dimensions={0}",
    "all-gather-start": """
        s = (f32[4], f32[4]) all-gather-start(x), replica_groups={{0}}, dimensions={0}
        ROOT r = f32[4] all-gather-done(s)""",
    "all-to-all": "ROOT r = f32[4] all-to-all(x), replica_groups={{0}}, dimensions={0}",
    "all-to-all-tuple": "ROOT r = (f32[4]) all-to-all(x), replica_groups={{0}}",
    "reduce-scatter": """
        ROOT r = f32[4] reduce-scatter(x), replica_groups={{0}}, dimensions={0}, to_apply=add""",
    "collective-broadcast": "ROOT r = f32[4] collective-broadcast(x), replica_groups={{0}}",
    "permute-to-itself": "ROOT r = f32[4] collective-permute(x), source_target_pairs={{0,0}}",
    "permute-to-nobody": "ROOT r = f32[4] collective-permute(x), source_target_pairs={}",
    "permute-start": """
        s = (f32[4], f32[4], u32[], u32[]) collective-permute-start(x),
          source_target_pairs={{0,0}}
        ROOT r = f32[4] collective-permute-done(s)""",
    "numbers": """p = u32[] partition-id()
        q = u32[] replica-id()
        ROOT r = (u32[], u32[]) tuple(p, q)""",
    "copy-start": """s = (f32[4], f32[4], u32[]) copy-start(x)
        ROOT r = f32[4] copy-done(s)""",
    "async": """s = ((f32[4]), f32[4], u32[]) async-start(x), calls=double
        u = ((f32[4]), f32[4], u32[]) async-update(s)
        ROOT r = f32[4] async-done(u)""",
    "ragged-all-to-all": """o = f32[6] parameter(1)
        start = s32[2] constant({1, 0})
        size = s32[2] constant({3, 1})
        place = s32[2] constant({2, 0})
        ROOT r = f32[6] ragged-all-to-all(x, o, start, size, place, size),
          replica_groups={{0}}""",
    "send-recv": """t = token[] after-all()
        s = (f32[4], u32[], token[]) send(x, t), channel_id=3
        sd = token[] send-done(s), channel_id=3
        r = (f32[4], u32[], token[]) recv(t), channel_id=3
        rd = (f32[4], token[]) recv-done(r), channel_id=3
        y = f32[4] get-tuple-element(rd), index=0
        ROOT n = f32[4] negate(y)""",
    "custom-call-with-meaning": """
        ROOT r = f32[4] custom-call(x), custom_call_target="__library$double",
          called_computations={double}""",
}


def program(name: str):
    body = PROGRAMS[name]
    called = "".join(text for text in (ADD, DOUBLE) if text.split()[0] in body)
    return module_of(X + body, called)


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_participant(name):
    check_native(program(name))


def test_pairs_across_a_loop():
    """A -start in one round, its -done in the next."""
    check_native(
        module_of(
            """x = f32[4] parameter(0)
            n = s32[] constant(3)
            s = (f32[4], f32[4]) all-gather-start(x), replica_groups={{0}}, dimensions={0}
            t = ((f32[4], f32[4]), s32[]) tuple(s, n)
            w = ((f32[4], f32[4]), s32[]) while(t), condition=some, body=step
            l = (f32[4], f32[4]) get-tuple-element(w), index=0
            ROOT r = f32[4] all-gather-done(l)""",
            """some {
              p = ((f32[4], f32[4]), s32[]) parameter(0)
              n = s32[] get-tuple-element(p), index=1
              z = s32[] constant(0)
              ROOT c = pred[] compare(n, z), direction=GT
            }
            step {
              p = ((f32[4], f32[4]), s32[]) parameter(0)
              s = (f32[4], f32[4]) get-tuple-element(p), index=0
              x = f32[4] all-gather-done(s)
              y = f32[4] add(x, x)
              q = (f32[4], f32[4]) all-gather-start(y), replica_groups={{0}}, dimensions={0}
              n = s32[] get-tuple-element(p), index=1
              one = s32[] constant(1)
              m = s32[] subtract(n, one)
              ROOT t = ((f32[4], f32[4]), s32[]) tuple(q, m)
            }
            """,
        )
    )


def test_transfers_that_leave_this_device_out():
    body = PROGRAMS["send-recv"].replace(
        "channel_id=3",
        'channel_id=3, frontend_attributes={_xla_send_recv_source_target_pairs="{{1,0}}"}',
        1,
    )
    check_native(module_of(X + body.replace(
        "recv(t), channel_id=3",
        "recv(t), channel_id=3, "
        'frontend_attributes={_xla_send_recv_source_target_pairs="{{0,1}}"}',
    )))  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("recv(t), channel_id=3", "recv(t), channel_id=4", "nothing in computation %main sends"),
        ("send(x, t)", "send(y, t)", "waits for ever"),
    ],
)
def test_recv_without_send(old, new, message):
    body = PROGRAMS["send-recv"].replace(old, new)
    if "send(y" in body:
        lines = [line.strip() for line in body.splitlines()]
        send = [line for line in lines if "send" in line]
        body = "\n".join([line for line in lines if line not in send][:4] + send + lines[-1:])
    with pytest.raises(UnimplementedError, match=message):
        compile_module(module_of(X + body), CompileOptions())


# -- the host --------------------------------------------------------------------------------------


@pytest.fixture
def host():
    queues = host_device().host
    yield queues
    queues.infeed.clear()
    queues.outfeed.clear()
    queues.to_device.clear()
    queues.from_device.clear()


V = np.arange(3, dtype=np.float32)


def compiled(body):
    return compile_module(module_of(body), CompileOptions())


ECHO = """t = token[] after-all()
    i = ((f32[3], pred[]), token[]) infeed(t)
    d = (f32[3], pred[]) get-tuple-element(i), index=0
    u = token[] get-tuple-element(i), index=1
    v = f32[3] get-tuple-element(d), index=0
    o = token[] outfeed(v, u), outfeed_shape=f32[3]{0}
    ROOT r = f32[3] negate(v)"""


def test_infeed_and_outfeed(host):
    executable = compiled(ECHO)
    host.infeed.extend([[V, np.bool_(True)], [V + 1, np.bool_(False)]])
    for k in range(2):
        (result,) = executable.run_arrays([])
        np.testing.assert_array_equal(result, -(V + k))
    assert [[x.tolist() for x in entry] for entry in host.outfeed] == [[[0, 1, 2]], [[1, 2, 3]]]


def test_infeed_of_nothing_and_of_another_shape(host):
    executable = compiled(ECHO)
    with pytest.raises(RuntimeFailure, match="infeed queue of the host, which is empty"):
        executable.run_arrays([])
    host.infeed.append([V[:2], np.bool_(True)])
    with pytest.raises(RuntimeFailure, match=r"got \['f32\[2\]', 'pred\[\]'\] from the infeed"):
        executable.run_arrays([])


def test_transfers_with_the_host(host):
    executable = compiled("""x = f32[3] parameter(0)
        t = token[] after-all()
        s = (f32[3], u32[], token[]) send(x, t), channel_id=1, is_host_transfer=true
        sd = token[] send-done(s), channel_id=1, is_host_transfer=true
        r = (f32[3], u32[], token[]) recv(sd), channel_id=2, is_host_transfer=true
        rd = (f32[3], token[]) recv-done(r), channel_id=2, is_host_transfer=true
        ROOT y = f32[3] get-tuple-element(rd), index=0""")
    host.to_device[2] = deque([[V + 1]])
    (result,) = executable.run_arrays([V])
    np.testing.assert_array_equal(result, V + 1)
    np.testing.assert_array_equal(host.from_device[1][0][0], V)
    with pytest.raises(RuntimeFailure, match="channel 2 of the host, which is empty"):
        executable.run_arrays([V])


# -- random state ----------------------------------------------------------------------------------


def test_state_advances_within_and_between_executions():
    text = """HloModule m

    ENTRY e {
      a = u64[2] rng-get-and-update-state(), delta=5
      b = u64[2] rng-get-and-update-state(), delta=7
      ROOT t = (u64[2], u64[2]) tuple(a, b)
    }
    """
    executable = compile_module(parse_module(text), CompileOptions())
    first = [int(x[0]) for x in executable.run_arrays([])]
    second = [int(x[0]) for x in executable.run_arrays([])]
    assert abs(first[1] - first[0]) in (5, 7)
    assert min(second) == min(first) + 12
    other = compile_module(parse_module(text), CompileOptions())
    assert [int(x[0]) for x in other.run_arrays([])] == first
