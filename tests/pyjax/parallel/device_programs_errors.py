"""What is refused of arrays and programs over eight devices: see test_several_devices.py."""

PROGRAMS = {
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
    "a NaN on one of several devices": """
        at = lambda f, out: pyjax.shard_map(
            f, mesh=mesh, in_specs=P("b"), out_specs=out, check_vma=False)
        logarithm = at(lambda v: jnp.log(v), P("b"))
        total = at(lambda v: lax.psum(jnp.log(v), "b"), P())
        rounds = at(lambda v: lax.scan(
            lambda c, w: (c + jnp.log(w),) * 2, jnp.float32(0), v)[1], P("b"))
        negative = np.float32([1, 2, 3, 4, 5, -1, 7, 8])
        by_device = pyjax.pmap(lambda v: lax.psum(jnp.log(v), "i"), axis_name="i")
        found = r"invalid value \\(nan\\) encountered in log.*element \\[.*log\\(-1.0\\) = nan"
        with pyjax.debug_nans(True):
            for f in (logarithm, total, rounds, jnp.log):
                for run in (f, pyjax.jit(f), pyjax.jit(lambda v: f(v) + 1)):
                    for value in (negative, put(negative, P("b"))):
                        assert raises(FloatingPointError, found, lambda: run(value))
            assert raises(FloatingPointError, found, lambda: by_device(negative))
            assert np.isfinite(np.asarray(pyjax.jit(total)(abs(negative)))).all()
        repeated = at(lambda v: lax.fori_loop(0, 4, lambda i, c: jnp.log(c), v + 2), P("b"))
        carried = at(lambda v: lax.scan(lambda c, _: (jnp.log(c), None), v + 2, None, 4)[0], P("b"))
        twice = lambda v: pyjax.pure_callback(lambda w: np.asarray(w) * 2, v, v)
        with pyjax.debug_nans(True):
            for f, loop in ((repeated, "fori_loop"), (carried, "scan")):
                assert raises(FloatingPointError, "(?s)in log.*in iteration . of " + loop,
                              lambda: pyjax.jit(f)(abs(negative)))
            # What Python gives is remembered for the search.
            for f in (twice, at(twice, P("b"))):
                assert np.array_equal(pyjax.jit(f)(abs(negative)), 2 * abs(negative))
                assert raises(FloatingPointError, "nan.*in log",
                              lambda: pyjax.jit(lambda v: jnp.log(f(v)))(put(negative, P("b"))))
        with pyjax.debug_infs(True):
            zero = put(np.float32([1, 2, 3, 4, 5, 0, 7, 8]), P("b"))
            invert = pyjax.jit(at(lambda v: 1 / v, P("b")))
            assert raises(FloatingPointError, "invalid value .inf. encountered in div",
                          lambda: invert(zero))
    """,
    "constraints, arguments and results that do not divide": """
        f = pyjax.jit(lambda x: lax.with_sharding_constraint(x, over(P("a"))) + 1)
        y = f(np.ones(7))
        assert np.array_equal(y, np.full(7, 2.0)) and y.sharding == over(P())
        from pyjax.sharding.shardings import IndivisibleError as uneven
        assert raises(uneven, "not divisible by 2",
                      lambda: pyjax.jit(lambda x: x, in_shardings=over(P("a")))(np.ones(7)))
        assert raises(uneven, "not divisible by 2",
                      lambda: pyjax.jit(lambda x: x[1:], out_shardings=over(P("a")))(np.ones(8)))
        assert raises(uneven, "not divisible by 2",
                      lambda: lax.with_sharding_constraint(jnp.ones(7), over(P("a"))))
        assert raises(ValueError, "rank at least 2", lambda: pyjax.jit(
            lambda x: lax.with_sharding_constraint(x, over(P("a", "b"))))(np.ones(8)))
        message = "argument x of type float32.7. is not evenly divisible"
        assert raises(ValueError, message, lambda: pyjax.shard_map(
            lambda x: x, mesh=mesh, in_specs=P("a"), out_specs=P("a"))(np.ones(7)))
    """,
    "meshes of other devices in one program": """
        half = NamedSharding(Mesh(devices[:4], ("h",)), P("h"))
        turned = NamedSharding(Mesh(np.array(devices)[::-1].reshape(2, 4), ("a", "b")), P("a"))
        x, elsewhere = put(DATA, P("a")), pyjax.device_put(DATA, half)
        constrain = lax.with_sharding_constraint
        identity = lambda m, s: pyjax.shard_map(lambda x: x, mesh=m, in_specs=s, out_specs=s)
        here, there = identity(mesh, P("a")), identity(half.mesh, P("h"))
        for program, argument in (
            (lambda x: constrain(x, turned), x),
            (lambda x: constrain(constrain(x, over(P("a"))), turned), DATA),
            (lambda x: constrain(constrain(x, over(P("a"))), half), DATA),
            (lambda x: pyjax.device_put(x, turned), x),
            (here, elsewhere),
            (lambda x: there(here(x)), DATA),
        ):
            assert raises(ValueError, "Received incompatible devices",
                          lambda: pyjax.jit(program)(argument)), program
        assert raises(ValueError, "Received incompatible devices", lambda: here(elsewhere))
        assert np.array_equal(pyjax.device_put(x, turned), DATA)
        assert np.array_equal(pyjax.jit(lambda x: x + elsewhere)(x), 2 * DATA)
        alone = pyjax.device_put(DATA, devices[3])
        assert raises(ValueError, "Sharding passed to jit does not match", lambda: pyjax.jit(
            lambda x: x, in_shardings=over(P("a")))(alone))
    """,
    "partners that never come": """
        alone = lambda x: lax.cond(lax.axis_index("a") == 0, lambda x: lax.psum(x, "a"),
                                   lambda x: x, x)
        f = pyjax.shard_map(alone, mesh=mesh, in_specs=P("a"), out_specs=P("a"), check_vma=False)
        message = "partners that never come.*the collective comes from .*:[0-9]+"
        run = lambda: pyjax.jit(f)(DATA).block_until_ready()
        assert raises(pyjax.errors.JaxRuntimeError, message, run)
    """,
    "each side of a mismatch is named": """
        def two(x):
            return lax.cond(lax.axis_index("a") == 0,
                            lambda x: lax.psum(x, "a"),
                            lambda x: lax.all_gather(x, "a").sum(0), x)
        f = pyjax.shard_map(two, mesh=mesh, in_specs=P("a"), out_specs=P(), check_vma=False)
        side = r"%[^ ]+ \\(all-[a-z]+\\) comes from [^;]*:[0-9]+"
        message = rf"partners that never come.*\\({side}; {side}\\)"
        run = lambda: pyjax.jit(f)(DATA).block_until_ready()
        assert raises(pyjax.errors.JaxRuntimeError, message, run)
    """,
    "a reference stays where it is": """
        ref = pyjax.new_ref(jnp.zeros(8))
        def count(ref):
            ref[...] = ref[...] + 1
        for spec in (P("a"), P()):
            assert raises(ValueError, "in_shardings of jit|Sharding passed to jit", lambda:
                          pyjax.jit(count, in_shardings=over(spec))(ref))
        split = pyjax.new_ref(pyjax.device_put(jnp.zeros(8), over(P("a"))))
        pyjax.jit(count, in_shardings=over(P("a")))(split)
        assert (split[...] == 1).all()
    """,
    "pmap of what has no such axis": """
        for values in ((1.0,), (np.float32(1),), (np.ones(8), 1.0)):
            assert raises(ValueError, "pmap was requested to map its argument along axis 0", lambda:
                          pyjax.pmap(lambda *xs: xs)(*values))
        assert raises(ValueError, "along axis 2", lambda:
                      pyjax.pmap(lambda x: x, in_axes=2)(np.ones((8, 8))))
    """,
    "a device that is named twice": """
        twice = Mesh(np.array([devices[0], devices[1], devices[0]]), ("i",))
        there = NamedSharding(twice, P("i"))
        for run in (
            lambda: pyjax.device_put(np.arange(6.0), there),
            lambda: pyjax.jit(lambda x: x + 1, out_shardings=there)(np.arange(6.0)),
            lambda: pyjax.pmap(lambda x: x + 1, devices=[devices[0]] * 2)(np.arange(2.0)),
        ):
            assert raises(ValueError, "cpu:0 is named 2 times among", run)
    """,
    "positions and groups of axes": """
        run = lambda f: pyjax.shard_map(f, mesh=mesh, in_specs=P("b"), out_specs=P("b"),
                                        check_vma=False)(np.ones(8))
        assert raises(IndexError, "axis 'b' of size 4 got .*0, 4",
                      lambda: run(lambda x: lax.ppermute(x, "b", [(0, 4)])))
        for groups in ([[0, 1], [2]], [[0, 1, 2, 3, 3]], [[0, 1], [1, 2, 3]]):
            assert raises(ValueError, "must cover all indices exactly once",
                          lambda: run(lambda x: lax.psum(x, "b", axis_index_groups=groups)))
        unequal = [[0], [1, 2, 3]]
        assert raises(ValueError, "must all be the same size",
                      lambda: run(lambda x: lax.all_gather(x, "b", axis_index_groups=unequal)))
        checked = pyjax.shard_map(lambda x: lax.psum(x, "b", axis_index_groups=[[0, 1], [2, 3]]),
                                  mesh=mesh, in_specs=P("b"), out_specs=P("b"))
        assert raises(NotImplementedError, "check_vma=False", lambda: checked(np.ones(8)))
    """,
    "endless loops end by a signal": """
        import os, signal, threading, time
        together = lambda s: s + lax.psum(s, ("a", "b")) * 0
        # Shells start programs in the background with SIGINT ignored.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        # A call that comes back before its program ends would meet the signal anywhere.
        pyjax.config.update("jax_cpu_enable_async_dispatch", False)
        for step in (together, lambda s: s):
            run = lambda x: lax.while_loop(lambda s: s.sum() >= 0, step, x)
            f = pyjax.jit(pyjax.shard_map(run, mesh=mesh, in_specs=P("a"), out_specs=P("a"),
                                          check_vma=False))
            f(DATA - 1e3).block_until_ready()  # ends at once
            sent = []
            def send():
                time.sleep(1)
                sent.append(time.monotonic())
                os.kill(os.getpid(), signal.SIGINT)
            thread = threading.Thread(target=send)
            thread.start()
            try:
                f(DATA).block_until_ready()
                assert False, "an endless loop has ended"
            except KeyboardInterrupt:
                # 0.1 s, where nobody else is at work; without looks at signals it is for ever.
                assert time.monotonic() - sent[0] < 60
            thread.join()
        pyjax.config.update("jax_cpu_enable_async_dispatch", True)
        signal.signal(signal.SIGINT, before)
    """,
}
