"""ragged_all_to_all over devices, against loops: see test_several_devices.py.

Each has the parts of each sender in rows of its own, of numbers that differ, with holes between.
"""

_LOOPS = """
        def exchanged(operand, out, starts, sizes, targets):
            # The same by loops: slice i of each sender goes to receiver i // slices, as far as
            # there are such rows.
            out = np.array(out)
            count, n = starts.shape
            for sender in range(count):
                for i in range(n):
                    for row in range(out.shape[1]):
                        at = row - int(targets[sender, i])
                        source = at + int(starts[sender, i])
                        if 0 <= at < sizes[sender, i] and 0 <= source < operand.shape[1]:
                            out[i // (n // count), row] = operand[sender, source]
            return out

        def over(count, **how):
            line = Mesh(np.array(devices[:count]), ("i",))
            send = lambda *args: lax.ragged_all_to_all(
                *(x[0] for x in args), axis_name="i")[None]
            return pyjax.shard_map(send, mesh=line, in_specs=P("i"), out_specs=P("i"), **how)

        def lists(count, slices, rng):
            n = count * slices
            sizes = rng.integers(0, 4, (count, n)).astype(np.int32)
            starts = rng.integers(0, 6, (count, n)).astype(np.int32)
            # Five rows for each sender's slice, of which at most three are written, after a hole.
            places = 5 * (np.arange(count)[:, None] * slices + np.arange(n) % slices) + 1
            received = sizes.reshape(count, count, slices).swapaxes(0, 1).reshape(count, n)
            return starts, sizes, places.astype(np.int32), received
"""

