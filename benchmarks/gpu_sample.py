"""One program of each family of kernels, compared with NumPy: what compute-sanitizer and ncu look
at.

    python -m benchmarks.gpu_sample [--platform cuda] [--large]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import pyjax
import pyjax.numpy as jnp


class Sample(NamedTuple):
    """A program of one array of rows, and what it must give."""

    name: str
    program: Callable[[Any], Any]
    expected: Callable[[np.ndarray], np.ndarray]


def _softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def _counts(x: np.ndarray) -> np.ndarray:
    found = np.zeros(8, np.float32)
    np.add.at(found, (x.ravel() > 0).astype(int) + 2, 1)
    return found


SAMPLES = (
    Sample("elementwise", lambda x: jnp.tanh(x) * 2 + x, lambda x: np.tanh(x) * 2 + x),
    Sample("transpose", lambda x: x.T + 0, lambda x: x.T),
    Sample("row sums", lambda x: x.sum(axis=1), lambda x: x.sum(axis=1)),
    Sample("column sums", lambda x: x.sum(axis=0), lambda x: x.sum(axis=0)),
    Sample("sum", lambda x: x.sum(), lambda x: x.astype(np.float64).sum()),
    Sample("argmax", lambda x: x.argmax(axis=1), lambda x: x.argmax(axis=1)),
    Sample("softmax", lambda x: pyjax.nn.softmax(x, axis=1), _softmax),
    Sample("take", lambda x: x[::-1][jnp.arange(4) * 2], lambda x: x[::-1][np.arange(4) * 2]),
    Sample(
        "scatter-add",
        lambda x: jnp.zeros(8).at[(x.ravel() > 0).astype(int) + 2].add(1.0),
        _counts,
    ),
    Sample("cumsum", lambda x: jnp.cumsum(x, axis=1), lambda x: np.cumsum(x, axis=1)),
    Sample("sort", lambda x: jnp.sort(x, axis=1), lambda x: np.sort(x, axis=1)),
    Sample("product", lambda x: x @ x.T, lambda x: x @ x.T),
    Sample(
        "concatenate",
        lambda x: jnp.concatenate([x, x * 2], axis=1),
        lambda x: np.concatenate([x, x * 2], axis=1),
    ),
)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--platform", default="cuda")
    parser.add_argument("--large", action="store_true", help="sizes that take a card some time")
    parser.add_argument("--only", help="the sample of this name")
    chosen = parser.parse_args(words)
    pyjax.config.update("jax_platforms", chosen.platform)
    shape = (2048, 4096) if chosen.large else (24, 40)
    x = np.random.default_rng(0).standard_normal(shape, np.float32)
    failures = 0
    for name, program, expected in SAMPLES:
        if chosen.only not in (None, name):
            continue
        wanted = expected(x)
        try:
            found = np.asarray(pyjax.jit(program)(x))
            np.testing.assert_allclose(found, wanted, rtol=1e-2, atol=1e-2 * np.abs(wanted).max())
        except Exception as error:
            failures += 1
            print(f"{name}: {type(error).__name__}: {str(error).strip()}", flush=True)
        else:
            print(f"{name}: right", flush=True)
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
