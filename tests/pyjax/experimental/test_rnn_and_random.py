"""LSTM against a loop in NumPy, and generators with state."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax.experimental import key_reuse, rnn
from pyjax.experimental import random as stateful

KEY = pyjax.random.key(0)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def by_loops(x: Any, h0: Any, c0: Any, parts: Any, lengths: Any, layers: int, both: bool) -> Any:
    """One sequence, one layer, one step at a time."""
    directions = 2 if both else 1
    w_ih, w_hh, b_ih, b_hh = ({k: np.asarray(v) for k, v in part.items()} for part in parts)
    hidden = h0.shape[-1]
    last_h, last_c = np.array(h0), np.array(c0)
    for layer in range(layers):
        out = np.zeros((*x.shape[:2], directions * hidden))
        for direction in range(directions):
            k = layer * directions + direction
            for n in range(x.shape[0]):
                h, c = h0[k, n], c0[k, n]
                times = range(lengths[n])
                for t in reversed(times) if direction else times:
                    gates = w_ih[k] @ x[n, t] + b_ih[k] + w_hh[k] @ h + b_hh[k]
                    i, f, g, o = np.split(gates, 4)
                    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
                    h = sigmoid(o) * np.tanh(c)
                    out[n, t, direction * hidden : (direction + 1) * hidden] = h
                last_h[k, n], last_c[k, n] = h, c
        x = out
    return x, last_h, last_c


@pytest.mark.parametrize("layers, both", [(1, False), (2, False), (1, True), (2, True)])
def test_lstm(layers: int, both: bool) -> None:
    size, hidden, batch, time = 3, 2, 2, 4
    count = layers * (2 if both else 1)
    weights = rnn.init_lstm_weight(KEY, size, hidden, layers, both)
    assert weights.shape == (rnn.get_num_params_in_lstm(size, hidden, layers, both),)
    assert float(jnp.max(jnp.abs(weights))) <= hidden**-0.5
    x = pyjax.random.normal(KEY, (batch, time, size))
    h0 = pyjax.random.normal(pyjax.random.key(1), (count, batch, hidden))
    c0, lengths = h0 / 2, jnp.array([4, 2])
    rest = (size, hidden, layers, 0.0, both)
    found = rnn.lstm(x, h0, c0, weights, lengths, *rest)
    parts = rnn.unpack_lstm_weights(weights, size, hidden, layers, both)
    arrays = [np.asarray(v, np.float64) for v in (x, h0, c0)]
    expected = by_loops(*arrays, parts, [4, 2], layers, both)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)

    def loss(x: Any, h: Any, c: Any, w: Any) -> Any:
        return sum(jnp.sum(v**2) for v in rnn.lstm(x, h, c, w, lengths, *rest))

    def plain(x: Any, h: Any, c: Any, w: Any) -> Any:
        unpacked = rnn.unpack_lstm_weights(w, size, hidden, layers, both)
        return sum(jnp.sum(v**2) for v in rnn.lstm_ref(x, h, c, *unpacked, lengths, *rest))

    operands = (x, h0, c0, weights)
    for a, b in zip(
        pyjax.grad(loss, (0, 1, 2, 3))(*operands),
        pyjax.grad(plain, (0, 1, 2, 3))(*operands),
        strict=True,
    ):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_packed_weights() -> None:
    count = rnn.get_num_params_in_lstm(1, 1, 1, False)
    swapped = rnn.swap_lstm_gates(jnp.arange(count), 1, 1, 1, False)
    expected = [0, 1, 3, 2, 4, 5, 7, 6, 8, 9, 11, 10, 12, 13, 15, 14]
    assert swapped.tolist() == expected
    with pytest.raises(ValueError, match="16 numbers are needed"):
        rnn.unpack_lstm_weights(jnp.ones(3), 1, 1, 1, False)
    zero = jnp.zeros((1, 1, 1))
    with pytest.raises(NotImplementedError, match=r"dropout 0\.5"):
        rnn.lstm(zero, zero, zero, jnp.ones(16), jnp.ones(1, int), 1, 1, 1, 0.5, False)


def test_generators_count() -> None:
    rng, again = stateful.stateful_rng(0), stateful.stateful_rng(0)
    first = rng.key()
    # The first key of the reference.
    assert pyjax.random.key_data(first).tolist() == [1797259609, 2579123966]
    assert first == again.key()
    drawn = pyjax.jit(lambda rng: (rng.random(), rng.random()))(rng)
    np.testing.assert_array_equal(drawn, [again.random(), again.random()])
    assert float(rng.random()) == float(again.random()) != float(drawn[1])
    assert rng.key((2,)).shape == (2,)


def test_distributions() -> None:
    rng = stateful.stateful_rng(3, impl="threefry2x32")
    uniform = rng.uniform(2, 4, 1000)
    assert float(uniform.min()) >= 2 > float(uniform.max()) - 2
    assert float(jnp.mean(rng.normal(5.0, 0.1, 1000))) == pytest.approx(5, abs=0.02)
    assert rng.normal(jnp.zeros((3, 1)), jnp.ones(2)).shape == (3, 2)
    assert set(rng.integers(3, size=100).tolist()) == {0, 1, 2}
    assert set(rng.integers(3, 5, (50,)).tolist()) == {3, 4}
    assert stateful.stateful_rng().random((2, 2)).shape == (2, 2)


def test_children() -> None:
    rng = stateful.stateful_rng(0)
    one, other = rng.spawn(2)
    assert float(one.random()) != float(other.random())
    mapped = pyjax.vmap(lambda g: g.random((2,)))(rng.split(3))
    assert len(np.unique(mapped)) == 6


def test_small_names() -> None:
    assert pyjax.extend.backend.get_default_device() == pyjax.devices()[0]
    compiled = pyjax.jit(lambda x: x + 1)
    assert float(compiled(1.0)) == 2
    pyjax.extend.backend.clear_in_memory_compilation_cache()
    assert float(compiled(1.0)) == 2
    with key_reuse.debug_key_reuse(True), pytest.raises(key_reuse.KeyReuseError):
        pyjax.random.normal(KEY) + pyjax.random.normal(KEY)
