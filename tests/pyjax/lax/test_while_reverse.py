"""Gradients of loops whose number of rounds is not known before: those of the rounds written out,
in every composition of transformations, with few checkpoints and with many.
"""

from __future__ import annotations

import numpy as np
import pytest
from pyjax._config import options

import pyjax
import pyjax.numpy as jnp
from pyjax import grad, hessian, jacfwd, jacrev, jit, jvp, lax, vmap
from pyjax.lax.control_flow.loop_backwards import slots_for

Y = 0.7


@pytest.fixture(autouse=True)
def _double():
    with pyjax.enable_x64(True):
        yield


def step(x, y):
    return jnp.sin(x) * y + x * 0.5


def loop(x, n, y=Y):
    """The number of rounds is a value; the counter is an integer."""
    return lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, step(c[1], y)), (0, x))[1]


def written_out(x, n, y=Y):
    for _ in range(int(n)):
        x = step(x, y)
    return x


def point():
    return jnp.asarray([0.3, 0.8, -1.2])


def close(got, expected):
    got, expected = pyjax.tree.leaves(got), pyjax.tree.leaves(expected)
    assert len(got) == len(expected)
    for a, b in zip(got, expected):
        assert a.shape == b.shape and a.dtype == b.dtype
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-8, atol=1e-12)


def squares(fun, n):
    return lambda x, y: jnp.sum(fun(x, n, y) ** 2)


@pytest.mark.parametrize("n", [0, 1, 2, 7, 40])
@pytest.mark.parametrize("wrap", [lambda f: f, jit], ids=["eager", "jit"])
def test_gradient(n, wrap):
    """With respect to the first state, and to a value that the body closes over."""
    both = lambda fun: grad(lambda x, n, y: jnp.sum(fun(x, n, y) ** 2), (0, 2))
    close(wrap(both(loop))(point(), n, Y), both(written_out)(point(), n, Y))


@pytest.mark.parametrize("n", [1, 8, 9, 10, 57, 300])
def test_few_checkpoints(n):
    """Eight slots for any number of rounds: states are computed again."""
    expected = grad(lambda x: jnp.sum(lax.scan(lambda c, _: (step(c, Y), None), x, None, n)[0]))
    with options.while_loop_checkpoint_bytes(0):
        close(jit(grad(lambda x, n: jnp.sum(loop(x, n))))(point(), n), expected(point()))


def test_rounds_computed_again_are_few():
    """Eight checkpoints reverse 300 rounds with three computations of each at most: binomial(11, 3)
    is 165, binomial(12, 4) is 495."""
    calls = []

    @pyjax.custom_jvp
    def seen(i, x):
        return x + 0 * pyjax.pure_callback(lambda i: calls.append(int(i)) or i * 1.0, x, i)

    seen.defjvp(lambda p, t: (seen(*p), t[1]))
    body = lambda c: (c[0] + 1, jnp.sin(seen(*c)))
    f = lambda x, n: lax.while_loop(lambda c: c[0] < n, body, (jnp.asarray(0), x))[1]
    with options.while_loop_checkpoint_bytes(0):
        jit(grad(f))(0.5, 300).block_until_ready()
    # Once forwards, four times at most to come to the state (once more than the least number of
    # the first state, which is stored), and once for the derivative of the round.
    assert max(calls.count(i) for i in range(300)) <= 1 + 4 + 1
    assert len(calls) <= 300 * 6


SECOND = {
    "forward over reverse": lambda f: jacfwd(grad(f, (0, 1)), (0, 1)),
    "reverse over reverse": lambda f: jacrev(grad(f, (0, 1)), (0, 1)),
    "reverse over forward": lambda f: jacrev(jacfwd(f, (0, 1)), (0, 1)),
}


@pytest.mark.parametrize("name", SECOND)
@pytest.mark.parametrize("wrap", [lambda f: f, jit], ids=["eager", "jit"])
def test_second_derivatives(name, wrap):
    made = SECOND[name]
    close(wrap(made(squares(loop, 5)))(point(), Y), made(squares(written_out, 5))(point(), Y))


THIRD = {
    "rrr": lambda f: grad(grad(grad(f))),
    "frr": lambda f: jacfwd(grad(grad(f))),
    "rfr": lambda f: grad(jacfwd(grad(f))),
    "jit between": lambda f: jit(grad(jit(grad(jit(grad(f)))))),
}


@pytest.mark.parametrize("name", THIRD)
def test_third_derivatives(name):
    made = THIRD[name]
    close(made(lambda x: loop(x, 4))(0.4), made(lambda x: written_out(x, 4))(0.4))


