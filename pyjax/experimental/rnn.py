"""Recurrent networks: LSTM with two biases, in the packed weights of cuDNN and PyTorch's layout.

A bidirectional layer is two layers, one of which runs backwards; gates stand in the order input,
forget, cell, output. All weights come first, layer by layer (W_ih, W_hh), then all biases (b_ih,
b_hh). Source: Hochreiter & Schmidhuber (1997), in the form of torch.nn.LSTM.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import pyjax.numpy as jnp
from pyjax import lax, random
from pyjax.api.custom_vjp import custom_vjp
from pyjax.api.jit import jit
from pyjax.api.vjp import vjp
from pyjax.core.errors import fail
from pyjax.nn.functions import sigmoid as sigmoid

Array = Any
PRNGKeyArray = Any
tanh = jnp.tanh
_Weights = tuple[dict[int, Array], dict[int, Array], dict[int, Array], dict[int, Array]]


def _shapes(
    input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> list[tuple[int, ...]]:
    """Shapes of the packed arrays, in order."""
    directions = 2 if bidirectional else 1
    weights: list[tuple[int, ...]] = []
    for layer in range(num_layers):
        size = input_size if layer == 0 else directions * hidden_size
        weights += [(4 * hidden_size, size), (4 * hidden_size, hidden_size)] * directions
    return weights + [(4 * hidden_size,)] * (2 * directions * num_layers)


def get_num_params_in_lstm(
    input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> int:
    """How many numbers the packed weights have.

    >>> get_num_params_in_lstm(3, 2, 1, False)
    56
    """
    shapes = _shapes(input_size, hidden_size, num_layers, bidirectional)
    return sum(math.prod(shape) for shape in shapes)


def init_lstm_weight(
    rng: PRNGKeyArray, input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> Array:
    """Packed weights, uniform in ±1/√hidden_size, float32.

    >>> w = init_lstm_weight(random.key(0), 3, 2, 1, False)
    >>> w.shape == (get_num_params_in_lstm(3, 2, 1, False),)
    True
    """
    count = get_num_params_in_lstm(input_size, hidden_size, num_layers, bidirectional)
    bound = math.sqrt(1 / hidden_size)
    return random.uniform(rng, (count,), jnp.float32, -bound, bound)


def unpack_lstm_weights(
    weights: Array, input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> _Weights:
    """W_ih, W_hh, b_ih, b_hh of the packed weights: each by layer, both directions counted.

    Raises:
      ValueError: `weights` has another number of elements.

    >>> w = init_lstm_weight(random.key(0), 3, 2, 1, False)
    >>> [part[0].shape for part in unpack_lstm_weights(w, 3, 2, 1, False)]
    [(8, 3), (8, 2), (8,), (8,)]
    """
    shapes = _shapes(input_size, hidden_size, num_layers, bidirectional)
    total = sum(math.prod(shape) for shape in shapes)
    if weights.shape != (total,):
        fail(
            ValueError,
            f"LSTM weights of shape {weights.shape}, and {total} numbers are needed.",
            fix="make them with init_lstm_weight.",
        )
    parts, at = [], 0
    for shape in shapes:
        size = math.prod(shape)
        parts.append(weights[at : at + size].reshape(shape))
        at += size
    count = len(parts) // 4
    matrices, biases = parts[: 2 * count], parts[2 * count :]
    found = matrices[::2], matrices[1::2], biases[::2], biases[1::2]
    w_ih, w_hh, b_ih, b_hh = (dict(enumerate(x)) for x in found)
    return w_ih, w_hh, b_ih, b_hh


def swap_lstm_gates(
    weights: Array, input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> Array:
    """Packed weights with the last two of the four gates in each other's place.

    >>> w = init_lstm_weight(random.key(0), 3, 2, 1, False)
    >>> swapped = swap_lstm_gates(w, 3, 2, 1, False)
    >>> bool((swapped == w).all()), bool((swap_lstm_gates(swapped, 3, 2, 1, False) == w).all())
    (False, True)
    """
    parts, at = [], 0
    for shape in _shapes(input_size, hidden_size, num_layers, bidirectional):
        size = math.prod(shape)
        first, second, third, fourth = jnp.split(weights[at : at + size].reshape(shape), 4)
        parts.append(jnp.concatenate([first, second, fourth, third]).reshape(-1))
        at += size
    return jnp.concatenate(parts)


def _one_direction(
    x: Array, h: Array, c: Array, weights: tuple[Array, ...], lengths: Array, reverse: bool
) -> tuple[Array, Array, Array]:
    """[batch, time, size] through one layer; times beyond a sequence's length leave its state."""
    w_ih, w_hh, b_ih, b_hh = weights
    times = jnp.arange(x.shape[1])

    def step(state: Any, at: Any) -> Any:
        h, c = state
        t, x = at
        gates = x @ w_ih.T + b_ih + h @ w_hh.T + b_hh
        i, f, g, o = jnp.split(gates, 4, axis=-1)
        new_c = sigmoid(f) * c + sigmoid(i) * tanh(g)
        new_h = sigmoid(o) * tanh(new_c)
        inside = (t < lengths)[:, None]
        state = jnp.where(inside, new_h, h), jnp.where(inside, new_c, c)
        return state, jnp.where(inside, new_h, 0)

    (h, c), ys = lax.scan(step, (h, c), (times, jnp.swapaxes(x, 0, 1)), reverse=reverse)
    return jnp.swapaxes(ys, 0, 1), h, c


