"""Programs with mutable references, transformed, beside the same programs on arrays."""

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import lax


def made_inside(x):
    ref = pyjax.new_ref(jnp.zeros(3))
    ref[0] = x
    ref[1] = jnp.sin(x)
    pyjax.ref.addupdate(ref, 2, 3 * x)
    before = pyjax.ref.swap(ref, 0, x * x)
    return jnp.sum(ref[...] ** 2) + before


def made_inside_model(x):
    return x**4 + jnp.sin(x) ** 2 + (3 * x) ** 2 + x


def in_scan(x):
    ref = pyjax.new_ref(jnp.ones(4) * x)

    def step(c, i):
        ref[i] = ref[i] * c
        pyjax.ref.addupdate(ref, 0, c)
        return c * x, ref[0]

    c, ys = lax.scan(step, x, jnp.arange(1, 4))
    return jnp.sum(pyjax.freeze(ref)) + jnp.sum(ys) * c


def in_scan_model(x):
    values, c, ys = [x] * 4, x, []
    for i in range(1, 4):
        values[i] = values[i] * c
        values[0] = values[0] + c
        c = c * x
        ys.append(values[0])
    return sum(values) + sum(ys) * c


def scanned_over(x):
    ref = pyjax.new_ref(jnp.arange(4.0) * x)

    def step(c, part):
        part[...] = part[...] * x + c
        return c + part[...], None

    c, _ = lax.scan(step, x, ref, reverse=True)
    return jnp.sum(ref[...] * jnp.arange(4.0)) + c


def scanned_over_model(x):
    values, c = [i * x for i in range(4)], x
    for i in reversed(range(4)):
        values[i] = values[i] * x + c
        c = c + values[i]
    return sum(i * v for i, v in enumerate(values)) + c


def in_branch(x):
    ref = pyjax.new_ref(x)

    def small():
        ref[...] = ref[...] * 2
        return ref[...]

    y = lax.cond(x < 1, small, lambda: ref[...] + 1)
    y += lax.switch(2, [lambda: x, lambda: -x, lambda: pyjax.ref.swap(ref, ..., x * x)])
    return ref[...] * y


def in_branch_model(x):
    value = jnp.where(x < 1, 2 * x, x)
    y = jnp.where(x < 1, 2 * x, x + 1)
    return x * x * (y + value)


def in_fori_loop(x):
    ref = pyjax.new_ref(jnp.zeros((3, 2)))

    def body(i, c):
        ref[i, 0] = c
        ref[i] += jnp.stack([x, c])
        return c * x

    return lax.fori_loop(0, 3, body, x) + jnp.sum(ref[...])


def in_fori_loop_model(x):
    c, total = x, 0
    for _ in range(3):
        total = total + (c + x) + c
        c = c * x
    return c + total


def nested(x):
    """A reference through jit, checkpoint and two loops."""
    ref = pyjax.new_ref(x)

    @pyjax.jit
    def called(r, y):
        r[...] = r[...] * y
        return y + r[...]

    @pyjax.checkpoint
    def again(y):
        ref[...] = jnp.sin(ref[...]) + y
        return y * ref[...]

    def outer(c, _):
        def inner(c, _):
            return called(ref, c) * 0.5, None

        return lax.scan(inner, c, None, length=2)[0] + again(c), None

    return lax.scan(outer, x, None, length=2)[0] + ref[...]


def nested_model(x):
    value = c = x
    for _ in range(2):
        y = c
        for _ in range(2):
            value = value * c
            c = (c + value) * 0.5
        value = jnp.sin(value) + y
        c = c + y * value
    return c + value


PROGRAMS = [
    (made_inside, made_inside_model),
    (in_scan, in_scan_model),
    (scanned_over, scanned_over_model),
    (in_branch, in_branch_model),
    (in_fori_loop, in_fori_loop_model),
    (nested, nested_model),
]
programs = pytest.mark.parametrize(
    "program, model", [pytest.param(p, m, id=p.__name__) for p, m in PROGRAMS]
)
XS = np.array([0.5, 1.25, -0.75], np.float32)

TRANSFORMATIONS = {
    "value": lambda f: f,
    "jit": pyjax.jit,
    "grad": pyjax.grad,
    "jit-of-grad": lambda f: pyjax.jit(pyjax.grad(f)),
    "grad-of-jit": lambda f: pyjax.grad(pyjax.jit(f)),
    "jvp": lambda f: lambda x: pyjax.jvp(f, (x,), (jnp.float32(1.5),)),
    "linearize": lambda f: lambda x: pyjax.linearize(f, x)[1](jnp.float32(2.0)),
    "checkpoint": lambda f: pyjax.grad(pyjax.checkpoint(f)),
    "second": lambda f: pyjax.grad(pyjax.grad(f)),
    "forward-over-reverse": lambda f: lambda x: pyjax.jvp(pyjax.grad(f), (x,), (jnp.ones(()),)),
}


