"""Programs over eight devices that are exported, and called over other meshes of as many: see
test_several_devices.py."""

import textwrap

START = """
    from pyjax.export import deserialize, export
    single = Mesh(np.array(devices), ("z",))
    half = Mesh(np.array(devices[:4]), ("z",))
    TYPE = pyjax.ShapeDtypeStruct((8, 8), np.float32)
    D = DATA / 64
    near = lambda got, want: np.testing.assert_allclose(
        np.asarray(got), np.asarray(want), rtol=2e-5, atol=1e-4)
    product = lambda x: jnp.sin(x) @ x.T
    WANT = np.sin(D) @ D.T
    at = lambda spec, where=mesh: NamedSharding(where, spec)
"""

_BODIES = {
    "how many devices": """
        made = lambda f, **how: export(pyjax.jit(f, **how))(TYPE)
        constrained = lambda x: lax.with_sharding_constraint(x, at(P("a"))) + 1
        mapped = pyjax.shard_map(lambda x: lax.psum(x, "a"), mesh=mesh, in_specs=P("a"),
                                 out_specs=P())
        for exported in (
            made(product, in_shardings=at(P("a", "b"))),
            made(product, out_shardings=at(P("b"))),
            made(product, in_shardings=at(P())),
            made(constrained),
            made(mapped),
            export(pyjax.jit(product))(pyjax.ShapeDtypeStruct((8, 8), "f4", sharding=at(P("a")))),
        ):
            assert exported.nr_devices == 8
            assert exported.in_shardings_hlo == exported.out_shardings_hlo == (None,)
            assert deserialize(exported.serialize()).nr_devices == 8
        near(made(mapped).call(put(D, P())), D[:4] + D[4:])
        near(made(mapped).call(pyjax.device_put(D, at(P("z"), single))), D[:4] + D[4:])
        alone = made(product)
        assert alone.nr_devices == 1
        got = alone.call(pyjax.device_put(D, at(P("z"), single)))
        near(got, WANT)
        assert len(got.sharding.device_set) == 8
    """,
    "over meshes without devices": """
        from pyjax.sharding import AbstractMesh, use_abstract_mesh
        nowhere = AbstractMesh((2, 4), ("a", "b"), (AxisType.Auto,) * 2)
        typed = AbstractMesh((2, 4), ("a", "b"), (AxisType.Explicit,) * 2)
        on = lambda spec: at(spec, nowhere)
        constrained = lambda x: lax.with_sharding_constraint(x * 2, on(P(None, "b")))
        described = lambda how: pyjax.ShapeDtypeStruct((8, 8), np.float32, sharding=how)
        double = lambda x: x * 2
        backwards = Mesh(np.array(devices[::-1]).reshape(2, 4), ("a", "b"))
        for made, results in [
            (export(pyjax.jit(double, in_shardings=on(P("a", "b"))))(TYPE), P("a", "b")),
            (export(pyjax.jit(double, in_shardings=on(P("a")), out_shardings=on(P("b"))))(TYPE),
             P("b")),
            (export(pyjax.jit(double, out_shardings=on(P("b"))))(TYPE), P("b")),
            (export(pyjax.jit(double))(described(on(P("a")))), P("a")),
            (export(pyjax.jit(double, in_shardings=on(P("a"))))(described(on(P("a")))), P("a")),
            (export(pyjax.jit(constrained, in_shardings=on(P("a"))))(TYPE), P(None, "b")),
        ]:
            for exported in (made, deserialize(made.serialize())):
                assert exported.nr_devices == 8
                for here in (mesh, backwards):
                    inputs = exported.in_shardings_jax(here)[0] or at(P(), here)
                    for run in (exported.call, pyjax.jit(exported.call)):
                        got = run(pyjax.device_put(D, inputs))
                        near(got, 2 * D)
                        assert got.sharding.is_equivalent_to(at(results, here), 2), got.sharding
                assert raises(ValueError, "for 8 devices and is called in a context with 1",
                              lambda: exported.call(D))
        explicit = Mesh(np.array(devices).reshape(2, 4), ("a", "b"),
                        axis_types=(AxisType.Explicit,) * 2)
        made = export(pyjax.jit(double))(described(at(P("a", "b"), typed)))
        assert made.in_shardings_jax(explicit) == (at(P("a", "b"), explicit),)
        turned = Mesh(np.array(devices).reshape(4, 2), ("a", "b"))
        for exported in (made, export(pyjax.jit(double, in_shardings=on(P("a", "b"))))(TYPE)):
            assert raises(ValueError, "does not match the mesh used for export",
                          lambda: exported.in_shardings_jax(turned))
        f = pyjax.jit(double, in_shardings=on(P("a")))
        for wrong in (lambda: f(D), lambda: f.lower(TYPE), lambda: f(put(D, P("a"))),
                      lambda: pyjax.jit(double).lower(described(on(P("a"))))):
            assert raises(ValueError, "has an AbstractMesh, which has no devices|does not match",
                          wrong)
        with pyjax.set_mesh(mesh):
            got = f(D)
            near(got, 2 * D)
            assert got.sharding.is_equivalent_to(at(P("a")), 2), got.sharding
        both = pyjax.jit(lambda x, y: x + y, in_shardings=(
            on(P("a")), at(P("a"), AbstractMesh((4,), ("a",), (AxisType.Auto,)))))
        assert raises(ValueError, "over meshes of 8 and 4 devices",
                      lambda: export(both)(TYPE, TYPE))
    """,
    "calls over meshes with as many devices": """
        f = pyjax.jit(product, in_shardings=at(P("a", "b")), out_shardings=at(P(None, "b")))
        made = export(f)(TYPE)
        for exported in (made, deserialize(made.serialize())):
            for x in (put(D, P("a")), pyjax.device_put(D, at(P("z"), single)),
                      pyjax.device_put(D, at(P(None, "z"), single))):
                for run in (exported.call, pyjax.jit(exported.call)):
                    got = run(x)
                    assert got.sharding == at(P(None, "b")), got.sharding
                    near(got, WANT)
            inside = pyjax.jit(lambda x: exported.call(x) + 1, in_shardings=at(P("z"), single))
            near(inside(D), WANT + 1)
            assert exported.in_shardings_jax(mesh) == (at(P("a", "b")),)
            assert exported.out_shardings_jax(mesh) == (at(P(None, "b")),)
            others = Mesh(np.array(devices[::-1]).reshape(2, 4), ("a", "b"))
            assert exported.in_shardings_jax(others) == (at(P("a", "b"), others),)
            got = exported.call(pyjax.device_put(D, exported.in_shardings_jax(others)[0]))
            near(got, WANT)
            assert got.sharding == at(P(None, "b"), others)
            assert raises(ValueError, "(?s)new mesh .* does not match .*used for export.*same axes",
                          lambda: exported.in_shardings_jax(single))
    """,
    "calls elsewhere": """
        exported = export(pyjax.jit(product, in_shardings=at(P("a", "b"))))(TYPE)
        message = "(?s)exported for 8 devices and is called in a context with {} .*device_put"
        for number, x in ((1, D), (4, pyjax.device_put(D, at(P("z"), half)))):
            for run in (exported.call, pyjax.jit(exported.call)):
                assert raises(ValueError, message.format(number), lambda: run(x))
    """,
    "derivatives": """
        made = export(pyjax.jit(product, in_shardings=at(P("a", "b"))))(TYPE)
        want = pyjax.grad(lambda x: product(x).sum())(D)
        for exported in (made, deserialize(made.serialize(vjp_order=1))):
            assert exported.vjp().nr_devices == 8
            for x in (put(D, P("b")), pyjax.device_put(D, at(P("z"), single))):
                got = pyjax.grad(lambda x: exported.call(x).sum())(x)
                near(got, want)
                assert got.sharding == at(P("a", "b")), got.sharding
    """,
}

PROGRAMS = {
    f"exported: {name}": textwrap.dedent(START) + textwrap.dedent(body)
    for name, body in _BODIES.items()
}