PROGRAMS = {
    "ragged_all_to_all with holes": _LOOPS
    + """
        rng = np.random.default_rng(0)
        for count in (2, 4, 8):
            for slices, rest, dtype in (
                (1, (), "float32"), (2, (3,), "int32"), (1, (2, 2), "bfloat16"), (1, (1,), "bool"),
            ):
                operand = rng.integers(0, 9, (count, 9, *rest)).astype(jnp.dtype(dtype))
                out = rng.integers(0, 9, (count, 5 * count * slices, *rest)).astype(operand.dtype)
                args = operand, out, *lists(count, slices, rng)
                got = pyjax.jit(over(count, check_vma=slices == 1))(*args)
                np.testing.assert_array_equal(np.asarray(got), exchanged(*args[:5]))
    """,
    "ragged_all_to_all along several axes": _LOOPS
    + """
        table = Mesh(np.array(devices).reshape(2, 4), ("i", "j"))
        rng = np.random.default_rng(7)
        operand = rng.random((8, 9, 2), np.float32)
        out = rng.random((8, 5 * 8, 2), np.float32)
        args = operand, out, *lists(8, 1, rng)
        want = exchanged(*args[:5])
        weights = rng.random(out.shape, np.float32)
        for names in (("i", "j"), ("j", "i"), ["i", "j"]):
            for check in (True, False):
                send = lambda *args: lax.ragged_all_to_all(
                    *(x[0] for x in args), axis_name=names)[None]
                spec = P(tuple(names))
                f = pyjax.shard_map(
                    send, mesh=table, in_specs=spec, out_specs=spec, check_vma=check)
                np.testing.assert_array_equal(np.asarray(pyjax.jit(f)(*args)), want)
                of = lambda f: lambda x, y: (weights * f(x, y, *args[2:])).sum()
                along_one = over(8, check_vma=check)
                for a, b in zip(*[pyjax.jit(pyjax.grad(of(g), (0, 1)))(operand, out)
                                  for g in (f, along_one)]):
                    np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
        # Positions of groups are counted along both.
        groups = [[0, 5], [1, 4], [2, 7], [3, 6]]
        in_pairs = [x for x in lists(2, 1, rng)]
        args = operand[:, :, 0], out[:, :10, 0], *[np.concatenate([x] * 4) for x in in_pairs]
        order = np.argsort(np.concatenate(groups))
        f = pyjax.shard_map(
            lambda *args: lax.ragged_all_to_all(
                *(x[0] for x in args), axis_name=("i", "j"), axis_index_groups=groups)[None],
            mesh=table, in_specs=P(("i", "j")), out_specs=P(("i", "j")), check_vma=False)
        members = np.concatenate(groups)
        args = [np.asarray(x) for x in args]
        placed = [args[0], args[1], *[x[order] for x in args[2:]]]
        got = np.asarray(f(*placed))
        for g in groups:
            want = exchanged(*[x[np.array(g)] for x in placed[:5]])
            np.testing.assert_array_equal(got[np.array(g)], want)
        both = pyjax.vmap(
            lambda *args: lax.ragged_all_to_all(*args, axis_name=("i", "b")), axis_name="b")
        inner = pyjax.shard_map(
            lambda *args: both(*args), mesh=table, in_specs=P("i"), out_specs=P("i"),
            check_vma=False)
        args = operand, out, *lists(8, 1, rng)
        refused = "one of which, 'b', is that of a vmap"
        assert raises(NotImplementedError, refused, lambda: inner(*args))
    """,
    "ragged_all_to_all differentiated": _LOOPS
    + """
        rng = np.random.default_rng(1)
        for count, slices, check in ((2, 1, True), (4, 2, False), (8, 1, True)):
            operand = rng.random((count, 9, 2), np.float32)
            out = rng.random((count, 5 * count * slices, 2), np.float32)
            places = lists(count, slices, rng)
            weights = rng.random(out.shape, np.float32)
            sent = lambda x, y: (weights * exchanged(x, y, *places[:3])).sum()
            f = over(count, check_vma=check)
            loss = lambda x, y: (weights * f(x, y, *places)).sum()
            slopes = pyjax.jit(pyjax.grad(loss, (0, 1)))(operand, out)
            for which, slope in enumerate(slopes):
                # Linear: the gradient along a direction is the loss of that direction.
                along = rng.random(slope.shape, np.float32)
                given = [np.zeros_like(operand), np.zeros_like(out)]
                given[which] = along
                np.testing.assert_allclose((slope * along).sum(), sent(*given), rtol=1e-4)
            tangents = rng.random(operand.shape, np.float32), rng.random(out.shape, np.float32)
            value, tangent = pyjax.jvp(lambda x, y: f(x, y, *places), (operand, out), tangents)
            np.testing.assert_array_equal(value, exchanged(operand, out, *places[:3]))
            np.testing.assert_array_equal(tangent, exchanged(*tangents, *places[:3]))
            # The slope of squares depends on what came.
            square = lambda x: (f(x, out, *places) ** 2).sum()
            value = exchanged(operand, out, *places[:3])
            known = pyjax.grad(lambda x: (f(x, out, *places) * (2 * value)).sum())(operand)
            np.testing.assert_allclose(pyjax.grad(square)(operand), known, rtol=1e-5)
    """,
    "ragged_all_to_all out of bounds": _LOOPS
    + """
        rng = np.random.default_rng(2)
        wild = [-(2**31), -(2**30), -100000, -9, -2, -1, 0, 1, 2, 3, 5, 8, 9, 40, 100000, 2**30,
                2**31 - 1]
        for count in (1, 2, 8):
            line = over(count)
            flat = pyjax.vmap(lambda *a: lax.ragged_all_to_all(*a, axis_name="i"), axis_name="i")
            lanes = pyjax.jit(pyjax.vmap(line, in_axes=1, out_axes=1))
            run = pyjax.jit(line)
            for _ in range(10):
                operand = rng.random((count, 3, 5), np.float32)
                out = -rng.random((count, 4, 5), np.float32)
                parts = [rng.choice(wild, (count, 2 * count)).astype(np.int32) for _ in range(4)]
                want = exchanged(operand, out, *parts[:3])
                np.testing.assert_array_equal(np.asarray(run(operand, out, *parts)), want)
                np.testing.assert_array_equal(np.asarray(flat(operand, out, *parts)), want)
                # The rows of a lane are none of the next lane's.
                twice = lambda x, y: np.stack([x, y], 1)
                other = [rng.choice(wild, (count, 2 * count)).astype(np.int32) for _ in range(4)]
                given = [twice(operand, -operand), twice(out, -out), *map(twice, parts, other)]
                both = np.asarray(lanes(*given))
                np.testing.assert_array_equal(both[:, 0], want)
                np.testing.assert_array_equal(both[:, 1], exchanged(-operand, -out, *other[:3]))
                # Of gradients rows are read and written, too.
                slope = pyjax.jit(pyjax.grad(lambda x: line(x, out, *parts).sum()))(operand)
                assert np.isfinite(slope).all() and np.abs(slope).max() <= 2 * count * 4
    """,
}
