"""Arrays over the devices of two processes, and what these tell each other: two devices each."""

from __future__ import annotations

import copy
import gc
import pickle
from typing import Any

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import P, lax
from pyjax.experimental import multihost_utils as hosts
from pyjax.sharding import AxisType, Mesh, NamedSharding
from xla_backend.runtime.processes.crossing import Run

pyjax.distributed.initialize()
ME = pyjax.process_index()
OTHER = 1 - ME
MESH = pyjax.make_mesh((4,), ("i",))
DATA = np.arange(8, dtype=np.float32)
CUT, WHOLE = NamedSharding(MESH, P("i")), NamedSharding(MESH, P())

# -- devices ---------------------------------------------------------------------------------------

assert [d.id for d in pyjax.devices()] == [0, 1, 2048, 2049]
assert [d.process_index for d in pyjax.devices()] == [0, 0, 1, 1]
assert pyjax.local_devices() == pyjax.devices()[2 * ME : 2 * ME + 2]
assert pyjax.local_devices(OTHER) == pyjax.devices()[2 * OTHER : 2 * OTHER + 2]
assert pyjax.process_count() == 2 and pyjax.process_indices() == [0, 1]
assert (pyjax.device_count(), pyjax.local_device_count()) == (4, 2)
numbers = {d.process_index: d.local_hardware_id for d in pyjax.devices()}
assert numbers == {ME: 1, OTHER: None}
assert jnp.ones(3).devices() == {pyjax.local_devices()[0]}
assert MESH.is_multi_process and MESH.local_devices == pyjax.local_devices()
assert MESH.local_mesh.devices.tolist() == pyjax.local_devices()

# -- arrays ----------------------------------------------------------------------------------------

x = pyjax.device_put(DATA, CUT)
assert not x.is_fully_addressable and not x.is_fully_replicated and len(x) == 8
assert repr(x) == str(x) == "Array(shape=(8,), dtype=float32)"
assert [s.device.id for s in x.global_shards] == [0, 1, 2048, 2049]
assert [s.data is None for s in x.global_shards] == [ME == 1] * 2 + [ME == 0] * 2
for number, shard in enumerate(x.addressable_shards):
    start = 4 * ME + 2 * number
    assert shard.data.tolist() == DATA[start : start + 2].tolist()
    assert shard.device == pyjax.local_devices()[number] and shard.replica_id == 0
assert x.addressable_data(1).tolist() == DATA[4 * ME + 2 : 4 * ME + 4].tolist()
for read in (np.asarray, pyjax.device_get, pickle.dumps, lambda x: x.tolist()):
    with pytest.raises(RuntimeError, match=r"(?s)spans non-addressable.*process_allgather"):
        read(x)
# As many results as values say: no process knows them, unless it is told how many there are.
AUTO = pyjax.make_mesh((4,), ("i",), axis_types=(AxisType.Auto,))
loose = pyjax.device_put(DATA, NamedSharding(AUTO, P("i")))
for decide in (
    jnp.nonzero, jnp.flatnonzero, jnp.argwhere, jnp.unique, lambda x: jnp.where(x > 2),
    lambda x: x[x > 2], lambda x: jnp.repeat(x, x.astype(int)), lambda x: jnp.union1d(x, x),
):  # fmt: skip
    with pytest.raises(
        RuntimeError, match=r"(?s)non-addressable.*size=n.*total_repeat_length.*process_allgather"
    ):
        decide(loose)
