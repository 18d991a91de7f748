"""How results say that they lie over a mesh of one device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import P, lax, make_mesh, sharding
from pyjax.sharding import AxisType, NamedSharding, SingleDeviceSharding

DEVICE = pyjax.devices()[0]
EXPLICIT = make_mesh((1, 1), ("x", "y"))
AUTO = make_mesh((1, 1), ("x", "y"), AxisType.Auto)
DATA = np.arange(6.0, dtype=np.float32).reshape(2, 3)

# Of an array of shape (2, 3) that lies as P("x", "y"), along explicit axes: what JAX says.
PASSED_ON: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "add": (lambda x: x + 1, P("x", "y")),
    "where": (lambda x: jnp.where(x > 0, x, 0), P("x", "y")),
    "relu": (pyjax.nn.relu, P("x", "y")),
    "softmax": (lambda x: pyjax.nn.softmax(x, -1), P("x", "y")),
    "transpose": (lambda x: x.T, P("y", "x")),
    "sum of all": (lambda x: x.sum(), P()),
    "sum": (lambda x: x.sum(0), P("y")),
    "max": (lambda x: x.max(1), P("x")),
    "mean": (lambda x: x.mean(1), P("x")),
    "argmax": (lambda x: x.argmax(0), P("y")),
    "new axis": (lambda x: x[None], P(None, "x", "y")),
    "broadcast_to": (lambda x: jnp.broadcast_to(x, (4, 2, 3)), P(None, "x", "y")),
    "reshape": (lambda x: x.reshape(2, 1, 3), P("x", None, "y")),
    "flattened": (lambda x: x.reshape(6), P(("x", "y"))),
    "squeeze": (lambda x: jnp.squeeze(x[:, None], 1), P("x", "y")),
    "astype": (lambda x: x.astype(int), P("x", "y")),
    "dot": (
        lambda x: lax.dot_general(x, jnp.ones((2, 5)), (([0], [0]), ([], []))),
        P("y", None),
    ),
    "concatenate": (lambda x: jnp.concatenate([x, x], 1), P("x", "y")),
    "vmap": (lambda x: pyjax.vmap(lambda row: row * 2)(x), P("x", "y")),
    "grad": (lambda x: pyjax.grad(lambda v: (v**2).sum())(x), P("x", "y")),
    "cond": (lambda x: lax.cond(True, jnp.sin, jnp.cos, x), P("x", "y")),
    "fori_loop": (lambda x: lax.fori_loop(0, 3, lambda i, c: c * 2, x), P("x", "y")),
    "while_loop": (
        lambda x: lax.while_loop(lambda c: c.sum() < 9, lambda c: c + 1, x),
        P("x", "y"),
    ),
    "checkpoint": (pyjax.checkpoint(jnp.sin), P("x", "y")),
}


@pytest.mark.parametrize("wrap", [lambda f: f, pyjax.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("name", PASSED_ON)
def test_operations_pass_layouts_on(name: str, wrap: Any) -> None:
    function, spec = PASSED_ON[name]
    run = wrap(function)
    x = pyjax.device_put(DATA, NamedSharding(EXPLICIT, P("x", "y")))
    result = run(x)
    assert result.sharding == NamedSharding(EXPLICIT, spec) and result.committed
    np.testing.assert_array_equal(result, run(jnp.asarray(DATA)))
    assert isinstance(run(jnp.asarray(DATA)).sharding, SingleDeviceSharding)
    auto = run(pyjax.device_put(DATA, NamedSharding(AUTO, P("x", "y")))).sharding
    assert auto.mesh is AUTO and auto.is_equivalent_to(result.sharding, result.ndim)


def test_results_lie_over_the_mesh_in_context() -> None:
    f = pyjax.jit(lambda x: x + 1)
    with pyjax.set_mesh(EXPLICIT):
        assert jnp.zeros((2, 3)).sharding == NamedSharding(EXPLICIT, P(None, None))
        assert f(DATA).sharding == NamedSharding(EXPLICIT, P(None, None))
    with pyjax.set_mesh(AUTO):
        assert f(DATA).sharding == NamedSharding(AUTO, P())
    assert f(DATA).sharding == SingleDeviceSharding(DEVICE)


HERE = NamedSharding(AUTO, P("x"))


def test_shardings_of_jit() -> None:
    for f in (
        pyjax.jit(lambda x: (x, {"a": x}), out_shardings=(None, HERE)),
        pyjax.jit(lambda x: (x, {"a": x}), out_shardings=(None, {"a": HERE})),
        pyjax.jit(lambda x: pyjax.jit(lambda v: (v, {"a": v}), out_shardings=(None, HERE))(x)),
    ):
        plain, laid_out = f(DATA)
        assert laid_out["a"].sharding == HERE and laid_out["a"].tolist() == DATA.tolist()
        assert not isinstance(plain.sharding, NamedSharding)
    moved = pyjax.jit(lambda x, y: (x + 1, y), in_shardings=[HERE, None])
    assert moved(DATA, DATA)[0].sharding == HERE
    spec = pyjax.jit(lambda x: x + 1, in_shardings=P("x"), out_shardings=P(None, "x"))
    for mesh in (EXPLICIT, AUTO):
        with pyjax.set_mesh(mesh):
            assert spec(DATA).sharding == NamedSharding(mesh, P(None, "x"))
    compiled = pyjax.jit(lambda x: x.T, in_shardings=HERE, out_shardings=HERE).lower(DATA).compile()
    assert compiled.input_shardings == ((HERE,), {}) and compiled.output_shardings == HERE
    assert compiled(DATA).sharding == HERE
    described = pyjax.ShapeDtypeStruct((2, 3), np.float32, sharding=HERE)
    compiled = pyjax.jit(jnp.sin).lower(described).compile()
    assert compiled.input_shardings == ((HERE,), {}) and compiled.output_shardings == HERE


FLAT = np.zeros(3, np.float32)
TOO_LONG = NamedSharding(AUTO, P("x", "y"))
ERRORS: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: pyjax.jit(jnp.sin, in_shardings="x"), TypeError, "in_shardings of jit is 'x', a str"),
    (lambda: pyjax.jit(jnp.sin, out_shardings={"a": 3}), TypeError, r"out_shardings\['a'\] of jit"),
    (lambda: pyjax.jit(jnp.sin, in_shardings=P("x"))(FLAT), RuntimeError, "no mesh is in context"),
    (lambda: pyjax.jit(jnp.sin, in_shardings=TOO_LONG)(FLAT), ValueError, "arguments of .* rank"),
    (lambda: pyjax.jit(jnp.sin, out_shardings=TOO_LONG)(FLAT), ValueError, "results of .* rank"),
    (lambda: pyjax.jit(lambda x: x, in_shardings=HERE)(x=FLAT), ValueError, "not support kwargs"),
    (lambda: pyjax.device_put(FLAT, TOO_LONG), ValueError, "only valid for values of rank"),
    (lambda: pyjax.jit(lambda x: pyjax.device_put(x, TOO_LONG))(FLAT), ValueError, "of rank"),
    (lambda: pyjax.jit(lambda x: pyjax.device_put(x, "cpu"))(FLAT), ValueError, "Device"),
    (lambda: pyjax.device_put(FLAT, donate=True, may_alias=True), ValueError, "at the same time"),
    (
        lambda: lax.with_sharding_constraint(FLAT, NamedSharding(EXPLICIT, P("x"))),
        ValueError,
        "can only refer to Auto axes(?s:.*)reshard",
    ),
]


@pytest.mark.parametrize("call, kind, message", ERRORS)
def test_errors(call: Callable[[], Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        call()


def test_layouts_in_programs() -> None:
    for put in (
        lambda x: pyjax.device_put(x, HERE),
        lambda x: lax.with_sharding_constraint(x, HERE),
    ):
        for run in (put, pyjax.jit(put), pyjax.jit(lambda x, put=put: put(x * 2) / 2)):
            assert run(DATA).sharding == HERE and run(DATA).tolist() == DATA.tolist()
        cotangent = pyjax.grad(lambda x, put=put: (put(x) ** 2).sum())(DATA)
        np.testing.assert_array_equal(cotangent, 2 * DATA)
        mapped = pyjax.vmap(put)(DATA[None])
        assert mapped.sharding.is_equivalent_to(NamedSharding(AUTO, P(None, "x")), 3)


def test_constraints_along_explicit_axes_ask() -> None:
    spec = P("x", "y")
    with pyjax.set_mesh(EXPLICIT):
        x = pyjax.device_put(DATA, spec)
        assert lax.with_sharding_constraint(x, spec) is x
        with pytest.raises(AssertionError, match=r"sharding: P\('x', 'y'\) did not"):
            lax.with_sharding_constraint(x, P("y"))
    described = sharding.AbstractMesh((1, 1), ("x", "y"))
    with pyjax.set_mesh(AUTO):
        constrained = lax.with_sharding_constraint(DATA, NamedSharding(described, P("x")))
        assert constrained.sharding == HERE
    inside = pyjax.jit(lambda x: lax.with_sharding_constraint(x, NamedSharding(described, P("x"))))
    assert inside(DATA).sharding == SingleDeviceSharding(DEVICE)


def test_results_of_mapped_functions() -> None:
    double = lambda x: 2 * x
    mapped = pyjax.shard_map(double, mesh=AUTO, in_specs=P("x"), out_specs=P("x"))
    for run in (mapped, pyjax.jit(mapped)):
        assert run(DATA).sharding == HERE


def test_results_of_pmap() -> None:
    x = DATA[None]
    for axis, spec in ((0, P("i")), (1, P(None, "i")), (-1, P(None, None, "i"))):
        found = pyjax.pmap(lambda v: 2 * v, "i", out_axes=axis)(x).sharding
        assert found == NamedSharding(pyjax.sharding.Mesh([DEVICE], ("i",)), spec)
    assert pyjax.pmap(lambda v: v)(x).sharding.spec == P("_internal_pmap_axis_name")


def test_callbacks_of_each_device() -> None:
    result = pyjax.ShapeDtypeStruct((2, 3), np.float32)
    calls = []

    def host(v: Any) -> Any:
        calls.append(v.shape)
        return np.asarray(v) + 1

    f = lambda v: pyjax.pure_callback(host, result, v)
    np.testing.assert_array_equal(pyjax.pmap(f)(DATA[None]), DATA[None] + 1)
    two = sharding.AbstractMesh((2,), ("i",))
    mapped = pyjax.shard_map(f, mesh=two, in_specs=P("i"), out_specs=P("i"))
    both = np.concatenate([DATA, 2 * DATA])
    np.testing.assert_array_equal(mapped(both), both + 1)
    assert calls == [(2, 3)] * 3
    with pytest.raises(NotImplementedError, match="vmap_method"):
        pyjax.vmap(f)(DATA[None])


def _inside(f: Callable[[Any], Any]) -> Callable[[], Any]:
    return lambda: pyjax.shard_map(f, mesh=AUTO, in_specs=P("x"), out_specs=P("x"))(FLAT)


def _in_context(mesh: Any, f: Callable[[], Any]) -> Callable[[], Any]:
    def call() -> Any:
        with pyjax.set_mesh(mesh):
            return f()

    return call


ERRORS_OF_MAPPED: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: pyjax.pmap(3), TypeError, "callable"),
    (lambda: pyjax.pmap(lambda x: x, devices=[]), ValueError, "must be non-empty"),
    (
        lambda: pyjax.pmap(lambda x: x, in_axes=None, axis_size=1)(FLAT),
        ValueError,
        "at least one argument with a mapped axis",
    ),
    (_inside(lambda x: pyjax.device_put(x, DEVICE)), ValueError, "not allowed within shard_map"),
    (
        _inside(lambda x: lax.with_sharding_constraint(x, P("x"))),
        ValueError,
        "can only refer to Auto axes",
    ),
    (_inside(lambda x: sharding.reshard(x, P("x"))), ValueError, "type Auto or Manual"),
    (_in_context(EXPLICIT, _inside(lambda x: x)), ValueError, "is not the mesh that is passed"),
    (lambda: pyjax.ShapeDtypeStruct((3,), "f4", sharding="x"), ValueError, "must be a Sharding"),
    (lambda: pyjax.ShapeDtypeStruct((3,), "f4", sharding=P("x")), TypeError, "no mesh is in"),
    (lambda: pyjax.ShapeDtypeStruct((), "f4", sharding=HERE), ValueError, "of rank at least 1"),
]


@pytest.mark.parametrize("call, kind, message", ERRORS_OF_MAPPED)
def test_errors_of_mapped_functions(
    call: Callable[[], Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        call()


def test_types_in_mapped_functions() -> None:
    seen = []
    _inside(lambda x: seen.append(pyjax.typeof(x).manual_axis_type) or x)()
    assert seen == [sharding.ManualAxisType(varying={"x"})]
    assert pyjax.typeof(FLAT).manual_axis_type.empty
    assert pyjax.typeof(FLAT).mat == sharding.ManualAxisType()
    assert pyjax.shard_map(lambda x: None, mesh=AUTO, in_specs=P("x"), out_specs=None)(FLAT) is None
