"""Programs with custom_partitioning over eight devices: see test_several_devices.py."""

PROGRAMS = {
    "custom_partitioning by a rule": """
        from pyjax.experimental.custom_partitioning import custom_partitioning
        @custom_partitioning
        def product(x, y):
            return {"y": x @ y}
        seen = []
        def partition(mesh, arg_shapes, result_shape):
            x, y = [s.sharding.spec for s in arg_shapes]
            seen.append((x, y, result_shape["y"].sharding.spec))
            def on_parts(x, y):
                part = x @ y
                return {"y": lax.psum(part, y_axis) if y_axis else part}
            y_axis = x[1]
            s = lambda *entries: NamedSharding(mesh, P(*entries))
            return mesh, on_parts, {"y": s(x[0], y[1])}, (s(x[0], y_axis), s(y_axis, y[1]))
        product.def_partition(partition, sharding_rule="i k, k j -> i j", reduction_factors=("k",))
        f = pyjax.jit(lambda x, y: product(x, y)["y"] + 1)
        want = DATA @ DATA.T + 1
        for x, y, says, count in (
            (P("a"), P(None, "b"), P("a", "b"), 0),
            (P("a", "b"), P("b"), P("a"), 1),
            (P(None, ("a", "b")), P(("a", "b")), P(), 1),
            (P(), P(), P(), 0),
        ):
            given = put(DATA, x), put(DATA.T, y)
            got = f(*given)
            assert np.array_equal(got, want) and got.sharding == over(says), (x, y, got.sharding)
            text = f.lower(*given).compile().as_text()
            assert text.count(" all-reduce(") == count and "all-gather" not in text, text
        assert seen[0] == (P("a", None), P(None, "b"), P("a", "b")), seen[0]
        assert np.array_equal(product(put(DATA, P("a")), DATA.T)["y"], want - 1)
        assert np.array_equal(f(DATA, DATA.T), want)
    """,
    "custom_partitioning by functions": """
        from pyjax.experimental.custom_partitioning import custom_partitioning
        def rows(x):
            return NamedSharding(x.sharding.mesh, P(x.sharding.spec[0], None))
        @custom_partitioning
        def transform(x):
            return jnp.fft.fft(x)
        def partition(mesh, arg_shapes, result_shape):
            return mesh, jnp.fft.fft, rows(arg_shapes[0]), (rows(arg_shapes[0]),)
        transform.def_partition(
            partition, infer_sharding_from_operands=lambda mesh, args, result: rows(args[0]))
        f = pyjax.jit(transform)
        for spec in (P("a"), P("b"), P(("b", "a"))):
            y = f(put(DATA, spec))
            assert y.sharding == over(spec)
            np.testing.assert_allclose(y, np.fft.fft(DATA), rtol=1e-5, atol=1e-3)
            assert "all-gather" not in f.lower(put(DATA, spec)).compile().as_text()
        assert f(put(DATA, P("a", "b"))).sharding == over(P("a"))
        scaled = custom_partitioning(lambda x, by: x * by, static_argnums=1)
        scaled.def_partition(
            lambda by, mesh, args, result: (
                mesh, lambda x: x * by, args[0].sharding, (args[0].sharding,)),
            sharding_rule=lambda by, mesh, args, result: "... -> ...")
        y = pyjax.jit(lambda x: scaled(x, 3))(put(DATA, P("a", "b")))
        assert np.array_equal(y, 3 * DATA) and y.sharding == over(P("a", "b"))
        inside = pyjax.shard_map(lambda x: scaled(x, 3), mesh=mesh, in_specs=P("a"),
                                 out_specs=P("a"), check_vma=False)
        assert np.array_equal(inside(DATA), 3 * DATA)
    """,
    "custom_partitioning that does not fit": """
        from pyjax.experimental.custom_partitioning import custom_partitioning
        same = lambda mesh, args, result: (mesh, lambda x: x, args[0].sharding,
                                           (args[0].sharding,))
        def run(partition=same, rule="... -> ..."):
            f = custom_partitioning(lambda x: x)
            f.def_partition(partition, sharding_rule=rule)
            return pyjax.jit(f)(put(DATA, P("a", "b")))
        assert np.array_equal(run(), DATA)
        for rule in ("i -> i", "i j, k -> i j", "i i -> i j k", "(i i) k -> i k"):
            assert raises(ValueError, "is no rule of this function", lambda: run(rule=rule)), rule
        whole = lambda mesh, args, result: (mesh, lambda x: x, over(P()), (over(P("a")),))
        assert raises(Exception, "parts of the results are", lambda: run(whole))
        tree = lambda mesh, args, result: (mesh, lambda x: (x, x), over(P()), (over(P()),))
        assert raises(TypeError, "returns", lambda: run(tree))
        flat = lambda mesh, args, result: (mesh, lambda x: x, over(P()), over(P()))
        assert raises(TypeError, "gave the shardings", lambda: run(flat))
    """,
}
