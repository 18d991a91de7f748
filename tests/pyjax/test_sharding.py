"""Meshes, partition specs, shardings: arithmetic for any mesh, use with one device."""

import pickle

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import P, lax, make_mesh, pmap, shard_map
from pyjax.sharding import (
    AbstractMesh,
    AxisType,
    Mesh,
    NamedSharding,
    SingleDeviceSharding,
    get_abstract_mesh,
    get_mesh,
    set_mesh,
    use_abstract_mesh,
)

DEVICE = pyjax.devices()[0]
MESH = make_mesh((1, 1), ("x", "y"), (AxisType.Auto,) * 2)
BIG = AbstractMesh((2, 4), ("x", "y"))


def test_partition_spec():
    assert P("x") == ("x",) == P(("x",)) and P(None, ()) == (None, None)
    assert len(P("x", None)) == 2 and P("x", "y")[1] == "y" and list(P("x", None)) == ["x", None]
    assert hash(P(("x", "y"))) == hash(P(["x", "y"]))
    assert repr(P("x", None, ("a", "b"))) == "P('x', None, ('a', 'b'))"
    assert repr(P("x")) == "P('x',)" and repr(P()) == "P()"
    assert P("x") + P("y") == P("x", "y") and P("x").index("x") == 0
    assert P("a", unreduced={"b"}) != P("a")
    assert pickle.loads(pickle.dumps(P("a", reduced={"b"}))) == P("a", reduced={"b"})
    with pytest.raises(ValueError, match="UNCONSTRAINED"):
        P((P.UNCONSTRAINED, "x"))


def test_meshes():
    assert dict(MESH.shape) == {"x": 1, "y": 1} and MESH.size == 1 and not MESH.empty
    assert MESH == Mesh([[DEVICE]], ("x", "y")) and hash(MESH) == hash(Mesh([[DEVICE]], ("x", "y")))
    assert MESH != make_mesh((1, 1), ("x", "z"), (AxisType.Auto,) * 2)
    assert make_mesh((1,), ("x",)).axis_types == (AxisType.Explicit,)
    assert BIG.size == 8 and BIG.auto_axes == ("x", "y") and BIG.are_all_axes_auto
    changed = BIG.update_axis_types({"x": AxisType.Manual})
    assert changed.manual_axes == ("x",) and changed != BIG
    assert MESH.abstract_mesh == AbstractMesh((1, 1), ("x", "y"))
    with pytest.raises(ValueError, match=r"devices\.ndim == 1"):
        Mesh([DEVICE], ("a", "b"))
    with pytest.raises(ValueError, match="distinct"):
        Mesh([[DEVICE]], ("a", "a"))
    with pytest.raises(ValueError, match="must be >= the product"):
        make_mesh((len(pyjax.devices()) + 1,), ("x",))
    with pytest.raises(ValueError, match="axis_types"):
        AbstractMesh((1,), ("x",), (AxisType.Auto,) * 2)


def test_mesh_in_context():
    assert get_mesh().empty and get_abstract_mesh().empty
    with set_mesh(MESH) as mesh:
        assert mesh is MESH and get_mesh() is MESH
        with use_abstract_mesh(BIG):
            assert get_abstract_mesh() == BIG
        assert get_abstract_mesh() == MESH.abstract_mesh
    assert get_mesh().empty
    with pytest.raises(ValueError, match="takes a Mesh"):
        set_mesh("x")


@pytest.mark.parametrize(
    "spec, shape, part",
    [
        (P(), (4, 8), (4, 8)),
        (P("x"), (4, 8), (2, 8)),
        (P("x", "y"), (4, 8), (2, 2)),
        (P(None, ("x", "y")), (4, 8), (4, 1)),
        (P(P.UNCONSTRAINED, "y"), (4, 8), (4, 2)),
    ],
)
def test_shard_shapes(spec, shape, part):
    sharding = NamedSharding(BIG, spec)
    assert sharding.shard_shape(shape) == part
    assert sharding.is_fully_replicated == (shape == part)
    assert sharding.num_devices == 8


def test_named_sharding():
    sharding = NamedSharding(MESH, P("x"))
    assert sharding == NamedSharding(MESH, P("x")) and hash(sharding) is not None
    assert sharding.replicated_axes == {"y"} and sharding.device_set == {DEVICE}
    assert sharding.devices_indices_map((3, 2)) == {DEVICE: (slice(None),) * 2}
    assert sharding.is_equivalent_to(SingleDeviceSharding(DEVICE), 2)
    assert repr(NamedSharding(BIG, P("x"))).endswith("spec=P('x',))")
    with pytest.raises(ValueError, match="not found in mesh"):
        NamedSharding(MESH, P("z"))
    with pytest.raises(ValueError, match="duplicate entries"):
        NamedSharding(MESH, P("x", "x"))
    with pytest.raises(ValueError, match="rank at least 1"):
        sharding.shard_shape(())
    with pytest.raises(ValueError, match="not divisible"):
        NamedSharding(BIG, P("y")).shard_shape((6,))
    with pytest.raises(ValueError, match="AbstractMesh"):
        NamedSharding(BIG, P("y")).device_set
    with pytest.raises(TypeError, match="PartitionSpec"):
        NamedSharding(MESH, "x")


