"""reshard, auto_axes, explicit_axes, and what types say of manual axes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import sharding
from pyjax.sharding import AbstractMesh, AxisType, ManualAxisType, PartitionSpec

X = np.arange(4.0, dtype=np.float32)
SPEC = PartitionSpec("x")


@pytest.fixture
def mesh() -> Any:
    return pyjax.make_mesh((1,), ("x",))


def test_reshard(mesh: Any) -> None:
    named = pyjax.NamedSharding(mesh, SPEC)
    assert sharding.reshard(jnp.asarray(X), named).sharding == named
    with pyjax.set_mesh(mesh):
        found = sharding.reshard({"a": X, "b": [X]}, SPEC)
        assert found["b"][0].sharding.spec == SPEC
        np.testing.assert_array_equal(found["a"], X)
        inside = pyjax.jit(lambda x: sharding.reshard(2 * x, SPEC))(X)
        np.testing.assert_array_equal(inside, 2 * X)
        np.testing.assert_array_equal(
            pyjax.grad(lambda x: jnp.sum(sharding.reshard(x, SPEC) ** 2))(X), 2 * X
        )


def test_axes_inside(mesh: Any) -> None:
    seen = []

    def f(x: Any) -> Any:
        seen.append(sharding.get_abstract_mesh().axis_types)
        return 2 * x

    with pyjax.set_mesh(mesh):
        found = sharding.auto_axes(f, axes="x", out_sharding=SPEC)(X)
        assert found.sharding.spec == SPEC
        np.testing.assert_array_equal(found, 2 * X)
        np.testing.assert_array_equal(sharding.auto_axes(f)(X, out_sharding=SPEC), 2 * X)
        np.testing.assert_array_equal(sharding.explicit_axes(in_sharding=SPEC)(f)(X), 2 * X)
    auto, explicit = (AxisType.Auto,), (AxisType.Explicit,)
    assert seen == [auto, auto, explicit]


MESH = AbstractMesh((1,), ("x",))
ERRORS = [
    (lambda: sharding.reshard(X, SPEC), ValueError, "not under a mesh context"),
    (lambda: sharding.auto_axes(lambda x: x)(X), TypeError, "'out_sharding'"),
    (lambda: sharding.explicit_axes(lambda x: x)(X), TypeError, "'in_sharding'"),
    (
        lambda: sharding.auto_axes(lambda x: x, axes="y", out_sharding=SPEC)(X),
        ValueError,
        "no axis 'y'",
    ),
    (lambda: ManualAxisType(varying={"i"}, reduced={"i"}), ValueError, "common mesh axes"),
    (lambda: MESH.devices, ValueError, "does not implement devices"),
    (lambda: MESH.local_mesh, ValueError, "does not implement local_mesh"),
    (lambda: sharding.nothing, AttributeError, "nothing"),
]


@pytest.mark.parametrize("call, kind, message", ERRORS)
def test_errors(call: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        call()


def test_specs_of_tangents_and_cotangents() -> None:
    spec = PartitionSpec("x", None, unreduced={"y"})
    assert spec.to_tangent_spec() == spec
    assert spec.to_ct_spec() == PartitionSpec("x", None, reduced={"y"})
    assert spec.to_lo() == [spec]
    assert spec.update(partitions=("z",)) == PartitionSpec("z", unreduced={"y"})
    kind = ManualAxisType(varying={"i"}, unreduced={"j"})
    assert kind.to_ct_mat() == ManualAxisType(varying={"i"}, reduced={"j"})
    assert kind.update(varying=()).invarying
    assert ManualAxisType().empty and len({kind, ManualAxisType(varying=["i"])}) == 2


def test_devices_and_meshes(mesh: Any) -> None:
    assert not mesh.is_scalar
    device = sharding.AbstractDevice("cpu", None, "cpu")
    assert repr(device) == "AbstractDevice(device_kind=cpu, num_cores=None, platform=cpu)"
    one = sharding.SingleDeviceSharding(pyjax.devices()[0])
    assert one.check_compatible_aval((2, 3)) is None
