"""Programs on arrays that types say to be split, over eight devices: see test_several_devices.py.
The types are those of test_explicit_types.py; here is what is computed, and where it lies."""

import textwrap

START = """
    explicit = pyjax.make_mesh((2, 4), ("x", "y"), axis_types=(AxisType.Explicit,) * 2,
                               devices=devices)
    on = lambda spec: NamedSharding(explicit, spec)
    to = lambda x, spec: pyjax.device_put(x, on(spec))
    near = lambda got, want: np.testing.assert_allclose(
        np.asarray(got), np.asarray(want), rtol=2e-5, atol=1e-4)
    D = DATA / 64
"""

_BODIES = {
    "arrays know their types": """
        x = to(D, P("x", "y"))
        assert pyjax.typeof(x).str_short() == "float32[8@x,8@y]"
        assert pyjax.typeof(x).sharding.spec == P("x", "y")
        assert pyjax.typeof(pyjax.device_put(D, over(P("a")))).str_short() == "float32[8,8]"
        assert pyjax.typeof(pyjax.device_put(x, devices[3])).str_short() == "float32[8,8]"
        assert pyjax.typeof(x.addressable_shards[0].data).str_short() == "float32[4,2]"
        seen = []
        pyjax.jit(lambda a: seen.append(pyjax.typeof(a).str_short()))(x)
        assert seen == ["float32[8@x,8@y]"]
    """,
    "values and places": """
        cases = [
            (lambda x, w: x * 2 + w, P("x", "y"), P("x", "y"), P("x", "y")),
            (lambda x, w: x + w, P("x"), P(None, "y"), P("x", "y")),
            (lambda x, w: x @ w, P("x"), P(None, "y"), P("x", "y")),
            (lambda x, w: jnp.dot(x, w, out_sharding=P("x")), P("x", "y"), P("y"), P("x", None)),
            (lambda x, w: jnp.einsum("ij,kj->ik", x, w, out_sharding=P(None, "y")),
             P("x", "y"), P("y", "x"), P(None, "y")),
            (lambda x, w: x.reshape(64), P("x", "y"), P(), P(("x", "y"))),
            (lambda x, w: jnp.reshape(x, (4, 16), out_sharding=P("y")), P("x", "y"), P(),
             P("y", None)),
            (lambda x, w: pyjax.nn.softmax(x).sum(0), P("x", "y"), P(), P("y")),
            (lambda x, w: jnp.sort(x, 1), P("x"), P(), P("x", None)),
            (lambda x, w: pyjax.sharding.reshard(x, P(None, "x")), P("x", "y"), P(), P(None, "x")),
            (lambda x, w: x.at[jnp.array([5, 1])].get(out_sharding=P(None, "y")), P("x", "y"), P(),
             P(None, "y")),
            (lambda x, w: x.at[3].set(7.0, out_sharding=P("x", "y")), P("x", "y"), P(),
             P("x", "y")),
            (lambda x, w: jnp.concatenate([x, w]), P("x", "y"), P("x", "y"), P("x", "y")),
            (lambda x, w: pyjax.sharding.auto_axes(jnp.matmul, out_sharding=P("y"))(x, w),
             P("x", "y"), P("x", "y"), P("y", None)),
            (lambda x, w: pyjax.vmap(lambda row: row @ w)(x), P("x"), P(None, "y"), P("x", "y")),
            (lambda x, w: lax.scan(lambda c, r: (c + r, c), jnp.zeros_like(x[0]), x)[1],
             P(None, "y"), P(), P(None, "y")),
            (lambda x, w: pyjax.shard_map(lambda b: lax.psum(b, "x"), out_specs=P(None, "y"))(x),
             P("x", "y"), P(), P(None, "y")),
            (lambda x, w: jnp.where(x > w, x, 0.0), P("x", "y"), P("x", "y"), P("x", "y")),
            # Batches are split as those of the left operand, whatever the right one's are.
            (lambda x, w: jnp.einsum("ij,ij->i", x, w), P(), P("x"), P(None)),
        ]
        plain = lambda f: np.asarray(pyjax.jit(f)(jnp.asarray(D), jnp.asarray(D.T)))
        with pyjax.set_mesh(explicit):
            for number, (f, one, other, wanted) in enumerate(cases):
                x, w = to(D, one), to(np.ascontiguousarray(D.T), other)
                results = [f(x, w), pyjax.jit(f)(x, w)]
                for got in results:
                    assert got.sharding == on(wanted), (number, got.sharding, wanted)
                    near(got, results[0])
        want = [D * 2 + D.T, D + D.T, D @ D.T, D @ D.T, D @ D]
        with pyjax.set_mesh(explicit):
            for value, (f, one, other, wanted) in zip(want, cases):
                near(f(to(D, one), to(np.ascontiguousarray(D.T), other)), value)
            near(cases[10][0](to(D, P("x", "y")), None), D[[5, 1]])
            near(cases[16][0](to(D, P("x", "y")), None), D[:4] + D[4:])
            near(cases[15][0](to(D, P(None, "y")), None), np.cumsum(D, 0) - D)
    """,
    "out_sharding of functions without types of their own": """
        ids = np.array([0, 1, 0, 2, 3, 3, 1, 0])
        total = pyjax.ops.segment_sum(D, ids, 4)
        matrices, sizes = jnp.ones((2, 8, 3)), jnp.array([4, 4])
        with pyjax.set_mesh(explicit):
            x, rows = to(D, P("x", "y")), to(D, P("x"))
            segments = lambda spec: lambda: pyjax.ops.segment_sum(x, ids, 4, out_sharding=spec)
            ragged = lambda spec: lambda: lax.ragged_dot(rows, matrices, sizes, out_sharding=spec)
            reduced = lambda spec: lambda: lax.reduce(x, 0.0, lax.add, (0,), out_sharding=spec)
            largest = lambda spec: lambda: pyjax.ops.segment_max(x, ids, 4, out_sharding=spec)
            for f, spec, wanted in [
                (segments(P(None, "y")), P(None, "y"), total),
                (segments(P("x", "y")), P("x", "y"), total),
                (largest(P(None, "y")), P(None, "y"), pyjax.ops.segment_max(D, ids, 4)),
                (reduced(P(None)), P(None), D.sum(0)),
                (reduced(P("y")), P("y"), D.sum(0)),
                (ragged(P("x", None)), P("x", None), np.repeat(D.sum(1)[:, None], 3, 1)),
                (ragged(P(None, None)), P(None, None), np.repeat(D.sum(1)[:, None], 3, 1)),
            ]:
                for got in (f(), pyjax.jit(f)()):
                    assert got.sharding == on(spec), (got.sharding, spec)
                    near(got, wanted)
    """,
    "gradients lie as what they are of": """
        def loss(w, v, x):
            h = jnp.tanh(x @ w)
            y = jnp.dot(h, v, out_sharding=P("x"))
            return (pyjax.nn.relu(y) ** 2).mean()
        want = pyjax.grad(lambda w, v, x: (pyjax.nn.relu(jnp.tanh(x @ w) @ v) ** 2).mean(),
                          (0, 1, 2))(D, D.T, D)
        with pyjax.set_mesh(explicit):
            w, v, x = to(D, P(None, "y")), to(D.T, P("y")), to(D, P("x"))
            for run in (lambda f: f, pyjax.jit):
                for wrap in (lambda f: f, pyjax.checkpoint):
                    found = run(pyjax.grad(wrap(loss), (0, 1, 2)))(w, v, x)
                    for g, value, primal in zip(found, want, (w, v, x)):
                        assert pyjax.typeof(g) == pyjax.typeof(primal), pyjax.typeof(g)
                        near(g, value)
            text = pyjax.jit(pyjax.grad(loss)).lower(w, v, x).compile().as_text()
            assert "all-reduce" in text
    """,
    "without a mesh in context": """
        x = to(D, P("x", "y"))
        assert (x + 1).sharding == on(P("x", "y"))
        assert pyjax.jit(lambda: x * 2)().sharding == on(P("x", "y"))
        assert pyjax.grad(lambda a: (a * a).sum())(x).sharding == on(P("x", "y"))
        y = jnp.dot(x, x.T, out_sharding=on(P("x")))
        assert y.sharding == on(P("x", None))
        near(y, D @ D.T)
        assert raises(pyjax.errors.ShardingTypeError, "ambiguous", lambda: x @ x.T)
        assert pyjax.reshard(x, on(P("y"))).sharding == on(P("y", None))
    """,
    "sums that are still to be made": """
        sums = P(None, None, unreduced={"y"})
        with pyjax.set_mesh(explicit):
            x, w = to(D, P(None, "y")), to(D.T, P("y"))
            for run in (lambda f: f, pyjax.jit):
                u = run(lambda x, w: jnp.dot(x, w, out_sharding=sums))(x, w)
                assert u.sharding == on(sums)
                assert repr(u) == f"Array(shape=(8, 8), dtype=float32, sharding={on(sums)})"
                for k, shard in enumerate(u.addressable_shards):
                    part = slice(2 * (k % 4), 2 * (k % 4) + 2)
                    near(shard.data, D[:, part] @ D.T[part])
                assert raises(NotImplementedError, "is to be read", lambda: np.asarray(u))
                whole = D @ D.T
                for spec in (P(), P("y"), P("x", "y"), P(("y", "x"))):
                    made = run(lambda u: pyjax.reshard(u, spec))(u)
                    near(made, whole)
                    assert pyjax.typeof(made).split == to(D, spec).aval.split
                f = lambda u: pyjax.reshard((u + u.T).sum(0), P())
                near(run(f)(u), (whole + whole.T).sum(0))
                near(run(lambda u: pyjax.reshard(jnp.concatenate([u, u])[4:12], P()))(u),
                     np.concatenate([whole, whole])[4:12])
                total = lambda x: pyjax.reshard(
                    lax.reduce_sum(x, (1,), out_sharding=P(None, unreduced={"y"})), P())
                near(run(total)(x), D.sum(1))
                pairs = to(np.stack([D, 2 * D]), P(None, None, "y"))
                v = run(pyjax.vmap(lambda x: jnp.dot(x, w, out_sharding=sums)))(pairs)
                near(pyjax.reshard(v, P()), np.stack([whole, 2 * whole]))
                near(pyjax.reshard(pyjax.reshard(to(D, P()), sums), P()), D)
            text = pyjax.jit(lambda u: pyjax.reshard(u, P("y"))).lower(u).compile().as_text()
            assert "reduce-scatter" in text or "all-reduce" in text
            assert raises(NotImplementedError, "summands", lambda: pyjax.device_put(D, on(sums)))
    """,
    "shardings of sums that are still to be made": """
        from pyjax.export import deserialize, export
        sums, whole = P(None, None, unreduced={"y"}), D @ D.T
        total = lambda x: sum(np.asarray(s.data) for s in x.addressable_shards) / 2
        with pyjax.set_mesh(explicit):
            product = lambda x, w: jnp.dot(x, w, out_sharding=sums)
            operands = to(D, P(None, "y")), to(D.T, P("y"))
            u = pyjax.jit(product)(*operands)
            twice = lambda v: v + v
            for spec in (P(), P("x"), P("x", "y"), P("y"), P(None, None, reduced={"y"})):
                for got, want in [
                    (pyjax.jit(product, out_shardings=on(spec))(*operands), whole),
                    (pyjax.jit(lambda x, w: pyjax.jit(product, out_shardings=on(spec))(x, w))(
                        *operands), whole),
                    (pyjax.jit(twice, out_shardings=on(spec))(u), 2 * whole),
                    (pyjax.jit(twice, out_shardings=on(spec)).lower(u).compile()(u), 2 * whole),
                ]:
                    near(got, want)
                    assert got.sharding.is_equivalent_to(on(spec), 2), got.sharding
                    assert got.sharding.spec.reduced == spec.reduced
            for f, args, want in [(product, operands, whole), (twice, (u,), 2 * whole),
                                  (twice, (to(D, P()),), 2 * D)]:
                got = pyjax.jit(f, out_shardings=on(sums))(*args)
                assert got.sharding == on(sums)
                near(total(got), want)
            near(total(pyjax.jit(twice, in_shardings=on(sums))(u)), 2 * whole)
            for spec, x in [(P(), u), (P(None, None, unreduced={"x"}), u), (sums, to(D, P()))]:
                assert raises(ValueError, "does not match the sharding on the respective arg",
                              lambda: pyjax.jit(twice, in_shardings=on(spec))(x))
            assert raises(NotImplementedError, "its summands are not known",
                          lambda: pyjax.jit(twice, in_shardings=on(sums))(D))
            made = export(pyjax.jit(twice))(u)
            for exported in (made, deserialize(made.serialize())):
                assert exported.in_avals == exported.out_avals == (pyjax.typeof(u),)
                for run in (exported.call, pyjax.jit(exported.call)):
                    got = run(u)
                    assert got.sharding == on(sums)
                    near(total(got), 2 * whole)
    """,
    "gradients that are summed once": """
        batches = np.stack([D, D.T, D * D])
        loss = lambda w, m: (jnp.tanh(m @ jnp.sin(w)) ** 2).sum()
        want = sum(pyjax.grad(loss)(D, m) for m in batches)
        with pyjax.set_mesh(explicit):
            def accumulate(w, batches):
                w = pyjax.reshard(w, P(None, None, reduced={"x"}))
                zero = jnp.zeros((8, 8), out_sharding=P(None, None, unreduced={"x"}))
                step = lambda total, m: (total + pyjax.grad(loss)(w, m), None)
                return pyjax.reshard(lax.scan(step, zero, batches)[0], P("x"))
            f = pyjax.jit(accumulate)
            given = to(D, P()), to(batches, P(None, "x"))
            near(f(*given), want)
            text = f.lower(*given).compile().as_text()
            count = text.count("all-reduce(") + text.count("reduce-scatter(")
            assert count == 1, text
            gathered = lambda w, m: loss(pyjax.reshard(w, P(None, None, reduced={"x"})), m)
            g = pyjax.jit(pyjax.grad(gathered))(to(D, P("x")), to(D, P("x")))
            assert g.sharding == on(P("x", None))
            near(g, pyjax.grad(loss)(D, D))
    """,
    "exported": """
        from pyjax.export import deserialize, export
        with pyjax.set_mesh(explicit):
            x = to(D, P("x", "y"))
            made = export(pyjax.jit(lambda v: {"a": v.T * 2}))(x)
            for exported in (made, deserialize(made.serialize())):
                assert exported.nr_devices == 8 and exported.in_avals == (pyjax.typeof(x),)
                assert exported.out_shardings_jax(explicit) == (on(P("y", "x")),)
                for run in (exported.call, pyjax.jit(exported.call)):
                    got = run(x)["a"]
                    assert got.sharding == on(P("y", "x")), got.sharding
                    near(got, D.T * 2)
    """,
    "one axis is the compiler's": """
        mixed = pyjax.make_mesh((2, 4), ("x", "y"), axis_types=(AxisType.Explicit, AxisType.Auto),
                                devices=devices)
        with pyjax.set_mesh(mixed):
            x = pyjax.device_put(D, P("x", "y"))
            assert pyjax.typeof(x).str_short() == "float32[8@x,8]"
            y = pyjax.jit(lambda a: jnp.dot(a, a.T, out_sharding=P("x")))(x)
            near(y, D @ D.T)
            assert pyjax.typeof(y).str_short() == "float32[8@x,8]"
            near(pyjax.reshard(x * 2, P(None, "x")), D * 2)
    """,
}

PROGRAMS = {
    f"explicit: {name}": textwrap.dedent(START) + textwrap.dedent(body)
    for name, body in _BODIES.items()
}