@programs
@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_as_on_arrays(program, model, name) -> None:
    transform = TRANSFORMATIONS[name]
    for x in XS[:2]:
        got, expected = transform(program)(x), transform(model)(x)
        for g, e in zip(pyjax.tree.leaves(got), pyjax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(np.asarray(g), np.asarray(e), rtol=2e-5)


@programs
@pytest.mark.parametrize("name", ["value", "jit", "grad", "grad-of-jit", "jvp"])
def test_mapped(program, model, name) -> None:
    transform = TRANSFORMATIONS[name]
    got, expected = pyjax.vmap(transform(program))(XS), pyjax.vmap(transform(model))(XS)
    for g, e in zip(pyjax.tree.leaves(got), pyjax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(np.asarray(g), np.asarray(e), rtol=2e-5)


@programs
def test_gradient_of_mapped(program, model) -> None:
    def total(f):
        return pyjax.grad(lambda xs: jnp.sum(pyjax.vmap(f)(xs)))(XS)

    np.testing.assert_allclose(total(program), total(model), rtol=2e-5)


@programs
@pytest.mark.parametrize("direct", [True, False])
def test_linearized_in_either_way(program, model, direct: bool) -> None:
    with pyjax._options.use_direct_linearize(direct):
        got = [float(pyjax.grad(f)(XS[0])) for f in (program, pyjax.jit(program))]
    np.testing.assert_allclose(got, [float(pyjax.grad(model)(XS[0]))] * 2, rtol=2e-5)


@programs
def test_checked(program, model) -> None:
    """The programs that are made on the way have the types that they say."""
    with pyjax.enable_checks(True):
        got = float(pyjax.grad(pyjax.jit(program))(XS[0]))
    np.testing.assert_allclose(got, float(pyjax.grad(model)(XS[0])), rtol=2e-5)


# -- references as arguments, and closed over ------------------------------------------------------


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("wrap", [lambda f: f, pyjax.jit], ids=["eager", "jit"])
def test_mapped_references(axis: int, wrap) -> None:
    ref = pyjax.new_ref(jnp.arange(6.0).reshape(2, 3) if axis else jnp.arange(6.0).reshape(3, 2))

    @wrap
    def write(r, x, i):
        before = r[i]
        r[i] = x
        pyjax.ref.addupdate(r, jnp.array([1, 1]), jnp.stack([x, before]))
        return before, pyjax.ref.swap(r, 0, x + 1)

    model = np.array(ref[...])
    rows = model.T if axis else model
    expected = []
    for row, x, i in zip(rows, [10.0, 20.0, 30.0], [0, 1, 0]):
        before = row[i]
        row[i] = x
        np.add.at(row, [1, 1], [x, before])
        expected.append((before, row[0]))
        row[0] = x + 1
    xs, places = jnp.array([10.0, 20.0, 30.0]), jnp.array([0, 1, 0])
    got = pyjax.vmap(write, in_axes=(axis, 0, 0))(ref, xs, places)
    np.testing.assert_array_equal(np.stack(got, 1), expected)
    np.testing.assert_array_equal(ref[...], model)


def test_mapped_references_in_control_flow() -> None:
    ref = pyjax.new_ref(-jnp.ones((4, 3)))

    def write(r, x):
        lax.while_loop(lambda i: i < x, lambda i: (pyjax.ref.set(r, 0, i), i + 1)[1], 0.0)
        lax.cond(x > 1, lambda: pyjax.ref.set(r, 1, x), lambda: None)
        lax.fori_loop(0, 2, lambda i, c: (pyjax.ref.addupdate(r, 2, x), c)[1], 0)

    pyjax.vmap(write)(ref, jnp.arange(4.0))
    expected = [[-1, -1, -1], [0, -1, 1], [1, 2, 3], [2, 3, 5]]
    np.testing.assert_array_equal(ref[...], expected)


def test_reading_at_mapped_indices() -> None:
    ref = pyjax.new_ref(jnp.arange(5.0) * 2)
    got = pyjax.vmap(lambda i: ref[i] + ref[jnp.array([0, 1])][1])(jnp.array([4, 0]))
    assert got.tolist() == [10, 2]


@pytest.mark.parametrize(
    "write",
    [
        lambda ref, x: pyjax.ref.set(ref, 0, x),
        lambda ref, x: pyjax.ref.addupdate(ref, 0, x),
        lambda ref, x: pyjax.ref.set(ref, x.astype(int), 1.0),
        lambda ref, x: pyjax.jit(lambda y: pyjax.ref.set(ref, 0, y))(x),
        lambda ref, x: lax.cond(x > 1, lambda: pyjax.ref.set(ref, 0, 1.0), lambda: None),
    ],
    ids=["set", "addupdate", "index", "jit", "cond"],
)
def test_writing_mapped_values_to_unmapped_references(write) -> None:
    ref = pyjax.new_ref(jnp.zeros(3))
    with pytest.raises(ValueError, match="writes a value that is mapped, or at a mapped index"):
        pyjax.vmap(lambda x: write(ref, x))(jnp.arange(3.0))
    assert ref[...].tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    "write",
    [
        lambda ref, x: pyjax.ref.set(ref, 0, x),
        lambda ref, x: pyjax.ref.addupdate(ref, 0, x),
        lambda ref, x: pyjax.jit(lambda y: pyjax.ref.set(ref, 0, y))(x),
        lambda ref, x: lax.scan(lambda c, _: (pyjax.ref.set(ref, 0, c), c)[::-1], x, None, 2)[0],
    ],
    ids=["set", "addupdate", "jit", "scan"],
)
def test_writing_differentiated_values_to_other_references(write) -> None:
    ref = pyjax.new_ref(jnp.zeros(3))
    with pytest.raises(ValueError, match="writes a value that is differentiated to a Ref that is"):
        pyjax.grad(lambda x: (write(ref, x), x)[1])(2.0)
    assert ref[...].tolist() == [0, 0, 0]


def test_other_references_in_a_differentiated_function() -> None:
    ref = pyjax.new_ref(jnp.array([2.0, 0.0]))

    def f(x):
        ref[1] = lax.stop_gradient(x * 10)
        return x * x * ref[0] + ref[1]

    assert float(pyjax.grad(f)(3.0)) == 12.0
    assert float(pyjax.grad(pyjax.jit(f))(4.0)) == 16.0
    assert ref[...].tolist() == [2, 40]


def test_without_derivatives() -> None:
    log = pyjax.new_ref(0.0, kind="no_grad_no_remat")

    def f(x):
        log[...] = x * 3
        return x * x + log[...]

    assert float(pyjax.grad(f)(2.0)) == 4.0
    assert float(log[...]) == 6.0


def test_integers_in_references() -> None:
    def f(x):
        count = pyjax.new_ref(jnp.zeros(2, int))
        count[0] += 3
        return x ** count[0] * count[...].sum()

    assert float(pyjax.grad(f)(2.0)) == 36.0


def test_derivatives_of_references_themselves() -> None:
    a, b = pyjax.new_ref(jnp.arange(3.0)), pyjax.new_ref(jnp.ones(3))
    out, tangent = pyjax.jvp(lambda r: r[2] ** 2, (a,), (b,))
    assert (float(out), float(tangent)) == (4.0, 4.0)
    with pytest.raises(TypeError, match="derivative with respect to a Ref"):
        pyjax.grad(lambda r: r[0])(a)
    with pytest.raises(TypeError, match="Output was a Ref"):
        pyjax.grad(lambda x: pyjax.new_ref(x))(1.0)


# -- rules that write to references ----------------------------------------------------------------


@pyjax.custom_vjp
def stash(ref, x):
    return x


def stash_bwd(ref, g):
    ref[...] = g
    return None, g


stash.defvjp(lambda ref, x: (x, ref), stash_bwd)


@pytest.mark.parametrize(
    "transform",
    [
        lambda f: pyjax.grad(f),
        lambda f: pyjax.jit(pyjax.grad(f)),
        lambda f: pyjax.grad(pyjax.jit(f)),
        lambda f: pyjax.jit(pyjax.grad(pyjax.jit(f))),
    ],
    ids=["grad", "jit-grad", "grad-jit", "jit-grad-jit"],
)
def test_rules_write_gradients_to_references(transform) -> None:
    found = pyjax.new_ref(0.0)
    slope = transform(lambda x, ref: jnp.cos(stash(ref, jnp.sin(x))))(2.0, found)
    inner = -np.sin(np.sin(2.0))
    np.testing.assert_allclose(found[...], inner, rtol=1e-6)
    np.testing.assert_allclose(slope, inner * np.cos(2.0), rtol=1e-6)


def test_rules_that_close_over_references() -> None:
    found = pyjax.new_ref(0.0)
    pyjax.grad(lambda x: stash(found, x * 3) ** 2)(2.0)
    assert float(found[...]) == 12.0


def test_rules_that_write_inside_of_loops() -> None:
    found = pyjax.new_ref(0.0)

    def f(x):
        return lax.scan(lambda c, _: (stash(found, c), None), x, None, length=2)[0]

    with pytest.raises(NotImplementedError, match="a derivative rule of its own"):
        pyjax.grad(f)(1.0)
    assert float(pyjax.jit(f)(1.0)) == 1.0
