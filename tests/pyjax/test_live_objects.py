"""What lives in a process: arrays, programs, memories of devices; and what names them."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import pyjax
from pyjax import numpy as jnp
from pyjax.sharding import NamedSharding, SingleDeviceSharding


def _is_listed(x) -> bool:
    return any(y is x for y in pyjax.live_arrays())


def test_live_arrays() -> None:
    x = jnp.arange(3.0) + 1
    device = x.device
    assert _is_listed(x) and any(y is x for y in device.live_buffers())
    assert any(y is x for y in device.client.live_arrays())
    x.delete()
    assert not _is_listed(x)
    before = len(pyjax.live_arrays("cpu"))
    kept = [jnp.ones(3) + i for i in range(4)]
    assert len(pyjax.live_arrays()) >= before + 4
    del kept
    with pytest.raises(RuntimeError, match="Unknown backend 'foo'"):
        pyjax.live_arrays("foo")


def test_live_executables() -> None:
    client = pyjax.devices()[0].client
    compiled = pyjax.jit(lambda x: x * 3 + 1).lower(1.0).compile()
    before = len(client.live_executables())
    assert before >= 1 and float(compiled(2.0)) == 7
    del compiled
    pyjax.clear_caches()
    gc.collect()
    assert len(client.live_executables()) < before


def test_memories() -> None:
    device = pyjax.devices()[0]
    default, pinned, unpinned = device.addressable_memories()
    assert default is device.default_memory() is device.memory("device")
    assert pinned is device.memory("pinned_host") and unpinned.kind == "unpinned_host"
    assert (repr(default), default.platform, default.process_index) == ("CPU_DEVICE_0", "cpu", 0)
    assert default.addressable_by_devices() == [device]
    assert (device.device_kind, device.host_id, device.task_id) == ("cpu", 0, 0)
    client = device.client
    assert device in client.local_devices() and client.local_device_count() >= 1
    assert client.device_from_local_hardware_id(0) is client.devices()[0]
    with pytest.raises(ValueError, match="no device of hardware id 99"):
        client.device_from_local_hardware_id(99)
    with pytest.raises(ValueError, match=r"device, pinned_host, unpinned_host\. Got .* bla"):
        device.memory("bla")
    with pytest.raises(NotImplementedError, match="no streams"):
        device.get_stream_for_external_ready_events()
    with pytest.raises(NotImplementedError, match="cannot be made to fail"):
        device.poison_execution("why")


def test_device_put_says_where() -> None:
    x, device = jnp.arange(4.0), pyjax.devices()[0]
    space = pyjax.memory.Space
    assert pyjax.device_put(x, space.Device) is x and repr(space.Host) == "MemorySpace.Host"
    with pytest.raises(NotImplementedError, match=r"device_put to MemorySpace\.Host"):
        pyjax.device_put(x, space.Host)
    with pytest.raises(ValueError, match="Got memory kind: bla"):
        pyjax.device_put(x, SingleDeviceSharding(device, memory_kind="bla"))
    with pytest.raises(ValueError, match="no mesh is in context"):
        pyjax.device_put(x, pyjax.P("i"))
    mesh = pyjax.make_mesh((1,), ("i",))
    with pyjax.set_mesh(mesh):
        y, z = pyjax.device_put((x, x), pyjax.P("i"))
    assert y.sharding == z.sharding == NamedSharding(mesh, pyjax.P("i"))
    assert y.addressable_shards[0].data.tolist() == (y + 0).tolist() == x.tolist()
    more = pyjax.jit(lambda a: a + 1, donate_argnums=0)(y)
    assert y.is_deleted() and more.tolist() == (x + 1).tolist()
    assert z.tolist() == x.tolist()  # the same memory, which was not given up


def test_names_of_hosts_and_types() -> None:
    assert (pyjax.host_count(), pyjax.host_id(), pyjax.host_ids()) == (1, 0, [0])
    assert pyjax.float0 == np.dtype([("float0", np.void, 0)])
    bits = pyjax.dtypes.itemsize_bits
    known = {"int4": 4, "uint2": 2, "float4_e2m1fn": 4, bool: 8, "bfloat16": 16, "complex64": 64}
    assert {d: bits(d) for d in known} == known
    for dtype, error in ((None, ValueError), ("foo", TypeError)):
        with pytest.raises(error):
            bits(dtype)
    with pytest.raises(ValueError, match="unexpected input"):
        bits(pyjax.random.key(0).dtype)
    text = pyjax.print_environment_info(return_string=True)
    assert text is not None and "device info: cpu-" in text


def test_environment_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert pyjax.print_environment_info() is None
    assert capsys.readouterr().out.startswith("pyjax:")


def test_fwd_and_bwd() -> None:
    x = jnp.arange(3.0)
    fwd, bwd = pyjax.fwd_and_bwd(lambda x, y: ((x * y).sum(), x), 1, has_aux=True)
    out, residuals, aux = fwd(x, x + 1)
    assert float(out) == 8 and aux.tolist() == x.tolist()
    assert bwd(residuals, 2.0).tolist() == (2 * x).tolist()
    fwd, bwd = pyjax.fwd_and_bwd(lambda x, y: x * y, (0, -1))
    with pyjax.assert_compiles(2):
        for value in (2.0, 3.0):
            _, residuals = fwd(value, 5.0)
            assert [float(g) for g in bwd(residuals, 1.0)] == [5.0, value]
    plain = pyjax.fwd_and_bwd(jnp.sin, 0, jitted=False)
    assert float(plain[1](plain[0](0.0)[1], 1.0)) == 1.0
    with pytest.raises(ValueError, match="argument indices"):
        pyjax.fwd_and_bwd(jnp.sin, 3)[0](1.0)


def test_smap() -> None:
    x = jnp.arange(6.0).reshape(2, 3)
    auto = pyjax.make_mesh((1,), ("i",), (pyjax.sharding.AxisType.Auto,))
    explicit = pyjax.make_mesh((1,), ("i",))

    def f(a, b):
        return pyjax.lax.psum(a.sum(0), "i") + b

    for mesh in (auto, explicit):
        with pyjax.set_mesh(mesh):
            mapped = pyjax.smap(f, in_axes=(0, None), out_axes=None, axis_name="i")
            here = x if mesh is auto else pyjax.reshard(x, pyjax.P("i"))
            assert mapped(here, 1.0).tolist() == [4.0, 6.0, 8.0]
    with pyjax.set_mesh(explicit):
        assert (
            pyjax.smap(out_axes=1, axis_name="i")(lambda a: 2 * a)(x).tolist() == (2 * x).tolist()
        )
    same = lambda a: a
    for mesh, axes, error, message in (
        (auto, {"out_axes": 0, "axis_name": "i"}, TypeError, "in_axes was not specified"),
        (auto, {"in_axes": 0, "out_axes": 0, "axis_name": ("i",)}, TypeError, "axis_name should"),
        (auto, {"in_axes": "i", "out_axes": 0, "axis_name": "i"}, TypeError, "in_axes must be"),
        (auto, {"in_axes": -1, "out_axes": 0, "axis_name": "i"}, NotImplementedError, "from the"),
        (auto, {"in_axes": 0, "out_axes": "i", "axis_name": "i"}, TypeError, "an integer or None"),
        (None, {"in_axes": 0, "out_axes": 0, "axis_name": "i"}, ValueError, "cannot be empty"),
    ):
        with pytest.raises(error, match=message):
            if mesh is None:
                pyjax.smap(same, **axes)(x)
            else:
                with pyjax.set_mesh(mesh):
                    pyjax.smap(same, **axes)(x)
