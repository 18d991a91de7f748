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
