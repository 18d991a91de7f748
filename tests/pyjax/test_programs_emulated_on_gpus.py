"""Whole programs as GPUs run them, in the emulator, against machine code for this host: results,
races and accesses out of bounds of kernels that work on each other's memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import lax, nn
from tests.op_checks import assert_close, emulated_gpu, jitted

RNG = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def layer_norm(x: Any, scale: Any) -> Any:
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + 1e-5) * scale


def transformer_block(x: Any, qkv: Any, out: Any, up: Any, down: Any, scale: Any) -> Any:
    batch, length, width = x.shape
    heads = (layer_norm(x, scale) @ qkv).reshape(batch, length, 3, 2, width // 2)
    q, k, v = (heads[:, :, n] for n in range(3))
    scores = jnp.einsum("bthd,bshd->bhts", q, k) / 4
    scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -1e9)
    mixed = jnp.einsum("bhts,bshd->bthd", nn.softmax(scores, -1), v)
    x = x + mixed.reshape(batch, length, width) @ out
    return (x + nn.gelu(layer_norm(x, scale) @ up) @ down).sum()


def recurrent(weights: Any, xs: Any) -> Any:
    def step(carry: Any, x: Any) -> Any:
        h, c = carry
        i, g, o, f = jnp.split(jnp.concatenate([x, h], -1) @ weights, 4, -1)
        c = nn.sigmoid(f) * c + nn.sigmoid(i) * jnp.tanh(g)
        h = nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zeros = jnp.zeros((3, 16))
    return lax.scan(step, (zeros, zeros), xs)[1].sum()


def convolved(w: Any, x: Any) -> Any:
    numbers = ("NHWC", "HWIO", "NHWC")
    y = lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=numbers)
    window = (1, 2, 2, 1)
    return lax.reduce_window(nn.relu(y), -np.inf, lax.max, window, window, "VALID").sum()


def scattered(x: Any, i: Any) -> Any:
    return x.at[i].add(1.0), x.at[i, :3].max(0.5), jnp.take(x, i, 0), jnp.bincount(i, length=12)


def ordered(x: Any) -> Any:
    return jnp.sort(x, 0), jnp.argsort(x, -1), lax.top_k(x, 3), jnp.cumsum(x, 1), lax.cummax(x, 0)


def normalised(x: Any, scale: Any) -> Any:
    return jnp.sin(layer_norm(x, scale)).sum()


PROGRAMS: dict[str, tuple[Callable[..., Any], list[np.ndarray]]] = {
    "gradient of a transformer": (
        pyjax.grad(transformer_block, tuple(range(6))),
        [
            normal(2, 17, 32), *(0.1 * normal(*s) for s in ((32, 96), (32, 32), (32, 128))),
            0.1 * normal(128, 32), np.ones(32, np.float32),
        ],
    ),
    "gradient of a recurrence": (
        pyjax.grad(recurrent), [0.1 * normal(24, 64), normal(7, 3, 8)]
    ),
    "gradient of a convolution": (
        pyjax.grad(convolved, (0, 1)), [0.1 * normal(3, 3, 3, 8), normal(2, 8, 8, 3)]
    ),
    "gradient of long rows": (
        pyjax.grad(normalised, (0, 1)), [normal(9, 1500), np.ones(1500, np.float32)]
    ),
    "scatters": (scattered, [normal(11, 7), np.array([0, 3, 3, 10, 2, 5, 9, 1, 1], np.int32)]),
    "orders": (ordered, [normal(37, 53)]),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_on_this_host(name: str) -> None:
    function, arguments = PROGRAMS[name]
    wanted = jitted(function, arguments)
    for got, want in zip(emulated_gpu(function, arguments), wanted, strict=True):
        assert_close(got, want, 1e-3)
