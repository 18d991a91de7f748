"""Programs that are exported in one process and run in another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import pyjax
import pyjax.numpy as jnp
from pyjax import lax


class Program(NamedTuple):
    """A function and arguments for it."""

    function: Callable[..., Any]
    args: tuple[Any, ...]


def _ramp(*shape: int) -> np.ndarray:
    size = int(np.prod(shape))
    return (np.arange(size, dtype=np.float32).reshape(shape) - size / 3) / size


_TABLE = np.arange(40, dtype=np.float32)

PROGRAMS: dict[str, Program] = {
    "elementwise": Program(lambda x, y: {"a": jnp.sin(x) + y}, (_ramp(3), 2.0)),
    "nested": Program(pyjax.jit(lambda x: pyjax.jit(jnp.tanh)(x) * 2), (_ramp(2, 3),)),
    "unused argument": Program(lambda x, y: y * 2, (_ramp(4), _ramp(2))),
    "no arguments": Program(lambda: jnp.arange(3.0), ()),
    "argument returned": Program(lambda x, n: (x, n, 1.5), (_ramp(3), 4)),
    "containers": Program(
        lambda d, t: [d["b"], (None, t[0] + d["a"])], ({"a": _ramp(2), "b": 3}, (_ramp(2),))
    ),
    "large constant": Program(lambda x: x + _TABLE, (_ramp(40),)),
    "product": Program(lambda x, y: jnp.dot(x, y), (_ramp(3, 4), _ramp(4, 5))),
    "reductions": Program(
        lambda x: (x.sum(0), x.max(), jnp.argmin(x, 1), jnp.cumsum(x)), (_ramp(3, 4),)
    ),
    "indices": Program(lambda x, i: x[i, ::2].at[0].set(7), (_ramp(5, 6), np.array([3, 1]))),
    "sorted": Program(jnp.sort, (-_ramp(3, 5),)),
    "while loop": Program(
        lambda x: lax.while_loop(lambda s: s[0] < 5, lambda s: (s[0] + 1, s[1] * 2), (0, x)),
        (_ramp(3),),
    ),
    "scan": Program(lambda x: lax.scan(lambda c, a: (c + a, c * a), x[0], x), (_ramp(4, 2),)),
    "cond": Program(lambda p, x: lax.cond(p, jnp.sin, jnp.cos, x), (True, _ramp(3))),
    "linear algebra": Program(lambda x: jnp.linalg.qr(x @ x.T + jnp.eye(3)), (_ramp(3, 3),)),
    "fourier": Program(lambda x: jnp.fft.rfft(x), (_ramp(8),)),
    "convolution": Program(lambda x: jnp.convolve(x, x[:3]), (_ramp(8),)),
    "keys": Program(
        lambda seed: pyjax.random.normal(pyjax.random.split(pyjax.random.key(seed))[1], (3,)), (7,)
    ),
    "narrow types": Program(
        lambda x: (x.astype("bfloat16") * 3, x.astype("float8_e4m3fn"), x.astype("int4"), x > 0),
        (_ramp(5) * 4,),
    ),
    "complex": Program(lambda x: jnp.exp(x * 1j).conj(), (_ramp(3),)),
    "empty": Program(lambda x: x[:0].sum(0), (_ramp(3, 2),)),
    "gradient": Program(pyjax.grad(lambda x: jnp.sum(jnp.tanh(x) ** 2)), (_ramp(3),)),
}

# Whose derivative goes with them.
DIFFERENTIATED = ("elementwise", "nested", "product", "scan", "linear algebra")
