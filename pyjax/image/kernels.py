"""Weights by which elements of one axis are made of those of another: one matrix per axis.

A kernel gives the weight of an element that lies at a distance, in elements, from a sample. Layer:
image.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pyjax import lax
from pyjax import numpy as jnp

Array = Any
Kernel = Callable[[Array], Array]


def triangle(x: Array) -> Array:
    """Linear interpolation: 1 at the sample, 0 at the next element."""
    return jnp.maximum(0, 1 - x)


def lanczos(radius: int) -> Kernel:
    """The sine cardinal, windowed by its own stretched main lobe."""

    def kernel(x: Array) -> Array:
        small = x < 1e-3  # the quotient is 1 there, and its derivative is no number at 0
        scaled = np.pi * jnp.where(small, 1, x)
        waves = radius * jnp.sin(scaled) * jnp.sin(scaled / radius) / (scaled * scaled)
        return jnp.where(x >= radius, 0, jnp.where(small, 1, waves))

    return kernel


def cubic(a: float) -> Kernel:
    """Keys' cubic convolution (1981), with slope `a` at distance 1."""

    def kernel(x: Array) -> Array:
        near = ((a + 2) * x - (a + 3)) * x * x + 1
        far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
        return jnp.where(x >= 2, 0, jnp.where(x >= 1, far, near))

    return kernel


def sampled(
    input_size: int,
    output_size: int,
    scale: Array,
    translation: Array,
    kernel: Kernel,
    antialias: bool,
) -> Array:
    """Weights of elements by their distance from samples: [input_size, output_size].

    With `antialias`, where the output is coarser than the input, distances are in elements of the
    output. Samples outside the input have the weight 0.
    """
    samples, step = _samples(output_size, scale, translation)
    width = jnp.maximum(step, 1) if antialias else jnp.ones_like(step)
    elements = lax.iota(step.dtype, input_size)
    return _normal(kernel(jnp.abs(samples[None, :] - elements[:, None]) / width), samples)


def repeated(
    input_size: int, output_size: int, scale: Array, translation: Array, kernel: Kernel, reach: int
) -> Array:
    """`sampled` without antialiasing, where the first and the last element are repeated beyond the
    borders, as far as a kernel of that reach looks."""
    samples, step = _samples(output_size, scale, translation)
    elements = lax.iota(step.dtype, input_size + 2 * reach) - reach
    near = kernel(jnp.abs(samples[None, :] - elements[:, None]))
    first = jnp.sum(near[:reach], axis=0, keepdims=True)
    last = jnp.sum(near[-reach:], axis=0, keepdims=True)
    held = near[reach:-reach]
    return _normal(held.at[:1].add(first).at[-1:].add(last), samples)


def covered(input_size: int, output_size: int, scale: Array, translation: Array) -> Array:
    """Which part of an output element lies on each input element: [input_size, output_size].

    Output elements whose centres lie outside the input have the weight 0.
    """
    samples, step = _samples(output_size, scale, translation)
    begin = (samples + 0.5 - step / 2)[None, :]
    left = lax.iota(step.dtype, input_size)[:, None]
    common = jnp.minimum(begin + step, left + 1) - jnp.maximum(begin, left)
    return _normal(jnp.maximum(0, common), samples)


def _samples(output_size: int, scale: Array, translation: Array) -> tuple[Array, Array]:
    """Where output elements lie in the input, whose element i is centred at i, and how far from
    one another."""
    step = 1 / scale
    centres = lax.iota(step.dtype, output_size) + 0.5
    return centres * step - translation * step - 0.5, step


def _normal(weights: Array, samples: Array) -> Array:
    """The weights of each sample divided by their sum, if it lies inside and the sum is not 0."""
    total = jnp.sum(weights, axis=0, keepdims=True)
    there = jnp.abs(total) > _NO_WEIGHT
    inside = ((samples >= -0.5) & (samples <= weights.shape[0] - 0.5))[None, :]
    return jnp.where(there & inside, weights / jnp.where(there, total, 1), 0)


_NO_WEIGHT = 1000 * float(np.finfo(np.float32).eps)
