"""Programs of each way in which one is compiled: fused, for any length, for axes of any size, with
loops, with constants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import pyjax
import pyjax.numpy as jnp
from pyjax import lax

X = np.arange(6, dtype=np.float32).reshape(2, 3)
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "fused": (lambda x: jnp.tanh(x @ x.T).sum(0), (X,)),
    "any length": (lambda x: x * 2 - jnp.exp(x), (X,)),
    "any sizes": (lambda x: (x * 2).sum(1) + x.max(), (X,)),
    "loop": (lambda x: lax.scan(lambda c, r: (c * 0.5 + r, c.sum()), x[0], x), (X,)),
    "constant": (lambda x: x @ np.ones((3, 700), np.float32), (X,)),
    "random": (lambda x: x + pyjax.random.normal(pyjax.random.key(3), (300, 2, 3)), (X,)),
    "gradient": (pyjax.grad(lambda x: (jnp.tanh(x @ x.T) ** 2).sum()), (X,)),
    "relu": (lambda x: pyjax.nn.relu(x @ x.T).sum(), (X,)),
}
