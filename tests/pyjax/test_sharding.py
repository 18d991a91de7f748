"""Meshes, partition specs, shardings: arithmetic for any mesh, use with one device."""

import copy
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
    make_single_device_sharding,
    set_mesh,
)

DEVICE = pyjax.devices()[0]
MESH = make_mesh((1, 1), ("x", "y"), (AxisType.Auto,) * 2)
BIG = AbstractMesh((2, 4), ("x", "y"))


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


def test_equivalent_shardings():
    on_mesh = [NamedSharding(BIG, P(*spec)) for spec in ((), ("x",), ("x", None), ("y",))]
    found = [[a.is_equivalent_to(b, 2) for b in on_mesh] for a in on_mesh]
    assert found == [[i in same for i in range(4)] for same in ({0}, {1, 2}, {1, 2}, {3})]
    here = NamedSharding(MESH, P("x"))
    assert not on_mesh[1].is_equivalent_to(here, 1)
    assert not here.is_equivalent_to(here.with_memory_kind("pinned_host"), 1)


def test_kinds_of_memory():
    here, alone = NamedSharding(MESH, P("x")), SingleDeviceSharding(DEVICE)
    for sharding in (here, alone):
        kind = DEVICE.default_memory().kind
        assert sharding.memory_kind == kind and repr(sharding).endswith(f"memory_kind={kind})")
        assert sharding.with_memory_kind(kind) == sharding
        with pytest.raises(ValueError, match="Could not find memory"):
            sharding.with_memory_kind("attic")
    assert NamedSharding(BIG, P("x")).memory_kind is None
    assert make_single_device_sharding(DEVICE) == alone
    with pytest.raises(ValueError, match="invalid memory kind: attic"):
        NamedSharding(BIG, P("x"), memory_kind="attic")
    with pytest.raises(TypeError, match="must be a name"):
        NamedSharding(MESH, P("x"), memory_kind=3)
    with pytest.raises(TypeError):
        SingleDeviceSharding(DEVICE, "device")


EXPLICIT = AbstractMesh((2,), ("x",), AxisType.Explicit)
REFUSED = [
    (EXPLICIT, P(P.UNCONSTRAINED), "no axis of type Auto"),
    (BIG, P(unreduced={"x"}), "type Explicit"),
    (BIG, P(reduced={"y"}), "type Explicit"),
    (EXPLICIT, P(unreduced={"z"}), "z of .* is not found in mesh"),
]


@pytest.mark.parametrize("mesh, spec, message", REFUSED, ids=str)
def test_specs_that_a_mesh_refuses(mesh, spec, message):
    with pytest.raises(ValueError, match=message):
        NamedSharding(mesh, spec)
    assert NamedSharding(EXPLICIT, P(unreduced={"x"})).shard_shape((3,)) == (3,)


def test_copies_of_shardings():
    described, here = NamedSharding(BIG, P("x")), NamedSharding(MESH, P("x"))
    assert pickle.loads(pickle.dumps(described)) == described
    assert copy.deepcopy(here) == here == copy.copy(here)
    for sharding in (here, SingleDeviceSharding(DEVICE)):
        with pytest.raises(TypeError, match="cannot pickle"):
            pickle.dumps(sharding)
    assert here.update(spec=P()).spec == P()
    with pytest.raises(TypeError, match="no field speck"):
        here.update(speck=P())


def test_shardings_of_a_class_of_their_own():
    class Tagged(NamedSharding):
        def __init__(self, mesh, spec, tag="none", **kwargs):
            super().__init__(mesh, spec, **kwargs)
            self.tag = tag

    class Plain(NamedSharding):
        pass

    first, second = Tagged(MESH, P("x"), "a"), Tagged(MESH, P("x"), "b")
    assert (first.tag, second.tag, first.spec) == ("a", "b", P("x")) and first is not second
    assert first == second and hash(first) == hash(second) and first != NamedSharding(MESH, P("x"))
    assert Plain(MESH, P("x")) == Plain(MESH, P("x")) != Plain(MESH, P())
    x = pyjax.device_put(np.arange(4.0), first)
    np.testing.assert_array_equal(pyjax.jit(lambda x: x + 1, in_shardings=first)(x), x + 1)
    with pytest.raises(TypeError, match="spec must be a PartitionSpec"):
        Tagged(MESH, "x")
    assert NamedSharding(MESH, P("x")) is NamedSharding(MESH, P("x"))


def test_what_a_class_of_shardings_leaves_out():
    class Anywhere(pyjax.sharding.Sharding):
        pass

    for ask in (
        lambda s: s.device_set,
        lambda s: s.is_fully_replicated,
        lambda s: s.shard_shape((2,)),
        lambda s: s.devices_indices_map((2,)),
    ):
        with pytest.raises(NotImplementedError, match="Anywhere does not define"):
            ask(Anywhere())


def test_one_device_is_used():
    sharding = NamedSharding(MESH, P("x", "y"))
    x = pyjax.device_put(np.ones((2, 3), np.float32), sharding)
    assert x.devices() == {DEVICE}
    double = pyjax.jit(lambda a, b: a * b, in_shardings=(sharding, None), out_shardings=sharding)
    assert double(x, 2.0).tolist() == [[2.0] * 3] * 2
    with pytest.raises(ValueError, match="has an AbstractMesh"):
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
    tree = lax.with_sharding_constraint(
        {"a": x, "b": x}, {"a": sharding, "b": NamedSharding(MESH, P())}
    )
    assert tree["a"].sharding == sharding
    with pytest.raises(ValueError, match="got None"):
        lax.with_sharding_constraint({"a": x, "b": x}, {"a": sharding, "b": None})
    with set_mesh(MESH):
        assert lax.with_sharding_constraint(x, P("x")).tolist() == [0, 1, 2]
    with pytest.raises(RuntimeError, match="no mesh is in context"):
        lax.with_sharding_constraint(x, P("x"))
    with pytest.raises(ValueError, match="rank at least 1"):
        lax.with_sharding_constraint(1.0, sharding)
    with pytest.raises(ValueError, match="has an AbstractMesh"):
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

    text = pyjax.jit(f).lower(jnp.ones((2, 3, 4))).as_text()
    assert 'sdy.mesh @mesh = <["x"=1, "y"=1]>' in text
    assert 'sdy.mesh @mesh_0 = <["z"=1]>' in text
    assert '<@mesh, [{"x", "y"}, {?}, {}]>' in text
    assert '<@mesh_0, [{}, {"z"}, {}]>' in text
    assert '<@mesh, [{"y"}, {}, {}]>' in text
