"""The programs of the benchmark table, written once for any module with JAX's interface."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

Params = Any


class Framework(NamedTuple):
    """pyjax or jax: the top-level module, its numpy and its lax."""

    top: ModuleType
    numpy: ModuleType
    lax: ModuleType

    def ready(self, value: Any) -> Any:
        return self.top.block_until_ready(value)


def mlp_step(f: Framework) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """SGD step of a network 64 → 128 → 128 → 10 on a batch of 256."""
    rng = np.random.default_rng(0)
    sizes = (64, 128, 128, 10)
    params = [
        (
            f.numpy.asarray(rng.normal(size=(m, n)).astype(np.float32) * m**-0.5),
            f.numpy.zeros(n, np.float32),
        )
        for m, n in itertools.pairwise(sizes)
    ]
    x = f.numpy.asarray(rng.normal(size=(256, 64)).astype(np.float32))
    y = f.numpy.asarray(rng.integers(0, 10, 256).astype(np.int32))

    def loss(params: Params, x: Any, y: Any) -> Any:
        for w, b in params[:-1]:
            x = f.numpy.tanh(x @ w + b)
        w, b = params[-1]
        scores = x @ w + b
        log_p = scores - f.top.nn.logsumexp(scores, axis=1, keepdims=True)
        return -f.numpy.mean(f.numpy.take_along_axis(log_p, y[:, None], axis=1))

    def step(params: Params, x: Any, y: Any) -> Any:
        gradient = f.top.grad(loss)(params, x, y)
        return f.top.tree.map(lambda p, g: p - 0.1 * g, params, gradient)

    return step, (params, x, y)


def gpt_step(f: Framework) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """SGD step of a two-block transformer: width 256, length 128, batch 8, 512 tokens."""
    width, length, batch, vocabulary, heads = 256, 128, 8, 512, 4
    rng = np.random.default_rng(0)

    def weight(*shape: int) -> Any:
        return f.numpy.asarray((rng.normal(size=shape) * 0.02).astype(np.float32))

    block = lambda: {
        "qkv": weight(width, 3 * width),
        "out": weight(width, width),
        "up": weight(width, 4 * width),
        "down": weight(4 * width, width),
        "g1": f.numpy.ones(width, np.float32),
        "g2": f.numpy.ones(width, np.float32),
    }
    params = {
        "embed": weight(vocabulary, width),
        "position": weight(length, width),
        "blocks": [block(), block()],
        "head": weight(width, vocabulary),
    }
    tokens = f.numpy.asarray(rng.integers(0, vocabulary, (batch, length + 1)).astype(np.int32))

    def norm(x: Any, g: Any) -> Any:
        mean = x.mean(-1, keepdims=True)
        variance = ((x - mean) ** 2).mean(-1, keepdims=True)
        return (x - mean) * f.lax.rsqrt(variance + 1e-5) * g

    def attention(x: Any, p: Params) -> Any:
        q, k, v = f.numpy.split(x @ p["qkv"], 3, axis=-1)
        shape = (batch, length, heads, width // heads)
        q, k, v = (t.reshape(shape) for t in (q, k, v))
        scores = f.numpy.einsum("bqhd,bkhd->bhqk", q, k) * (width // heads) ** -0.5
        mask = f.numpy.tril(f.numpy.ones((length, length), bool))
        weights = f.top.nn.softmax(f.numpy.where(mask, scores, -1e30), axis=-1)
        mixed = f.numpy.einsum("bhqk,bkhd->bqhd", weights, v)
        return mixed.reshape(batch, length, width) @ p["out"]

    def loss(params: Params, tokens: Any) -> Any:
        x = params["embed"][tokens[:, :-1]] + params["position"]
        for p in params["blocks"]:
            x = x + attention(norm(x, p["g1"]), p)
            x = x + f.top.nn.gelu(norm(x, p["g2"]) @ p["up"]) @ p["down"]
        log_p = f.top.nn.log_softmax(x @ params["head"], axis=-1)
        return -f.numpy.mean(f.numpy.take_along_axis(log_p, tokens[:, 1:, None], axis=-1))

    def step(params: Params, tokens: Any) -> Any:
        gradient = f.top.grad(loss)(params, tokens)
        return f.top.tree.map(lambda p, g: p - 0.1 * g, params, gradient)

    return step, (params, tokens)


def depthwise_conv(f: Framework) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """3×3 depthwise convolution of 8×56×56×64 (NHWC)."""
    rng = np.random.default_rng(0)
    x = f.numpy.asarray(rng.normal(size=(8, 56, 56, 64)).astype(np.float32))
    w = f.numpy.asarray(rng.normal(size=(3, 3, 1, 64)).astype(np.float32))

    def conv(x: Any, w: Any) -> Any:
        return f.lax.conv_general_dilated(
            x,
            w,
            (1, 1),
            "SAME",
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
            feature_group_count=64,
        )

    return conv, (x, w)


def dense_conv(f: Framework) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """3×3 convolution of 8×32×32×32 (NCHW) with 64 filters."""
    rng = np.random.default_rng(0)
    x = f.numpy.asarray(rng.normal(size=(8, 32, 32, 32)).astype(np.float32))
    w = f.numpy.asarray(rng.normal(size=(64, 32, 3, 3)).astype(np.float32))
    return lambda x, w: f.lax.conv_general_dilated(x, w, (1, 1), "SAME"), (x, w)


def wave(f: Framework) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """100 steps of the wave equation on a 512×512 grid in a fori_loop."""
    rng = np.random.default_rng(0)
    u = f.numpy.asarray(rng.normal(size=(512, 512)).astype(np.float32))

    def laplacian(u: Any) -> Any:
        p = f.numpy.pad(u, 1)
        return p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] - 4 * u

    def run(u: Any) -> Any:
        body = lambda i, s: (2 * s[0] - s[1] + 0.1 * laplacian(s[0]), s[0])
        return f.lax.fori_loop(0, 100, body, (u, u))

    return run, (u,)


def lstm_gradient(f: Framework) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Gradient through a scan of 100 LSTM steps, width 128, batch 32."""
    rng = np.random.default_rng(0)
    width, batch, steps = 128, 32, 100
    w = f.numpy.asarray((rng.normal(size=(2 * width, 4 * width)) * 0.05).astype(np.float32))
    xs = f.numpy.asarray(rng.normal(size=(steps, batch, width)).astype(np.float32))

    def loss(w: Any, xs: Any) -> Any:
        def cell(carry: Any, x: Any) -> Any:
            h, c = carry
            i, g, o, k = f.numpy.split(f.numpy.concatenate([x, h], axis=1) @ w, 4, axis=1)
            c = f.top.nn.sigmoid(k) * c + f.top.nn.sigmoid(i) * f.numpy.tanh(g)
            h = f.top.nn.sigmoid(o) * f.numpy.tanh(c)
            return (h, c), None

        zero = f.numpy.zeros((batch, width), np.float32)
        (h, _), _ = f.lax.scan(cell, (zero, zero), xs)
        return (h * h).sum()

    return f.top.grad(loss), (w, xs)