def test_one_device_is_used():
    sharding = NamedSharding(MESH, P("x", "y"))
    x = pyjax.device_put(np.ones((2, 3), np.float32), sharding)
    assert x.devices() == {DEVICE}
    double = pyjax.jit(lambda a, b: a * b, in_shardings=(sharding, None), out_shardings=sharding)
    assert double(x, 2.0).tolist() == [[2.0] * 3] * 2
    with pytest.raises(NotImplementedError, match="8 devices"):
        pyjax.device_put(x, NamedSharding(BIG, P("x")))


def test_constraint():
    sharding = NamedSharding(MESH, P("x"))

    def f(x):
        return jnp.sum(lax.with_sharding_constraint(x, sharding) ** 2)

    x = jnp.arange(3.0)
    assert "sharding_constraint" in str(pyjax.make_jaxpr(f)(x))
    assert pyjax.jit(pyjax.grad(f))(x).tolist() == [0, 2, 4]
    assert pyjax.vmap(f)(jnp.ones((2, 3))).tolist() == [3, 3]
    assert pyjax.vmap(f, in_axes=1)(jnp.ones((3, 2))).tolist() == [3, 3]
    tree = lax.with_sharding_constraint({"a": x, "b": x}, {"a": sharding, "b": None})
    assert tree["a"].tolist() == [0, 1, 2]
    with set_mesh(MESH):
        assert lax.with_sharding_constraint(x, P("x")).tolist() == [0, 1, 2]
        assert pyjax.reshard(x, P("y")).tolist() == [0, 1, 2]
    with pytest.raises(RuntimeError, match="no mesh is in context"):
        lax.with_sharding_constraint(x, P("x"))
    with pytest.raises(ValueError, match="rank at least 1"):
        lax.with_sharding_constraint(1.0, sharding)
    with pytest.raises(NotImplementedError, match=r"devices"):
        lax.with_sharding_constraint(x, NamedSharding(BIG, P("x")))


def test_arrays_from_parts():
    sharding = NamedSharding(MESH, P("x"))
    data = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    x = pyjax.make_array_from_callback((2, 3), sharding, lambda index: data[index])
    assert x.tolist() == data.tolist()
    again = pyjax.make_array_from_single_device_arrays((2, 3), sharding, [x])
    assert again.tolist() == data.tolist()
    assert pyjax.make_array_from_process_local_data(sharding, data).tolist() == data.tolist()
    with pytest.raises(ValueError, match="shape"):
        pyjax.make_array_from_callback((2, 4), sharding, lambda index: data)
    with pytest.raises(ValueError, match="shape"):
        pyjax.make_array_from_single_device_arrays((3, 3), sharding, [x])


def test_shard_map():
    def f(a, b):
        i = lax.axis_index("x")
        assert lax.axis_size("y") == 1
        return lax.psum(a, "x") + lax.all_gather(b, "y", tiled=True) + i, lax.pmean(b, ("x", "y"))

    a, b = jnp.arange(4.0), jnp.ones(4)
    mapped = shard_map(f, mesh=MESH, in_specs=(P("x"), P("y")), out_specs=(P(("x", "y")), P("y")))
    for run in (mapped, pyjax.jit(mapped)):
        first, second = run(a, b)
        assert first.tolist() == [1, 2, 3, 4] and second.tolist() == [1] * 4
    with set_mesh(MESH):
        g = shard_map(lambda x: lax.psum(x**2, "x"), in_specs=P("x"), out_specs=P())
        assert pyjax.grad(lambda x: g(x).sum())(a).tolist() == [0, 2, 4, 6]
    with pytest.raises(ValueError, match="needs a mesh"):
        g(a)


def test_pmap():
    def f(x, y, n):
        return lax.psum(x * y, "i") ** n + lax.axis_index("i")

    mapped = pmap(f, "i", in_axes=(0, None, None), static_broadcasted_argnums=2)
    assert mapped(jnp.ones((1, 3)), 2.0, 3).tolist() == [[8, 8, 8]]
    assert pmap(lambda x: x + 1)(jnp.zeros((1, 2))).tolist() == [[1, 1]]
    too_many = len(pyjax.devices()) + 1
    with pytest.raises(ValueError, match="logical devices"):
        pmap(lambda x: x)(jnp.zeros((too_many, 2)))


def test_constraints_name_meshes_and_axes_in_the_sharding_dialect() -> None:
    devices = pyjax.devices()[:1]
    first = Mesh(np.array(devices).reshape(1, 1), ("x", "y"))
    second = Mesh(np.array(devices), ("z",))

    def f(a: pyjax.Array) -> pyjax.Array:
        a = lax.with_sharding_constraint(a, NamedSharding(first, P(("x", "y"), P.UNCONSTRAINED)))
        a = lax.with_sharding_constraint(a + 1, NamedSharding(second, P(None, "z")))
        return lax.with_sharding_constraint(a, NamedSharding(first, P("y")))

    pyjax.config.update("jax_use_shardy_partitioner", True)
    try:
        text = pyjax.jit(f).lower(jnp.ones((2, 3, 4))).as_text()
    finally:
        pyjax.config.update("jax_use_shardy_partitioner", False)
    assert 'sdy.mesh @mesh = <["x"=1, "y"=1]>' in text
    assert 'sdy.mesh @mesh_1 = <["z"=1]>' in text
    assert '<@mesh, [{"x", "y"}, {?}, {}]>' in text
    assert '<@mesh_1, [{}, {"z"}, {}]>' in text
    assert '<@mesh, [{"y"}, {}, {}]>' in text