odd, *_ = jnp.nonzero(loose % 2, size=4)
assert hosts.process_allgather(odd, tiled=True).tolist() == [1, 3, 5, 7]
assert hosts.process_allgather(jnp.unique(loose // 2, size=4), tiled=True).tolist() == [0, 1, 2, 3]
everywhere = pyjax.device_put(x, WHOLE)
assert jnp.nonzero(everywhere)[0].tolist() == [*range(1, 8)]
assert everywhere.tolist() == DATA.tolist() and everywhere.is_fully_replicated
assert float(x.sum()) == 28
assert everywhere[5] == 5 and [float(v) for v in everywhere][:3] == [0, 1, 2]
same = copy.copy(x)
x.delete()
assert float((same + jnp.arange(8)).max()) == 14  # an array of this process goes everywhere
x = same
with pytest.raises(ValueError, match="must be a fully addressable array"):
    pyjax.device_put(x, pyjax.local_devices()[0])
with pytest.raises(
    AssertionError, match=f"not the same on each process: process {OTHER} has float"
):
    pyjax.device_put(DATA + ME, CUT)
with pytest.raises(AssertionError, match=r"float32\[8\], and this one|and this one float32\[8\]"):
    pyjax.device_put(DATA if ME else DATA[:4], CUT)

# Where this process has no device, it knows the shape.
far = Mesh(np.array(pyjax.local_devices(OTHER)), ("i",))
near = Mesh(np.array(pyjax.local_devices()), ("i",))
there = pyjax.device_put(DATA, NamedSharding(far, P("i")))
assert there.shape == (8,) and there.addressable_shards == []
assert pyjax.jit(lambda x: x + 1)(there).addressable_shards == []
here = pyjax.device_put(DATA, NamedSharding(near, P("i")))
assert here.is_fully_addressable and pyjax.jit(jnp.sum)(here) == 28
assert pyjax.device_put(1.0, pyjax.local_devices(OTHER)[0]).shape == ()


def on_other(f: Any) -> Any:
    with pyjax.default_device(pyjax.local_devices(OTHER)[0]):
        return f()


for use in (
    lambda: pyjax.jit(lambda x: x + 1, device=pyjax.local_devices(OTHER)[0])(1.0),
    lambda: on_other(lambda: jnp.ones(3) + 1),
):
    with pytest.raises(ValueError, match=f"which process {OTHER} has"):
        use()
# Each process passes the examples of its devices, and gets their results.
own = DATA[:6].reshape(2, 3) + 10 * ME
total = sum(DATA[:6].reshape(2, 3).sum(0) + 20 * process for process in range(2))
f = pyjax.pmap(lambda x, y: (x + lax.psum(x, "i"), lax.axis_index("i"), y), "i", in_axes=(0, None))
moved, index, same = f(own, np.float32(7))
np.testing.assert_array_equal(moved, own + total)
assert index.tolist() == [2 * ME, 2 * ME + 1] and same.tolist() == [7, 7]
assert moved.is_fully_addressable and moved.devices() == {*pyjax.local_devices()}
np.testing.assert_array_equal(f(moved, 1.0)[0], moved + 5 * total)
f = pyjax.pmap(lambda x: (x, lax.psum(x, "i")), "i", in_axes=1, out_axes=(1, None))
np.testing.assert_array_equal(f(own.T)[0], own.T)
np.testing.assert_array_equal(f(own.T)[1], total)
np.testing.assert_array_equal(
    pyjax.pmap(lambda x: lax.psum(x, "i"), "i")(own[:1]), 2 * own[:1] - 20 * ME + 10
)
# Within a program it maps over the devices of this process.
summed = pyjax.jit(lambda x: pyjax.pmap(lambda x: lax.psum(x, "i"), "i")(x))(own)
np.testing.assert_array_equal(summed, [own.sum(0)] * 2)
with pytest.raises(ValueError, match="requires 6 logical devices, but only 4"):
    f(np.zeros((2, 3), np.float32))
with pytest.raises(NotImplementedError, match=r"pmap\(...\).lower over the devices of 2"):
    f.lower(own.T)
doubled = pyjax.pmap(lambda x: lax.psum(x, "i"), "i", devices=pyjax.local_devices())
assert doubled(DATA[1:3]).tolist() == [3, 3]
pair = Mesh(np.array([pyjax.local_devices(0)[1], pyjax.local_devices(1)[0]]), ("i",))
over_pair = pyjax.device_put(DATA, NamedSharding(pair, P("i")))
assert pyjax.jit(jnp.sum)(over_pair) == 28

# -- arrays from parts -----------------------------------------------------------------------------

make = pyjax.make_array_from_process_local_data
own = DATA[4 * ME : 4 * ME + 4]
for y in (make(CUT, own), make(CUT, own, (8,)), make(CUT, own, (None,)), make(CUT, DATA, (8,))):
    assert hosts.process_allgather(y, tiled=True).tolist() == DATA.tolist()
assert make(WHOLE, DATA).tolist() == DATA.tolist()
table = make(NamedSharding(MESH, P(None, "i")), {"a": np.outer(DATA, own)})["a"]
assert hosts.process_allgather(table, tiled=True).tolist() == np.outer(DATA, DATA).tolist()
with pytest.raises(ValueError, match=r"process data has 4 elements. Process addresses 8 elements"):
    make(CUT, own, (16,))
parts = [pyjax.device_put(own[2 * n : 2 * n + 2], d) for n, d in enumerate(pyjax.local_devices())]
y = pyjax.make_array_from_single_device_arrays((8,), CUT, parts)
assert float(y.max()) == 7
with pytest.raises(ValueError, match="Expected 2 per-device arrays, but got 1"):
    pyjax.make_array_from_single_device_arrays((8,), CUT, parts[:1])
asked: list[Any] = []
y = pyjax.make_array_from_callback((8,), CUT, lambda i: asked.append(i) or DATA[i])
assert len(asked) == 2 and float(y.sum()) == 28

# What came from other processes is free when a program is through.
gc.collect()
gc.disable()
(x + 1).sum()
assert not [found for found in gc.get_objects() if type(found) is Run]
gc.enable()

# -- values of processes ---------------------------------------------------------------------------

got = hosts.broadcast_one_to_all({"a": np.arange(3) + ME, "b": float(ME)})
assert got["a"].tolist() == [0, 1, 2] and got["b"] == 0 and got["b"].dtype == np.float32
assert hosts.broadcast_one_to_all(np.int8(ME), is_source=ME == 1) == 1
assert hosts.process_allgather(np.arange(2) + 10 * ME).tolist() == [[0, 1], [10, 11]]
assert hosts.process_allgather(np.arange(2) + 10 * ME, tiled=True).tolist() == [0, 1, 10, 11]
assert hosts.process_allgather((ME, jnp.ones(1)), tiled=True)[0].tolist() == [0, 1]
hosts.sync_global_devices("a place")
hosts.assert_equal({"x": 3, "y": DATA})
for call, error, text in (
    (
        lambda: hosts.assert_equal(ME == 0, "differs"),
        AssertionError,
        "^$" if ME == 0 else "differs",
    ),
    (lambda: hosts.sync_global_devices(f"b{ME}"), AssertionError, f"is at .*b{OTHER}"),
    (lambda: hosts.process_allgather(x), ValueError, "only supports tiled=True"),
    (lambda: hosts.process_allgather(DATA[ME:]), ValueError, r"process \d has float32"),
    (lambda: hosts.broadcast_one_to_all(1, is_source=True), ValueError, "2 of 2 processes"),
    (lambda: hosts.broadcast_one_to_all(1, is_source=False), ValueError, "0 of 2 processes"),
):
    try:
        call()
        assert text == "^$"
    except error as raised:
        assert text != "^$"
        with pytest.raises(error, match=text):
            raise raised from None
y = hosts.host_local_array_to_global_array(own, MESH, P("i"))
assert hosts.process_allgather(y, tiled=True).tolist() == DATA.tolist()
local = hosts.global_array_to_host_local_array(y, MESH, P("i"))
assert local.tolist() == own.tolist() and local.is_fully_addressable
assert hosts.global_array_to_host_local_array(y, MESH, P()).tolist() == DATA.tolist()
with hosts.live_devices(pyjax.devices()) as alive:
    assert alive == pyjax.devices()

# -- keys and barriers -----------------------------------------------------------------------------

client = pyjax.distributed.client()
client.key_value_set(f"run/{ME}", f"value {ME}")
assert client.blocking_key_value_get(f"run/{OTHER}", 5000) == f"value {OTHER}"
client.wait_at_barrier("set", 5000)
assert client.key_value_dir_get("run") == [("run/0", "value 0"), ("run/1", "value 1")]
with pytest.raises(pyjax.errors.JaxRuntimeError, match=f"ALREADY_EXISTS.*run/{OTHER}"):
    client.key_value_set(f"run/{OTHER}", "again")
client.wait_at_barrier("set", 5000)
client.key_value_set_bytes(f"run/{ME}", b"\xff", allow_overwrite=True)
client.wait_at_barrier("set", 5000)
assert client.key_value_try_get_bytes(f"run/{OTHER}") == b"\xff"
client.wait_at_barrier("set", 5000)
client.key_value_delete("run")
assert client.key_value_dir_get("run/") == []
with pytest.raises(pyjax.errors.JaxRuntimeError, match=r"NOT_FOUND.*run/0"):
    client.key_value_try_get("run/0")
with pytest.raises(pyjax.errors.JaxRuntimeError, match=r"DEADLINE_EXCEEDED.*run/0.*50 ms"):
    client.blocking_key_value_get("run/0", 50)
client.key_value_increment("count", 2)
client.wait_at_barrier("counted", 5000, [0, 1])
assert client.key_value_try_get("count") == "4"
client.wait_at_barrier(f"mine {ME}", 5000, [ME])
if ME == 0:
    with pytest.raises(
        pyjax.errors.JaxRuntimeError, match=r"barrier 'alone': of 2 processes 1 did"
    ):
        client.wait_at_barrier("alone", 100)
assert sorted(client.get_live_nodes([0, 1])) == [0, 1]
client.wait_at_barrier("end", 5000)
pyjax.distributed.shutdown()
with pytest.raises(pyjax.errors.JaxRuntimeError, match="this process has left the others"):
    x + 1
assert not pyjax.distributed.is_initialized()