def scalar_loop(f: Framework) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """1000 scalar steps in a fori_loop."""
    return lambda x: f.lax.fori_loop(0, 1000, lambda i, s: s * 0.999 + 0.5, x), (
        f.numpy.float32(1.0),
    )


def rotating_scan(f: Framework) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """A scan of 1,000 steps whose body mixes, stacks and rotates three rows of 200."""

    def body(c: Any, _: None) -> tuple[Any, Any]:
        mixed = [c[i] * 0.9 + c[(i + 1) % 3] * 0.1 for i in range(3)]
        y = f.numpy.stack(mixed)
        z = f.numpy.concatenate([y[1:], y[:1]])
        return z, z[0].sum()

    x = f.numpy.asarray(np.random.default_rng(0).normal(size=(3, 200)).astype(np.float32))
    return lambda x: f.lax.scan(body, x, None, length=1000), (x,)


def few_rows(f: Framework) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Four rows times a matrix of 4096×4096."""
    rng = np.random.default_rng(0)
    sizes = ((4, 4096), (4096, 4096))
    a, b = (f.numpy.asarray(rng.normal(size=s).astype(np.float32)) for s in sizes)
    return lambda a, b: a @ b, (a, b)


def segment_sums(f: Framework) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Sums of a million numbers in 1,000 segments."""
    rng = np.random.default_rng(0)
    x = f.numpy.asarray(rng.normal(size=1_000_000).astype(np.float32))
    i = f.numpy.asarray(rng.integers(0, 1000, 1_000_000).astype(np.int32))
    return lambda x, i: f.top.ops.segment_sum(x, i, 1000), (x, i)