_STATIC = ("input_size", "hidden_size", "num_layers", "dropout", "bidirectional")


@partial(jit, static_argnames=_STATIC)
def lstm_ref(
    x: Array,
    h_0: Array,
    c_0: Array,
    W_ih: dict[int, Array],
    W_hh: dict[int, Array],
    b_ih: dict[int, Array],
    b_hh: dict[int, Array],
    seq_lengths: Array,
    input_size: int,
    hidden_size: int,
    num_layers: int,
    dropout: float,
    bidirectional: bool,
) -> tuple[Array, Array, Array]:
    """An LSTM with unpacked weights.

    Args and returns: as `lstm`, without the reserved space.
    Raises:
      NotImplementedError: dropout.

    >>> w, zero = init_lstm_weight(random.key(0), 3, 2, 1, False), jnp.zeros((1, 4, 2))
    >>> parts = unpack_lstm_weights(w, 3, 2, 1, False)
    >>> sizes = 3, 2, 1, 0.0, False
    >>> y, h, c = lstm_ref(jnp.ones((4, 5, 3)), zero, zero, *parts, jnp.full(4, 5), *sizes)
    >>> y.shape
    (4, 5, 2)
    """
    if dropout:
        fail(
            NotImplementedError,
            f"an LSTM with dropout {dropout}.",
            "Masks would be drawn inside, and there is no key.",
            "Pass dropout=0, and drop parts of the output between layers.",
        )
    directions = 2 if bidirectional else 1
    states, cells = [], []
    for layer in range(num_layers):
        outs = []
        for direction in range(directions):
            i = layer * directions + direction
            weights = W_ih[i], W_hh[i], b_ih[i], b_hh[i]
            y, h, c = _one_direction(x, h_0[i], c_0[i], weights, seq_lengths, direction == 1)
            outs.append(y)
            states.append(h)
            cells.append(c)
        x = jnp.concatenate(outs, axis=-1)
    return x, jnp.stack(states), jnp.stack(cells)


def _packed(
    sizes: tuple[int, int, int, float, bool],
    x: Array,
    h_0: Array,
    c_0: Array,
    w: Array,
    lengths: Array,
) -> tuple[Array, Array, Array]:
    input_size, hidden_size, num_layers, dropout, bidirectional = sizes
    parts = unpack_lstm_weights(w, input_size, hidden_size, num_layers, bidirectional)
    return lstm_ref(
        x,
        h_0,
        c_0,
        *parts,
        lengths,
        input_size=input_size,
        hidden_size=hidden_size,
        num_layers=num_layers,
        dropout=dropout,
        bidirectional=bidirectional,
    )


