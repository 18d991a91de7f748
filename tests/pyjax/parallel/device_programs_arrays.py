"""Programs on arrays over eight devices: see test_several_devices.py."""

PROGRAMS = {
    "parts are kept with the memory, and go with it": """
        x = put(DATA, P("a", "b"))
        shards = x.addressable_shards
        assert shards is not x.addressable_shards and shards == x.addressable_shards
        assert shards[3].data is x.addressable_data(3)
        shards.clear()
        assert len(x.addressable_shards) == 8 == len(x.global_shards)
        before = len(pyjax.live_arrays())
        y = put(DATA + 1, P("a"))
        y.addressable_shards
        y.delete()
        del y
        assert len(pyjax.live_arrays()) == before
        # Nobody else has the memory of what was looked at: a result takes it over.
        x = put(np.zeros((8, 1024), np.float32), P(("a", "b")))
        address = x.addressable_data(0).unsafe_buffer_pointer()
        y = pyjax.jit(lambda x: x + 1, donate_argnums=0)(x)
        assert x.is_deleted() and y.addressable_data(0).unsafe_buffer_pointer() == address
        # Somebody has a part: it keeps its elements.
        held = y.addressable_shards[0].data
        pyjax.jit(lambda x: x + 1, donate_argnums=0)(y).block_until_ready()
        assert (np.asarray(held) == 1).all()
        # A part that somebody has given away is there again as long as the whole is.
        y = put(DATA, P("a", "b"))
        pyjax.jit(lambda x: x * 0 + 77, donate_argnums=0)(y.addressable_shards[0].data)
        y.addressable_data(1).delete()
        for shard in y.addressable_shards:
            np.testing.assert_array_equal(shard.data, DATA[shard.index])
        np.testing.assert_array_equal(y, DATA)
    """,
    "the whole is put together once while it is small": """
        x = put(DATA, P("a", "b"))
        address = lambda x: np.asarray(x).ctypes.data
        assert address(x) == address(x) and not np.asarray(x).flags.writeable
        large = put(np.zeros((1024, 1024), np.float32), P("a"))
        whole = np.asarray(large)
        assert np.shares_memory(np.asarray(large), whole) and not whole.flags.writeable
    """,
    "brief programs that exchange nothing wake no threads": """
        def in_turn(f, x):
            executable = pyjax.jit(f).lower(x).compile().runtime_executable()
            # On GPUs, emulated or not, threads have nothing to do with it.
            return getattr(executable.local, "in_turn", None)
        x = put(DATA, P("a", "b"))
        assert in_turn(lambda x: x + 1, x) in (True, None)
        assert not in_turn(lambda x: x.sum(), x)  # they meet
        assert not in_turn(lambda x: pyjax.debug.callback(lambda: None), x)  # it may wait
        large = put(np.ones((1024, 1024), np.float32), P("a"))
        assert not in_turn(lambda x: jnp.sin(jnp.exp(x)), large)
    """,
    "equal shardings are one object": """
        there = NamedSharding(mesh, P("a"))
        assert there is NamedSharding(mesh, P("a")) is there.update(memory_kind=there.memory_kind)
        assert there is not NamedSharding(mesh, P("a", None))
        import copy
        assert copy.copy(there) is there
    """,
    "an array like another, of another shape": """
        whole, half = put(DATA, P()), put(DATA, P("a"))
        filled = lambda x, shape: jnp.full_like(x, 2, shape=shape)
        for made in (jnp.zeros_like, jnp.ones_like, filled):
            assert made(whole, shape=(3,)).sharding == over(P())
            assert made(put(DATA, P(None, None)), shape=(3,)).sharding == over(P())
            assert made(half, shape=(3,)).devices() == {devices[0]}
            assert made(half, shape=DATA.shape).sharding == over(P("a"))
            assert made(pyjax.device_put(DATA, devices[3]), shape=(3,)).devices() == {devices[3]}
    """,
    "the specs of results are written as JAX writes them": """
        long, short = put(DATA, P("a", None)), put(DATA, P("a"))
        one = pyjax.jit(lambda x: (x, x * 2, x.T, x.sum(1)))
        assert [y.sharding.spec for y in one(long)] == [
            P("a", None), P("a", None), P(None, "a"), P("a")]
        assert [y.sharding.spec for y in one(short)] == [P("a"), P("a"), P(None, "a"), P("a")]
        assert [y.sharding.spec for y in pyjax.jit(lambda x, y: (x, y, x + y))(long, short)] == [
            P("a", None)] * 3
        assert [y.sharding.spec for y in pyjax.jit(lambda x, y: (x, y, x + y))(short, long)] == [
            P("a")] * 3
        f = pyjax.shard_map(lambda x: x + 1, mesh=mesh, in_specs=P("a", None),
                            out_specs=P("a", None))
        assert pyjax.jit(f)(DATA).sharding.spec == P("a")
        assert pyjax.jit(f)(long).sharding.spec == P("a", None)
        hold = lambda x: lax.with_sharding_constraint(x + 1, over(P("b", None)))
        assert pyjax.jit(hold)(DATA).sharding.spec == P("b")
        asked = pyjax.jit(lambda x: x + 1, out_shardings=over(P("b", None)))
        assert asked(DATA).sharding.spec == P("b", None)
    """,
    "each device calls back with its part": """
        def run(x, partitioned):
            seen = []
            note = lambda x: seen.append((np.asarray(x).shape, float(np.asarray(x).sum())))
            pyjax.jit(lambda x: pyjax.debug.callback(note, x, partitioned=partitioned))(x)
            pyjax.effects_barrier()
            return sorted(seen)
        for spec in (P("a", "b"), P("a"), P(None, "b"), P()):
            x = put(DATA, spec)
            parts = [np.asarray(shard.data) for shard in x.addressable_shards]
            assert run(x, True) == sorted((p.shape, float(p.sum())) for p in parts), spec
            assert run(x, False) == [(DATA.shape, float(DATA.sum()))]
        assert run(DATA, True) == [(DATA.shape, float(DATA.sum()))]
    """,
    "what is donated to device_put stays, as in JAX on CPUs": """
        places = [over(P("a", "b")), over(P("b", "a")), over(P()), over(P("a")), devices[1]]
        for source in (*places, devices[0]):
            for target in places:
                x = pyjax.device_put(DATA, source)
                y = pyjax.device_put(x, target, donate=True)
                assert not x.is_deleted() and (np.asarray(x) == DATA).all()
                assert (np.asarray(y) == DATA).all()
        both = lambda: pyjax.device_put(x, over(P()), donate=True, may_alias=True)
        assert raises(ValueError, "cannot be True at the same time", both)
    """,
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
    "parts come in the order of the mesh": """
        turned = Mesh(np.array(devices)[::-1].reshape(2, 4), ("a", "b"))
        over_turned = NamedSharding(turned, P("b", "a"))
        x = pyjax.device_put(DATA, over_turned)
        y = pyjax.jit(lambda v: v * 2, out_shardings=over_turned)(DATA)
        for array in (x, y, pyjax.device_put(DATA, NamedSharding(turned, P()))):
            assert [s.device.id for s in array.addressable_shards] == list(range(7, -1, -1))
            assert [s.device.id for s in array.global_shards] == list(range(7, -1, -1))
        assert np.array_equal(x.addressable_data(0), DATA[:2, :4])
        assert np.array_equal(y.addressable_data(7), 2 * DATA[6:, 4:])
    """,
    "programs on arrays without elements": """
        programs = (lambda x: x, lambda x: x.T.T + 1, lambda x: x @ (x.T @ x),
                    lambda x: lax.with_sharding_constraint(x, over(P("b", "a"))) * 2,
                    lambda x: jnp.sort(jnp.cumsum(x, 1), 0), lambda x: lax.scan(
                        lambda total, row: (total + row, row), x[:1].sum(0), x)[1])
        for shape in ((0, 8), (8, 0), (0, 0)):
            for one, other in ((P("a", "b"), P()), (P(), P("a", "b")), (P("a"), P("b", "a"))):
                x = put(np.zeros(shape, np.float32), one)
                for number, program in enumerate(programs):
                    y = pyjax.jit(program, out_shardings=over(other))(x)
                    assert y.shape == shape and y.sharding == over(other), (shape, one, number)
        x = put(np.zeros((0, 8), np.float32), P("a"))
        assert np.array_equal(pyjax.jit(lambda x: jnp.ones(8) + x.sum(0))(x), np.ones(8))
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
    "jit moves arguments that are cut alike to other devices": """
        at = lambda ids, spec, *axes: NamedSharding(
            Mesh(np.array(devices)[ids].reshape(*[n for _, n in axes] or [-1]),
                 tuple(name for name, _ in axes) or ("x",)), spec)
        first, last, turned, two = [0, 1, 2, 3], [4, 5, 6, 7], [3, 2, 1, 0], [0, 1]
        square = ("p", 2), ("q", 2)
        here, whole = at(first, P("x")), at(first, P())
        move = lambda wanted, x, **how: pyjax.jit(lambda v: v + 1, in_shardings=wanted, **how)(x)
        mapped = pyjax.pmap(lambda v: v, devices=devices[4:])(DATA.reshape(4, 2, 8))
        for wanted, given in [
            (here, pyjax.device_put(DATA, at(last, P("x")))),
            (here, pyjax.device_put(DATA, at(turned, P("x")))),
            (here, pyjax.device_put(DATA, at([2, 3, 4, 5], P("z"), ("z", 4)))),
            (here, pyjax.device_put(DATA, at(last, P(("p", "q")), *square))),
            (whole, pyjax.device_put(DATA, at(last, P()))),
            (whole, pyjax.device_put(DATA, at(two, P()))),
            (whole, pyjax.device_put(DATA, devices[5])),
            (pyjax.sharding.SingleDeviceSharding(devices[6]), pyjax.device_put(DATA, whole)),
        ]:
            assert given.committed
            for how in ({}, {"donate_argnums": 0}):
                got = move(wanted, given, **how)
                assert got.sharding.device_set == wanted.device_set, got.sharding
                assert np.array_equal(got, DATA + 1)
            assert not given.is_deleted()
        got = move(here, mapped)
        assert got.sharding.device_set == here.device_set
        assert np.array_equal(got, DATA.reshape(4, 2, 8) + 1)
        both = pyjax.jit(lambda v, w: v - w, in_shardings=(here, here))
        got = both(pyjax.device_put(2 * DATA, at(turned, P("x"))),
                   pyjax.device_put(DATA, at(last, P("x"))))
        assert np.array_equal(got, DATA)
        with pyjax.set_mesh(here.mesh):
            got = move(P("x"), pyjax.device_put(DATA, at(last, P("x"))))
            assert got.sharding.device_set == here.device_set and np.array_equal(got, DATA + 1)
        for wanted, given in [(here, whole), (here, at(two, P("x"))), (here, at(last, P())),
                              (whole, at(last, P("x"))), (here, at(last, P(None, "x")))]:
            message = (r"does not match the sharding on the respective arg.*over devices "
                       rf"\\[{str([d.id for d in given.mesh.devices.flat])[1:-1]}\\]"
                       r".*it is not cut anew")
            x = pyjax.device_put(DATA, given)
            assert raises(ValueError, "(?s)" + message, lambda: move(wanted, x)), given
        alone = pyjax.sharding.SingleDeviceSharding(devices[0])
        assert raises(ValueError, "does not match", lambda: move(
            alone, pyjax.device_put(DATA, here)))
        with pyjax.transfer_guard_device_to_device("disallow"):
            x = pyjax.device_put(DATA, at(last, P("x")))
            assert raises(pyjax.errors.JaxRuntimeError, "isallowed", lambda: move(here, x))
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
    "what is donated lies as it is to, however that is written": """
        flat = Mesh(np.array(devices).reshape(8, 1), ("i", "one"))
        of_flat = lambda *spec: NamedSharding(flat, P(*spec))
        pairs = [
            (over(P("a")), over(P("a", None))), (over(P("a", None)), over(P("a"))),
            (over(P("a", "b")), over(P(("a",), ("b",)))), (over(P(("a", "b"))), of_flat("i")),
            (of_flat("i"), of_flat("i", "one")),
            (of_flat("i", "one"), over(P(("a", "b"), None))), (over(P()), of_flat("one")),
        ]
        for lies, wanted in pairs:
            f = pyjax.jit(lambda x: x + 1, donate_argnums=0, in_shardings=wanted)
            x = pyjax.device_put(DATA, lies)
            before = [s.data.unsafe_buffer_pointer() for s in x.addressable_shards]
            y = f(x)
            assert x.is_deleted() and np.array_equal(y, DATA + 1)
            after = [s.data.unsafe_buffer_pointer() for s in y.addressable_shards]
            # Replicas share memory, which is no device's own to give away.
            assert before == after or len({*before}) < 8, (lies, wanted)
            assert raises(RuntimeError, "has been deleted", lambda: f(x))
    """,
    "a program for a sharding that is written otherwise says so": """
        import logging
        said = []
        handler = logging.Handler()
        handler.emit = lambda record: said.append(record.getMessage())
        logging.getLogger("pyjax").addHandler(handler)
        f = pyjax.jit(lambda x: x * 1.625)
        with pyjax.explain_cache_misses(True):
            f(put(DATA, P("a")))
            f(put(DATA, P("a", None)))
        logging.getLogger("pyjax").removeHandler(handler)
        assert "spec=P('a',)" in said[-1] and "spec=P('a', None)" in said[-1], said
        assert "forgotten" not in said[-1], said
    """,
    "of an uncommitted array whose replicas are donated nothing is left": """
        taken = dict.fromkeys([over(P()), over(P(None, None)), over(P("a"))], False)
        for wanted in taken:
            f = pyjax.jit(lambda x: x + 1, donate_argnums=0, in_shardings=wanted)
            x = jnp.asarray(DATA)
            assert np.array_equal(f(x), DATA + 1)
            assert x.is_deleted() == wanted.is_fully_replicated, wanted
        f = pyjax.jit(lambda x: x + 1, in_shardings=over(P()))
        x = jnp.asarray(DATA)
        assert np.array_equal(f(x), DATA + 1) and not x.is_deleted()
    """,
    "an array in memory of its own, or in the same": """
        there = over(P("a"))
        address = lambda x: [s.data.unsafe_buffer_pointer() for s in x.addressable_shards]
        makes = [
            (lambda: jnp.ones(8), devices[0]), (lambda: jnp.ones(8), None),
            (lambda: pyjax.device_put(jnp.ones(8), devices[0]), devices[0]),
            (lambda: put(np.ones(8), P("a")), there),
            (lambda: put(np.ones(8), P("a")), over(P(("a",)))),
            (lambda: put(np.ones(8), P("a")), None),
        ]
        for make, target in makes:
            x = make()
            shared, own = pyjax.device_put(x, target), pyjax.device_put(x, target, may_alias=False)
            assert address(shared) == address(x), target
            assert not {*address(own)} & {*address(x)}, target
            assert own.committed == shared.committed and own.sharding == shared.sharding
            pyjax.jit(lambda v: v + 1, donate_argnums=0)(shared)
            assert (np.asarray(own) == 1).all()
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
            # Programs without arguments, and without anything.
            for made in (pyjax.jit(lambda: jnp.ones(8))(), jnp.linspace(0, 1, 8)):
                assert made.sharding == over(P()), made.sharding
            assert pyjax.jit(lambda: ())() == ()
            y = pyjax.jit(lambda x: pyjax.lax.with_sharding_constraint(x, P(None, "b")))(x)
            assert y.sharding.spec == P(None, "b")
    """,
    "a constraint under vmap": """
        # The mapped dimension is cut along spmd_axis_name; without one nothing is said of it.
        inner = lambda *spec: lambda v: lax.with_sharding_constraint(2 * v, over(P(*spec)))
        x = np.arange(8 * 6 * 4.0, dtype=np.float32).reshape(8, 6, 4)
        cases = [
            (inner("b"), {"spmd_axis_name": "a"}, x[:, 0], P("a", "b")),
            (inner(None, "b"), {"spmd_axis_name": "a"}, x, P("a", None, "b")),
            (inner(), {"spmd_axis_name": ("a", "b")}, x, P(("a", "b"))),
            (inner("b"), {"spmd_axis_name": "a", "in_axes": 1, "out_axes": 1}, x[:, 0].T,
             P("b", "a")),
            (inner("b"), {"spmd_axis_name": "a"}, x[:7, 0], P(None, "b")),  # 7 is not cut
            (inner(None, "b"), {}, put(x, P("a")), P("a", None, "b")),
        ]
        for f, how, value, spec in cases:
            for run in (pyjax.vmap(f, **how), pyjax.jit(pyjax.vmap(f, **how))):
                y = run(value)
                assert y.sharding == over(spec), (how, y.sharding.spec, spec)
                assert np.array_equal(y, 2 * np.asarray(value))
        loss = lambda v: (inner("b")(v) ** 2).sum()
        y = pyjax.jit(pyjax.vmap(pyjax.grad(loss), spmd_axis_name="a"))(x[:, 0])
        assert y.sharding.spec == P("a", "b") and np.array_equal(y, 8 * x[:, 0])
        both = pyjax.vmap(pyjax.vmap(inner("b"), spmd_axis_name="a"), in_axes=1, out_axes=1)
        assert pyjax.jit(both)(x).sharding.spec == P("a", None, "b")
        # Inside of a shard_map that cuts the dimension itself.
        g = pyjax.shard_map(lambda v: lax.with_sharding_constraint(2 * v, P("b")), mesh=mesh,
                            in_specs=P(), out_specs=P(), axis_names={"a"})
        y = pyjax.jit(pyjax.vmap(g, spmd_axis_name="a"))(x[:, 0])
        assert y.sharding.spec == P("a", "b") and np.array_equal(y, 2 * x[:, 0])
    """,
    "in_shardings of a function that another one calls": """
        x = put(DATA, P())
        inner = lambda f, *entries, **how: pyjax.jit(f, in_shardings=over(P(*entries)), **how)
        double = lambda v: v * 2
        programs = [
            (lambda v: inner(double, None, "b")(v), P(None, "b")),
            (lambda v: inner(double, "a", donate_argnums=0)(v + 1) - 2, P("a")),
            (lambda v: inner(lambda w, n: w * n, "a", static_argnums=1)(v, 2), P("a")),
            (lambda v: pyjax.vmap(inner(double, "b"))(v), P(None, "b")),
            (lambda v: pyjax.grad(lambda w: inner(lambda u: (u * u).sum(), "a")(w))(v), P("a")),
            (lambda v: lax.scan(lambda c, _: (inner(double, "a")(c), None), v, None, 1)[0],
             P("a")),
        ]
        for f, spec in programs:
            y = pyjax.jit(f)(x)
            assert y.sharding == over(spec) and np.array_equal(y, 2 * DATA), y.sharding
        product = lambda v: inner(lambda w: w @ w.T, "b", out_shardings=over(P()))(v)
        assert "all-gather" in pyjax.jit(product).lower(x).compile().as_text()
        turned = NamedSharding(Mesh(np.array(devices)[::-1].reshape(2, 4), ("a", "b")), P("a"))
        half = NamedSharding(Mesh(np.array(devices[:4]), ("h",)), P("h"))
        for other in (turned, half):
            f = pyjax.jit(lambda v: pyjax.jit(double, in_shardings=other)(v))
            assert raises(ValueError, "Received incompatible devices", lambda: f(x))
        mapped = lambda g: pyjax.shard_map(g, mesh=mesh, in_specs=P("a"), out_specs=P("a"))
        for how in ("in_shardings", "out_shardings"):
            f = mapped(lambda v: pyjax.jit(double, **{how: over(P("a"))})(v))
            assert raises(ValueError, how + " of jit say .* manual there", lambda: f(x))
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
    "arrays like others lie where those do": """
        x, there = put(DATA, P("a")), pyjax.device_put(np.ones(3, np.float32), devices[3])
        fill = (jnp.zeros_like, jnp.ones_like, jnp.empty_like, lambda v: jnp.full_like(v, 3),
                lambda v: lax.full_like(v, 2), lambda v: jnp.zeros_like(v, dtype=int),
                lambda v: jnp.ones_like(v, shape=v.shape))
        for f in fill:
            for like in (x, there):
                y = f(like)
                assert y.sharding == like.sharding and y.committed
                assert len({*np.asarray(y).ravel().tolist()}) == 1
            described = pyjax.ShapeDtypeStruct((8, 8), np.float32, sharding=over(P("b")))
            assert f(described).sharding == over(P("b"))
            assert not f(jnp.ones(3)).committed and not f(np.ones(3)).committed
        assert jnp.zeros_like(x, shape=(4,)).devices() == {devices[0]}
        assert jnp.zeros_like(x, device=over(P())).sharding == over(P())
        weak = pyjax.device_put(3.0, devices[2])
        assert jnp.zeros_like(weak).devices() == {devices[0]}
        # In a program that is traced nothing is said of where it lies.
        like = lambda v: v + jnp.ones_like(x)
        assert pyjax.jit(like)(DATA).devices() == {devices[0]}
        assert pyjax.jit(like)(pyjax.device_put(DATA, devices[3])).devices() == {devices[3]}
        part = lambda v: v + jnp.full_like(x, 2)[:4] + lax.full_like(x, 3)[:4]
        mapped = pyjax.shard_map(part, mesh=mesh, in_specs=P("a"), out_specs=P("a"))
        for run in (mapped, pyjax.jit(mapped)):
            assert np.array_equal(run(x), DATA + 5)
        assert np.array_equal(pyjax.pmap(lambda v: v + jnp.ones_like(x)[0])(DATA), DATA + 1)
        moments = pyjax.tree.map(jnp.zeros_like, {"w": x, "b": there})
        assert moments["w"].sharding == over(P("a")) and moments["b"].devices() == {devices[3]}
    """,
    "the format of an array": """
        x = put(DATA, P("a"))
        assert x.format.sharding == over(P("a"))
        assert x.format.layout.major_to_minor == (0, 1)
        assert np.array_equal(pyjax.device_put(DATA, x.format), DATA)
        from pyjax.experimental.layout import Format, Layout
        wanted = put(DATA, P("b")).format
        f = pyjax.jit(lambda v: v + 1, in_shardings=x.format, out_shardings=wanted)
        assert f(DATA).sharding == over(P("b"))
        turned = Format(Layout((1, 0)), over(P("a")))
        assert raises(NotImplementedError, "in_shardings: Layout",
                      lambda: pyjax.jit(lambda v: v, in_shardings=turned))
        assert jnp.ones(3).format.sharding == jnp.ones(3).sharding
    """,
    "filled arrays": """
        x = lax.full((8, 8), 2.0, sharding=over(P("a", "b")))
        assert x.sharding == over(P("a", "b")) and float(x.sum()) == 128
        assert lax.full_like(x, 3.0, sharding=over(P("b"))).sharding == over(P("b"))
        assert jnp.ones(8, device=over(P("b"))).sharding == over(P("b"))
        inside = pyjax.jit(lambda: lax.full((8,), 1.0, sharding=over(P("a"))))()
        assert inside.sharding == over(P("a"))
    """,
    "compiled programs as bytes": """
        from pyjax.experimental.serialize_executable import deserialize_and_load, serialize
        big = put(np.ones((128, 8), np.float32), P("b"))
        f = pyjax.jit(lambda x, w: (jnp.tanh(x @ w), {"s": (big @ x).sum(0), "x": x + 1}),
                      in_shardings=(over(P("a")), None))
        given = lambda: (put(DATA / 64, P("a")), put(DATA, P(None, "b")))
        compiled = f.lower(*given()).compile()
        parts = serialize(compiled)
        for loaded in (deserialize_and_load(*parts), deserialize_and_load(
                *parts, execution_devices=devices)):
            want, got = compiled(*given()), loaded(*given())
            x, w = given()
            for a, b in zip(pyjax.tree.leaves(want), pyjax.tree.leaves(got)):
                assert a.sharding == b.sharding and np.array_equal(a, b), (a.sharding, b.sharding)
            assert loaded.input_shardings == compiled.input_shardings
            assert raises(ValueError, "do not match", lambda: loaded(put(DATA, P("b")), w))
        turned = deserialize_and_load(*parts, execution_devices=devices[::-1])
        there = Mesh(np.array(devices)[::-1].reshape(2, 4), ("a", "b"))
        x, w = [pyjax.device_put(v, NamedSharding(there, s))
                for v, s in ((DATA / 64, P("a")), (DATA, P(None, "b")))]
        got = turned(x, w)[0]
        assert np.array_equal(got, want[0]) and got.sharding.mesh == there
        assert raises(ValueError, "runs on 8 devices, and execution_devices has 4",
                      lambda: deserialize_and_load(*parts, execution_devices=devices[:4]))
    """,
    "arrays that lie alike": """
        from pyjax.experimental.shard_alike import shard_alike
        x, y = put(DATA, P("a", "b")), 2 * DATA
        one, other = pyjax.jit(lambda x, y: shard_alike(x, y + 1))(x, y)
        assert other.sharding == one.sharding == over(P("a", "b"))
        assert np.array_equal(one, DATA) and np.array_equal(other, y + 1)
        f = lambda x: (shard_alike(x, x.T @ x)[1] ** 2).sum()
        near = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4)
        want = pyjax.grad(lambda x: ((x.T @ x) ** 2).sum())(DATA / 64)
        near(pyjax.jit(pyjax.grad(f))(x / 64), want)
        both = pyjax.vmap(lambda x, y: shard_alike(x, y))(x, x)
        assert all(np.array_equal(v, DATA) for v in both)
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
        inside = io.StringIO()
        with contextlib.redirect_stdout(inside):
            look = lambda x: pyjax.debug.visualize_array_sharding(x, use_color=False)
            pyjax.jit(lambda x: (look(x), x)[1])(put(DATA, P("a", "b")))
        assert inside.getvalue() == out.getvalue()
        seen = []
        look = lambda x: pyjax.debug.inspect_array_sharding(x, callback=seen.append)
        def f(x):
            y = x @ x.T
            look(y)
            pyjax.vmap(look)(x)
            return pyjax.lax.scan(lambda c, v: (look(c), (c + v, None))[1], x[0], x)[0]
        pyjax.jit(pyjax.value_and_grad(lambda x: f(x).sum()))(put(DATA, P("a")))
        assert seen[0] == over(P("a")) and over(P("a")) in seen[1:] and len(seen) >= 3, seen
        seen.clear()
        pyjax.jit(lambda x: (look(x), x)[1])(1.0)
        assert [s.device_set for s in seen] == [{devices[0]}]
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
}