def counts(f: Framework) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """How often each of 1,000 numbers is among a million."""
    i = f.numpy.asarray(np.random.default_rng(0).integers(0, 1000, 1_000_000).astype(np.int32))
    return lambda i: f.numpy.bincount(i, length=1000), (i,)


def products_of_bytes(f: Framework) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """s8 512×512 times 512×512, into s32."""
    rng = np.random.default_rng(0)
    a, b = (f.numpy.asarray(rng.integers(-128, 128, (512, 512)).astype(np.int8)) for _ in range(2))
    return lambda a, b: f.lax.dot(a, b, preferred_element_type=np.int32), (a, b)


def middle_maxima(f: Framework) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Maxima over the middle axis of 100×1000×200."""
    x = np.random.default_rng(0).normal(size=(100, 1000, 200)).astype(np.float32)
    return lambda x: f.numpy.max(x, 1), (f.numpy.asarray(x),)


def transforms_of_primes(f: Framework) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """1,000 Fourier transforms of length 97."""
    x = np.random.default_rng(0).normal(size=(1000, 97)).astype(np.float32)
    return f.numpy.fft.fft, (f.numpy.asarray(x),)


def small_spectra(f: Framework) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Eigenvectors, singular vectors and QR factors of 1,000 matrices of 3×3."""
    a = f.numpy.asarray(np.random.default_rng(0).normal(size=(1000, 3, 3)).astype(np.float32))
    linalg = f.numpy.linalg
    return lambda a: (linalg.eigh(a), linalg.svd(a), linalg.qr(a)), (a,)


def updates_in_lanes(f: Framework) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """vmap of a while_loop that updates one of 100,000 elements a step; lanes stop one by one."""
    x = f.numpy.ones((4, 100_000), np.float32)
    steps = f.numpy.asarray(np.array([97, 98, 99, 100], np.int32))

    def run(x: Any, k: Any) -> Any:
        step = lambda c: (c[0] + 1, c[1].at[c[0]].set(c[1][c[0]] * 2 + 1))
        return f.lax.while_loop(lambda c: c[0] < k, step, (0, x))[1]

    return f.top.vmap(run), (x, steps)


def nested_updates_in_lanes(f: Framework) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The same with a loop of up to three updates in each step."""
    x = f.numpy.ones((4, 100_000), np.float32)
    steps = f.numpy.asarray(np.array([30, 31, 32, 33], np.int32))

    def run(x: Any, k: Any) -> Any:
        def step(c: Any) -> Any:
            i, x = c
            inner = lambda j, x: x.at[i + j].add(1.0)
            return i + 1, f.lax.fori_loop(0, f.numpy.minimum(i, 3), inner, x)

        return f.lax.while_loop(lambda c: c[0] < k, step, (0, x))[1]

    return f.top.vmap(run), (x, steps)


def rolled_stencil(f: Framework) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Laplacian of a 2048×2048 grid with wrapped-around edges."""
    rng = np.random.default_rng(0)
    u = f.numpy.asarray(rng.normal(size=(2048, 2048)).astype(np.float32))

    def laplacian(u: Any) -> Any:
        near = [f.numpy.roll(u, by, axis) for axis in (0, 1) for by in (1, -1)]
        return near[0] + near[1] + near[2] + near[3] - 4 * u

    return laplacian, (u,)
