"""Arrays and programs over eight devices of this machine. In a process of its own, where there are
as many; each entry of the table is a test."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

PROGRAMS = {
    "device_put splits, and puts together": """
        x = put(DATA, P("a", "b"))
        assert np.array_equal(x, DATA) and x.sharding == over(P("a", "b"))
        assert x.devices() == {*devices} and x.committed and not x.is_fully_replicated
        assert [s.device.id for s in x.addressable_shards] == list(range(8))
        for shard in x.addressable_shards:
            assert shard.data.devices() == {shard.device}
            assert np.array_equal(shard.data, DATA[shard.index])
    """,
    "replicas are numbered": """
        x = put(DATA, P("a"))
        assert [s.replica_id for s in x.addressable_shards] == [0, 1, 2, 3] * 2
        assert put(DATA, P()).is_fully_replicated
    """,
    "between shardings": """
        specs = [P(), P("a"), P("b"), P("a", "b"), P("b", "a"), P(("a", "b")), P(("b", "a")),
                 P(None, "a"), P(None, "b")]
        for one in specs:
            for other in specs:
                y = pyjax.device_put(put(DATA, one), over(other))
                assert y.sharding == over(other) and np.array_equal(y, DATA), (one, other)
        assert pyjax.device_put(put(DATA, P("a")), devices[3]).devices() == {devices[3]}
        other = Mesh(np.array(devices).reshape(4, 2), ("c", "d"))
        y = pyjax.device_put(put(DATA, P("a", "b")), NamedSharding(other, P("c", "d")))
        assert np.array_equal(y, DATA) and y.sharding.mesh == other
    """,
    "every dtype, scalars and empty arrays": """
        for dtype in (bool, "int8", "uint4", "bfloat16", "float16", "float8_e4m3fn", "complex64"):
            x = DATA.astype(jnp.dtype(dtype))
            assert np.array_equal(np.asarray(put(x, P("a", "b"))), x), dtype
        assert float(put(np.float32(3), P())) == 3
        assert put(np.zeros((0, 8), np.float32), P(None, "a")).shape == (0, 8)
        keys = pyjax.random.split(pyjax.random.key(0), 8)
        there = put(keys, P("a"))
        assert there.sharding == over(P("a"))
        bits = lambda k: pyjax.vmap(lambda one: pyjax.random.normal(one, (3,)))(k)
        assert np.array_equal(pyjax.jit(bits)(there), bits(keys))
    """,
    "single operations": """
        x = put(DATA, P("a", "b"))
        assert (x + 1).sharding == over(P("a", "b"))
        for f in (lambda x: x * x - 1, lambda x: x.T, lambda x: x.sum(0), lambda x: x[2],
                  lambda x: x @ x, lambda x: jnp.sort(x, 0), lambda x: x.reshape(4, 16),
                  lambda x: jnp.concatenate([x, x]), lambda x: x.at[1, 2].set(5.0),
                  lambda x: jnp.cumsum(x, 1), lambda x: x[1:7:2, ::-1], lambda x: x.astype(int),
                  lambda x: jnp.where(x > 3, x, 0), lambda x: jnp.linalg.norm(x),
                  lambda x: x[jnp.array([0, 3])], lambda x: jnp.argmax(x, 1)):
            want = np.asarray(f(jnp.asarray(DATA)))
            np.testing.assert_allclose(np.asarray(f(x)), want, rtol=1e-5)
            assert f(x).devices() == {*devices}
        rows = [np.asarray(row) for row in x]
        assert np.array_equal(rows, DATA)
    """,
    "jit: the compiler chooses": """
        f = pyjax.jit(lambda x, w: (jnp.tanh(x @ w), (x @ w).sum()))
        x, w = put(DATA, P("a")), put(DATA.T, P(None, "b"))
        y, total = f(x, w)
        assert y.sharding == over(P("a", "b")) and total.sharding == over(P())
        np.testing.assert_allclose(y, np.tanh(DATA @ DATA.T), rtol=1e-5)
        text = f.lower(x, w).compile().as_text()
        assert text.count(" all-reduce(") == 1 and "all-gather" not in text, text
    """,
    "jit: in_shardings and out_shardings": """
        f = pyjax.jit(lambda x: x * 2, in_shardings=over(P("a")), out_shardings=over(P(None, "b")))
        y = f(DATA)
        assert y.sharding == over(P(None, "b")) and np.array_equal(y, DATA * 2)
        assert np.array_equal(f(put(DATA, P("a"))), DATA * 2)
        compiled = f.lower(DATA).compile()
        assert compiled.input_shardings[0][0] == over(P("a"))
        assert compiled.output_shardings == over(P(None, "b"))
        assert np.array_equal(compiled(DATA), DATA * 2)
        assert raises(ValueError, "does not match", lambda: f(put(DATA, P("b"))))
        assert raises(ValueError, "do not match", lambda: compiled(put(DATA, P("b"))))
    """,
    "constraints": """
        def f(x):
            y = pyjax.lax.with_sharding_constraint(x @ x, over(P("b", "a")))
            return jnp.sin(y)
        y = pyjax.jit(f)(DATA)
        assert y.sharding == over(P("b", "a"))
        np.testing.assert_allclose(y, np.sin(DATA @ DATA), rtol=1e-4)
        z = pyjax.lax.with_sharding_constraint(jnp.ones(8), over(P("a")))
        assert z.sharding == over(P("a"))
    """,
    "what a program closes over": """
        w = put(DATA, P("a", "b"))
        f = pyjax.jit(lambda x: x + w)
        np.testing.assert_array_equal(f(DATA), 2 * DATA)
        assert f(DATA).devices() == {*devices}
        big = put(np.ones((512, 512), np.float32), P("a", "b"))
        assert float(pyjax.jit(lambda x: (x * big).sum())(2.0)) == 2 * 512 * 512
    """,
    "donation": """
        f = pyjax.jit(lambda x: x + 1, donate_argnums=0)
        x = put(DATA, P("a", "b"))
        before = [s.data.unsafe_buffer_pointer() for s in x.addressable_shards]
        y = f(x)
        assert x.is_deleted() and np.array_equal(y, DATA + 1)
        kept = put(DATA, P("a", "b"))
        shards = kept.addressable_shards
        z = f(kept)
        assert kept.is_deleted() and np.array_equal(shards[0].data, DATA[:4, :2])
        assert np.array_equal(z, DATA + 1)
    """,
    "derivatives and loops": """
        def loss(w, x):
            step = lambda c, _: (jnp.tanh(c @ w), None)
            return pyjax.lax.scan(step, x, None, 3)[0].sum()
        grad = pyjax.jit(pyjax.grad(loss))
        w, x = (DATA / 64).astype(np.float32), (DATA / 32).astype(np.float32)
        want = grad(w, x)
        got = grad(put(w, P(None, "b")), put(x, P("a")))
        np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=2e-5, atol=1e-5)
        grow = lambda x: lax.while_loop(lambda c: c.sum() < 1e4, lambda c: c * 2, x)
        count = pyjax.jit(grow)
        assert np.array_equal(count(put(DATA, P("a", "b"))), count(DATA))
        either = pyjax.jit(lambda p, x: pyjax.lax.cond(p, lambda x: x.T, lambda x: x + 1, x))
        assert np.array_equal(either(True, put(DATA, P("a", "b"))), DATA.T)
    """,
    "references": """
        ref = pyjax.new_ref(put(DATA, P("a", "b")))
        @pyjax.jit
        def double(ref):
            ref[...] = ref[...] * 2
        double(ref); double(ref)
        assert np.array_equal(ref[...], 4 * DATA) and ref[...].sharding == over(P("a", "b"))
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
    "arrays from parts": """
        sharding = over(P("a", "b"))
        seen = []
        def part(index):
            seen.append(index)
            return DATA[index]
        x = pyjax.make_array_from_callback((8, 8), sharding, part)
        assert np.array_equal(x, DATA) and x.sharding == sharding and len(seen) == 8
        places = sharding.devices_indices_map((8, 8))
        parts = [pyjax.device_put(DATA[i], d) for d, i in places.items()]
        y = pyjax.make_array_from_single_device_arrays((8, 8), sharding, parts)
        assert np.array_equal(y + 0, DATA)
        z = pyjax.make_array_from_process_local_data(sharding, DATA)
        assert np.array_equal(z, DATA) and z.sharding == sharding
        del parts[0]
        assert raises(ValueError, "8 per-device arrays",
                      lambda: pyjax.make_array_from_single_device_arrays((8, 8), sharding, parts))
    """,
    "a mesh in context": """
        with pyjax.set_mesh(mesh):
            x = pyjax.device_put(DATA, P("a"))
            assert x.sharding == over(P("a"))
            assert jnp.ones(8).devices() == {*devices}
            y = pyjax.jit(lambda x: pyjax.lax.with_sharding_constraint(x, P(None, "b")))(x)
            assert y.sharding.spec == P(None, "b")
    """,
    "explicit axes": """
        explicit = pyjax.make_mesh((4,), ("x",), devices=devices[:4])
        with pyjax.set_mesh(explicit):
            assert jnp.zeros((8, 2), out_sharding=P("x")).sharding.spec == P("x", None)
            x = pyjax.device_put(DATA, P("x"))
            assert (x * 2).sharding.spec == P("x", None), (x * 2).sharding
            assert pyjax.reshard(x, P(None, "x")).sharding.spec == P(None, "x")
            drawn = pyjax.random.normal(pyjax.random.key(0), (8,), out_sharding=P("x"))
            assert drawn.sharding.spec == P("x")
        assert np.array_equal(drawn, pyjax.random.normal(pyjax.random.key(0), (8,)))
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
    "filled arrays": """
        x = lax.full((8, 8), 2.0, sharding=over(P("a", "b")))
        assert x.sharding == over(P("a", "b")) and float(x.sum()) == 128
        assert lax.full_like(x, 3.0, sharding=over(P("b"))).sharding == over(P("b"))
        assert jnp.ones(8, device=over(P("b"))).sharding == over(P("b"))
        inside = pyjax.jit(lambda: lax.full((8,), 1.0, sharding=over(P("a"))))()
        assert inside.sharding == over(P("a"))
    """,
    "copies, pickles, text": """
        import copy, pickle
        x = put(DATA, P("a", "b"))
        assert np.array_equal(pickle.loads(pickle.dumps(x)), DATA)
        assert copy.copy(x).sharding == x.sharding and np.array_equal(copy.deepcopy(x), DATA)
        assert str(x) == str(DATA) and x.tolist() == DATA.tolist()
        assert np.array_equal(pyjax.device_get(x), DATA)
        x.delete()
        assert x.is_deleted() and raises(RuntimeError, "deleted", lambda: x + 1)
    """,
    "drawings": """
        import contextlib, io
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            pyjax.debug.visualize_array_sharding(put(DATA, P("a", "b")), use_color=False)
        assert all(f"CPU {k}" in out.getvalue() for k in range(8)), out.getvalue()
    """,
    "devices that do not go together": """
        f = pyjax.jit(lambda x, y: x + y)
        x = put(DATA, P("a"))
        one = pyjax.device_put(DATA, devices[1])
        assert raises(ValueError, "committed to different devices", lambda: f(x, one))
        half = NamedSharding(Mesh(devices[:4], ("h",)), P("h"))
        assert raises(ValueError, "committed to different devices",
                      lambda: f(x, pyjax.device_put(DATA, half)))
        g = pyjax.jit(lambda x: pyjax.lax.with_sharding_constraint(x, half))
        assert raises(ValueError, "incompatible devices", lambda: g(x))
        assert raises(ValueError, "not divisible", lambda: put(np.ones(7, np.float32), P("a")))
        make = lambda: pyjax.jit(lambda x: x, in_shardings=over(P("a")), out_shardings=half)
        assert raises(ValueError, "different devices", make)
    """,
    "threads at once": """
        import threading
        f = pyjax.jit(lambda x: (x @ x.T).sum(0))
        x = put(DATA, P("a", "b"))
        want, bad = np.asarray(f(x)), []
        def work():
            for _ in range(20):
                if not np.array_equal(f(x), want):
                    bad.append(1)
        threads = [threading.Thread(target=work) for _ in range(4)]
        [t.start() for t in threads]; [t.join(60) for t in threads]
        assert not bad and not any(t.is_alive() for t in threads)
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

START = """
import json, re, textwrap, traceback
import numpy as np
import pyjax, pyjax.numpy as jnp
from pyjax import lax
from pyjax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P
pyjax.config.update("jax_num_cpu_devices", 8)
devices = pyjax.devices()
mesh = Mesh(np.array(devices).reshape(2, 4), ("a", "b"))
DATA = np.arange(64, dtype=np.float32).reshape(8, 8)
over = lambda spec: NamedSharding(mesh, spec)
put = lambda x, spec: pyjax.device_put(x, over(spec))

def raises(kind, message, function):
    try:
        function()
    except kind as error:
        assert re.search(message, str(error)), str(error)
        return True
    return False

answers = {}
for name, text in programs.items():
    try:
        exec(textwrap.dedent(text), dict(globals()))
        answers[name] = ""
    except BaseException:
        answers[name] = traceback.format_exc()
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def answers() -> dict[str, str]:
    code = f"programs = {PROGRAMS!r}\n{START}"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.mark.parametrize("name", PROGRAMS)
def test_on_eight_devices(answers: dict[str, str], name: str) -> None:
    assert not answers[name], answers[name]