ROUNDS = np.array([3, 0, 6])


def _by_lane():
    each = [grad(written_out, (0, 2))(point()[i], n, Y) for i, n in enumerate(ROUNDS)]
    return jnp.stack([a for a, _ in each]), jnp.stack([b for _, b in each])


@pytest.mark.parametrize("wrap", [lambda f: f, jit], ids=["eager", "jit"])
def test_lanes_that_stop_on_their_own(wrap):
    of_x, of_y = _by_lane()
    lanes = vmap(grad(loop, (0, 2)), (0, 0, None))
    close(wrap(lanes)(point(), ROUNDS, Y), (of_x, of_y))
    total = grad(lambda x, y: jnp.sum(vmap(loop, (0, 0, None))(x, ROUNDS, y)), (0, 1))
    close(wrap(total)(point(), Y), (of_x, jnp.sum(of_y)))


def test_lanes_of_lanes():
    rounds = np.array([[1, 0, 2], [4, 3, 1]])
    xs = jnp.stack([point(), point() * 2])
    got = vmap(vmap(grad(loop)))(xs, rounds)
    expected = [[grad(written_out)(xs[i, j], rounds[i, j]) for j in range(3)] for i in range(2)]
    close(got, jnp.asarray(expected))
    inner = lambda x, n: jnp.sum(vmap(loop)(x, n) ** 2)
    outer = lambda x, n: sum(written_out(x[j], n[j]) ** 2 for j in range(3))
    want = [grad(outer)(x, n) for x, n in zip(xs, rounds)]
    close(vmap(grad(inner))(xs, rounds), jnp.stack(want))
    # The number of rounds of the inner lanes is that of all outer ones.
    same = vmap(grad(lambda x: inner(x, rounds[1])))(xs)
    close(same[1], want[1])


@pytest.mark.parametrize("wrap", [lambda f: f, jit], ids=["eager", "jit"])
@pytest.mark.parametrize("made", [lax.fori_loop, None], ids=["fori", "while"])
def test_lanes_that_stop_at_a_singularity_have_derivatives(wrap, made):
    """The body has no derivative at 0, where the first lane stays; it does not run there."""

    def roots(x, n, scale=1.0):
        step = lambda i, y: scale * jnp.sqrt(y)
        if made is not None:
            return made(0, n, step, x)
        return lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, step(*c)), (0, x))[1]

    x, rounds = jnp.array([0.0, 4.0, 0.0]), jnp.array([0, 2, 0])
    expected = jnp.array([1.0, 1 / (4 * 4**0.75), 1.0])
    close(wrap(vmap(grad(roots)))(x, rounds), expected)
    total = lambda x, scale: jnp.sum(vmap(roots, (0, 0, None))(x, rounds, scale))
    of_x, of_scale = wrap(grad(total, (0, 1)))(x, 1.0)
    close(of_x, expected)
    close(of_scale, jnp.asarray(1.5 * 2**0.5))
    lanes_of_lanes = wrap(vmap(vmap(grad(roots))))(x[None], rounds[None])
    close(lanes_of_lanes, expected[None])
    curvature = jnp.array([0.0, -3 / 16 * 4**-1.75, 0.0])
    close(wrap(vmap(hessian(roots)))(x, rounds), curvature)


def test_second_derivatives_of_lanes():
    lanes = vmap(hessian(loop), (0, 0))
    expected = [hessian(written_out)(x, n) for x, n in zip(point(), ROUNDS)]
    close(lanes(point(), ROUNDS), jnp.stack(expected))
    twice = vmap(grad(grad(loop)), (0, 0))
    close(twice(point(), ROUNDS), jnp.stack(expected))


def nested(x):
    """The inner loop runs as often as the outer one's counter says."""

    def outer(c):
        i, s = c
        return i + 1, lax.fori_loop(0, i + 1, lambda j, s: jnp.sin(s) * 1.1 + 0.01 * j, s)

    return jnp.sum(lax.while_loop(lambda c: c[0] < 4, outer, (jnp.asarray(0), x))[1])


def nested_written_out(x):
    for i in range(4):
        for j in range(i + 1):
            x = jnp.sin(x) * 1.1 + 0.01 * j
    return jnp.sum(x)


@pytest.mark.parametrize("direct", [True, False])
@pytest.mark.parametrize(
    "made", [grad, hessian, lambda f: jacrev(grad(f))], ids=["grad", "hessian", "rr"]
)
def test_loops_in_loops(made, direct):
    with options.use_direct_linearize(direct):
        close(jit(made(nested))(point()), made(nested_written_out)(point()))


