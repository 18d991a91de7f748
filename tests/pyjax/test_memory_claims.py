"""What compiled programs do not do: copy large arrays that a loop updates in place, keep the
memory of what is no longer needed, or allocate where an argument is donated."""

import re

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import lax

N = 20011
STEPS = 40


def loop(body):
    return lambda *carry: lax.fori_loop(0, STEPS, body, carry)


def one(body):
    return loop(lambda i, carry: (body(i, carry[0]),))


def exchange(i, x):
    first, second = x[i], x[i + 10]
    return x.at[i].set(second).at[i + 10].set(first)


def nested(i, x):
    return lax.fori_loop(0, 5, lambda j, x: x.at[5 * i + j].set(i * j + 1.0), x)


def either(i, x):
    def even(x):
        return x.at[i].set(1.0)

    def odd(x):
        return x.at[i + 1].add(2.0)

    return lax.cond(i % 2 == 0, even, odd, x)


def accumulate(i, carry):
    x, total = carry
    return x.at[i].set(total), total + x[i]


IN_PLACE = {  # name: (program, number of large arrays it takes, then scalars)
    "set": (one(lambda i, x: x.at[i].set(1.5)), 1),
    "add": (one(lambda i, x: x.at[7 * i].add(1.5)), 1),
    "at an index from a table": (one(lambda i, x: x.at[jnp.arange(STEPS)[i] % 7].mul(1.5)), 1),
    "window": (one(lambda i, x: lax.dynamic_update_slice(x, jnp.ones(3) * i, (3 * i,))), 1),
    "reads neighbours first": (one(lambda i, x: x.at[i + 1].set(x[i] * 2 + x[i + 2])), 1),
    "exchanges two elements": (one(exchange), 1),
    "nested loops": (one(nested), 1),
    "conditional inside": (one(either), 1),
    "two arrays": (loop(lambda i, c: (c[0].at[i].set(c[1][i]), c[1].at[i + 1].set(c[0][i]))), 2),
    "arrays change places": (loop(lambda i, c: (c[1].at[i].set(1.0), c[0].at[i].set(2.0))), 2),
}


def large_copies(text: str) -> list[str]:
    return re.findall(rf"= \w+\[{N}\]\S* copy\(.*", text)


@pytest.mark.parametrize("name", IN_PLACE)
def test_updating_one_element_copies_nothing(name):
    program, count = IN_PLACE[name]
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(N).astype(np.float32) for _ in range(count)]
    with pyjax.disable_jit():
        want = program(*[jnp.asarray(a) for a in arrays])
    jitted = pyjax.jit(program, donate_argnums=tuple(range(count)))
    compiled = jitted.lower(*arrays).compile()
    assert large_copies(compiled.as_text()) == []
    assert f"range({N})" not in compiled.as_text("loops")
    got = jitted(*[jnp.asarray(a) for a in arrays])
    for g, w in zip(got, want):
        np.testing.assert_allclose(g, w, rtol=1e-6)


def test_carried_sum_and_array():
    compiled = pyjax.jit(loop(lambda i, c: accumulate(i, c)), donate_argnums=0)
    text = compiled.lower(np.ones(N, np.float32), np.float32(0)).compile().as_text()
    assert large_copies(text) == []


def test_without_donation_there_is_one_copy_before_the_loop():
    program, _ = IN_PLACE["exchanges two elements"]
    compiled = pyjax.jit(program).lower(np.ones(N, np.float32)).compile()
    entry = compiled.as_text().split("\nENTRY")[1]
    assert len(large_copies(entry)) == len(large_copies(compiled.as_text())) == 1


def test_fifty_products_share_two_buffers():
    def chain(x, w):
        for _ in range(50):
            x = x @ w
        return x

    shape = np.ones((96, 96), np.float32)
    compiled = pyjax.jit(chain).lower(shape, shape).compile()
    assert compiled.memory_analysis().temp_size_in_bytes <= 2 * shape.nbytes


DONATED = {
    "elementwise": lambda x: jnp.tanh(x) * 2,
    "through a loop": lambda x: lax.fori_loop(0, 3, lambda i, x: x * 1.5, x),
    "through a branch": lambda x: lax.cond(x[0] > 0, jnp.sin, jnp.cos, x),
    "softmax": lambda x: pyjax.nn.softmax(x.reshape(19, N // 19), axis=-1).reshape(N // 19 * 19),
}


@pytest.mark.parametrize("name", DONATED)
def test_donated_argument_is_the_output(name):
    program = DONATED[name]
    x = np.random.default_rng(0).standard_normal(N // 19 * 19).astype(np.float32)
    jitted = pyjax.jit(program, donate_argnums=0)
    compiled = jitted.lower(x).compile()
    assert "input_output_alias={ {}: (0, {}, may-alias) }" in compiled.as_text()
    assert compiled.memory_analysis().temp_size_in_bytes < x.nbytes
    argument = jnp.asarray(x)
    address = argument.unsafe_buffer_pointer()
    result = jitted(argument)
    assert result.unsafe_buffer_pointer() == address
    np.testing.assert_allclose(result, program(jnp.asarray(x)), rtol=2e-6)
