"""Functions of whole arrays, partitioned in random ways, against the same on one device.

    python -m tests.pyjax.parallel.partitioned_sweep [SEED]

Prints what differs; one line for each. test_partitioned.py runs it, in a process with six devices.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import pyjax
import pyjax.numpy as jnp
from pyjax import lax
from pyjax.sharding import Mesh, NamedSharding
from pyjax.sharding import PartitionSpec as P

SIZE = 12
ALL = np.arange(SIZE)


def _conv(x: Any) -> Any:
    kernel = jnp.ones((2, 1, 3, 3))
    return lax.conv_general_dilated(x.reshape(1, 1, SIZE, SIZE), kernel, (1, 1), "SAME")


def _twice(x: Any) -> Any:
    result = pyjax.ShapeDtypeStruct(x.shape, x.dtype)
    return pyjax.pure_callback(lambda v: np.asarray(v) * 2, result, x)


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "convolution": _conv,
    "pooling": lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (2, 2), "VALID"),
    "sort": lambda x: jnp.sort(x, 1),
    "argsort": lambda x: jnp.argsort(x, 0),
    "cumsum": lambda x: jnp.cumsum(x, 0),
    "gather": lambda x: x[ALL[::-1] % 5],
    "scatter": lambda x: jnp.zeros((SIZE, SIZE)).at[ALL % 4].add(x),
    "fft": lambda x: jnp.abs(jnp.fft.fft(x, axis=1)),
    "roll": lambda x: jnp.roll(x, 3, 0),
    "pad": lambda x: jnp.pad(x, ((1, 2), (0, 3))),
    "tril": jnp.tril,
    "kron": lambda x: jnp.kron(x[:3, :3], x),
    "solve": lambda x: jnp.linalg.solve(x @ x.T + jnp.eye(SIZE) * 5, x),
    "svd": lambda x: jnp.linalg.svd(x, compute_uv=False),
    "cholesky": lambda x: jnp.linalg.cholesky(x @ x.T + 5 * jnp.eye(SIZE)),
    "softmax": lambda x: pyjax.nn.softmax(x, 1),
    "einsum": lambda x: jnp.einsum("ij,kj->ik", x, x),
    "dynamic_slice": lambda x: lax.dynamic_slice(x, (jnp.int32(2), jnp.int32(1)), (5, 4)),
    "dynamic_update_slice": lambda x: lax.dynamic_update_slice(x, x[:3, :3], (2, 5)),
    "scan": lambda x: lax.scan(lambda c, row: (c * 0.5 + row, c.sum()), x[0], x)[1],
    "while": lambda x: lax.while_loop(lambda c: jnp.abs(c).max() > 1e-2, lambda c: c * 0.5, x),
    "mapped cond": pyjax.vmap(lambda row: lax.cond(row.sum() > 0, jnp.sin, jnp.cos, row)),
    "random": lambda x: x * pyjax.random.normal(pyjax.random.key(3), (SIZE, SIZE)),
    "top_k": lambda x: lax.top_k(x, 3)[0],
    "unique": lambda x: jnp.unique(jnp.round(x), size=20),
    "reshape": lambda x: x.reshape(3, 4, 2, 6).transpose(2, 0, 3, 1).reshape(24, 6),
    "gradient": pyjax.grad(lambda x: jnp.sum(jnp.tanh(x @ x.T))),
    "concatenate": lambda x: jnp.concatenate([x, x[:, :5]], 1),
    "stack": lambda x: jnp.stack([x, x.T]),
    "repeat": lambda x: jnp.repeat(x, 2, 0),
    "histogram": lambda x: jnp.histogram(x, 5)[0],
    "median": lambda x: jnp.median(x, axis=1),
    "quantile": lambda x: jnp.quantile(x, 0.3),
    "interp": lambda x: jnp.interp(x, jnp.linspace(-2, 2, 9), jnp.arange(9.0)),
    "searchsorted": lambda x: jnp.searchsorted(jnp.sort(x.ravel()), x),
    "segment_sum": lambda x: pyjax.ops.segment_sum(x, ALL % 3, 3),
    "associative_scan": lambda x: lax.associative_scan(jnp.add, x, axis=1),
    "bits": lambda x: lax.bitcast_convert_type(x, jnp.int32) & 255,
    "callback": _twice,
    "bytes": lambda x: x.astype(jnp.int8) @ x.astype(jnp.int8),
    "complex": lambda x: jnp.abs((x + 1j * x.T) @ (x - 2j)),
}
SPECS = [P(), P("a"), P("b"), P("a", "b"), P(None, "a"), P(("a", "b")), P(None, ("b", "a"))]


def _fits(sharding: NamedSharding, shape: tuple[int, ...]) -> bool:
    try:
        sharding.shard_shape(shape)
    except ValueError:
        return False
    return True


def differences(seed: int) -> list[str]:
    """One line for each program that differs."""
    rng = np.random.default_rng(seed)
    devices = np.array(pyjax.devices())
    shapes = (2, 3), (2, 2), (1, 3)
    meshes = [Mesh(devices[: n * m].reshape(n, m), ("a", "b")) for n, m in shapes]
    found = []
    for name, function in FUNCTIONS.items():
        x = rng.normal(size=(SIZE, SIZE)).astype(np.float32)
        want = np.asarray(pyjax.jit(function)(x))
        for mesh in meshes:
            given, wanted = (
                NamedSharding(mesh, SPECS[k]) for k in rng.integers(len(SPECS), size=2)
            )
            chosen = rng.random() < 0.5 and _fits(wanted, want.shape)
            run = pyjax.jit(function, out_shardings=wanted if chosen else None)
            result = run(pyjax.device_put(x, given))
            got = np.asarray(result)
            parts = [np.array_equal(s.data, got[s.index]) for s in result.addressable_shards]
            near = np.allclose(got, want, rtol=2e-3, atol=2e-3)
            if not (near and all(parts) and (not chosen or result.sharding == wanted)):
                found.append(f"{name}, {given} to {wanted if chosen else result.sharding}")
    return found


if __name__ == "__main__":
    pyjax.config.update("jax_num_cpu_devices", 6)
    print("\n".join(differences(int(sys.argv[1]) if len(sys.argv) > 1 else 0)), end="")
