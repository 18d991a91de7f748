"""Meshes with and without devices, and the mesh in context."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyjax
from pyjax import P, lax, make_mesh
from pyjax.sharding import (
    AbstractDevice,
    AbstractMesh,
    AxisType,
    Mesh,
    get_abstract_mesh,
    get_mesh,
    set_mesh,
    use_abstract_mesh,
)

DEVICE = pyjax.devices()[0]
KIND = AbstractDevice(DEVICE.device_kind, None, DEVICE.platform)
AUTO = (AxisType.Auto,) * 2
MESH = make_mesh((1, 1), ("x", "y"), AUTO)
ONE = make_mesh((1,), ("x",))
BIG = AbstractMesh((2, 4), ("x", "y"))
X = np.arange(4.0, dtype=np.float32)


def test_attributes() -> None:
    assert dict(MESH.shape) == {"x": 1, "y": 1} and MESH.size == 1 and not MESH.empty
    assert ONE.axis_types == (AxisType.Explicit,) and ONE.device_ids.tolist() == [DEVICE.id]
    assert BIG.size == 8 and BIG.auto_axes == ("x", "y") and BIG.are_all_axes_auto
    changed = BIG.update_axis_types({"x": AxisType.Manual})
    assert changed.manual_axes == ("x",) and changed != BIG
    assert MESH.abstract_mesh == AbstractMesh((1, 1), ("x", "y"), abstract_device=KIND)
    assert MESH.abstract_mesh != AbstractMesh((1, 1), ("x", "y"))
    assert Mesh(DEVICE, ()).is_scalar and not ONE.is_scalar


def test_equal_meshes_are_one_object() -> None:
    assert MESH is Mesh([[DEVICE]], ("x", "y")) is make_mesh((1, 1), ("x", "y"), AUTO)
    assert BIG is AbstractMesh((2, 4), ("x", "y"), AUTO)
    assert len({BIG, ONE, MESH, AbstractMesh((4, 2), ("x", "y")), make_mesh((1,), ("y",))}) == 5
    for mesh in (BIG, ONE, ONE.abstract_mesh):
        assert copy.copy(mesh) is mesh is copy.deepcopy(mesh) is mesh.update()
    for mesh in (BIG, ONE.abstract_mesh):
        assert pickle.loads(pickle.dumps(mesh)) is mesh
    with pytest.raises(TypeError, match="cannot pickle"):
        pickle.dumps(ONE)


def test_text() -> None:
    assert str(ONE) == "Mesh('x': 1, axis_types=(Explicit,))"
    assert repr(ONE) == "Mesh(axis_sizes=(1,), axis_names=('x',), axis_types=(Explicit,))"
    assert repr(BIG) == "AbstractMesh('x': 2, 'y': 4, axis_types=(Auto, Auto))"
    kind = AbstractDevice("toaster", 2, "kitchen")
    described = AbstractMesh((2,), ("x",), abstract_device=kind)
    assert repr(described) == (
        "AbstractMesh('x': 2, axis_types=(Auto,), device_kind=toaster, num_cores=2, "
        "platform=kitchen)"
    )
    assert described.update(axis_sizes=(3,)).abstract_device == kind


def test_mesh_in_context() -> None:
    assert get_mesh().empty and get_abstract_mesh().empty
    with set_mesh(MESH) as mesh:
        assert mesh is MESH and get_mesh() is MESH
        with use_abstract_mesh(BIG):
            assert get_abstract_mesh() == BIG
        assert get_abstract_mesh() == MESH.abstract_mesh
    assert get_mesh().empty


def test_a_mesh_that_is_entered_is_that_of_constraints_only() -> None:
    with MESH as mesh:
        assert mesh is MESH and get_mesh().empty and get_abstract_mesh().empty
        assert lax.with_sharding_constraint(X, P("x")).tolist() == X.tolist()
        with pytest.raises(ValueError, match="no mesh is in context"):
            pyjax.device_put(X, P("x"))
        with pytest.raises(ValueError, match="needs a mesh"):
            pyjax.shard_map(lambda x: x, in_specs=P("x"), out_specs=P("x"))(X)
    with pytest.raises(RuntimeError, match="no mesh is in context"):
        lax.with_sharding_constraint(X, P("x"))


@pytest.mark.parametrize("trace", [pyjax.jit, pyjax.grad, pyjax.make_jaxpr, pyjax.vmap])
def test_the_mesh_is_not_asked_for_while_a_function_is_traced(trace: Any) -> None:
    seen = []

    def f(x: Any) -> Any:
        seen.append(get_abstract_mesh())
        for ask, name in ((get_mesh, "get_mesh"), (lambda: set_mesh(MESH), "set_mesh")):
            with pytest.raises(ValueError, match=f"`{name}` can only be used outside"):
                ask()
        return (x**2).sum()

    with set_mesh(ONE):
        trace(f)(X[None] if trace is pyjax.vmap else X)
    assert seen[0] is ONE.abstract_mesh


def test_programs_are_traced_for_each_mesh() -> None:
    seen = []

    @pyjax.jit
    def f(x: Any) -> Any:
        seen.append(get_abstract_mesh())
        return x

    f(X)
    for _ in range(2):
        for mesh in (ONE, MESH):
            with set_mesh(mesh):
                f(X)
    assert seen == [AbstractMesh((), ()), ONE.abstract_mesh, MESH.abstract_mesh]


def _assign() -> None:
    ONE.axis_names = ("y",)


def _delete() -> None:
    del BIG.axis_types


ERRORS: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: Mesh([DEVICE], ("a", "b")), ValueError, r"devices\.ndim == 1"),
    (lambda: Mesh([[DEVICE]], ("a", "a")), ValueError, "distinct"),
    (lambda: Mesh([DEVICE], (None,)), ValueError, "distinct and not None"),
    (lambda: Mesh([DEVICE], ("a",), ("Auto",)), TypeError, "AxisType values"),
    (lambda: make_mesh((len(pyjax.devices()) + 1,), ("x",)), ValueError, "must be >= the product"),
    (lambda: make_mesh((1,), ("x", "y")), ValueError, "1 sizes for 2 axis names"),
    (lambda: AbstractMesh((1,), ("x",), AUTO), ValueError, "axis_types"),
    (lambda: AbstractMesh((1,), ("x", "y")), ValueError, "1 sizes for 2 axis names"),
    (lambda: AbstractMesh((1, 1), ("x", "x")), ValueError, "distinct"),
    (lambda: AbstractMesh((1.5,), ("x",)), TypeError, "integer"),
    (lambda: AbstractMesh((1,), ("x",), abstract_device="cpu"), TypeError, "AbstractDevice"),
    (lambda: set_mesh("x"), ValueError, "takes a Mesh"),
    (lambda: set_mesh(BIG), ValueError, "takes a Mesh"),
    (lambda: use_abstract_mesh(ONE), ValueError, "takes an AbstractMesh"),
    (lambda: BIG.devices, ValueError, "does not implement devices"),
    (_assign, AttributeError, "cannot assign to field 'axis_names'"),
    (_delete, AttributeError, "cannot delete field 'axis_types'"),
]


@pytest.mark.parametrize("call, kind, message", ERRORS)
def test_errors(call: Callable[[], Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        call()