@partial(custom_vjp, nondiff_argnums=(5, 6, 7, 8, 9, 10))
def lstm(
    x: Array,
    h_0: Array,
    c_0: Array,
    weights: Array,
    seq_lengths: Array,
    input_size: int,
    hidden_size: int,
    num_layers: int,
    dropout: float,
    bidirectional: bool,
    precision: Any = None,
) -> tuple[Array, Array, Array]:
    """An LSTM, batch first, of sequences of several lengths.

    Args:
      x: [batch, time, input_size].  h_0, c_0: [layers × directions, batch, hidden_size].
      weights: packed, see `init_lstm_weight`.   seq_lengths: int[batch].
      dropout: 0.   precision: accepted; products have that of float32.
    Returns:
      (y, h_n, c_n): [batch, time, directions × hidden_size], 0 beyond a sequence's end, and the
      last states.
    Raises:
      NotImplementedError: dropout.   ValueError: the weights have another size.

    >>> w = init_lstm_weight(random.key(0), 3, 2, 1, False)
    >>> zero = jnp.zeros((1, 4, 2))
    >>> y, h, c = lstm(jnp.ones((4, 5, 3)), zero, zero, w, jnp.full(4, 5), 3, 2, 1, 0.0, False)
    >>> y.shape, bool((y[:, -1] == h[0]).all())
    ((4, 5, 2), True)
    """
    sizes = (input_size, hidden_size, num_layers, dropout, bidirectional)
    return _packed(sizes, x, h_0, c_0, weights, seq_lengths)


def lstm_fwd(
    x: Array,
    h_0: Array,
    c_0: Array,
    w: Array,
    seq_lengths: Array,
    input_size: int,
    hidden_size: int,
    num_layers: int,
    dropout: float,
    bidirectional: bool,
    precision: Any,
) -> tuple[Any, Any]:
    """The forward rule of `lstm`: results, and what its backward rule needs.

    >>> w, zero = init_lstm_weight(random.key(0), 3, 2, 1, False), jnp.zeros((1, 4, 2))
    >>> sizes = 3, 2, 1, 0.0, False, None
    >>> (y, h, c), _ = lstm_fwd(jnp.ones((4, 5, 3)), zero, zero, w, jnp.full(4, 5), *sizes)
    >>> y.shape
    (4, 5, 2)
    """
    sizes = (input_size, hidden_size, num_layers, dropout, bidirectional)

    def run(x: Array, h_0: Array, c_0: Array, w: Array) -> Any:
        return _packed(sizes, x, h_0, c_0, w, seq_lengths)

    return vjp(run, x, h_0, c_0, w)


def lstm_bwd(
    input_size: int,
    hidden_size: int,
    num_layers: int,
    dropout: float,
    bidirectional: bool,
    precision: Any,
    residuals: Any,
    gradients: Any,
) -> tuple[Any, ...]:
    """The backward rule of `lstm`: cotangents of its operands; lengths have none.

    >>> w, zero = init_lstm_weight(random.key(0), 3, 2, 1, False), jnp.zeros((1, 4, 2))
    >>> x, lengths, sizes = jnp.ones((4, 5, 3)), jnp.full(4, 5), (3, 2, 1, 0.0, False, None)
    >>> results, kept = lstm_fwd(x, zero, zero, w, lengths, *sizes)
    >>> [None if ct is None else ct.shape for ct in lstm_bwd(*sizes, kept, results)]
    [(4, 5, 3), (1, 4, 2), (1, 4, 2), (56,), None]
    """
    return *residuals(gradients), None


lstm.defvjp(lstm_fwd, lstm_bwd)

__all__ = [
    "get_num_params_in_lstm",
    "init_lstm_weight",
    "lstm",
    "lstm_bwd",
    "lstm_fwd",
    "lstm_ref",
    "sigmoid",
    "swap_lstm_gates",
    "tanh",
    "unpack_lstm_weights",
]
