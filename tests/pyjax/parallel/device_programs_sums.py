"""Programs over eight devices, of sums that are still to be made inside of shard_map (unreduced),
and of values whose cotangents are (reduced): see test_several_devices.py. What they compute is
compared with programs of one device."""

import textwrap

START = """
    explicit = pyjax.make_mesh((2, 4), ("x", "y"), axis_types=(AxisType.Explicit,) * 2,
                               devices=devices)
    D = DATA / 64
    reshard = pyjax.sharding.reshard
    near = lambda got, want: np.testing.assert_allclose(
        np.asarray(got), np.asarray(want), rtol=2e-5, atol=1e-4)
    in_type = lambda x: pyjax.typeof(x).str_short(short_dtypes=True)
    sums = lambda x: pyjax.jit(lambda x: reshard(x, P()))(x)
    pyjax.set_mesh(explicit)
    laid = lambda spec: reshard(pyjax.device_put(D, P()), spec)
"""

_BODIES = {
    "sums that are made inside": """
        ways = [
            (lambda u: lax.psum(u, "y"), P("x"), "f32[8@x,8]"),
            (lambda u: lax.psum_scatter(u, "y", scatter_dimension=1, tiled=True), P("x", "y"),
             "f32[8@x,8@y]"),
            (lambda u: lax.psum_scatter(u.T, "y", tiled=True).T, P("x", "y"), "f32[8@x,8@y]"),
            (lambda u: u, P("x", unreduced={"y"}), "f32[8@x,8]{U:y}"),
            (lambda u: lax.psum(u + u, "y") / 2, P("x"), "f32[8@x,8]"),
        ]
        u = jnp.dot(laid(P("x", "y")), laid(P("y")), out_sharding=P("x", unreduced={"y"}))
        assert in_type(u) == "f32[8@x,8]{U:y}"
        for f, spec, wanted in ways:
            g = pyjax.shard_map(f, in_specs=P("x", unreduced={"y"}), out_specs=spec)
            for out in (g(u), pyjax.jit(g)(u)):
                assert in_type(out) == wanted, in_type(out)
                near(sums(out), D @ D)
        unchecked = pyjax.shard_map(lambda u: lax.psum(u, "y"), check_vma=False, out_specs=P("x"))
        near(unchecked(u), D @ D)
        assert raises(NotImplementedError, "is to be read", lambda: np.asarray(u))
    """,
    "sums that are left": """
        x = laid(P("x", "y"))
        cases = [
            (lambda a: a.sum(1), P("x", unreduced={"y"}), "f32[8@x]{U:y}", D.sum(1)),
            (lambda a: a.sum(0), P("y", unreduced={"x"}), "f32[8@y]{U:x}", D.sum(0)),
            (lambda a: a.sum(), P(unreduced={"x", "y"}), "f32[]{U:(x,y)}", D.sum()),
            (lambda a: lax.pcast(a.sum(1), "y", to="unreduced"), P("x", unreduced={"y"}),
             "f32[8@x]{U:y}", D.sum(1)),
        ]
        for check in (True, False):
            for f, spec, wanted, value in cases:
                f = f if check or "pcast" not in f.__code__.co_names else cases[0][0]
                g = pyjax.shard_map(f, in_specs=P("x", "y"), out_specs=spec, check_vma=check)
                for out in (g(x), pyjax.jit(g)(x)):
                    assert in_type(out) == wanted, in_type(out)
                    near(sums(out), value)
        rows = pyjax.vmap(pyjax.shard_map(lambda a: a.sum(), in_specs=P(("x", "y")),
                                          out_specs=P(unreduced={"x", "y"})))
        near(sums(rows(laid(P(None, ("x", "y"))))), D.sum(1))
    """,
    "reduced values": """
        x = laid(P("x", "y"))
        gather = pyjax.shard_map(lambda a: lax.all_gather(a, "y", to="reduced", tiled=True, axis=1),
                                 in_specs=P("x", "y"), out_specs=P("x", reduced={"y"}))
        for out in (gather(x), pyjax.jit(gather)(x)):
            assert in_type(out) == "f32[8@x,8]{R:y}"
            near(out, D)
        mark = pyjax.shard_map(lambda a: lax.pcast(a, "y", to="reduced"), in_specs=P("x"),
                               out_specs=P("x", reduced={"y"}))
        assert in_type(mark(laid(P("x")))) == "f32[8@x,8]{R:y}"
    """,
    "cotangents of reduced values are left as sums": """
        every, own = P(reduced={"x", "y"}), P(("x", "y"))
        f = pyjax.shard_map(lambda w, a: lax.psum(jnp.sin(a @ w).sum(), ("x", "y")),
                            in_specs=(every, own), out_specs=P())
        want = pyjax.grad(lambda w, a: jnp.sin(a @ w).sum(), (0, 1))(jnp.asarray(D), jnp.asarray(D))
        for grad in (pyjax.grad(f, (0, 1)), pyjax.jit(pyjax.grad(f, (0, 1)))):
            w, a = grad(laid(every), laid(own))
            assert (in_type(w), in_type(a)) == ("f32[8,8]{U:(x,y)}", "f32[8@(x,y),8]")
            near(sums(w), want[0])
            near(a, want[1])
        through = pyjax.grad(lambda w, a: f(reshard(w, every), a))
        w = through(laid(P()), laid(own))
        assert in_type(w) == "f32[8,8]"
        near(w, want[0])
        text = pyjax.jit(pyjax.grad(f)).lower(laid(every), laid(own)).compile().as_text()
        assert "all-reduce" not in text, text  # that of the value is not needed
    """,
    "gradients through casts and collectives": """
        whole = lambda f, n=2: pyjax.grad(f, tuple(range(n)))
        r, v = laid(P(reduced={"y"})), laid(P(None, "y"))
        square = lambda c, _: (c * c, None)
        last = lambda r: lax.fori_loop(0, 3, lambda i, c: c * c, r)
        wide = lambda r, v: r[:, :2] * v
        # On parts; and on whole arrays, of which each device uses the first two columns of r.
        tiled = lambda r: jnp.tile(r[:, :2], (1, 4))
        gathered = lambda v: lax.all_gather(v, "y", to="reduced", tiled=True, axis=1)
        cases = {
            "product": (lambda r, v: wide(r, v).sum(), lambda r, v: (tiled(r) * v).sum()),
            "scan": (lambda r, v: (lax.scan(square, r, None, length=2)[0][:, :2] * v).sum(),
                     lambda r, v: (tiled(r ** 4) * v).sum()),
            "constants of a scan": (
                lambda r, v: lax.scan(lambda c, t: (c + wide(r, t).sum(), None), v[0, 0] * 0,
                                      jnp.stack([v, v]))[0],
                lambda r, v: 2 * (tiled(r) * v).sum()),
            "loop": (lambda r, v: wide(last(r), v).sum(), lambda r, v: (tiled(r ** 8) * v).sum()),
            "cond": (lambda r, v: lax.cond(v.sum() > 2, lambda: wide(r, v).sum(),
                                           lambda: wide(r, v).sum()),
                     lambda r, v: (tiled(r) * v).sum()),
            "vmap": (lambda r, v: pyjax.vmap(lambda a, b: (a[:2] * b).sum())(r, v).sum(),
                     lambda r, v: (tiled(r) * v).sum()),
            "checkpoint": (lambda r, v: pyjax.checkpoint(lambda r: wide(jnp.sin(r), v).sum())(r),
                           lambda r, v: (tiled(jnp.sin(r)) * v).sum()),
            "scattered": (lambda r, v: lax.psum_scatter(
                lax.pcast(wide(r, v), "y", to="unreduced"), "y", tiled=True).sum(),
                lambda r, v: (tiled(r) * v).sum()),
            "gathered": (lambda r, v: (gathered(v) * r)[:, :2].sum() * v[0, 0],
                         lambda r, v: (v * r)[:, :2].sum() * v[0, ::2].sum()),
        }
        for name, (on_parts, on_whole) in cases.items():
            f = pyjax.shard_map(lambda r, v: lax.psum(on_parts(r, v), "y"),
                                in_specs=(P(reduced={"y"}), P(None, "y")), out_specs=P())
            near(f(r, v), on_whole(jnp.asarray(D), jnp.asarray(D)))
            want = whole(on_whole)(jnp.asarray(D), jnp.asarray(D))
            for grad in (whole(f), pyjax.jit(whole(f))):
                got = grad(r, v)
                assert [in_type(g) for g in got] == ["f32[8,8]{U:y}", "f32[8,8@y]"], name
                for a, b in zip(got, want):
                    near(sums(a), b)
    """,
    "a custom rule gives a sum": """
        @pyjax.custom_vjp
        def f(r, v):
            return (lax.pcast(r, "y", to="varying")[:, :2] * v).sum()
        def backward(saved, ct):
            r, v = saved
            zeros = lax.pcast(jnp.zeros((8, 8)), "y", to="varying")
            ct_r = lax.pcast(zeros.at[:, :2].set(ct * v), "y", to="unreduced")
            return ct_r, ct * lax.pcast(r, "y", to="varying")[:, :2]
        f.defvjp(lambda r, v: (f(r, v), (r, v)), backward)
        g = pyjax.shard_map(lambda r, v: lax.psum(f(r, v), "y"),
                            in_specs=(P(reduced={"y"}), P(None, "y")), out_specs=P())
        got = pyjax.grad(g, (0, 1))(laid(P(reduced={"y"})), laid(P(None, "y")))
        assert [in_type(t) for t in got] == ["f32[8,8]{U:y}", "f32[8,8@y]"]
        near(sums(got[0])[:, :2], D.reshape(8, 4, 2).sum(1))
        near(got[1], np.tile(D[:, :2], (1, 4)))
    """,
}

PROGRAMS = {
    f"sums: {name}": f"{textwrap.dedent(START)}{textwrap.dedent(body)}\npyjax.set_mesh(None)\n"
    for name, body in _BODIES.items()
}
