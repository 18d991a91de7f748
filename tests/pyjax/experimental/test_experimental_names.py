"""Modules of `experimental` on one process and one device."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import pyjax
from pyjax import numpy as jnp
from pyjax.experimental import (
    compute_on,
    layout,
    mesh_utils,
    multihost_utils,
    pjit,
    shard_alike,
    shard_map,
    topologies,
)
from pyjax.sharding import AxisType, NamedSharding, SingleDeviceSharding

X = jnp.arange(6.0).reshape(2, 3)
ONE = pyjax.devices()[:1]


class _Device:
    device_kind, platform = "pretended", "pretended"

    def __init__(self, id: int, process_index: int) -> None:
        self.id, self.process_index = id, process_index


GRID = [_Device(i, i // 4) for i in range(8)]


def _ids(grid: np.ndarray) -> list:
    return np.vectorize(lambda d: d.id)(grid).tolist()


def test_device_meshes() -> None:
    assert _ids(mesh_utils.create_device_mesh((2, 4), GRID)) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    hybrid = mesh_utils.create_hybrid_device_mesh((2, 2), (2, 1), GRID, process_is_granule=True)
    assert _ids(hybrid) == [[0, 1], [2, 3], [4, 5], [6, 7]]
    hybrid = mesh_utils.create_hybrid_device_mesh(
        (4,), (2,), GRID[::-1], process_is_granule=True, should_sort_granules_by_key=False
    )
    assert _ids(hybrid) == [7, 6, 5, 4, 3, 2, 1, 0]
    mesh = topologies.make_mesh(topologies.TopologyDescription(ONE), (1,), ("x",))
    assert mesh.axis_names == ("x",) and mesh.devices.tolist() == ONE
    assert topologies.get_attached_topology().devices == pyjax.devices()


def test_processes() -> None:
    assert multihost_utils.broadcast_one_to_all((X, 3))[0].tolist() == X.tolist()
    assert multihost_utils.process_allgather(X).shape == (1, 2, 3)
    assert multihost_utils.process_allgather({"a": X, "b": 3}, tiled=True)["a"].shape == (2, 3)
    multihost_utils.sync_global_devices("here")
    multihost_utils.assert_equal({"x": np.array([np.nan, 1.0]), "y": X})
    assert multihost_utils.reached_preemption_sync_point(3) is False
    with multihost_utils.live_devices(ONE) as alive:
        assert alive == ONE
    mesh = pyjax.make_mesh((1,), ("i",))
    whole = multihost_utils.host_local_array_to_global_array({"a": X}, mesh, pyjax.P("i"))["a"]
    assert whole.sharding == NamedSharding(mesh, pyjax.P("i"))
    part = multihost_utils.global_array_to_host_local_array(whole, mesh, pyjax.P("i"))
    assert part.tolist() == X.tolist() and type(part.sharding) is SingleDeviceSharding
    error = multihost_utils.ProcessFailureError(ONE)
    assert error.failed_devices is ONE


def test_shard_map_and_shard_alike() -> None:
    mesh = pyjax.make_mesh((1,), ("i",), (AxisType.Auto,))
    mapped = shard_map.shard_map(
        lambda x: pyjax.lax.psum(x, "i"), mesh, pyjax.P("i"), pyjax.P(), check_rep=False
    )
    assert mapped(X).tolist() == X.tolist()
    first, second = pyjax.jit(shard_alike.shard_alike)({"a": X}, {"a": 2 * X})
    assert second["a"].tolist() == (2 * X).tolist() and first["a"].tolist() == X.tolist()
    grad = pyjax.grad(lambda x: shard_alike.shard_alike(x, 2 * x)[1].sum())(X)
    assert grad.tolist() == [[2.0] * 3] * 2


def test_layouts() -> None:
    plain = layout.Layout((0, 1))
    assert plain == layout.Layout([0, 1]) and hash(plain) == hash(layout.Layout((0, 1)))
    assert repr(layout.Layout.AUTO) == "AUTO"
    one = SingleDeviceSharding(ONE[0])
    form = layout.Format(plain, one)
    assert (form.layout, form.sharding) == (plain, one) and form == layout.Format(plain, one)
    assert form != layout.Format(None, one) and layout.Format(layout.Layout.AUTO) != form
    same = pyjax.jit(lambda x: layout.with_layout_constraint(x, plain))(X)
    assert same.tolist() == X.tolist()


def test_compute_on() -> None:
    for kind in ("device", "device_host"):
        with compute_on.compute_on(kind):
            assert float(jnp.sin(0.0)) == 0


def _compute_on(kind):
    with compute_on.compute_on(kind):
        pass


ERRORS = (
    (lambda: mesh_utils.create_device_mesh((2, 1), ONE), ValueError, "must equal the product"),
    (lambda: mesh_utils.create_hybrid_device_mesh((1,), (1,), ONE), ValueError, "slice_index"),
    (
        lambda: mesh_utils.create_hybrid_device_mesh((1,), (2,), ONE, process_is_granule=True),
        ValueError,
        "Number of slices 1",
    ),
    (lambda: mesh_utils.create_hybrid_device_mesh((1,), (1, 1), ONE), ValueError, "same number"),
    (
        lambda: multihost_utils.broadcast_one_to_all(X, is_source=False),
        ValueError,
        "0 of 1 processes are the source",
    ),
    (lambda: topologies.get_topology_desc("v5e:2x2", "tpu"), NotImplementedError, "target="),
    (lambda: shard_alike.shard_alike(X, X[0]), ValueError, "leaves shapes"),
    (lambda: shard_alike.shard_alike(X, [X]), ValueError, "Trees should match"),
    (lambda: layout.Format(3), TypeError, "for the layout argument"),
    (lambda: layout.Format(None, 3), TypeError, "for the sharding argument"),
    (lambda: layout.Format(layout.Layout((0,))), ValueError, "Sharding has to be concrete"),
    (lambda: layout.with_layout_constraint(X, 3), ValueError, "must be of type `Layout`"),
    (
        lambda: layout.with_layout_constraint(X, layout.Layout((0,))),
        ValueError,
        "rank of the value should match",
    ),
    (
        lambda: layout.with_layout_constraint(X, layout.Layout((1, 0))),
        NotImplementedError,
        "order of NumPy",
    ),
    (lambda: _compute_on(3), TypeError, "must be a string"),
    (lambda: _compute_on("bla"), ValueError, "Invalid compute type bla"),
    (lambda: _compute_on("gpu_stream:1"), NotImplementedError, "in one queue"),
)


@pytest.mark.parametrize("call, error, message", ERRORS)
def test_errors(call, error, message) -> None:
    with pytest.raises(error, match=message):
        call()


def test_pjit_takes_all_by_position() -> None:
    f = pjit.pjit(lambda x, n: x**n, None, ONE[0], 1)
    assert f(jnp.array([3.0]), 2).tolist() == [9.0]
    assert functools.partial(pjit.pjit, static_argnums=1)(lambda x, n: x**n)(3.0, 2) == 9.0
