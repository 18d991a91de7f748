"""Functions of rows are one kernel each, however they are written."""

import re

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import lax, nn


def layer_norm(x, scale, bias):
    mean = jnp.mean(x, -1, keepdims=True)
    variance = jnp.var(x, -1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + 1e-5) * scale + bias


def rms_norm(x, scale):
    return x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * scale


def masked_softmax(scores, mask):
    return nn.softmax(jnp.where(mask, scores * 0.125, -1e30), axis=-1)


def picked_loss(logits, labels):
    return -jnp.take_along_axis(nn.log_softmax(logits), labels[:, None], axis=-1)[:, 0]


def squares(f):
    return lambda *args: jnp.sum(f(*args) ** 2)


RNG = np.random.default_rng(0)
X = RNG.standard_normal((64, 512)).astype(np.float32)
G, B = RNG.standard_normal((2, 512)).astype(np.float32)
SCORES = RNG.standard_normal((2, 4, 128, 128)).astype(np.float32)
MASK = np.tril(np.ones((128, 128), bool))
LABELS = RNG.integers(0, 512, 64).astype(np.int32)

KERNELS = {  # function, arguments, kernels
    "softmax": (nn.softmax, (X,), 1),
    "log_softmax": (nn.log_softmax, (X,), 1),
    "logsumexp": (lambda x: nn.logsumexp(x, axis=-1), (X,), 1),
    "softmax over the first axis": (lambda x: nn.softmax(x, axis=0), (X[:40, :500],), 1),
    "layer norm": (layer_norm, (X, G, B), 1),
    "rms norm": (rms_norm, (X, G), 1),
    "masked softmax": (masked_softmax, (SCORES, MASK), 1),
    "loss of picked classes": (picked_loss, (X, LABELS), 1),
    "gradient of softmax": (pyjax.grad(squares(nn.softmax)), (X,), 1),
    # The gradients of scale and bias sum over rows: a kernel of their own.
    "gradient of layer norm": (pyjax.grad(squares(layer_norm), argnums=(0, 1, 2)), (X, G, B), 2),
}


@pytest.mark.parametrize("name", KERNELS)
def test_kernels(name):
    function, arguments, most = KERNELS[name]
    text = pyjax.jit(function).lower(*arguments).compile().as_text("loops")
    assert len(re.findall(r"^def ", text, re.M)) <= most
    got = pyjax.tree_util.tree_leaves(pyjax.jit(function)(*arguments))
    with pyjax.disable_jit():
        want = pyjax.tree_util.tree_leaves(function(*arguments))
    for g, w in zip(got, want):
        np.testing.assert_allclose(g, w, rtol=1e-4, atol=1e-4)
