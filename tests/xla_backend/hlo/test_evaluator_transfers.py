"""Queues of the host, send and recv of one device, asynchronous pairs, and state of random
numbers."""

from collections import deque

import numpy as np
import pytest

from xla_backend.hlo.errors import RuntimeFailure
from xla_backend.hlo.evaluator import Host, evaluate, evaluate_partitioned
from xla_backend.hlo.parser import parse_module
from xla_backend.hlo.verifier import verify


def entry(body, callees=""):
    module = parse_module(f"HloModule m\n{callees}\nENTRY e {{\n{body}\n}}")
    verify(module)
    return module


X = np.arange(3, dtype=np.float32)
ECHO = entry("""t = token[] after-all()
i = ((f32[3], pred[]), token[]) infeed(t), infeed_config="cfg"
d = (f32[3], pred[]) get-tuple-element(i), index=0
u = token[] get-tuple-element(i), index=1
ROOT r = token[] outfeed(d, u), outfeed_shape=(f32[3]{0}, pred[])""")


def test_infeed_and_outfeed():
    host = Host(infeed=deque([[X, np.bool_(True)]]))
    assert evaluate(ECHO, [], host=host) == []
    (written,) = host.outfeed
    np.testing.assert_array_equal(written[0], X)
    assert written[1] and not host.infeed


def test_each_participant_has_its_host():
    hosts = [Host(infeed=deque([[X + i, np.bool_(i)]])) for i in range(2)]
    evaluate_partitioned(ECHO, [[], []], replica_count=2, hosts=hosts)
    assert [float(h.outfeed[0][0][0]) for h in hosts] == [0.0, 1.0]


def test_infeed_of_nothing_and_of_another_shape():
    with pytest.raises(RuntimeFailure, match="infeed queue of the host, which is empty"):
        evaluate(ECHO, [])
    with pytest.raises(RuntimeFailure, match=r"got \['f32\[2\]'\] from the infeed"):
        evaluate(ECHO, [], host=Host(infeed=deque([[X[:2]]])))


def test_transfers_with_the_host():
    module = entry("""x = f32[3] parameter(0)
t = token[] after-all()
s = (f32[3], u32[], token[]) send(x, t), channel_id=1, is_host_transfer=true
sd = token[] send-done(s), channel_id=1, is_host_transfer=true
r = (f32[3], u32[], token[]) recv(sd), channel_id=2, is_host_transfer=true
rd = (f32[3], token[]) recv-done(r), channel_id=2, is_host_transfer=true
ROOT y = f32[3] get-tuple-element(rd), index=0""")
    host = Host(to_device={2: deque([[X + 1]])})
    np.testing.assert_array_equal(evaluate(module, [X], host=host)[0], X + 1)
    np.testing.assert_array_equal(host.from_device[1][0][0], X)
    with pytest.raises(RuntimeFailure, match="channel 2 of the host, which is empty"):
        evaluate(module, [X])


SEND_RECV = """x = f32[3] parameter(0)
t = token[] after-all()
s = (f32[3], u32[], token[]) send(x, t), channel_id=1
sd = token[] send-done(s), channel_id=1
r = (f32[3], u32[], token[]) recv(t), channel_id={channel}
rd = (f32[3], token[]) recv-done(r), channel_id={channel}
ROOT y = f32[3] get-tuple-element(rd), index=0"""


def test_send_to_oneself():
    module = entry(SEND_RECV.replace("{channel}", "1"))
    np.testing.assert_array_equal(evaluate(module, [X])[0], X)


def test_recv_that_nobody_sends_to():
    module = entry(SEND_RECV.replace("{channel}", "2"))
    with pytest.raises(RuntimeFailure, match=r"never come: 0 in %rd \(recv-done\)"):
        evaluate(module, [X])


def test_async_call():
    module = entry(
        """x = f32[3] parameter(0)
s = ((f32[3]), f32[3], u32[]) async-start(x), calls=neg
u = ((f32[3]), f32[3], u32[]) async-update(s)
ROOT d = f32[3] async-done(u)""",
        "neg { a = f32[3] parameter(0)\n ROOT n = f32[3] negate(a) }",
    )
    np.testing.assert_array_equal(evaluate(module, [X])[0], -X)


def test_copy_start_and_done():
    module = entry("""x = f32[3] parameter(0)
s = (f32[3], f32[3], u32[]) copy-start(x)
ROOT d = f32[3] copy-done(s)""")
    np.testing.assert_array_equal(evaluate(module, [X])[0], X)


def test_state_of_random_numbers_advances():
    module = entry("""a = u64[2] rng-get-and-update-state(), delta=4096
b = u64[2] rng-get-and-update-state(), delta=1
ROOT r = (u64[2], u64[2]) tuple(a, b)""")
    a, b = evaluate(module, [])
    assert (int(b[0]) - int(a[0]), int(a[1]), int(b[1])) == (4096, 0, 0)