def test_stops_by_what_is_differentiated():
    """The derivative is that of the rounds that were run."""

    def root(a):
        newton = lambda c: (0.5 * (c[0] + a / c[0]), c[0])
        return lax.while_loop(lambda c: jnp.abs(c[0] - c[1]) > 1e-12, newton, (a, 0.0 * a))[0]

    close(jit(grad(root))(2.0), jnp.asarray(0.5 / np.sqrt(2.0)))
    xs = jnp.asarray([0.5, 2.0, 1e4])
    close(vmap(grad(root))(xs), 0.5 / jnp.sqrt(xs))
    close(vmap(grad(grad(root)))(xs), -0.25 * xs**-1.5)


def test_other_states():
    """Random keys, integers and unused floats in the carry; a linear map's transpose; remat."""

    def body(c):
        key, i, x, unused = c
        key, use = pyjax.random.split(key)
        return key, i + 1, x * pyjax.random.normal(use, x.shape), unused

    def f(x, count=lax.while_loop):
        init = (pyjax.random.key(0), 0, x, jnp.ones(2))
        return jnp.sum(count(lambda c: c[1] < 3, body, init)[2])

    def in_python(cond, body, c):
        while cond(c):
            c = body(c)
        return c

    expected = grad(lambda x: f(x, in_python))(point())
    close(grad(f)(point()), expected)
    close(grad(pyjax.checkpoint(f))(point()), expected)
    close(jit(pyjax.linear_transpose(f, point()))(1.0)[0], expected)
    tangent = lambda fun: lambda x: jvp(fun, (x,), (x,))[1]
    close(grad(tangent(nested))(point()), grad(tangent(nested_written_out))(point()))


def test_complex_states():
    rotate = lambda n: lambda z: jnp.abs(lax.fori_loop(0, n, lambda i, z: z * jnp.exp(0.1j * z), z))
    z = jnp.asarray(0.4 + 0.3j)
    close(jit(lambda z, n: grad(rotate(n))(z))(z, 3), grad(rotate(3))(z))


def test_rule_of_the_users_in_the_body():
    @pyjax.custom_vjp
    def h(x):
        return jnp.sin(x)

    h.defvjp(lambda x: (jnp.sin(x), x), lambda x, g: (10 * g * jnp.cos(x),))
    f = lambda x: lax.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, h(c[1])), (0, x))[1]
    close(grad(f)(0.3), 100 * jnp.cos(0.3) * jnp.cos(jnp.sin(0.3)))
    # The same, with the right derivative: second ones have no forward mode to go through.
    h.defvjp(lambda x: (jnp.sin(x), x), lambda x, g: (g * jnp.cos(x),))
    g = lambda x: lax.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, h(c[1])), (0, x))[1]
    close(jit(grad(grad(g)))(0.3), grad(grad(lambda x: jnp.sin(jnp.sin(x))))(0.3))


def test_prints_once(capsys):
    def body(c):
        pyjax.debug.print("round {}", c[0], ordered=True)
        return c[0] + 1, jnp.sin(c[1])

    f = lambda x: lax.while_loop(lambda c: c[0] < 2, body, (0, x))[1]
    grad(f)(0.5).block_until_ready()
    pyjax.effects_barrier()
    assert capsys.readouterr().out == "round 0\nround 1\n"


def test_result_of_an_effect_is_refused():
    def body(c):
        y = pyjax.experimental.io_callback(lambda x: x, c[1], c[1])
        return c[0] + 1, c[1] * lax.stop_gradient(y)

    f = lambda x: lax.while_loop(lambda c: c[0] < 2, body, (0, x))[1]
    with pytest.raises(ValueError, match="side effects") as caught:
        grad(f)(0.5)
    assert "lax.scan" in str(caught.value)


def test_linear_loop_that_stops_by_its_argument_is_refused():
    f = lambda x: lax.while_loop(lambda c: c < 3, lambda c: c + c, x)
    with pytest.raises(ValueError, match="transposition of a loop that stops by"):
        pyjax.linear_transpose(f, 1.0)(1.0)


@pytest.mark.parametrize(
    "bytes_allowed, rounds, slots",
    [(0, 50, 8), (1 << 26, 5, 8), (1 << 26, 100, 128), (2400, 1000, 100), (1 << 26, 0, 1)],
)
def test_slots(bytes_allowed, rounds, slots):
    """As many as rounds, where memory is allowed."""
    with options.while_loop_checkpoint_bytes(bytes_allowed):
        assert slots_for([jnp.ones(3)], jnp.asarray(rounds)) == slots
