"""Programs with shard_map and collectives over eight devices: see test_several_devices.py."""

PROGRAMS = {
    "descriptions of arrays inside of shard_map": """
        def body(v):
            known = pyjax.typeof(v)
            assert known.manual_axis_type.varying == {"a"}
            assert set(known.sharding.mesh.manual_axes) == {"a", "b"}, known.sharding
            like = pyjax.ShapeDtypeStruct(v.shape, v.dtype,
                                          manual_axis_type=known.manual_axis_type)
            assert like != pyjax.ShapeDtypeStruct(v.shape, v.dtype) and hash(like)
            assert "varying" in repr(like) and like.update(shape=(3,)).manual_axis_type
            return pyjax.pure_callback(lambda w: np.asarray(w) * 2, like, v)

        f = pyjax.shard_map(body, mesh=mesh, in_specs=P("a"), out_specs=P("a"))
        assert np.array_equal(pyjax.jit(f)(DATA), 2 * DATA)
        assert raises(TypeError, "manual_axis_type must be a ManualAxisType",
                      lambda: pyjax.ShapeDtypeStruct((2,), "float32", manual_axis_type={"a"}))
    """,
    "shard_map": """
        body = lambda x: x - lax.pmean(x.sum(), ("a", "b")) + 10 * lax.axis_index("a")
        f = pyjax.shard_map(body, mesh=mesh, in_specs=P("a", "b"), out_specs=P("a", "b"))
        want = DATA - DATA.sum() / 8 + np.repeat([0, 10], 4)[:, None]
        for x in (DATA, jnp.asarray(DATA), put(DATA, P("a", "b")), put(DATA, P("b"))):
            for run in (f, pyjax.jit(f)):
                y = run(x)
                assert np.array_equal(y, want) and y.sharding == over(P("a", "b"))
        text = pyjax.jit(f).lower(put(DATA, P("a", "b"))).compile().as_text()
        assert text.count(" all-reduce(") == 1 and "all-gather" not in text
    """,
    "collectives are those of vmap": """
        n = 8
        line = Mesh(devices, ("i",))
        turn = [(j, (j + 1) % n) for j in range(n)]
        x = np.arange(float(n * n * 2), dtype=np.float32).reshape(n, n, 2)
        table = {
            "psum": lambda v: lax.psum(v, "i"),
            "pmax": lambda v: lax.pmax(v, "i"),
            "pmin": lambda v: lax.pmin(v, "i"),
            "pmean": lambda v: lax.pmean(v, "i"),
            "all_gather": lambda v: lax.all_gather(v, "i"),
            "all_gather at 1, tiled": lambda v: lax.all_gather(v, "i", axis=1, tiled=True),
            "psum_scatter": lambda v: lax.psum_scatter(v, "i"),
            "psum_scatter tiled": lambda v: lax.psum_scatter(v, "i", tiled=True),
            "all_to_all": lambda v: lax.all_to_all(v, "i", 0, 1),
            "all_to_all tiled": lambda v: lax.all_to_all(v, "i", 0, 1, tiled=True),
            "ppermute": lambda v: lax.ppermute(v, "i", [(k, (k + 3) % n) for k in range(n)]),
            "ppermute of some": lambda v: lax.ppermute(v, "i", [(0, 3), (2, 1)]),
            "pshuffle": lambda v: lax.pshuffle(v, "i", [3, 1, 2, 0, 4, 7, 6, 5]),
            "pbroadcast": lambda v: lax.pbroadcast(v, "i", 5),
            "axis_index": lambda v: v * lax.axis_index("i"),
            "in a loop": lambda v: lax.fori_loop(
                0, 3, lambda k, c: lax.ppermute(c + k, "i", turn), v),
            "ragged_all_to_all": lambda v: lax.ragged_all_to_all(
                v[:, 0], jnp.zeros(n), jnp.arange(n), jnp.ones(n, int),
                jnp.full(n, lax.axis_index("i")), jnp.ones(n, int), axis_name="i"),
        }
        for name, f in table.items():
            want = np.asarray(pyjax.vmap(f, axis_name="i")(x))
            one = pyjax.shard_map(lambda v: f(v[0])[None], mesh=line, in_specs=P("i"),
                                  out_specs=P("i"), check_vma=False)
            np.testing.assert_allclose(np.asarray(pyjax.jit(one)(x)), want, rtol=1e-6, err_msg=name)
            if name in ("axis_index", "ragged_all_to_all", "pmax", "pmin"):
                continue
            slope = lambda g: pyjax.jit(pyjax.grad(lambda x: (jnp.sin(g(x)) ** 2).sum()))
            got, want = slope(one)(x), slope(pyjax.vmap(f, axis_name="i"))(x)
            np.testing.assert_allclose(
                np.asarray(got), np.asarray(want), rtol=2e-4, atol=2e-4, err_msg=name)
    """,
    "shard_map over some of the axes": """
        f = pyjax.shard_map(lambda x: x - lax.psum(x, "a"), mesh=mesh, in_specs=P("a"),
                            out_specs=P("a"), axis_names={"a"})
        want = DATA - np.tile(DATA[:4] + DATA[4:], (2, 1))
        assert np.array_equal(pyjax.jit(f)(put(DATA, P("a", "b"))), want)
        text = pyjax.jit(f).lower(put(DATA, P("a", "b"))).compile().as_text()
        assert text.count(" all-reduce(") == 1 and "f32[4,2]{1,0} all-reduce" in text, text
        assert "all-gather" not in text and "all-to-all" not in text, text
        inner = pyjax.shard_map(lambda x: lax.psum(x, "b"), in_specs=P(None, "b"), out_specs=P(),
                                axis_names={"b"})
        nested = pyjax.shard_map(lambda x: inner(x) + lax.axis_index("a"), mesh=mesh,
                                 in_specs=P("a"), out_specs=P("a"), axis_names={"a"})
        want = DATA.reshape(8, 4, 2).sum(1) + np.repeat([0, 1], 4)[:, None]
        assert np.array_equal(pyjax.jit(nested)(DATA), want)
        text = pyjax.jit(nested).lower(put(DATA, P("a", "b"))).compile().as_text()
        assert text.count(" all-reduce(") == 1 and "f32[4,2]" in text, text
        body = lambda x, w: lax.psum(jnp.tanh(x @ w), "a") * (1 + lax.axis_index("a"))
        f = pyjax.shard_map(body, mesh=mesh, in_specs=(P("a"), P()), out_specs=P("a"),
                            axis_names={"a"})
        one = pyjax.shard_map(body, mesh=pyjax.sharding.AbstractMesh((2, 4), ("a", "b")),
                              in_specs=(P("a"), P()), out_specs=P("a"), axis_names={"a"})
        x, w = DATA / 64, DATA.T / 64
        want = one(x, w)
        slope = lambda f: pyjax.jit(pyjax.grad(lambda x, w: (f(x, w) ** 2).sum(), argnums=(0, 1)))
        for s in (P(), P("a", "b"), P("b"), P("b", "a"), P(None, ("a", "b"))):
            for t in (P(), P("b"), P(None, "b"), P("a", "b")):
                given = put(x, s), put(w, t)
                np.testing.assert_allclose(np.asarray(pyjax.jit(f)(*given)), want, rtol=1e-5)
                got, wanted = slope(f)(*given), slope(one)(x, w)
                for g, v in zip(got, wanted):
                    np.testing.assert_allclose(np.asarray(g), np.asarray(v), rtol=1e-4, atol=1e-4)
    """,
    "loops and branches of their own over some of the axes": """
        def body(x):
            first = lax.axis_index("a")
            x = lax.while_loop(lambda c: c.sum() < 1e4 * (1 + first), lambda c: c * 2, x)
            x = lax.cond(first == 0, lambda c: c + lax.rsqrt(c.sum()), lambda c: -c, x)
            return lax.with_sharding_constraint(x, P(None, "b"))
        spec = dict(in_specs=P("a"), out_specs=P("a"), axis_names={"a"})
        f = pyjax.shard_map(body, mesh=mesh, **spec)
        one = np.concatenate([np.asarray(part) for part in (DATA[:4], DATA[4:])])
        for s in (P(), P("a", "b"), P("b"), P("b", "a")):
            got = np.asarray(pyjax.jit(f)(put(DATA, s)))
            low, high = DATA[:4].copy(), DATA[4:].copy()
            while low.sum() < 1e4:
                low *= 2
            while high.sum() < 2e4:
                high *= 2
            want = np.concatenate([low + 1 / np.sqrt(low.sum()), -high])
            np.testing.assert_allclose(got, want, rtol=1e-6)
    """,
    "every collective over some of the axes": """
        n = 4
        x = np.arange(float(n * n * 6), dtype=np.float32).reshape(n, n, 6)
        groups = [[0, 2], [3, 1]]
        table = {
            "psum": lambda v: lax.psum(v, "b"),
            "pmax": lambda v: lax.pmax(v, "b"),
            "all_gather": lambda v: lax.all_gather(v, "b"),
            "all_gather tiled": lambda v: lax.all_gather(v, "b", axis=1, tiled=True),
            "psum_scatter": lambda v: lax.psum_scatter(v, "b"),
            "all_to_all": lambda v: lax.all_to_all(v, "b", 0, 1),
            "ppermute": lambda v: lax.ppermute(v, "b", [(k, (k + 3) % n) for k in range(n)]),
            "axis_index": lambda v: v * lax.axis_index("b"),
            "ragged_all_to_all": lambda v: lax.ragged_all_to_all(
                v, jnp.zeros((n, 6)), jnp.arange(n), jnp.ones(n, int),
                jnp.full(n, lax.axis_index("b")), jnp.ones(n, int), axis_name="b"),
            "psum in groups": lambda v: lax.psum(v, "b", axis_index_groups=groups),
            "psum in unequal groups": lambda v: lax.psum(
                v, "b", axis_index_groups=[[0], [3, 1, 2]]),
            "pmin in unequal groups": lambda v: lax.pmin(
                v, "b", axis_index_groups=[[0, 2, 1], [3]]),
            "pmean in groups": lambda v: lax.pmean(v, "b", axis_index_groups=groups),
            "all_gather in groups": lambda v: lax.all_gather(v, "b", axis_index_groups=groups),
            "psum_scatter in groups": lambda v: lax.psum_scatter(
                v, "b", axis_index_groups=groups, tiled=True),
            "all_to_all in groups": lambda v: lax.all_to_all(
                v, "b", 0, 1, axis_index_groups=groups, tiled=True),
            "ragged in groups": lambda v: lax.ragged_all_to_all(
                v, jnp.zeros((n, 6)), jnp.arange(2), jnp.ones(2, int),
                jnp.full(2, lax.axis_index("b") % 2), jnp.ones(2, int), axis_name="b",
                axis_index_groups=[[0, 1], [2, 3]]),
        }
        slope = lambda g: pyjax.jit(pyjax.grad(lambda x: (jnp.sin(g(x)) ** 2).sum()))
        for name, f in table.items():
            mapped = pyjax.vmap(f, axis_name="b")
            want = np.asarray(mapped(x))
            for axes in ({"b"}, {"a", "b"}):
                one = pyjax.shard_map(lambda v: f(v[0])[None], mesh=mesh, in_specs=P("b"),
                                      out_specs=P("b"), check_vma=False, axis_names=axes)
                given = put(x, P("b", None, "a"))
                got = np.asarray(pyjax.jit(one)(given))
                np.testing.assert_allclose(got, want, rtol=1e-6, err_msg=name)
                if name == "axis_index" or name.startswith(("pm", "ragged")):
                    continue
                np.testing.assert_allclose(np.asarray(slope(one)(given)), slope(mapped)(x),
                                           rtol=2e-4, atol=2e-4, err_msg=name)
        text = pyjax.jit(pyjax.shard_map(lambda v: lax.psum_scatter(v, "b", tiled=True),
            mesh=mesh, in_specs=P(), out_specs=P("b"))).lower(DATA).compile().as_text()
        assert text.count(" reduce-scatter(") == 1 and "all-reduce" not in text, text
    """,
    "callbacks in shard_map": """
        seen = []
        def body(x):
            pyjax.debug.callback(lambda: seen.append(1))
            pyjax.debug.callback(lambda v: seen.append(float(v.sum())), x)
            return x
        def run(axes, spec):
            seen.clear()
            f = pyjax.shard_map(body, mesh=mesh, in_specs=spec, out_specs=spec, axis_names=axes)
            pyjax.block_until_ready(pyjax.jit(f)(DATA))
            pyjax.effects_barrier()
            return sorted(seen)
        assert run({"a", "b"}, P("a")) == [1.0] * 8 + [496.0] * 4 + [1520.0] * 4
        assert run({"a"}, P("a")) == [1.0] * 2 + [496.0, 1520.0]
    """,
    "shard_map with scan, random keys and a kernel of its own": """
        def body(x, key):
            key = pyjax.random.fold_in(key, lax.axis_index("a"))
            noise = pyjax.random.normal(key, x.shape)
            c, ys = lax.scan(lambda c, row: (c + lax.psum(row, "a"), c), jnp.zeros(x.shape[1]), x)
            return ys + noise
        f = lambda m: pyjax.shard_map(body, mesh=m, in_specs=(P("a"), P()), out_specs=P("a"),
                                      check_vma=False)
        key = pyjax.random.key(1)
        want = f(pyjax.sharding.AbstractMesh((2, 4), ("a", "b")))(jnp.asarray(DATA), key)
        got = pyjax.jit(f(mesh))(DATA, key)
        np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-6)
    """,
    "pmap": """
        x = np.arange(16.0, dtype=np.float32).reshape(8, 2)
        f = pyjax.pmap(lambda v: v / lax.psum(v, "i"), axis_name="i")
        y = f(x)
        assert np.allclose(y, x / x.sum(0)) and len(y.addressable_shards) == 8
        assert y.sharding.spec == P("i")
        assert np.array_equal(f(pyjax.device_put(x, devices[2])), y)
        assert np.array_equal(f(y), f(np.asarray(y)))
        g = pyjax.pmap(lambda v: v + 1, devices=devices[2:4])
        assert g(x[:2]).devices() == {*devices[2:4]}
        assert pyjax.pmap(lambda v: v + 1, devices=devices[5:6])(x[:1]).devices() == {devices[5]}
    """,
    "effects happen once, those of parts on each device": """
        x, seen = put(DATA, P("a", "b")), []
        def record(v):
            seen.append(float(np.asarray(v).sum()))
            return np.asarray(v) * 2
        io = pyjax.experimental.io_callback
        whole = lambda x: io(record, pyjax.ShapeDtypeStruct(x.shape, x.dtype), x) + 1
        assert np.array_equal(pyjax.jit(whole)(x), DATA * 2 + 1) and seen == [2016.0]
        seen.clear()
        def loop(x):
            def body(i, c):
                pyjax.debug.callback(lambda v: seen.append(float(v)), c.sum(), ordered=True)
                return c + 1
            return lax.fori_loop(0, 3, body, x)
        assert np.array_equal(pyjax.jit(loop)(x), DATA + 3) and seen == [2016.0, 2080.0, 2144.0]
        seen.clear()
        def part(x):
            pyjax.debug.callback(lambda v: seen.append(float(v)), x.sum())
            return x
        over_parts = pyjax.shard_map(part, mesh=mesh, in_specs=P("a"), out_specs=P("a"))
        pyjax.jit(over_parts)(x)
        assert sorted(seen) == [496.0] * 4 + [1520.0] * 4
        key = pyjax.random.key(0, impl="rbg")
        draw = lambda: pyjax.random.normal(key, (8, 8))
        assert np.array_equal(pyjax.jit(lambda x: x + draw())(x), DATA + draw())
    """,
    "a part that fails": """
        def body(x):
            def check(v):
                if v.sum() > 100:
                    raise RuntimeError("too large")
                return v
            return pyjax.pure_callback(check, pyjax.ShapeDtypeStruct(x.shape, x.dtype), x)
        f = pyjax.jit(pyjax.shard_map(body, mesh=mesh, in_specs=P("a"), out_specs=P("a"),
                                      check_vma=False))
        assert raises(Exception, "too large", lambda: np.asarray(f(DATA)))
        assert np.array_equal(f(DATA * 0), DATA * 0)
    """,
}
